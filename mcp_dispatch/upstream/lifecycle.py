"""How it stands with a server: its state, the waits for another one, and why it cannot be called."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import anyio

from mcp_dispatch.upstream.backoff import Backoff, Circuit, Tolerance
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.send import Life


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, and the clock that counts them. `patience` is how long a call waits to be sent."""

    patience: float = 30.0
    listing: float = 30.0
    exit: float = 0.5
    relist: float = 1.0
    backoff: Backoff = field(default_factory=Backoff)
    tolerance: Tolerance = field(default_factory=Tolerance)
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time


class State(Enum):
    IDLE = "idle"
    """Its tools are known from before; it has not been started yet."""
    CONNECTING = "connecting"
    READY = "ready"
    DEGRADED = "degraded"
    """Takes calls, but its list of tools is incomplete or could not be refreshed."""
    DOWN = "down"
    DISABLED = "disabled"


class Standing:
    """Changed by the server's one task alone; whoever calls waits here, and may `wake` it."""

    def __init__(self, config: ServerConfig, timing: Timing, log: Path, *, held: bool) -> None:
        self.state = State.DISABLED if config.disabled else State.CONNECTING
        if held:
            self.state = State.IDLE
        self.problem: str | None = None
        self.life: Life | None = None
        self._name = config.name
        self._log = log
        self._timing = timing
        self._last_problem = ""
        self._ready_at: float | None = None
        self._circuit = Circuit(timing.tolerance, timing.clock)
        self._attempts = 0
        self._settled = 0
        self._news = anyio.Event()
        self._wake = anyio.Event()

    # -- for the one task

    def begin(self) -> None:
        self._attempts += 1
        self._circuit.trying()
        self._ready_at = None
        self.become(State.CONNECTING, None)

    def rise(self, life: Life) -> None:
        """It has answered; `become` says how well."""
        self.life = life
        life.ready.set()
        self._ready_at = self._timing.clock()
        self._circuit.up()
        self._settled = self._attempts

    def fall(self, problem: str) -> None:
        self.life = None
        self._settled = self._attempts
        self._circuit.down()
        self._last_problem = problem
        self.become(State.DOWN, problem)

    def become(self, state: State, problem: str | None) -> None:
        self.state, self.problem = state, problem
        news, self._news = self._news, anyio.Event()
        news.set()

    def delay(self) -> float:
        """Seconds until it is tried again, after it has fallen once more."""
        backoff, circuit = self._timing.backoff, self._circuit
        circuit.failures = backoff.failures(circuit.failures, self._lived())
        return backoff.delay(circuit.failures)

    def _lived(self) -> float:
        return 0.0 if self._ready_at is None else self._timing.clock() - self._ready_at

    async def wanted(self, hold: anyio.Event) -> None:
        """Until we are let go, or a call needs the server."""

        async def released() -> None:
            await hold.wait()
            self._wake.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(released)
            await self._wake.wait()
            tasks.cancel_scope.cancel()
        self._wake = anyio.Event()

    async def rest(self, delay: float | None) -> None:
        """Until the delay, where there is one, is over or somebody needs the server."""

        async def wake() -> None:
            await self._wake.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            if delay is not None:
                await self._timing.pause(delay)
                tasks.cancel_scope.cancel()
        self._wake = anyio.Event()

    # -- for whoever calls

    def wake(self) -> None:
        """Somebody needs the server."""
        self._wake.set()

    async def alive(self) -> Life:
        """Waits for this server only; a call to a server that is down has it tried at once, unless
        it keeps failing. Raises `CallFailed`."""
        if self.life is None and not self._circuit.may_try:
            raise self._not_available()
        with anyio.move_on_after(self._timing.patience):
            wanted = max(1, self._attempts)
            if self.state in (State.DOWN, State.IDLE):
                wanted = self._attempts + 1
                self._wake.set()
            while self.state is not State.DISABLED and self._settled < wanted:
                await self._news.wait()
        if self.life is None:
            raise self._not_available()
        return self.life

    def _not_available(self) -> CallFailed:
        return CallFailed(f"The server {self._name!r} is not available: {self._absence()}")

    def _absence(self) -> str:
        if self.state is State.DISABLED:
            return 'it is disabled; remove "disabled" from its entry under "mcpServers".'
        if self._circuit.open:
            return (
                f"it has been down {self._circuit.story()}; the last time it {self._last_problem}. "
                "Nothing was sent. It is tried again from time to time."
            )
        if self.state is State.CONNECTING:
            return f"it is still starting after {self._timing.patience:g} s. Try again later."
        return f"it {self.problem}. Nothing was sent. Its log is {self._log}."
