"""File descriptors as byte streams: pipes and sockets on the event loop, others in a thread."""

import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

import anyio
import anyio.lowlevel
import anyio.to_thread

CHUNK_BYTES = 65_536


def copy_descriptor(descriptor: int) -> int:
    """Return a duplicate above 2, because children inherit 0 to 2 as their standard streams."""
    low: list[int] = []
    try:
        while (copy := os.dup(descriptor)) <= 2:
            low.append(copy)
        return copy
    finally:
        for unused in low:
            os.close(unused)


def is_regular_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


class _Descriptor:
    """A private duplicate of a descriptor, non-blocking if the event loop can poll it.

    The flag belongs to the open file, not to the descriptor, so `close` restores it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = copy_descriptor(fd)
        mode = os.fstat(self._fd).st_mode
        self._pollable = sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        self._is_terminal = os.isatty(self._fd)
        self._closed = False
        self._was_blocking = True
        if self._pollable:
            self._was_blocking = os.get_blocking(self._fd)
            os.set_blocking(self._fd, False)

    def close(self) -> None:
        """Close the duplicate. A task that waits on it gets `anyio.ClosedResourceError`."""
        if self._closed:
            return
        self._closed = True
        if self._pollable:
            anyio.notify_closing(self._fd)
            os.set_blocking(self._fd, self._was_blocking)
        os.close(self._fd)


class FdReader(_Descriptor):
    async def receive(self) -> bytes:
        """Return the next bytes, or b"" at the end. Raises `anyio.BrokenResourceError`."""
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            return await (self._read_nonblocking() if self._pollable else self._read_in_thread())
        except OSError as error:
            raise anyio.BrokenResourceError from error

    async def _read_nonblocking(self) -> bytes:
        await anyio.lowlevel.checkpoint_if_cancelled()
        while True:
            try:
                chunk = os.read(self._fd, CHUNK_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._fd)
            else:
                # Let other tasks run even if the peer writes fast; shielded, so no bytes are lost.
                await anyio.lowlevel.cancel_shielded_checkpoint()
                return chunk

    async def _read_in_thread(self) -> bytes:
        if self._is_terminal and sys.platform != "win32":
            # Else a thread could stay blocked in a read that only the next key press ends.
            await anyio.wait_readable(self._fd)
        return await anyio.to_thread.run_sync(os.read, self._fd, CHUNK_BYTES)


class FdWriter(_Descriptor):
    """Writes whole messages. `send` first writes the rest of a message whose `send` was cancelled."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._unsent = memoryview(b"")
        self._guard = anyio.ResourceGuard("writing to")

    async def send(self, message: bytes) -> None:
        """Return when the whole message is written. Raises `anyio.BrokenResourceError`."""
        with self._guard:
            await self._flush()
            self._unsent = memoryview(message)
            await self._flush()

    async def _flush(self) -> None:
        while True:
            if self._closed:
                raise anyio.ClosedResourceError
            if not self._unsent:
                return
            try:
                written = await (
                    self._write_nonblocking() if self._pollable else self._write_in_thread()
                )
            except OSError as error:
                raise anyio.BrokenResourceError from error
            self._unsent = self._unsent[written:]

    async def _write_nonblocking(self) -> int:
        await anyio.lowlevel.checkpoint()
        while True:
            try:
                return os.write(self._fd, self._unsent)
            except BlockingIOError:
                await anyio.wait_writable(self._fd)

    async def _write_in_thread(self) -> int:
        return await anyio.to_thread.run_sync(os.write, self._fd, self._unsent[:CHUNK_BYTES])


@contextmanager
def acquire_standard_descriptors() -> Generator[tuple[int | None, int | None]]:
    """Yield private duplicates of fd 0 and 1; meanwhile 0 is empty and 1 is standard error.

    A stream that was closed when the interpreter started is None: another file may have its
    number by now, so that number is not touched.
    """
    stdin = _replace_descriptor(0, _open_null(os.O_RDONLY)) if sys.__stdin__ is not None else None
    stdout = _replace_descriptor(1, _open_stderr_copy()) if sys.__stdout__ is not None else None
    try:
        yield stdin, stdout
    finally:
        # Text printed meanwhile must go to standard error, not into the client's stream.
        if sys.stdout is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
        _restore_descriptor(stdin, 0)
        _restore_descriptor(stdout, 1)


def _open_null(flags: int) -> int:
    return os.open(os.devnull, flags)


def _open_stderr_copy() -> int:
    try:
        return os.dup(2)
    except OSError:
        return _open_null(os.O_WRONLY)


def _replace_descriptor(fd: int, replacement: int) -> int | None:
    try:
        private = copy_descriptor(fd)
    except OSError:
        os.close(replacement)
        return None
    os.dup2(replacement, fd)
    os.close(replacement)
    return private


def _restore_descriptor(private: int | None, fd: int) -> None:
    if private is None:
        return
    os.dup2(private, fd)
    os.close(private)
