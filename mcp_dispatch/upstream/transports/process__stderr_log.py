"""What a server writes to stderr, kept in a file that never grows past two lengths of its limit."""

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

LOG_LIMIT: Final = 1_000_000


class StderrLog:
    """`logs/<server>.stderr.log` with one older copy. Several processes may append to one file."""

    def __init__(self, folder: Path, server: str, *, limit: int = LOG_LIMIT) -> None:
        self.path = folder / f"{server}.stderr.log"
        self._older = folder / f"{server}.stderr.log.1"
        self._limit = limit
        self._fd = -1

    def __enter__(self) -> "StderrLog":
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def write(self, text: bytes) -> None:
        # A full disk costs the log, not the server that writes it.
        with suppress(OSError):
            if os.fstat(self._fd).st_size + len(text) > self._limit:
                self._rotate()
            os.write(self._fd, text[-self._limit :])

    def _rotate(self) -> None:
        # Another process may have rotated already: then its new file is simply taken up.
        if _same_file(self.path, self._fd):
            self.path.replace(self._older)
        stale = self._fd
        self._open()
        os.close(stale)

    def _open(self) -> None:
        no_follow: int = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_follow, 0o600)


def _same_file(path: Path, fd: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
