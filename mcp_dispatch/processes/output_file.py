"""What a command prints, kept in a private file instead of in memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio

CHUNK = 65536
PIECE = 1 << 20
LARGEST_PIPE = 1 << 20
DISCARD_PAUSE = 0.05

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
_SYMBOL_FOR_NUL = "\u2400".encode()


class Recording:
    """Copies from a pipe, a child's stdout and stderr in one, to a file in `folder`.

    The child does not write to the file itself: `echo x > /dev/stderr` would empty it. What is
    printed after `settle` is thrown away, slowly, so that a command left in the background neither
    dies of printing nor fills the disk. A NUL is written as its symbol: readers take a file with
    NULs for a binary one.
    """

    def __init__(self, folder: Path, limit: int, *, name: str | None = None) -> None:
        """The file is new, and has a name only where it may be kept for others to read."""
        self._limit = limit
        self._path = None if name is None else folder / name
        self._reading, self._writing = os.pipe()
        try:
            os.set_blocking(self._reading, False)
            self._file = (
                _unnamed(folder) if self._path is None else os.open(self._path, _NEW, 0o600)
            )
        except OSError:
            self.abandon()
            raise
        self._keeping = True
        self.size = 0
        self.problem: str | None = None
        self.stopped = anyio.Event()

    @property
    def descriptor(self) -> int:
        """For the child's stdout and stderr."""
        return self._writing

    def handed_over(self) -> None:
        """The child has its copy of the descriptor; ours is closed."""
        os.close(self._writing)

    def abandon(self) -> None:
        """There is no child, and nothing to copy."""
        os.close(self._writing)
        os.close(self._reading)

    async def copy(self) -> None:
        """Runs beside the child, and beyond it for as long as somebody holds the pipe."""
        try:
            while True:
                await anyio.wait_readable(self._reading)
                if self._take() == b"":
                    return
                if not self._keeping:
                    await anyio.sleep(DISCARD_PAUSE)
        finally:
            reading, self._reading = self._reading, -1
            os.close(reading)

    def settle(self) -> None:
        """The child has ended: takes what is still in the pipe, and nothing after that."""
        for _ in range(LARGEST_PIPE // CHUNK):
            if self._reading < 0 or not self._take():
                break
        self._keeping = False

    def read(self, start: int, count: int) -> bytes:
        return os.pread(self._file, count, start)

    def pieces(self) -> Iterator[bytes]:
        """All of it, after `settle`, without holding more than a piece in memory."""
        for start in range(0, self.size, PIECE):
            yield self.read(start, min(PIECE, self.size - start))

    def conclude(self, line: str) -> None:
        """After `settle`: adds a last line of ours, and leaves the file under its name."""
        self._path = None
        # A full disk may not even have room for this; then the file ends without it.
        with suppress(OSError):
            unfinished = self.size > 0 and self.read(self.size - 1, 1) != b"\n"
            os.write(self._file, (b"\n" if unfinished else b"") + f"{line}\n".encode())

    def close(self) -> None:
        """The file is gone with this, unless it was concluded; copying may go on into nothing."""
        self._keeping = False
        os.close(self._file)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _take(self) -> bytes | None:
        """None when the pipe is empty for now, no bytes when it has ended."""
        try:
            chunk = os.read(self._reading, CHUNK)
        except BlockingIOError:
            return None
        if self._keeping:
            self._keep(chunk.replace(b"\0", _SYMBOL_FOR_NUL))
        return chunk

    def _keep(self, chunk: bytes) -> None:
        rest = memoryview(chunk)[: self._limit - self.size]
        overflows = len(rest) < len(chunk)
        try:
            while rest:
                written = os.write(self._file, rest)
                self.size += written
                rest = rest[written:]
        except OSError as error:
            self._stop(f"its output cannot be kept: {error.strerror}")
        if overflows:
            self._stop(f"it printed more than {self._limit:,} bytes")

    def _stop(self, problem: str) -> None:
        self._keeping = False
        self.problem = problem
        self.stopped.set()


def _unnamed(folder: Path) -> int:
    """Nobody else opens such a file, and nothing of it is left after a crash."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return os.dup(file.fileno())
