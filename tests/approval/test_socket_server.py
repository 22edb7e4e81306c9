"""The approvals socket: private, and open to nobody that a server has started."""

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
from tests.approval.test_approver import forget
from tests.approval.test_pending import KEYED_QUESTION
from tests.support.paths import ROOT, SUPPORT

PEER_SCRIPT = SUPPORT / "approvals_peer.py"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    return place


@asynccontextmanager
async def run_approval_server(run: Path) -> AsyncGenerator[tuple[PendingApprovals, Path], None]:
    """In this process, which therefore is the server: its own children are turned away."""
    desk = PendingApprovals()
    counter = ApprovalServer(desk, run, lambda: Path("/project"))
    await counter.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(counter.serve)
        yield desk, list_sockets(run)[0]
        tasks.cancel_scope.cancel()


SERVER = """
import anyio, sys
from pathlib import Path
from mcp_dispatch.approval.socket_server import ApprovalServer
from mcp_dispatch.approval.pending import PendingApprovals
from tests.approval.test_approver import forget
from tests.approval.test_pending import KEYED_QUESTION

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
    """A process of its own that asks one question; this one is a person's then."""
    command = [sys.executable, "-c", SERVER, str(run)]
    root = ROOT
    async with await anyio.open_process(command, stderr=None, cwd=root) as child:
        assert child.stdout is not None
        try:
            with anyio.fail_after(60):
                said = await BufferedByteReceiveStream(child.stdout).receive_until(b"\n", 100)
            yield said.decode(), list_sockets(run)[0]
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


async def test_the_socket_is_private_and_gone_with_the_server(run: Path) -> None:
    async with run_approval_server(run) as (desk, path):
        mode, reachable = stat.S_IMODE(path.stat().st_mode), desk.reachable
        owner = parse_server_pid(path)

    assert (mode, reachable, owner) == (0o600, True, os.getpid())
    assert not path.exists()
    assert not desk.reachable


async def test_a_persons_process_sees_what_is_asked_and_answers_it(run: Path) -> None:
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


async def test_a_child_of_the_server_is_turned_away(run: Path) -> None:
    async with run_approval_server(run) as (desk, path):
        desk.add_detached(KEYED_QUESTION, forget)
        seen = await run_peer(path)
        answered = await run_peer(path, desk.unanswered[0].id, "once")
        left = len(desk.unanswered)

    assert seen == {"refused": "it was started by an mcp-dispatch server"}
    assert answered == seen
    assert left == 1


async def test_a_grandchild_without_the_mark_is_turned_away(run: Path) -> None:
    async with run_approval_server(run) as (_, path):
        before = ("sh", "-c", 'setsid env -i "$@"; exit', "sh")
        seen = await run_peer(path, before=before)

    assert seen == {"refused": "it was started by an mcp-dispatch server"}


async def test_whatever_carries_the_mark_of_a_server_is_turned_away(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path):
        itself = await run_peer(path, id, "once", env=build_marked_env())
        clean = ("sh", "-c", f'env -u {MARKER_VARIABLE} "$@"; exit', "sh")
        below = await run_peer(path, id, "once", before=clean, env=build_marked_env())
        shown = await run_peer(path)

    assert itself == {"refused": "it carries the mark of an mcp-dispatch server"}
    assert below == itself
    assert len(shown["questions"]) == 1


async def test_a_child_of_another_server_is_turned_away(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path), run_approval_server(run):
        # This process has become a server itself, and so has whoever it starts no business there.
        seen = await run_peer(path, id, "once")

    assert seen == {"refused": "it was started by an mcp-dispatch server"}


def test_who_cannot_be_checked_is_turned_away() -> None:
    nobody = PeerProcess(2**22 + 1, os.geteuid(), "0")
    other = PeerProcess(os.getpid(), os.geteuid() + 1, "0")
    successor = PeerProcess(os.getpid(), os.geteuid(), "0")

    assert str(find_peer_problem(nobody, ())).startswith("it cannot be checked: process 4194305")
    assert find_peer_problem(other, ()) == "it belongs to another user"
    assert find_peer_problem(successor, ()) == "it is gone"


def test_this_process_is_fit_unless_it_is_a_server() -> None:
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
            seen = [[each.id for each in await line.list_pending()] for line in (one, two)]
            answers = [await one.answer(id, "once"), await two.answer(id, "deny")]

    assert seen == [[id], [id]]
    assert answers == [None, "the question has been answered already"]


async def test_a_terminal_that_watches_is_told_of_every_change(run: Path) -> None:
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


async def test_a_refusal_is_told_to_the_terminal(run: Path) -> None:
    async with run_approval_server(run) as (_, path):
        with pytest.raises(
            ApprovalServerUnreachable, match="it was started by an mcp-dispatch server"
        ):
            async with connect_to_server(path) as line:
                await line.list_pending()


async def test_garbage_ends_the_connection_and_nothing_else(run: Path) -> None:
    async with spawn_approval_server(run) as (id, path):
        for garbage in (b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"x" * 3_000_000, b'"x"\n{}\n'):
            with socket.socket(socket.AF_UNIX) as guest:
                guest.settimeout(20)
                guest.connect(str(path))
                try:
                    guest.sendall(garbage)
                    guest.shutdown(socket.SHUT_WR)
                    while guest.recv(4096):
                        pass
                except OSError:
                    pass  # cut off, as it should be
        shown = await run_peer(path)

    assert [each["id"] for each in shown["questions"]] == [id]


async def test_only_so_many_terminals_are_served_at_once(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        guests = [socket.socket(socket.AF_UNIX) for _ in range(MAX_TERMINALS)]
        try:
            for guest in guests:
                guest.settimeout(20)
                guest.connect(str(path))
                guest.sendall(b'{"want": "list"}\n')
                assert guest.recv(10)
            seen = await run_peer(path)
        finally:
            for guest in guests:
                guest.close()

    assert seen == {"refused": "too many terminals are attached"}


async def test_what_a_dead_server_left_behind_is_taken_away(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        pass  # killed

    assert list_sockets(run) == [path]
    async with run_approval_server(run) as (_, fresh):
        assert list_sockets(run) == [fresh]


async def test_a_socket_that_is_in_use_is_no_leftover(run: Path) -> None:
    async with spawn_approval_server(run) as (_, path):
        remove_stale_sockets(run)
        assert list_sockets(run) == [path]


async def test_a_socket_posing_as_a_server_is_not_believed(run: Path) -> None:
    path = generate_socket_path(run).with_name("1-00000000.approvals.sock")
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(path))
        impostor.listen()
        with pytest.raises(ApprovalServerUnreachable, match="named after another process"):
            async with connect_to_server(path):
                raise AssertionError("connected")


async def test_a_long_path_is_no_obstacle_on_linux(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("elsewhere the system's limit stands")
    place = Path(mkdtemp(dir=tmp_path))
    run = place / ("x" * 200)
    run.mkdir()
    try:
        async with spawn_approval_server(run) as (id, path), connect_to_server(path) as line:
            with anyio.fail_after(30):
                assert [each.id for each in await line.list_pending()] == [id]
    finally:
        shutil.rmtree(place)


async def test_without_a_place_for_the_socket_nobody_is_told_to_come(tmp_path: Path) -> None:
    desk = PendingApprovals()
    counter = ApprovalServer(desk, tmp_path / "nowhere", lambda: None)

    await counter.open()
    await counter.serve()

    assert not desk.reachable
