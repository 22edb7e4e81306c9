"""The output of a command, written to a private file instead of memory."""

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
    """Copies a pipe, the stdout and stderr of a child, to a file in `folder`.

    The child does not write to the file itself: `echo x > /dev/stderr` would empty it. Output after
    `drain` is discarded slowly, so that a command left in the background neither fails when it
    prints nor fills the disk. A NUL is written as its symbol, since readers treat a file with NULs
    as binary.
    """

    def __init__(self, folder: Path, limit: int, *, name: str | None = None) -> None:
        """Create the file; it has a name only if it may be kept."""
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
        """The descriptor for the child's stdout and stderr."""
        return self._write_end

    def close_child_end(self) -> None:
        """Close our copy of the descriptor once the child has its own."""
        os.close(self._write_end)

    def close_pipe(self) -> None:
        """Close the pipe because no child was started."""
        os.close(self._write_end)
        os.close(self._read_end)

    async def copy(self) -> None:
        """Copy until every process has closed the pipe, which may be after the child ends."""
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
        """Copy what is left in the pipe after the child ended, and record nothing later."""
        for _ in range(MAX_PIPE_BYTES // CHUNK_BYTES):
            if self._read_end < 0 or not self._read_chunk():
                break
        self._is_recording = False

    def read(self, start: int, count: int) -> bytes:
        return os.pread(self._file, count, start)

    def iter_pieces(self) -> Iterator[bytes]:
        """Yield the whole output after `drain`, in pieces that fit in memory."""
        for start in range(0, self.size, PIECE_BYTES):
            yield self.read(start, min(PIECE_BYTES, self.size - start))

    def finalize(self, line: str) -> None:
        """Append a last line after `drain` and keep the file."""
        self._path = None
        # On a full disk the file ends without this line.
        with suppress(OSError):
            unfinished = self.size > 0 and self.read(self.size - 1, 1) != b"\n"
            os.write(self._file, (b"\n" if unfinished else b"") + f"{line}\n".encode())

    def close(self) -> None:
        """Remove the file unless it was finalized. Copying may continue and discards its input."""
        self._is_recording = False
        os.close(self._file)
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read_chunk(self) -> bytes | None:
        """Return None if the pipe is empty, and no bytes at its end."""
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
    """Create a file that no other process can open and that a crash leaves nothing of."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return os.dup(file.fileno())
