"""Child processes: started with what they may see, waited for, and stopped with all they started."""

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


async def shell(children: ProcessGroup, script: str) -> ChildProcess:
    return await children.spawn(["bash", "-c", script], cwd=ROOT, env=ENV, stdout=PIPE)


async def everything(stream: ByteReceiveStream | None) -> bytes:
    assert stream is not None
    with anyio.fail_after(5):
        return b"".join([chunk async for chunk in stream])


async def lines(stream: ByteReceiveStream | None, count: int) -> None:
    assert stream is not None
    with anyio.fail_after(5):
        while count > 0:
            count -= (await stream.receive()).count(b"\n")


def left_of(children: ProcessGroup) -> set[int]:
    return kill_tree.find_processes(set(), kill_tree.build_run_marker(children.run_id))


def zombies() -> list[str]:
    stats = [
        path.read_text(encoding="utf-8") for path in Path("/proc/self/task").glob("*/children")
    ]
    pids = " ".join(stats).split()
    states = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8") for pid in pids]
    return [state for state in states if state.rpartition(")")[2].split()[0] == "Z"]


def test_the_baseline_has_what_a_program_needs_and_no_secret_of_anybody_else() -> None:
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


def test_a_shell_inherits_everything_but_our_own_variables() -> None:
    environ = {
        "PATH": "/bin",
        "MY_TOKEN": "mine",
        "MCP_DISPATCH_TOKEN": "t",
        "MCP_DISPATCH_RUN": "r",
    }

    assert remove_own_variables(environ) == {"PATH": "/bin", "MY_TOKEN": "mine"}


async def test_a_child_sees_its_environment_and_the_marker_only() -> None:
    async with (
        ProcessGroup() as children,
        await children.spawn(["/usr/bin/env"], cwd=ROOT, env={"A": "1"}, stdout=PIPE) as child,
    ):
        printed = await everything(child.stdout)

    assert sorted(printed.decode().split()) == ["A=1", f"MCP_DISPATCH_RUN={children.run_id}.1"]


async def test_a_child_has_a_session_of_its_own_and_no_descriptor_of_ours() -> None:
    script = "ls /proc/self/fd | wc -l; ps -o pid=,sid=,pgid= -p $$"
    async with ProcessGroup() as children, await shell(children, script) as child:
        count, ids = (await everything(child.stdout)).decode().splitlines()

    assert count == "4"  # its three streams and the directory `ls` looks at
    assert ids.split() == [str(child.pid)] * 3


async def test_a_child_answers_through_its_pipes() -> None:
    payload = os.urandom(300_000)
    async with (
        ProcessGroup() as children,
        await children.spawn(["cat"], cwd=ROOT, env=ENV, stdin=PIPE, stdout=PIPE) as child,
    ):
        received: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                received.append(await everything(child.stdout))

            tasks.start_soon(receive)
            assert child.stdin is not None
            await child.stdin.send(payload)
            await child.stdin.aclose()

        assert await child.wait() == 0

    assert received == [payload]


async def test_writing_to_a_child_that_is_gone_says_so() -> None:
    async with ProcessGroup() as children:
        child = await children.spawn(["true"], cwd=ROOT, env=ENV, stdin=PIPE)
        await child.wait()

        assert child.stdin is not None
        with pytest.raises(anyio.BrokenResourceError):
            await child.stdin.send(b"x")
        await child.aclose()


async def test_a_closed_pipe_wakes_its_reader() -> None:
    async with ProcessGroup() as children, await shell(children, "sleep 600") as child:
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


async def test_waiting_ends_with_the_child_though_a_grandchild_holds_its_output() -> None:
    async with ProcessGroup() as children:
        child = await shell(children, "sleep 600 & exit 7")

        with anyio.fail_after(5):
            assert await child.wait() == 7

        assert len(left_of(children)) == 1
        await child.aclose()

        assert left_of(children) == set()


