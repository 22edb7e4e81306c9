"""A signal that wakes every waiting task when something has changed."""

from collections.abc import Callable

import anyio


class ChangeSignal:
    """Can be notified any number of times; each notification wakes the tasks that wait then."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def notify(self) -> None:
        """Wake every task that waits now. A task that waits later waits for the next change."""
        self._event.set()
        self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait for the next notification."""
        await self._event.wait()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once `condition` holds; it is evaluated at first and after each notification."""
        while not condition():
            await self._event.wait()
