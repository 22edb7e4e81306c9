"""Descriptors: real pipes, sockets, files and terminals as byte streams."""

import os
import pty
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from anyio import fail_after, wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from mcp_dispatch.wire.fds import FdReader, FdWriter


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


async def _read_all(reader: FdReader) -> bytes:
    received = bytearray()
    while chunk := await reader.receive():
        received += chunk
    return bytes(received)


async def test_a_message_larger_than_the_pipe_arrives_whole_without_threads(
    pipe: tuple[int, int],
) -> None:
    message = os.urandom(3_000_000)
    threads = threading.active_count()
    reader, writer = FdReader(pipe[0]), FdWriter(pipe[1])
    received: list[bytes] = []

    async def read() -> None:
        received.append(await _read_all(reader))

    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await writer.send(message)
            writer.close()
            os.close(pipe[1])
    reader.close()

    assert received == [message]
    assert threading.active_count() == threads


async def test_both_ends_of_a_socket_are_served_and_left_blocking() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = FdReader(ours.fileno()), FdWriter(ours.fileno())

    theirs.sendall(b"hello")
    with fail_after(5):
        assert await reader.receive() == b"hello"
        await writer.send(b"answer")
    assert theirs.recv(10) == b"answer"
    assert os.get_blocking(ours.fileno()) is False
    writer.close()
    reader.close()

    assert os.get_blocking(ours.fileno()) is True
    ours.close()
    theirs.close()


async def test_a_closed_reading_end_breaks_the_writer(pipe: tuple[int, int]) -> None:
    writer = FdWriter(pipe[1])
    os.close(pipe[0])

    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(b"x")
    writer.close()


async def test_closing_wakes_a_reading_task_and_later_use_raises(pipe: tuple[int, int]) -> None:
    reader, writer = FdReader(pipe[0]), FdWriter(pipe[1])
    woken = anyio.Event()

    async def read() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await reader.receive()
        woken.set()

    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await wait_all_tasks_blocked()
            reader.close()
            await woken.wait()
    writer.close()
    writer.close()

    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(b"x")


async def test_a_message_cancelled_half_way_is_finished_before_the_next(
    pipe: tuple[int, int],
) -> None:
    first, second = b"a" * 300_000 + b"\n", b"b\n"
    writer, reader = FdWriter(pipe[1]), FdReader(pipe[0])
    received: list[bytes] = []

    async def send_first(scope: anyio.CancelScope) -> None:
        with scope:
            await writer.send(first)

    async def read() -> None:
        received.append(await _read_all(reader))

    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()
            tasks.start_soon(send_first, scope)
            await wait_all_tasks_blocked()
            scope.cancel()
            await checkpoint()
            tasks.start_soon(read)
            await writer.send(second)
            writer.close()
            os.close(pipe[1])
    reader.close()

    assert received == [first + second]


async def test_a_regular_file_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    payload = os.urandom(200_000)

    with path.open("wb") as file:
        writer = FdWriter(file.fileno())
        await writer.send(payload)
        writer.close()
    with path.open("rb") as file:
        reader = FdReader(file.fileno())
        received = await _read_all(reader)
        reader.close()

    assert path.read_bytes() == payload
    assert received == payload


async def test_the_null_device_is_at_its_end_at_once() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    reader, writer = FdReader(null), FdWriter(null)
    os.close(null)

    with fail_after(5):
        await writer.send(b"x" * 100_000)
        received = await reader.receive()
    reader.close()
    writer.close()

    assert received == b""


async def test_a_terminal_is_read_and_a_cancelled_read_leaves_no_thread_behind() -> None:
    master, terminal = pty.openpty()
    reader = FdReader(terminal)

    with anyio.move_on_after(0.05) as idle:
        await reader.receive()
    os.write(master, b"typed\n")
    with fail_after(5):
        line = await reader.receive()
    reader.close()
    os.close(master)
    os.close(terminal)

    assert idle.cancelled_caught
    assert line == b"typed\n"
