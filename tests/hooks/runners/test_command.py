"""Command hooks as real processes, well-behaved and not."""

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
class Setting:
    """A directory to run hooks in."""

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
        runner = CommandRunner(self.children, self.environ, workspace)
        around = HookContext("s-1", self.folder / "journal", cwd or self.folder, "default")
        with anyio.fail_after(20):
            return await runner.run(command, document, around)

    def pid_in(self, name: str) -> int:
        return int((self.folder / name).read_text(encoding="ascii"))


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    async with ProcessGroup() as children:
        yield Setting(children, tmp_path)


def lives(pid: int) -> bool:
    """A zombie, which only waits to be counted, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return not stat.parents[1].is_dir()


def python(source: str, *args: str) -> HookCommand:
    return HookCommand(sys.executable, ("-c", source, *args))


async def test_a_hook_is_told_on_stdin_and_heard_on_stdout_and_stderr(setting: Setting) -> None:
    heard = await setting.run(HookCommand("cat; echo oh >&2; exit 3"))

    assert heard == HookOutput(3, DOCUMENT.decode(), "oh\n")


async def test_a_shell_can_read_the_document_as_a_line(setting: Setting) -> None:
    heard = await setting.run(HookCommand('read -r line && printf %s "$line"'))

    assert heard == HookOutput(0, DOCUMENT.decode().strip())


async def test_the_shell_form_is_read_by_a_shell(setting: Setting) -> None:
    heard = await setting.run(HookCommand("x='a b'; echo \"$x\" | tr a-z A-Z"))

    assert heard == HookOutput(0, "A B\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
async def test_a_hook_that_names_bash_gets_bash(setting: Setting) -> None:
    heard = await setting.run(HookCommand('a=(1 2); echo "${a[1]}"', shell="bash"))

    assert heard == HookOutput(0, "2\n")


async def test_the_exec_form_knows_no_shell(setting: Setting) -> None:
    arguments = ("$(touch x)", "a  b", "*", "; exit 5", "${HOME}", "")

    heard = await setting.run(python("import sys; print(sys.argv[1:])", *arguments))

    assert heard == HookOutput(0, f"{list(arguments)}\n")
    assert list(setting.folder.iterdir()) == []


async def test_both_forms_know_the_project_directory(setting: Setting, tmp_path: Path) -> None:
    project = tmp_path / "a $(touch x) 'project'"
    project.mkdir()
    script = project / "hook.sh"
    script.write_text('#!/bin/sh\necho "$1"\n', encoding="utf-8")
    script.chmod(0o700)

    shell = await setting.run(HookCommand('"${CLAUDE_PROJECT_DIR}"/hook.sh 1'), workspace=project)
    direct = await setting.run(
        HookCommand("${CLAUDE_PROJECT_DIR}/hook.sh", ("${CLAUDE_PROJECT_DIR}/x",)),
        workspace=project,
    )

    assert shell == HookOutput(0, "1\n")
    assert direct == HookOutput(0, f"{project}/x\n")
    assert list(tmp_path.iterdir()) == [project]


async def test_the_environment_is_inherited_but_for_what_is_ours(setting: Setting) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "MINE": "1",
        "MCP_DISPATCH_DATA": "x",
        "MCP_DISPATCH_RUN": "someone else's",
        "OTEL_EXPORTER_OTLP_HEADERS": "secret",
        "CLAUDECODE": "0",
    }
    source = "import json, os; print(json.dumps(dict(os.environ)))"

    heard = await Setting(setting.children, setting.folder, environ).run(python(source))

    assert isinstance(heard, HookOutput)
    seen = json.loads(heard.stdout)
    assert seen.pop("MCP_DISPATCH_RUN").startswith(setting.children.run_id)
    seen.pop("LC_CTYPE", None)  # Python's own, where the environment names no locale
    assert seen == {
        "PATH": os.environ["PATH"],
        "MINE": "1",
        "CLAUDE_PROJECT_DIR": str(setting.folder),
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "s-1",
    }


async def test_a_hook_has_its_own_session_and_the_directory_of_the_call(setting: Setting) -> None:
    source = "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"

    heard = await setting.run(python(source))

    assert heard == HookOutput(0, f"True {setting.folder.resolve()}\n")


async def test_a_directory_that_is_gone_does_not_silence_a_hook(setting: Setting) -> None:
    heard = await setting.run(
        HookCommand("pwd -P"), cwd=setting.folder / "gone", workspace=setting.folder
    )

    assert heard == HookOutput(0, f"{setting.folder.resolve()}\n")


async def test_a_missing_script_is_an_exit_code_of_the_shell(setting: Setting) -> None:
    heard = await setting.run(HookCommand("./missing.sh"))

    assert isinstance(heard, HookOutput)
    assert (heard.exit_code, heard.stdout) == (127, "")


async def test_a_missing_program_is_a_failure(setting: Setting) -> None:
    heard = await setting.run(HookCommand("./missing.sh", ()))

    assert heard == HookFailure(
        "cannot start './missing.sh': no such executable; install it, or correct the name or PATH"
    )


async def test_a_hook_that_kills_itself_is_told_from_one_that_exits(setting: Setting) -> None:
    assert await setting.run(HookCommand("kill -9 $$")) == HookOutput(-9)


async def test_invalid_utf_8_is_replaced(setting: Setting) -> None:
    assert await setting.run(HookCommand(r"printf '\377a'")) == HookOutput(0, "\ufffda")


@pytest.mark.parametrize("close", ["exec <&-; ", ""])
async def test_a_hook_need_not_read_what_it_is_told(setting: Setting, close: str) -> None:
    heard = await setting.run(HookCommand(f"{close}echo done"), document=b"x" * 10_000_000)

    assert heard == HookOutput(0, "done\n")


async def test_a_large_document_arrives_whole_while_the_hook_writes(setting: Setting) -> None:
    document = b"x" * 10_000_000

    heard = await setting.run(HookCommand("tee copy | head -c 3"), document=document)

    assert heard == HookOutput(0, "xxx")


async def test_a_hook_that_hangs_is_ended_at_its_timeout(setting: Setting) -> None:
    command = HookCommand("echo $$ > leader; sleep 1000 & echo $! > child; wait", timeout=2)

    heard = await setting.run(command)

    assert heard == HookFailure("timed out after 2 s", timed_out=True)
    assert not lives(setting.pid_in("leader"))
    assert not lives(setting.pid_in("child"))


async def test_a_hook_that_ignores_sigterm_is_ended_at_its_timeout(setting: Setting) -> None:
    command = HookCommand("trap '' TERM; echo $$ > leader; while :; do sleep 1000; done", timeout=2)

    heard = await setting.run(command)

    assert heard == HookFailure("timed out after 2 s", timed_out=True)
    assert not lives(setting.pid_in("leader"))


async def test_what_a_late_hook_printed_is_discarded(setting: Setting) -> None:
    command = HookCommand('echo \'{"decision":"approve"}\'; sleep 1000', timeout=0.5)

    assert await setting.run(command) == HookFailure("timed out after 0.5 s", timed_out=True)


async def test_a_cancelled_hook_is_ended_with_all_it_started(setting: Setting) -> None:
    os.mkfifo(setting.folder / "ready")
    command = HookCommand("sleep 1000 & echo $! > child; echo $$ > ready; wait")
    pids: list[int] = []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(setting.run, command)
        pids.append(int(await to_thread.run_sync((setting.folder / "ready").read_text, "ascii")))
        tasks.cancel_scope.cancel()

    pids.append(setting.pid_in("child"))
    assert [pid for pid in pids if lives(pid)] == []


async def test_a_child_that_keeps_the_pipes_open_holds_nobody_up(setting: Setting) -> None:
    heard = await setting.run(HookCommand("sleep 1000 & echo $! > child; echo done"))

    assert heard == HookOutput(0, "done\n")
    assert not lives(setting.pid_in("child"))


async def test_a_child_that_let_go_of_the_pipes_is_ended_too(setting: Setting) -> None:
    command = HookCommand("sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > child; echo done")

    heard = await setting.run(command)

    assert heard == HookOutput(0, "done\n")
    assert not lives(setting.pid_in("child"))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only process groups are known")
async def test_a_child_that_made_itself_a_daemon_is_ended_too(setting: Setting) -> None:
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

    heard = await setting.run(python(source))

    assert heard == HookOutput(0, "done\n")
    assert not lives(setting.pid_in("daemon"))


@pytest.mark.parametrize("stream", [1, 2])
async def test_a_flood_is_read_to_its_end_and_not_kept(setting: Setting, stream: int) -> None:
    command = HookCommand(f"head -c 100000000 /dev/zero | tr '\\0' ' ' >&{stream}; exit 2")

    tracemalloc.start()
    try:
        heard = await setting.run(command)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    if stream == 1:
        assert heard == HookOutput(2, " " * MAX_STDOUT_BYTES, "", 100_000_000 - MAX_STDOUT_BYTES)
    else:
        assert heard == HookOutput(2, "", " " * MAX_STDERR_BYTES)
    assert peak < 4 * MAX_STDOUT_BYTES
