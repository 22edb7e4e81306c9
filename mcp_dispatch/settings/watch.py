"""Detects that settings files change, appear or disappear."""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

logger = logging.getLogger(__name__)

POLL_SECONDS = 2.0
"""Polling interval, for file systems without events and for links changed far above a file."""

REPLACE_GRACE_SECONDS = 0.5
"""How long a file may be missing while an editor replaces it."""

_STEP_MS = 100
_DEBOUNCE_MS = 400
_MAX_LINKS = 40

FileStamp = tuple[int, ...] | None


class FileWatcher:
    """Watches the files that `list_files` returns; the set may change between checks.

    The state at construction is the baseline, and no later change is missed: a change without an
    event is detected within `poll_seconds`.
    """

    def __init__(
        self,
        list_files: Callable[[], Sequence[Path]],
        *,
        use_events: bool = True,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._list_files = list_files
        self._use_events = use_events
        self._poll_seconds = poll_seconds
        self._seen = self._read_stamps()
        self._check_lock = anyio.Lock()

    async def run(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` once for earlier changes and after each change, until cancelled."""
        on_change()
        stop = threading.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, tasks, stop, on_change)
            try:
                await anyio.sleep_forever()
            finally:
                # Cancelling the task does not stop the thread that waits for events.
                stop.set()

    async def _follow(
        self, tasks: TaskGroup, stop: threading.Event, on_change: Callable[[], None]
    ) -> None:
        while self._use_events and not stop.is_set():
            try:
                await self._listen(tasks, stop, on_change)
            except (OSError, RuntimeError, ImportError) as error:
                logger.info(
                    "settings files are looked at every %g s: %s", self._poll_seconds, error
                )
                self._use_events = False
        while True:
            await anyio.sleep(self._poll_seconds)
            await self._check_files(on_change)

    async def _listen(
        self, tasks: TaskGroup, stop: threading.Event, on_change: Callable[[], None]
    ) -> None:
        """Check the files after each event; return when other directories have to be watched."""
        # Its type hints import trio, which is not installed.
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]

        directories = _find_directories(self._list_files())
        events = awatch(
            *directories,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            rust_timeout=int(self._poll_seconds * 1000),
            yield_on_timeout=True,
            stop_event=stop,
            recursive=False,
            ignore_permission_denied=True,
        )
        # Runs once the loop below waits for events, to detect changes before that.
        tasks.start_soon(self._check_files, on_change)
        async with aclosing(events):
            async for _ in events:
                await self._check_files(on_change)
                if _find_directories(self._list_files()) != directories:
                    return

    async def _check_files(self, on_change: Callable[[], None]) -> None:
        async with self._check_lock:
            now = self._read_stamps()
            if now == self._seen:
                return
            if any(now.get(path) is None for path, stamp in self._seen.items() if stamp):
                await anyio.sleep(REPLACE_GRACE_SECONDS)
                now = self._read_stamps()
            self._seen = now
            on_change()

    def _read_stamps(self) -> dict[Path, FileStamp]:
        return {path: _read_stamp(path) for path in self._list_files()}


def _read_stamp(path: Path) -> FileStamp:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (
        *(status.st_dev, status.st_ino, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns, status.st_mode),
    )


def _find_directories(files: Iterable[Path]) -> list[Path]:
    """Return the directories to watch: the nearest existing parent of each file and of each target
    of its links."""
    found: set[Path] = set()
    for file in files:
        for end in _follow_links(file):
            place = end.parent
            while not place.is_dir() and place != place.parent:
                place = place.parent
            found.add(place)
    return sorted(found)


def _follow_links(file: Path) -> list[Path]:
    ends = [file]
    while len(ends) <= _MAX_LINKS and ends[-1].is_symlink():
        # Resolved step by step: a link in the middle of the chain can change, too.
        target = os.path.normpath(ends[-1].parent / ends[-1].readlink())
        ends.append(Path(target))
    return ends