async def test_death_by_a_signal_is_a_negative_return_code() -> None:
    async with ProcessGroup() as children, await shell(children, "kill -9 $$") as child:
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
async def test_what_cannot_be_started_is_explained(
    argv: list[str], cwd: Path, problem: str
) -> None:
    async with ProcessGroup() as children:
        with pytest.raises(ProcessStartError) as caught:
            await children.spawn(argv, cwd=cwd, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    assert str(caught.value) == f"cannot start {argv[0]!r}: {problem}"


async def test_nothing_is_started_once_the_children_are_left() -> None:
    async with ProcessGroup() as children:
        pass

    with pytest.raises(ProcessStartError) as caught:
        await children.spawn(["true"], cwd=ROOT, env=ENV)

    assert str(caught.value) == "cannot start 'true': the server is shutting down"


async def test_stopping_reaches_those_who_ignore_term_and_those_who_left_the_session() -> None:
    async with ProcessGroup() as children, await shell(children, STUBBORN) as child:
        await lines(child.stdout, 3)
        assert len(left_of(children)) >= 4

        with anyio.fail_after(8):
            await child.stop(grace=0.2)

        assert left_of(children) == set()
        assert child.returncode == -signal.SIGTERM


async def test_a_child_has_its_grace_to_end_in_order() -> None:
    async with ProcessGroup() as children:
        script = "trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"
        child = await shell(children, script)
        await lines(child.stdout, 1)

        await child.stop()

        assert await everything(child.stdout) == b"bye\n"
        assert child.returncode == 4
        await child.aclose()


async def test_stopping_one_child_leaves_the_others_alone() -> None:
    async with ProcessGroup() as children, await shell(children, "sleep 600") as other:
        async with await shell(children, "sleep 600"):
            pass

        assert other.returncode is None
        assert left_of(children) >= {other.pid}


async def test_a_cancelled_caller_still_stops_its_child() -> None:
    async with ProcessGroup() as children:
        child = await shell(children, STUBBORN)

        with anyio.move_on_after(60) as scope:
            async with child:
                await lines(child.stdout, 3)
                scope.cancel()
                await anyio.sleep_forever()

        assert child.returncode is not None
        assert left_of(children) == set()


async def test_leaving_the_children_stops_all_that_still_run_or_were_left_behind() -> None:
    async with ProcessGroup() as children:
        stubborn = await shell(children, STUBBORN)
        await lines(stubborn.stdout, 3)
        background = await shell(children, "setsid sleep 600 & sleep 600 & exit 0")
        await background.wait()
        began = time.monotonic()

    assert left_of(children) == set()
    assert time.monotonic() - began < 20  # not for as long as the children would sleep
    assert stubborn.stdout is not None
    assert background.stdout is not None
    await background.stdout.aclose()


async def test_an_error_leaves_the_children_as_it_was_raised() -> None:
    children = ProcessGroup()

    async def fail() -> None:
        async with children:
            await children.spawn(["sleep", "600"], cwd=ROOT, env=ENV)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()

    assert left_of(children) == set()


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

    assert left_of(children) == set()


async def test_a_hundred_children_leave_no_descriptor_and_no_zombie() -> None:
    descriptors = Path("/proc/self/fd")
    async with ProcessGroup() as children:
        async with await shell(children, "true") as first:
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
        assert zombies() == []


async def test_what_cannot_be_started_leaves_no_descriptor() -> None:
    descriptors = Path("/proc/self/fd")
    async with ProcessGroup() as children:
        async with await shell(children, "true") as first:
            await first.wait()
        before = len(list(descriptors.iterdir()))

        for _ in range(20):
            with pytest.raises(ProcessStartError):
                await children.spawn(
                    ["no-such-program"], cwd=ROOT, env=ENV, stdin=PIPE, stdout=PIPE, stderr=PIPE
                )

        assert len(list(descriptors.iterdir())) == before


async def test_stderr_can_go_where_stdout_goes() -> None:
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
        assert await everything(child.stdout) == b"a\nb\nc\n"


async def test_a_recording_is_private_and_ends_at_its_limit(tmp_path: Path) -> None:
    async with ProcessGroup() as children:
        recording = OutputFile(tmp_path, limit=1000)
        child = await children.spawn(["yes"], cwd=ROOT, env=ENV, stdout=recording.descriptor)
        recording.close_child_end()
        children.spawn_task(recording.copy)

        with anyio.fail_after(5):
            await recording.stopped.wait()
        await child.stop()
        recording.drain()

        assert recording.problem == "it printed more than 1,000 bytes"
        assert recording.size == 1000
        assert recording.read(0, 2000) == b"y\n" * 500
        assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == []
        recording.close()


def test_the_watchdog_loads_none_of_what_makes_a_start_slow() -> None:
    folder = str(Path(kill_tree.__file__).parent)
    script = f"import sys; sys.path.insert(0, {folder!r}); import kill_tree; print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, check=True, text=True
    )

    loaded = set(done.stdout.split())
    assert "kill_tree" in loaded
    assert loaded & {"site", "re", "typing", "pathlib", "asyncio", "anyio", "mcp_dispatch"} == set()
