"""Notices when settings files change, appear or go, by whatever means they do."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""How often files are looked at though nobody said that they changed: some file systems say
nothing, and a link far above a file can be turned."""

VANISHED_SECONDS = 0.5
"""How long a file may be away while an editor puts the new one in its place."""

_STEP_MS = 100
_DEBOUNCE_MS = 400
_MOST_LINKS = 40

Stamp = tuple[int, ...] | None


class Watch:
    """Watches the files that `files` names; the set may change from one look to the next.

    It remembers how they are when it is made, and no change after that is missed: one that no
    event tells of is seen within `seconds`.
    """

    def __init__(
        self,
        files: Callable[[], Sequence[Path]],
        *,
        events: bool = True,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._files = files
        self._events = events
        self._seconds = seconds
        self._seen = self._stamps()
        self._looking = anyio.Lock()

    async def run(self, changed: Callable[[], None]) -> None:
        """Calls `changed` now, for what happened before, and after each change, for ever."""
        changed()
        stop = threading.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, tasks, stop, changed)
            try:
                await anyio.sleep_forever()
            finally:
                # The thread that waits for events is not reached by cancelling its task.
                stop.set()

    async def _follow(
        self, tasks: TaskGroup, stop: threading.Event, changed: Callable[[], None]
    ) -> None:
        while self._events and not stop.is_set():
            try:
                await self._listen(tasks, stop, changed)
            except (OSError, RuntimeError, ImportError) as error:
                logger.info("settings files are looked at every %g s: %s", self._seconds, error)
                self._events = False
        while True:
            await anyio.sleep(self._seconds)
            await self._look(changed)

    async def _listen(
        self, tasks: TaskGroup, stop: threading.Event, changed: Callable[[], None]
    ) -> None:
        """Until the directories to watch are others than now."""
        # Its types name trio's, which is not installed.
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

        directories = _directories(self._files())
        events = awatch(
            *directories,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=int(self._seconds * 1000),
            yield_on_timeout=True,
            stop_event=stop,
            recursive=False,
            ignore_permission_denied=True,
        )
        # Its turn comes once we wait for events: what changed before that is seen here.
        tasks.start_soon(self._look, changed)
        async with aclosing(events):
            async for _ in events:
                await self._look(changed)
                if _directories(self._files()) != directories:
                    return

    async def _look(self, changed: Callable[[], None]) -> None:
        async with self._looking:
            now = self._stamps()
            if now == self._seen:
                return
            if any(now.get(path) is None for path, stamp in self._seen.items() if stamp):
                await anyio.sleep(VANISHED_SECONDS)
                now = self._stamps()
            self._seen = now
            changed()

    def _stamps(self) -> dict[Path, Stamp]:
        return {path: _stamp(path) for path in self._files()}


def _stamp(path: Path) -> Stamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (
        *(status.st_dev, status.st_ino, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns, status.st_mode),
    )


def _directories(files: Iterable[Path]) -> list[Path]:
    """Where an entry changes when one of the files does: beside the file, or beside the nearest
    thing above it that exists, and the same for wherever links lead."""
    found: set[Path] = set()
    for file in files:
        for end in _ends(file):
            place = end.parent
            while not place.is_dir() and place != place.parent:
                place = place.parent
            found.add(place)
    return sorted(found)


def _ends(file: Path) -> list[Path]:
    ends = [file]
    while len(ends) <= _MOST_LINKS and ends[-1].is_symlink():
        # Not resolved at once: a link in the middle of the way can be turned, too.
        target = os.path.normpath(ends[-1].parent / ends[-1].readlink())
        ends.append(Path(target))
    return ends
