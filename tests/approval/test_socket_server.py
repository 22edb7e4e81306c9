"""The approvals socket: it is private and rejects processes that a server has started."""

import json
import os
import shutil
import socket
import stat
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.approval.peer_check import PeerProcess, find_peer_problem, identify_peer
from mcp_dispatch.approval.pending import PendingApprovals
from mcp_dispatch.approval.socket_client import ApprovalServerUnreachable, connect_to_server
from mcp_dispatch.approval.socket_protocol import (
    generate_socket_path,
    list_sockets,
    parse_server_pid,
    remove_stale_sockets,
)
from mcp_dispatch.approval.socket_server import MAX_TERMINALS, ApprovalServer
from mcp_dispatch.processes.kill_tree import MARKER_VARIABLE
from tests.support.paths import ROOT, SUPPORT
from tests.support.questions import KEYED_QUESTION, forget

PEER_SCRIPT = SUPPORT / "approvals_peer.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    return directory


@asynccontextmanager
async def run_approval_server(run: Path) -> AsyncGenerator[tuple[PendingApprovals, Path], None]:
    """Run a server in this process, so that children of this process are rejected."""
    pending = PendingApprovals()
    server = ApprovalServer(pending, run, lambda: Path("/project"))
    await server.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        yield pending, list_sockets(run)[0]
        tasks.cancel_scope.cancel()


SERVER = """
import anyio, sys
from pathlib import Path
from mcp_dispatch.approval.socket_server import ApprovalServer
from mcp_dispatch.approval.pending import PendingApprovals
from tests.support.questions import KEYED_QUESTION, forget

async def main():
    pending = PendingApprovals()
    server = ApprovalServer(pending, Path(sys.argv[1]), lambda: Path("/project"))
    await server.open()
    pending.add_detached(KEYED_QUESTION, forget)
    print(pending.unanswered[0].id, flush=True)
    await server.serve()

anyio.run(main)
"""


@asynccontextmanager
async def spawn_approval_server(run: Path) -> AsyncGenerator[tuple[str, Path], None]:
    """Start a server with one question in its own process, so that this process is accepted."""
    command = [sys.executable, "-c", SERVER, str(run)]
    async with await anyio.open_process(command, stderr=None, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            with anyio.fail_after(60):
                output = await BufferedByteReceiveStream(child.stdout).receive_until(b"\n", 100)
            yield output.decode(), list_sockets(run)[0]
        finally:
            child.kill()


def build_marked_env(**more: str) -> dict[str, str]:
    return {**os.environ, MARKER_VARIABLE: "0123.1", **more}


async def run_peer(
    path: Path, *answer: str, before: Sequence[str] = (), env: dict[str, str] | None = None
) -> dict[str, Any]:
    command = [*before, sys.executable, str(PEER_SCRIPT), str(path), *answer]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=env)
    return json.loads(done.stdout)


async def test_the_socket_is_private_and_removed_with_the_server(run: Path) -> None:
    async with run_approval_server(run) as (pending, path):
        mode, reachable = stat.S_IMODE(path.stat().st_mode), pending.reachable
        owner = parse_server_pid(path)

    assert (mode, reachable, owner) == (0o600, True, os.getpid())
    assert not path.exists()
    assert not pending.reachable


async def test_a_process_outside_the_server_lists_and_answers_questions(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path):
        shown = await run_peer(path)
        first = await run_peer(path, id, "deny")
        second = await run_peer(path, id, "once")

    assert [(each["id"], each["tool"], each["choices"]) for each in shown["questions"]] == [
        (id, "Bash", ["once", "deny"])
    ]
    assert shown["workspace"] == "/project"
    assert first == {"answered": id, "problem": None}
    assert second == {"answered": id, "problem": "the question has been answered already"}


async def test_a_child_of_the_server_is_rejected(run: Path) -> None:
    async with run_approval_server(run) as (pending, path):
        pending.add_detached(KEYED_QUESTION, forget)
        seen = await run_peer(path)
        answered = await run_peer(path, pending.unanswered[0].id, "once")
        left = len(pending.unanswered)

    assert seen == {"refused": "it was started by an mcp-dispatch server"}
    assert answered == seen
    assert left == 1


async def test_a_grandchild_without_the_marker_is_rejected(run: Path) -> None:
    async with run_approval_server(run) as (_, path):
        before = ("sh", "-c", 'setsid env -i "$@"; exit', "sh")
        seen = await run_peer(path, before=before)

    assert seen == {"refused": "it was started by an mcp-dispatch server"}


async def test_a_process_with_the_marker_of_a_server_is_rejected(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path):
        itself = await run_peer(path, id, "once", env=build_marked_env())
        clean = ("sh", "-c", f'env -u {MARKER_VARIABLE} "$@"; exit', "sh")
        below = await run_peer(path, id, "once", before=clean, env=build_marked_env())
        shown = await run_peer(path)

    assert itself == {"refused": "it carries the mark of an mcp-dispatch server"}
    assert below == itself
    assert len(shown["questions"]) == 1


