"""What a command prints, kept in a private file instead of in memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio

CHUNK_BYTES = 65536
PIECE_BYTES = 1 << 20
MAX_PIPE_BYTES = 1 << 20
DISCARD_PAUSE_SECONDS = 0.05

_NEW_FILE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
_NUL_SYMBOL = "\u2400".encode()


class OutputFile:
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
        self._read_end, self._write_end = os.pipe()
        try:
            os.set_blocking(self._read_end, False)
            self._file = (
                _create_unnamed_file(folder)
                if self._path is None
                else os.open(self._path, _NEW_FILE_FLAGS, 0o600)
            )
        except OSError:
            self.close_pipe()
            raise
        self._is_recording = True
        self.size = 0
        self.problem: str | None = None
        self.stopped = anyio.Event()

    @property
    def descriptor(self) -> int:
        """For the child's stdout and stderr."""
        return self._write_end

    def close_child_end(self) -> None:
        """The child has its copy of the descriptor; ours is closed."""
        os.close(self._write_end)

    def close_pipe(self) -> None:
        """There is no child, and nothing to copy."""
        os.close(self._write_end)
        os.close(self._read_end)

    async def copy(self) -> None:
        """Runs beside the child, and beyond it for as long as somebody holds the pipe."""
        try:
            while True:
                await anyio.wait_readable(self._read_end)
                if self._read_chunk() == b"":
                    return
                if not self._is_recording:
                    await anyio.sleep(DISCARD_PAUSE_SECONDS)
        finally:
            reading, self._read_end = self._read_end, -1
            os.close(reading)

    def drain(self) -> None:
        """The child has ended: takes what is still in the pipe, and nothing after that."""
        for _ in range(MAX_PIPE_BYTES // CHUNK_BYTES):
            if self._read_end < 0 or not self._read_chunk():
                break
        self._is_recording = False

    def read(self, start: int, count: int) -> bytes:
        return os.pread(self._file, count, start)

    def iter_pieces(self) -> Iterator[bytes]:
        """All of it, after `settle`, without holding more than a piece in memory."""
        for start in range(0, self.size, PIECE_BYTES):
            yield self.read(start, min(PIECE_BYTES, self.size - start))

    def finalize(self, line: str) -> None:
        """After `settle`: adds a last line of ours, and leaves the file under its name."""
        self._path = None
        # A full disk may not even have room for this; then the file ends without it.
        with suppress(OSError):
            unfinished = self.size > 0 and self.read(self.size - 1, 1) != b"\n"
            os.write(self._file, (b"\n" if unfinished else b"") + f"{line}\n".encode())

    def close(self) -> None:
        """The file is gone with this, unless it was concluded; copying may go on into nothing."""
        self._is_recording = False
        os.close(self._file)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read_chunk(self) -> bytes | None:
        """None when the pipe is empty for now, no bytes when it has ended."""
        try:
            chunk = os.read(self._read_end, CHUNK_BYTES)
        except BlockingIOError:
            return None
        if self._is_recording:
            self._write_chunk(chunk.replace(b"\0", _NUL_SYMBOL))
        return chunk

    def _write_chunk(self, chunk: bytes) -> None:
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
        self._is_recording = False
        self.problem = problem
        self.stopped.set()


def _create_unnamed_file(folder: Path) -> int:
    """Nobody else opens such a file, and nothing of it is left after a crash."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return os.dup(file.fileno())
