"""The watchdog kills the children of a server that has exited for any reason."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.watchdog import Watchdog
from tests.support.paths import SUPPORT

PARENT = SUPPORT / "process_parent.py"
ENV = {"PATH": os.environ["PATH"]}


class Parent:
    """A running `support/process_parent.py` whose children have all started."""

    def __init__(self, pid: int, run: str, watchdog: int) -> None:
        self.pid = pid
        self.watchdog = watchdog
        self.mark = kill_tree.build_run_marker(run)

    def find_children(self) -> set[int]:
        return kill_tree.find_processes(set(), self.mark)


@asynccontextmanager
async def start_parent() -> AsyncGenerator[Parent]:
    process = await anyio.open_process(
        [sys.executable, "-m", "tests.support.process_parent"],
        cwd=PARENT.parents[1],
        stdin=subprocess.DEVNULL,
        stderr=None,
        start_new_session=True,
    )
    async with process:
        try:
            assert process.stdout is not None
            with anyio.fail_after(20):
                run, watchdog = (await process.stdout.receive()).decode().split()
            yield Parent(process.pid, run, int(watchdog))
        finally:
            if process.returncode is None:
                process.kill()


async def wait_until_gone(pids: set[int]) -> None:
    """Wait until all these processes have exited."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)


async def test_a_killed_server_leaves_no_process_behind() -> None:
    async with start_parent() as server:
        children = server.find_children()
        assert len(children) >= 4

        os.kill(server.pid, signal.SIGKILL)

        with anyio.fail_after(5):
            await wait_until_gone(children | {server.watchdog})
        assert server.find_children() == set()


async def test_a_signal_to_the_process_group_of_the_server_does_not_reach_the_watchdog() -> None:
    async with start_parent() as server:
        children = server.find_children()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.killpg(server.pid, number)
        os.killpg(server.pid, signal.SIGKILL)

        with anyio.fail_after(5):
            await wait_until_gone(children | {server.watchdog})
        assert server.find_children() == set()


async def test_the_watchdog_ignores_sigint_sigterm_and_sighup() -> None:
    async with start_parent() as server:
        children = server.find_children()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(server.watchdog, number)
        os.kill(server.pid, signal.SIGKILL)

        with anyio.fail_after(5):
            await wait_until_gone(children | {server.watchdog})
        assert server.find_children() == set()


async def test_the_watchdog_exits_with_a_server_that_shuts_down() -> None:
    async with ProcessGroup() as children:
        assert children.watchdog_pid is None
        await children.spawn(["sleep", "600"], cwd=Path("/"), env=ENV)
        watchdog = children.watchdog_pid
        assert watchdog is not None
        os.kill(watchdog, 0)

    with pytest.raises(ProcessLookupError):
        os.kill(watchdog, 0)


async def test_a_killed_watchdog_is_replaced_when_the_next_child_starts() -> None:
    async with ProcessGroup() as children:
        await children.spawn(["true"], cwd=Path("/"), env=ENV)
        first = children.watchdog_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        with anyio.fail_after(5):
            await wait_until_gone({first})

        await children.spawn(["sleep", "600"], cwd=Path("/"), env=ENV)

        assert children.watchdog_pid not in {None, first}


async def test_a_new_watchdog_receives_the_running_process_groups() -> None:
    watchdog = Watchdog("run")
    with start_unrelated_process() as pid:
        watchdog.ensure_running(lambda: [f"+{pid}"])

        await watchdog.release()

        assert read_state(pid) == "Z"


@contextmanager
def start_unrelated_process() -> Generator[int]:
    """Run a process that no server started, in its own process group."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def run_watchdog(*lines: str) -> None:
    """Run a watchdog that receives these lines, close its input, and wait until it exits."""
    script = [sys.executable, "-I", "-S", kill_tree.__file__]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(script, input=text.encode(), check=True, timeout=20)


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def test_a_running_process_group_is_killed() -> None:
    with start_unrelated_process() as pid:
        run_watchdog("run", f"+{pid}")

        assert read_state(pid) == "Z"


def test_a_process_group_that_was_reported_as_ended_is_not_killed() -> None:
    with start_unrelated_process() as pid:
        run_watchdog("run", f"+{pid}", f"~{pid}", f"-{pid}")

        assert read_state(pid) == "S"


def test_a_process_group_whose_id_was_reused_is_not_killed() -> None:
    with start_unrelated_process() as pid:
        run_watchdog("run", f"+{pid}", f"~{pid}")

        assert read_state(pid) == "S"


def test_the_remaining_processes_of_a_group_are_killed_after_its_leader_has_exited() -> None:
    script = "env -i sleep 600 >/dev/null & echo $!"
    done = subprocess.run(
        ["bash", "-c", f"setsid bash -c '{script}; echo $$'"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    member, group = map(int, done.stdout.split())

    run_watchdog("run", f"+{group}", f"~{group}")

    assert member not in kill_tree.find_processes({group}, b"none")


def test_a_watchdog_without_input_kills_no_process() -> None:
    with start_unrelated_process() as pid:
        run_watchdog()

        assert read_state(pid) == "S"


def test_only_an_exact_marker_matches() -> None:
    with subprocess.Popen(
        ["sh", "-c", "echo ready; read line"],
        env={**ENV, kill_tree.MARKER_VARIABLE: "abc.12"},
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            # Before the program has started, its environment cannot be read.
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            found = {
                name: process.pid in kill_tree.find_processes(set(), mark)
                for name, mark in {
                    "this child": kill_tree.build_child_marker("abc", 12),
                    "a child whose number begins alike": kill_tree.build_child_marker("abc", 1),
                    "this run": kill_tree.build_run_marker("abc"),
                    "a run whose id begins alike": kill_tree.build_run_marker("ab"),
                    "a run whose id ends alike": kill_tree.build_run_marker("bc"),
                }.items()
            }
        finally:
            process.kill()

    assert found == {
        "this child": True,
        "a child whose number begins alike": False,
        "this run": True,
        "a run whose id begins alike": False,
        "a run whose id ends alike": False,
    }
