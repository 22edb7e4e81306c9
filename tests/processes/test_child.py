"""Child processes: their environment, their pipes, and how they are stopped."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
import pytest
from anyio.abc import ByteReceiveStream

from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables, select_baseline
from mcp_dispatch.processes.output_file import OutputFile
from tests.support.process_parent import STUBBORN

ENV: Mapping[str, str] = {"PATH": os.environ["PATH"]}
ROOT = Path("/")


async def spawn_shell(children: ProcessGroup, script: str) -> ChildProcess:
    return await children.spawn(["bash", "-c", script], cwd=ROOT, env=ENV, stdout=PIPE)


async def read_all(stream: ByteReceiveStream | None) -> bytes:
    assert stream is not None
    with anyio.fail_after(5):
        return b"".join([chunk async for chunk in stream])


async def wait_for_lines(stream: ByteReceiveStream | None, count: int) -> None:
    assert stream is not None
    with anyio.fail_after(5):
        while count > 0:
            count -= (await stream.receive()).count(b"\n")


def find_remaining(children: ProcessGroup) -> set[int]:
    return kill_tree.find_processes(set(), kill_tree.build_run_marker(children.run_id))


def list_zombies() -> list[str]:
    stats = [
        path.read_text(encoding="utf-8") for path in Path("/proc/self/task").glob("*/children")
    ]
    pids = " ".join(stats).split()
    states = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in pids]
    return [state for state in states if state.rpartition(")")[2].split()[0] == "Z"]


def test_the_baseline_environment_has_basic_variables_and_no_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/cache",
        "https_proxy": "http://proxy",
        "SSL_CERT_FILE": "/ca.pem",
        "ANTHROPIC_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LCX": "no locale",
        "MCP_DISPATCH_TOKEN": "secret",
        "MCP_DISPATCH_RUN": "of a server around this one",
    }

    assert select_baseline(environ) == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/cache",
        "https_proxy": "http://proxy",
        "SSL_CERT_FILE": "/ca.pem",
    }


def test_a_shell_inherits_all_variables_except_those_of_the_server() -> None:
    environ = {
        "PATH": "/bin",
        "MY_TOKEN": "mine",
        "MCP_DISPATCH_TOKEN": "t",
        "MCP_DISPATCH_RUN": "r",
    }

    assert remove_own_variables(environ) == {"PATH": "/bin", "MY_TOKEN": "mine"}


async def test_a_child_gets_only_its_environment_and_the_marker() -> None:
    async with (
        ProcessGroup() as children,
        await children.spawn(["/usr/bin/env"], cwd=ROOT, env={"A": "1"}, stdout=PIPE) as child,
    ):
        printed = await read_all(child.stdout)

    assert sorted(printed.decode().split()) == ["A=1", f"MCP_DISPATCH_RUN={children.run_id}.1"]


async def test_a_child_has_its_own_session_and_inherits_no_descriptor() -> None:
    script = "ls /proc/self/fd | wc -l; ps -o pid=,sid=,pgid= -p $$"
    async with ProcessGroup() as children, await spawn_shell(children, script) as child:
        count, ids = (await read_all(child.stdout)).decode().splitlines()

    assert count == "4"  # its three streams and the directory that `ls` reads
    assert ids.split() == [str(child.pid)] * 3


async def test_data_passes_through_the_pipes_of_a_child() -> None:
    payload = os.urandom(300_000)
    async with (
        ProcessGroup() as children,
        await children.spawn(["cat"], cwd=ROOT, env=ENV, stdin=PIPE, stdout=PIPE) as child,
    ):
        received: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                received.append(await read_all(child.stdout))

            tasks.start_soon(receive)
            assert child.stdin is not None
            await child.stdin.send(payload)
            await child.stdin.aclose()

        assert await child.wait() == 0

    assert received == [payload]


async def test_writing_to_a_child_that_has_exited_raises_an_error() -> None:
    async with ProcessGroup() as children:
        child = await children.spawn(["true"], cwd=ROOT, env=ENV, stdin=PIPE)
        await child.wait()

        assert child.stdin is not None
        with pytest.raises(anyio.BrokenResourceError):
            await child.stdin.send(b"x")
        await child.aclose()


async def test_closing_a_pipe_wakes_its_reader() -> None:
    async with ProcessGroup() as children, await spawn_shell(children, "sleep 600") as child:
        stdout = child.stdout
        assert stdout is not None
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:

                async def receive() -> None:
                    with pytest.raises(anyio.ClosedResourceError):
                        await stdout.receive()

                tasks.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
                await stdout.aclose()


async def test_wait_returns_when_the_child_exits_even_if_a_grandchild_holds_its_output() -> None:
    async with ProcessGroup() as children:
        child = await spawn_shell(children, "sleep 600 & exit 7")

        with anyio.fail_after(5):
            assert await child.wait() == 7

        assert len(find_remaining(children)) == 1
        await child.aclose()

        assert find_remaining(children) == set()


async def test_death_by_a_signal_is_a_negative_return_code() -> None:
    async with ProcessGroup() as children, await spawn_shell(children, "kill -9 $$") as child:
        assert await child.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("argv", "cwd", "problem"),
    [
        (
            ["no-such-program"],
            ROOT,
            "no such executable; install it, or correct the name or PATH",
        ),
        (["true"], Path("/no/such/place"), "the directory '/no/such/place' does not exist"),
        (
            ["/etc/passwd"],
            ROOT,
            "not permitted; it must be executable and '/' must be accessible",
        ),
        (["true", "x" * 200_000], ROOT, "Argument list too long"),
        (["true", "a\0b"], ROOT, "its arguments or environment are not usable: embedded null byte"),
    ],
)
async def test_a_program_that_cannot_start_raises_an_error_with_the_reason(
    argv: list[str], cwd: Path, problem: str
) -> None:
    async with ProcessGroup() as children:
        with pytest.raises(ProcessStartError) as caught:
            await children.spawn(argv, cwd=cwd, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    assert str(caught.value) == f"cannot start {argv[0]!r}: {problem}"


async def test_a_closed_process_group_starts_no_process() -> None:
    async with ProcessGroup() as children:
        pass

    with pytest.raises(ProcessStartError) as caught:
        await children.spawn(["true"], cwd=ROOT, env=ENV)

    assert str(caught.value) == "cannot start 'true': the server is shutting down"


async def test_stop_ends_processes_that_ignore_sigterm_or_left_the_session() -> None:
    async with ProcessGroup() as children, await spawn_shell(children, STUBBORN) as child:
        await wait_for_lines(child.stdout, 3)
        assert len(find_remaining(children)) >= 4

        with anyio.fail_after(8):
            await child.stop(grace=0.2)

        assert find_remaining(children) == set()
        assert child.returncode == -signal.SIGTERM


async def test_a_child_can_exit_by_itself_within_the_grace_period() -> None:
    async with ProcessGroup() as children:
        script = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
        child = await spawn_shell(children, script)
        await wait_for_lines(child.stdout, 1)

        await child.stop()

        assert await read_all(child.stdout) == b"bye\n"
        assert child.returncode == 4
        await child.aclose()


async def test_stopping_one_child_leaves_the_others_running() -> None:
    async with ProcessGroup() as children, await spawn_shell(children, "sleep 600") as other:
        async with await spawn_shell(children, "sleep 600"):
            pass

        assert other.returncode is None
        assert find_remaining(children) >= {other.pid}


async def test_a_cancelled_caller_still_stops_its_child() -> None:
    async with ProcessGroup() as children:
        child = await spawn_shell(children, STUBBORN)

        with anyio.move_on_after(60) as scope:
            async with child:
                await wait_for_lines(child.stdout, 3)
                scope.cancel()
                await anyio.sleep_forever()

        assert child.returncode is not None
        assert find_remaining(children) == set()


async def test_closing_a_process_group_stops_running_children_and_orphans() -> None:
    async with ProcessGroup() as children:
        stubborn = await spawn_shell(children, STUBBORN)
        await wait_for_lines(stubborn.stdout, 3)
        background = await spawn_shell(children, "setsid sleep 600 & sleep 600 & exit 0")
        await background.wait()
        began = time.monotonic()

    assert find_remaining(children) == set()
    assert time.monotonic() - began < 20  # far less than the children would sleep
    assert stubborn.stdout is not None
    assert background.stdout is not None
    await background.stdout.aclose()


async def test_an_error_inside_a_process_group_is_raised_unchanged() -> None:
    children = ProcessGroup()

    async def fail() -> None:
        async with children:
            await children.spawn(["sleep", "600"], cwd=ROOT, env=ENV)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()

    assert find_remaining(children) == set()


async def test_a_cancelled_owner_leaves_no_child_behind() -> None:
    children = ProcessGroup()
    started = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def own() -> None:
            async with children:
                await children.spawn(["sleep", "600"], cwd=ROOT, env=ENV)
                started.set()
                await anyio.sleep_forever()

        tasks.start_soon(own)
        await started.wait()
        tasks.cancel_scope.cancel()

    assert find_remaining(children) == set()


async def test_a_hundred_children_leave_no_descriptor_and_no_zombie() -> None:
    descriptors = Path("/proc/self/fd")
    async with ProcessGroup() as children:
        async with await spawn_shell(children, "true") as first:
            await first.wait()
        before = len(list(descriptors.iterdir()))

        for _ in range(100):
            child = await children.spawn(
                ["true"], cwd=ROOT, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
            await child.wait()
            for stream in (child.stdin, child.stdout, child.stderr):
                assert stream is not None
                await stream.aclose()

        assert len(list(descriptors.iterdir())) == before
        assert list_zombies() == []


async def test_a_program_that_cannot_start_leaves_no_descriptor() -> None:
    descriptors = Path("/proc/self/fd")
    async with ProcessGroup() as children:
        async with await spawn_shell(children, "true") as first:
            await first.wait()
        before = len(list(descriptors.iterdir()))

        for _ in range(20):
            with pytest.raises(ProcessStartError):
                await children.spawn(
                    ["no-such-program"], cwd=ROOT, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE
                )

        assert len(list(descriptors.iterdir())) == before


async def test_stderr_can_be_merged_into_stdout() -> None:
    async with (
        ProcessGroup() as children,
        await children.spawn(
            ["bash", "-c", "echo a; echo b >&2; echo c"],
            cwd=ROOT,
            env=ENV,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
        ) as child,
    ):
        assert await read_all(child.stdout) == b"a\nb\nc\n"


async def test_an_output_file_has_no_name_and_stops_at_its_limit(tmp_path: Path) -> None:
    async with ProcessGroup() as children:
        output = OutputFile(tmp_path, limit=1000)
        child = await children.spawn(["yes"], cwd=ROOT, env=ENV, stdout=output.descriptor)
        output.close_child_end()
        children.spawn_task(output.copy)

        with anyio.fail_after(5):
            await output.stopped.wait()
        await child.stop()
        output.drain()

        assert output.problem == "it printed more than 1,000 bytes"
        assert output.size == 1000
        assert output.read(0, 2000) == b"y\n" * 500
        assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == []
        output.close()


def test_the_watchdog_imports_no_slow_module() -> None:
    folder = str(Path(kill_tree.__file__).parent)
    script = f"import sys; sys.path.insert(0, {folder!r}); import kill_tree; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, check=True, text=True
    )

    loaded = set(done.stdout.split())
    assert "kill_tree" in loaded
    assert loaded & {"site", "re", "typing", "pathlib", "asyncio", "anyio", "mcp_dispatch"} == set()