async def test_a_child_of_another_server_is_rejected(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path), run_approval_server(run):
        # This process is a server now too, so its children are rejected by every server.
        seen = await run_peer(path, id, "once")

    assert seen == {"refused": "it was started by an mcp-dispatch server"}


def test_a_process_that_cannot_be_checked_is_rejected() -> None:
    nobody = PeerProcess(2**22 + 1, os.geteuid(), "0")
    other = PeerProcess(os.getpid(), os.geteuid() + 1, "0")
    successor = PeerProcess(os.getpid(), os.geteuid(), "0")

    assert str(find_peer_problem(nobody, ())).startswith("it cannot be checked: process 4194305")
    assert find_peer_problem(other, ()) == "it belongs to another user"
    assert find_peer_problem(successor, ()) == "it is gone"


def test_this_process_is_accepted_unless_it_is_a_server() -> None:
    one, two = socket.socketpair(socket.AF_UNIX)
    with one, two:
        peer = identify_peer(one)

    assert (peer.pid, find_peer_problem(peer, ())) == (os.getpid(), None)
    assert find_peer_problem(peer, {os.getppid()}) == "it was started by an mcp-dispatch server"


async def test_two_terminals_see_the_same_and_the_first_answer_counts(run: Path) -> None:
    async with (
        spawn_approval_server(run) as (id, path),
        connect_to_server(path) as one,
        connect_to_server(path) as two,
    ):
        with anyio.fail_after(30):
            seen = [[each.id for each in await client.list_pending()] for client in (one, two)]
            answers = [await one.answer(id, "once"), await two.answer(id, "deny")]

    assert seen == [[id], [id]]
    assert answers == [None, "the question has been answered already"]


async def test_a_terminal_that_watches_receives_every_change(run: Path) -> None:
    async with (
        spawn_approval_server(run) as (id, path),
        connect_to_server(path) as one,
        connect_to_server(path) as two,
    ):
        with anyio.fail_after(30):
            watching = one.watch()
            first = await anext(watching)
            await two.answer(id, "deny")
            second = await anext(watching)
            await watching.aclose()

    assert ([each.id for each in first], second) == ([id], [])


async def test_a_rejected_terminal_receives_the_reason(run: Path) -> None:
    async with run_approval_server(run) as (_, path):
        with pytest.raises(
            ApprovalServerUnreachable, match="it was started by an mcp-dispatch server"
        ):
            async with connect_to_server(path) as client:
                await client.list_pending()


async def test_garbage_ends_the_connection_and_nothing_else(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path):
        for garbage in (b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"x" * 3_000_000, b'"x"\n{}\n'):
            with socket.socket(socket.AF_UNIX) as terminal:
                terminal.settimeout(20)
                terminal.connect(str(path))
                try:
                    terminal.sendall(garbage)
                    terminal.shutdown(socket.SHUT_WR)
                    while terminal.recv(4096):
                        pass
                except OSError:
                    pass  # the server closed the connection, as it should
        shown = await run_peer(path)

    assert [each["id"] for each in shown["questions"]] == [id]


async def test_terminals_over_the_limit_are_rejected(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        terminals = [socket.socket(socket.AF_UNIX) for _ in range(MAX_TERMINALS)]
        try:
            for terminal in terminals:
                terminal.settimeout(20)
                terminal.connect(str(path))
                terminal.sendall(b'{"want": "list"}\n')
                assert terminal.recv(10)
            seen = await run_peer(path)
        finally:
            for terminal in terminals:
                terminal.close()

    assert seen == {"refused": "too many terminals are attached"}


async def test_the_socket_of_a_dead_server_is_removed(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        pass  # killed

    assert list_sockets(run) == [path]
    async with run_approval_server(run) as (_, fresh):
        assert list_sockets(run) == [fresh]


async def test_a_socket_in_use_is_not_removed(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        remove_stale_sockets(run)
        assert list_sockets(run) == [path]


async def test_a_socket_named_after_another_process_is_rejected(run: Path) -> None:
    path = generate_socket_path(run).with_name("1-00000000.approvals.sock")
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()
        with pytest.raises(ApprovalServerUnreachable, match="named after another process"):
            async with connect_to_server(path):
                raise AssertionError("connected")


async def test_a_long_socket_path_works_on_linux(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("other systems have no way around the limit")
    directory = Path(mkdtemp(dir=tmp_path))
    run = directory / ("x" * 200)
    run.mkdir()
    try:
        async with spawn_approval_server(run) as (id, path), connect_to_server(path) as client:
            with anyio.fail_after(30):
                assert [each.id for each in await client.list_pending()] == [id]
    finally:
        shutil.rmtree(directory)


async def test_without_a_directory_for_the_socket_the_server_is_not_reachable(
    tmp_path: Path,
) -> None:
    pending = PendingApprovals()
    server = ApprovalServer(pending, tmp_path / "nowhere", lambda: None)

    await server.open()
    await server.serve()

    assert not pending.reachable
