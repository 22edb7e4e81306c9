"""Tests of command hooks, run as real processes."""

import json
import os
import shutil
import sys
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from mcp_dispatch.hooks.actions import HookCommand
from mcp_dispatch.hooks.output import HookFailure, HookOutput
from mcp_dispatch.hooks.runners.command import MAX_STDERR_BYTES, MAX_STDOUT_BYTES, CommandRunner
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.processes.children import ProcessGroup

DOCUMENT = b'{"tool_name":"Bash"}\n'


@dataclass(frozen=True)
class RunnerFixture:
    """Runs command hooks in a folder."""

    children: ProcessGroup
    folder: Path
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    async def run(
        self,
        command: HookCommand,
        *,
        document: bytes = DOCUMENT,
        cwd: Path | None = None,
        workspace: Path | None = None,
    ) -> HookOutput | HookFailure:
        command_runner = CommandRunner(self.children, self.environ, workspace)
        context = HookContext("s-1", self.folder / "journal", cwd or self.folder, "default")
        with anyio.fail_after(20):
            return await command_runner.run(command, document, context)

    def read_pid(self, name: str) -> int:
        return int((self.folder / name).read_text(encoding="ascii"))


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[RunnerFixture]:
    async with ProcessGroup() as children:
        yield RunnerFixture(children, tmp_path)


def is_running(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return not stat.parents[1].is_dir()


def build_python_command(source: str, *args: str) -> HookCommand:
    return HookCommand(sys.executable, ("-c", source, *args))


async def test_a_hook_receives_the_document_on_stdin_and_its_stdout_and_stderr_are_read(
    runner: RunnerFixture,
) -> None:
    output = await runner.run(HookCommand("cat; echo oh >&2; exit 3"))

    assert output == HookOutput(3, DOCUMENT.decode(), "oh\n")


async def test_a_shell_can_read_the_document_as_a_line(runner: RunnerFixture) -> None:
    output = await runner.run(HookCommand('read -r line && printf %s "$line"'))

    assert output == HookOutput(0, DOCUMENT.decode().strip())


async def test_a_command_without_args_runs_in_a_shell(runner: RunnerFixture) -> None:
    output = await runner.run(HookCommand("x='a b'; echo \"$x\" | tr a-z A-Z"))

    assert output == HookOutput(0, "A B\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
async def test_a_hook_with_the_shell_bash_runs_in_bash(runner: RunnerFixture) -> None:
    output = await runner.run(HookCommand('a=(1 2); echo "${a[1]}"', shell="bash"))

    assert output == HookOutput(0, "2\n")


async def test_a_command_with_args_runs_without_a_shell(runner: RunnerFixture) -> None:
    arguments = ("$(touch x)", "a  b", "*", "; exit 5", "${HOME}", "")

    output = await runner.run(build_python_command("import sys; print(sys.argv[1:])", *arguments))

    assert output == HookOutput(0, f"{list(arguments)}\n")
    assert list(runner.folder.iterdir()) == []


async def test_commands_with_and_without_args_can_use_the_project_directory(
    runner: RunnerFixture, tmp_path: Path
) -> None:
    project = tmp_path / "a $(touch x) 'project'"
    project.mkdir()
    script = project / "hook.sh"
    script.write_text('#!/bin/sh\necho "$1"\n', encoding="utf-8")
    script.chmod(0o700)

    shell = await runner.run(HookCommand('"${CLAUDE_PROJECT_DIR}"/hook.sh 1'), workspace=project)
    direct = await runner.run(
        HookCommand("${CLAUDE_PROJECT_DIR}/hook.sh", ("${CLAUDE_PROJECT_DIR}/x",)),
        workspace=project,
    )

    assert shell == HookOutput(0, "1\n")
    assert direct == HookOutput(0, f"{project}/x\n")
    assert list(tmp_path.iterdir()) == [project]


async def test_a_hook_inherits_the_environment_without_variables_of_mcp_dispatch(
    runner: RunnerFixture,
) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "MINE": "1",
        "MCP_DISPATCH_DATA": "x",
        "MCP_DISPATCH_RUN": "someone else's",
        "OTEL_EXPORTER_OTLP_HEADERS": "secret",
        "CLAUDECODE": "0",
    }
    source = "import json, os; print(json.dumps(dict(os.environ)))"

    output = await RunnerFixture(runner.children, runner.folder, environ).run(
        build_python_command(source)
    )

    assert isinstance(output, HookOutput)
    variables = json.loads(output.stdout)
    assert variables.pop("MCP_DISPATCH_RUN").startswith(runner.children.run_id)
    variables.pop("LC_CTYPE", None)  # Python sets it if the environment has no locale.
    assert variables == {
        "PATH": os.environ["PATH"],
        "MINE": "1",
        "CLAUDE_PROJECT_DIR": str(runner.folder),
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "s-1",
    }


async def test_a_hook_runs_in_its_own_session_and_in_the_directory_of_the_call(
    runner: RunnerFixture,
) -> None:
    source = "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"

    output = await runner.run(build_python_command(source))

    assert output == HookOutput(0, f"True {runner.folder.resolve()}\n")


async def test_a_hook_runs_in_the_workspace_if_its_directory_is_missing(
    runner: RunnerFixture,
) -> None:
    output = await runner.run(
        HookCommand("pwd -P"), cwd=runner.folder / "gone", workspace=runner.folder
    )

    assert output == HookOutput(0, f"{runner.folder.resolve()}\n")


async def test_a_missing_script_in_a_shell_command_gives_exit_code_127(
    runner: RunnerFixture,
) -> None:
    output = await runner.run(HookCommand("./missing.sh"))

    assert isinstance(output, HookOutput)
    assert (output.exit_code, output.stdout) == (127, "")


async def test_a_missing_program_of_a_command_with_args_is_a_failure(runner: RunnerFixture) -> None:
    output = await runner.run(HookCommand("./missing.sh", ()))

    assert output == HookFailure(
        "cannot start './missing.sh': no such executable; install it, or correct the name or PATH"
    )


async def test_a_hook_that_dies_of_a_signal_has_a_negative_exit_code(runner: RunnerFixture) -> None:
    assert await runner.run(HookCommand("kill -9 $$")) == HookOutput(-9)


async def test_invalid_utf_8_in_stdout_is_replaced(runner: RunnerFixture) -> None:
    assert await runner.run(HookCommand(r"printf '\377a'")) == HookOutput(0, "\ufffda")


@pytest.mark.parametrize("close", ["exec <&-; ", ""])
async def test_a_hook_need_not_read_its_stdin(runner: RunnerFixture, close: str) -> None:
    output = await runner.run(HookCommand(f"{close}echo done"), document=b"x" * 10_000_000)

    assert output == HookOutput(0, "done\n")


async def test_a_large_document_is_written_while_stdout_is_read(runner: RunnerFixture) -> None:
    document = b"x" * 10_000_000

    output = await runner.run(HookCommand("tee copy | head -c 3"), document=document)

    assert output == HookOutput(0, "xxx")


async def test_a_hook_that_hangs_is_killed_at_its_timeout(runner: RunnerFixture) -> None:
    command = HookCommand("echo $$ > leader; sleep 1000 & echo $! > child; wait", timeout=2)

    output = await runner.run(command)

    assert output == HookFailure("timed out after 2 s", timed_out=True)
    assert not is_running(runner.read_pid("leader"))
    assert not is_running(runner.read_pid("child"))


async def test_a_hook_that_ignores_sigterm_is_killed_at_its_timeout(runner: RunnerFixture) -> None:
    command = HookCommand("trap '' TERM; echo $$ > leader; while :; do sleep 1000; done", timeout=2)

    output = await runner.run(command)

    assert output == HookFailure("timed out after 2 s", timed_out=True)
    assert not is_running(runner.read_pid("leader"))


async def test_stdout_of_a_hook_that_times_out_is_discarded(runner: RunnerFixture) -> None:
    command = HookCommand('echo \'{"decision":"approve"}\'; sleep 1000', timeout=0.5)

    assert await runner.run(command) == HookFailure("timed out after 0.5 s", timed_out=True)


async def test_a_cancelled_hook_is_killed_with_its_child_processes(runner: RunnerFixture) -> None:
    os.mkfifo(runner.folder / "ready")
    command = HookCommand("sleep 1000 & echo $! > child; echo $$ > ready; wait")
    pids: list[int] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(runner.run, command)
        pids.append(int(await to_thread.run_sync((runner.folder / "ready").read_text, "ascii")))
        tasks.cancel_scope.cancel()

    pids.append(runner.read_pid("child"))
    assert [pid for pid in pids if is_running(pid)] == []


async def test_a_child_that_keeps_the_pipes_open_does_not_delay_the_result(
    runner: RunnerFixture,
) -> None:
    output = await runner.run(HookCommand("sleep 1000 & echo $! > child; echo done"))

    assert output == HookOutput(0, "done\n")
    assert not is_running(runner.read_pid("child"))


async def test_a_child_that_closed_the_pipes_is_killed(runner: RunnerFixture) -> None:
    command = HookCommand("sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > child; echo done")

    output = await runner.run(command)

    assert output == HookOutput(0, "done\n")
    assert not is_running(runner.read_pid("child"))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems track process groups only")
async def test_a_child_that_became_a_daemon_is_killed(runner: RunnerFixture) -> None:
    source = """if True:
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open("child", "w", encoding="ascii").write(str(os.getpid()))
                os.rename("child", "daemon")
                time.sleep(1000)
            os._exit(0)
        while not os.path.exists("daemon"):
            pass
        print("done")
    """

    output = await runner.run(build_python_command(source))

    assert output == HookOutput(0, "done\n")
    assert not is_running(runner.read_pid("daemon"))


@pytest.mark.parametrize("stream", [1, 2])
async def test_output_over_the_limit_is_read_to_its_end_but_not_stored(
    runner: RunnerFixture, stream: int
) -> None:
    command = HookCommand(f"head -c 100000000 /dev/zero | tr '\\0' ' ' >&{stream}; exit 2")

    tracemalloc.start()
    try:
        output = await runner.run(command)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    if stream == 1:
        assert output == HookOutput(2, " " * MAX_STDOUT_BYTES, "", 100_000_000 - MAX_STDOUT_BYTES)
    else:
        assert output == HookOutput(2, "", " " * MAX_STDERR_BYTES)
    assert peak < 4 * MAX_STDOUT_BYTES
