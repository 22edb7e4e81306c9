"""Bash: output, exit codes, working directory, environment and cleanup of processes."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    DirectoryChanged,
    FileDelivered,
    FileSeen,
    Interrupt,
    Replacement,
    ReplacementReason,
    Sharing,
    Tool,
    ToolResult,
    build_error_result,
    ignore_progress,
)
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.bash import BashTool
from mcp_dispatch.tools.bash.result import explain_exit_code, format_duration

PERSISTENT_CHILDREN = """
(echo up; echo up >{fifo}; exec sleep 600) &
(trap '' TERM; echo up; echo up >{fifo}; sleep 600; sleep 600) &
setsid bash -c 'echo up; echo up >{fifo}; exec sleep 600' &
wait
"""


@dataclass
class Scope:
    """A scope as a tool sees it."""

    cwd: Path | None = None
    id: str = "scope"

    def find_seen_file(self, path: str) -> FileSeen | None:
        raise NotImplementedError

    def is_delivered(self, path: str) -> bool:
        raise NotImplementedError


@dataclass
class Shell:
    """A Bash tool in a workspace, and its child processes."""

    children: ProcessGroup
    root: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    scope: Scope = field(default_factory=Scope)
    output_limit: int = 5_000_000_000

    def create_tool(self) -> BashTool:
        return BashTool(
            Workspace(self.root),
            self.children,
            self.root.parent / "scratch",
            self.environ,
            BackgroundTasks(self.children, self.root.parent / "tasks"),
            ResultStore(self.root.parent / "results"),
            output_limit=self.output_limit,
        )

    async def run(self, command: str, **more: Json) -> ToolResult:
        arguments: JsonObject = {"command": command, **more}
        with anyio.fail_after(60):
            return await self.create_tool().run(
                arguments, CallContext("call", self.scope, ignore_progress)
            )

    def find_processes(self) -> set[int]:
        return kill_tree.find_processes(set(), kill_tree.build_run_marker(self.children.run_id))


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncGenerator[Shell]:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    async with ProcessGroup() as children:
        yield Shell(children, root)


def get_text(result: ToolResult) -> str:
    match result.wire["content"]:
        case [{"type": "text", "text": str(text)}, *_]:
            return text
        case other:
            raise AssertionError(other)


async def wait_for_children(fifo: Path) -> None:
    """Wait until the three persistent children have started."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        received = b""
        with anyio.fail_after(10):
            while received.count(b"up\n") < 3:
                await anyio.wait_readable(descriptor)
                received += os.read(descriptor, 100)
    finally:
        os.close(descriptor)


# Output


async def test_stdout_and_stderr_come_interleaved_as_they_were_printed(shell: Shell) -> None:
    result = await shell.run("for i in 1 2 3; do echo out $i; echo err $i >&2; done")

    assert result == ToolResult(
        {"content": [{"type": "text", "text": "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3"}]},
        {
            "stdout": "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3",
            "stderr": "",
            "interrupted": False,
        },
        foreign=True,
    )


async def test_opening_dev_stderr_or_dev_stdout_loses_nothing(shell: Shell) -> None:
    result = await shell.run("echo a; echo b > /dev/stderr; echo c > /dev/stdout; echo d")

    assert get_text(result) == "a\nb\nc\nd"


async def test_a_command_without_output_returns_empty_text(shell: Shell) -> None:
    assert get_text(await shell.run("true")) == ""


async def test_output_that_is_not_utf_8_is_shown_with_replacement_characters(shell: Shell) -> None:
    result = await shell.run(r"printf 'a\0b\xffc\033[1m\303\244'")

    assert get_text(result) == "a\u2400b\ufffdc\033[1mä"


async def test_a_command_has_no_input(shell: Shell) -> None:
    assert get_text(await shell.run("cat; echo end")) == "end"


async def test_output_over_the_inline_limit_is_answered_whole(shell: Shell) -> None:
    result = await shell.run("head -c 1000000 /dev/zero | tr '\\0' x")

    assert get_text(result) == "x" * 1_000_000
    assert shell.create_tool().result_limit == 30_000


async def test_two_hundred_megabytes_cost_little_memory(shell: Shell) -> None:
    def kilobytes(name: str) -> int:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(status.partition(f"{name}:")[2].split()[0])

    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before = kilobytes("VmRSS")

    result = await shell.run("echo start; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end")

    (replaced,) = result.replaced
    assert replaced.file is not None
    kept = Path(replaced.file)
    assert kilobytes("VmHWM") - before < 40_000
    assert replaced == Replacement(ReplacementReason.STREAM, "text", 200_000_011, replaced.file)
    assert kept.stat().st_size == 200_000_011
    assert FileDelivered(replaced.file) in result.changes
    text = get_text(result)
    assert text.startswith(
        f"<persisted-output>\nOutput too large (190.7MB). Full output saved to: {kept}\n\n"
        "Preview (first 2KB):\nstart\nxxx"
    )
    assert isinstance(result.response, dict)
    assert result.response["persistedOutputPath"] == replaced.file


async def test_large_output_that_cannot_be_stored_shows_its_start_and_its_end(
    shell: Shell,
) -> None:
    (shell.root.parent / "results").write_text("in the way", encoding="utf-8")

    text = get_text(await shell.run("echo start; head -c 3000000 /dev/zero | tr '\\0' x; echo end"))

    assert text.startswith("start\nxxx")
    assert text.endswith("xend")
    assert "\n\n... [1,000,010 bytes left out] ...\n\n" in text


async def test_a_failure_shows_its_beginning_and_its_end(shell: Shell) -> None:
    result = await shell.run("echo start; head -c 50000 /dev/zero | tr '\\0' x; echo end; exit 3")

    text = get_text(result)
    assert result.is_error
    assert text.startswith("Exit code 3\nstart\nxxx")
    assert "\n\n... [40,010 bytes left out] ...\n\n" in text
    assert text.endswith("xxxend")
    assert len(text) < 10_100


async def test_an_excerpt_is_cut_between_characters(shell: Shell) -> None:
    result = await shell.run("printf 'ä%.0s' {1..8000}; printf x; exit 3")

    assert "\ufffd" not in get_text(result)


async def test_a_command_that_prints_too_much_is_stopped(shell: Shell) -> None:
    shell.output_limit = 100_000

    result = await shell.run("yes")

    assert result.is_error
    assert get_text(result).startswith(
        "Command was stopped: it printed more than 100,000 bytes\ny\ny\n"
    )
    assert result.response == {
        "stdout": get_text(result).partition("\n")[2],
        "stderr": "",
        "interrupted": True,
    }
    assert shell.find_processes() == set()


async def test_a_background_command_that_holds_the_output_does_not_hold_the_call(
    shell: Shell,
) -> None:
    with anyio.fail_after(10):
        result = await shell.run("sleep 600 & echo done")

    assert get_text(result) == "done"
    assert len(shell.find_processes()) == 1


async def test_a_background_command_may_go_on_printing_after_the_call(
    shell: Shell, tmp_path: Path
) -> None:
    fifo, done = tmp_path / "fifo", tmp_path / "done"
    os.mkfifo(fifo)
    os.mkfifo(done)

    result = await shell.run(
        f"(read -r line <{fifo}; head -c 500000 /dev/zero; echo alive >{done}) & echo first"
    )
    fifo.write_text("go\n", encoding="utf-8")

    with anyio.fail_after(20):
        assert await anyio.to_thread.run_sync(done.read_text, "utf-8") == "alive\n"
    assert get_text(result) == "first"


# Exit codes and termination


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; exit 3", "Exit code 3\nout"),
        ("false", "Exit code 1"),
        ("nosuchcommand", "Exit code 127\nbash: line 1: nosuchcommand: command not found"),
        ("kill -9 $$", "Exit code 137 (killed by SIGKILL)"),
        ("echo a; kill -TERM $$; sleep 5", "Exit code 143 (killed by SIGTERM)\na"),
        ("exec bash -c 'exit 9'", "Exit code 9"),
        ("set -e; echo a; false; echo b", "Exit code 1\na"),
        ("trap 'echo bye; exit 4' EXIT; exit 3", "Exit code 4\nbye"),
        ("(exit 5)", "Exit code 5"),
        ("grep x /no/such/file 2>/dev/null", "Exit code 2"),
    ],
)
async def test_a_failing_command_is_an_error_that_starts_with_its_code(
    shell: Shell, command: str, text: str
) -> None:
    result = await shell.run(command)

    assert (result.is_error, get_text(result)) == (True, text)


async def test_a_syntax_error_is_reported_with_the_message_of_bash(shell: Shell) -> None:
    result = await shell.run("echo 'unfinished")

    assert result.is_error
    assert get_text(result).startswith("Exit code 2\nbash: -c: line 1: unexpected EOF")


async def test_exit_code_1_of_grep_is_not_an_error(shell: Shell) -> None:
    result = await shell.run("echo a | grep b")

    assert result == ToolResult(
        {"content": [{"type": "text", "text": ""}]},
        {
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "returnCodeInterpretation": "No matches found",
        },
        foreign=True,
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("grep x f", "No matches found"),
        ("rg 'a;b' src", "No matches found"),
        ("egrep x f", "No matches found"),
        ("fgrep x f", "No matches found"),
        ("git grep x", "No matches found"),
        ("find . -name x", "Some places could not be searched"),
        ("diff a b", "The files differ"),
        ("git diff --exit-code", "The files differ"),
        ("test -f x", "The condition is false"),
        ("[ -f x ]", "The condition is false"),
        ("ls | grep x", "No matches found"),
        ("ls |& grep x", "No matches found"),
        ("make; grep x f", "No matches found"),
        ("make\ngrep x f\n", "No matches found"),
        ("make || grep x f", "No matches found"),
        ("make & grep x f", "No matches found"),
        ("cd src && grep -rn 'foo$' .", "No matches found"),
        ("cd src && ls | grep x && grep y f", "No matches found"),
        ('LC_ALL=C grep "a b" "${file}" $name 2>&1', "No matches found"),
        ("grep x f > out 2>/dev/null", "No matches found"),
        ("grep a#b f", "No matches found"),
        ("grep x <<< text", "No matches found"),
        ("make && grep x f", None),
        ("make | cat && grep x f", None),
        ("grep x f; make", None),
        ("grep x f || exit 1", None),
        ("[ -d x ] || exit 1; grep x f", None),
        ("set -e; make; grep x f", None),
        ("set -o pipefail; make | grep x", None),
        ("! grep x f", None),
        ("if true; then grep x f; fi", None),
        ("{ grep x f; }", None),
        ("(grep x f)", None),
        ("false ';' grep x", None),
        ("false \\; grep x", None),
        ("grep x f # ; \nfalse", None),
        ('grep "$(false)" f', None),
        ("grep `false` f", None),
        ("diff <(sort a) <(sort b)", None),
        ("grep x <<EOF\nx\nEOF", None),
        ("grep $'a' f", None),
        ("./test", None),
        ("git log", None),
        ("grep 'x", None),
        ("", None),
        ("   ", None),
    ],
)
def test_the_meaning_of_exit_code_1_depends_on_the_command(
    command: str, expected: str | None
) -> None:
    assert explain_exit_code(command, 1) == expected
    assert explain_exit_code(command, 2) is None


async def test_a_command_that_times_out_is_terminated_with_its_children(
    shell: Shell, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await shell.run(PERSISTENT_CHILDREN.format(fifo=fifo), timeout=3000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await wait_for_children(fifo)

    assert shell.find_processes() == set()
    assert results == [
        ToolResult(
            {
                "content": [{"type": "text", "text": "Command timed out after 3s\nup\nup\nup"}],
                "isError": True,
            },
            {
                "stdout": "up\nup\nup",
                "stderr": "",
                "interrupted": True,
                "timedOutAfterMs": 3000,
            },
            foreign=True,
        )
    ]


async def test_a_cancelled_command_leaves_no_process(shell: Shell, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shell.run, PERSISTENT_CHILDREN.format(fifo=fifo))
        await wait_for_children(fifo)
        assert len(shell.find_processes()) >= 4
        tasks.cancel_scope.cancel()

    assert shell.find_processes() == set()


@pytest.mark.parametrize(
    ("environ", "asked", "milliseconds"),
    [
        ({}, None, 120_000),
        ({}, 5, 5),
        ({}, 1e12, 600_000),
        ({"BASH_DEFAULT_TIMEOUT_MS": "7000"}, None, 7000),
        ({"BASH_MAX_TIMEOUT_MS": "8000"}, 9000, 9000),
        ({"BASH_MAX_TIMEOUT_MS": "900000"}, 1e12, 900_000),
        ({"BASH_DEFAULT_TIMEOUT_MS": "700000"}, 1e12, 700_000),
        ({"BASH_DEFAULT_TIMEOUT_MS": "-1", "BASH_MAX_TIMEOUT_MS": "soon"}, None, 120_000),
    ],
)
async def test_the_timeout_is_bounded(
    environ: dict[str, str], asked: float | None, milliseconds: int, shell: Shell
) -> None:
    shell.environ = environ
    arguments: JsonObject = {"command": "true"} if asked is None else {"timeout": asked}

    assert shell.create_tool().parse_timeout_ms(arguments) == milliseconds


def test_a_duration_is_formatted_in_minutes_and_seconds() -> None:
    assert [format_duration(each) for each in (0.5, 30, 120, 601)] == [
        "0.5s",
        "30s",
        "2m 0s",
        "10m 1s",
    ]


async def test_progress_contains_the_seconds_and_the_last_line(shell: Shell) -> None:
    told: list[JsonObject] = []
    twice = anyio.Event()

    async def progress(message: JsonObject) -> None:
        told.append(message)
        if len(told) == 2:
            twice.set()

    async with anyio.create_task_group() as tasks:
        arguments: JsonObject = {"command": "echo one; printf 'two\\r\\033[32mthree\\n'; sleep 600"}
        context = CallContext("call", shell.scope, progress)
        tasks.start_soon(shell.create_tool().run, arguments, context)
        with anyio.fail_after(10):
            await twice.wait()
        tasks.cancel_scope.cancel()

    assert [each["message"] for each in told] == ["[32mthree", "[32mthree"]
    first, second = (each["progress"] for each in told)
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert 2 <= first < second


# Working directory


async def test_a_command_starts_in_the_workspace(shell: Shell) -> None:
    result = await shell.run("pwd")

    assert (get_text(result), result.changes) == (str(shell.root), ())


async def test_a_command_starts_where_the_last_one_ended(shell: Shell) -> None:
    inside = shell.root / "sub"
    inside.mkdir()
    shell.scope.cwd = inside

    result = await shell.run("pwd")

    assert (get_text(result), result.changes) == (str(inside), ())


@pytest.mark.parametrize(
    "command",
    [
        "cd 'a b'",
        "cd 'a b' && exit 3",
        "cd 'a b'; set -e; false",
        "set -euC; cd 'a b'",
        "cd 'a b'; kill -TERM $$",
        "cd 'a b'; (cd /; exit 1)",
        "cd 'a b'; x=$(cd /; pwd)",
        "cd 'a b'; bash -c 'cd /'",
        "cd 'a b'; pwd() { echo /; }",
        "cd 'a b'; exec 1>&- 2>&-",
        "cd 'a b'; sleep 0 &",
        "cd 'a b'; nosuchcommand",
        "cd link",
    ],
)
async def test_a_cwd_inside_the_workspace_is_kept(shell: Shell, command: str) -> None:
    (shell.root / "a b").mkdir()
    (shell.root / "link").symlink_to("a b")

    result = await shell.run(command)

    assert result.changes == (DirectoryChanged(shell.root / "a b"),)


@pytest.mark.parametrize(
    "command",
    [
        "(cd sub)",
        "cd sub & wait",
        "cd sub | cat",
        "cd sub; exec true",
        "cd sub; kill -9 $$",
        "cd sub; trap 'true' EXIT",
        "cd sub; rmdir ../sub",
        "echo $(cd sub",
    ],
)
async def test_a_missing_report_of_the_cwd_changes_nothing(shell: Shell, command: str) -> None:
    (shell.root / "sub").mkdir()

    result = await shell.run(command)

    assert result.changes == ()
    assert "Shell cwd was reset" not in get_text(result)


async def test_a_cwd_outside_the_workspace_is_reset_to_the_workspace(shell: Shell) -> None:
    result = await shell.run("cd / && pwd")

    assert (get_text(result), result.changes) == (f"/\nShell cwd was reset to {shell.root}", ())


async def test_a_link_out_of_the_workspace_is_outside(shell: Shell) -> None:
    (shell.root / "link").symlink_to("/")
    (shell.root / "sub").mkdir()
    shell.scope.cwd = shell.root / "sub"

    result = await shell.run("cd ../link; exit 3")

    assert get_text(result) == f"Exit code 3\nShell cwd was reset to {shell.root}"
    assert result.changes == (DirectoryChanged(shell.root),)


async def test_a_directory_that_is_gone_falls_back_to_the_workspace(shell: Shell) -> None:
    shell.scope.cwd = shell.root / "gone"

    result = await shell.run("pwd")

    assert (get_text(result), result.changes) == (str(shell.root), (DirectoryChanged(shell.root),))


async def test_a_foreground_command_leaves_no_files(shell: Shell) -> None:
    await shell.run("echo a; cd /")
    await shell.run("exit 3")
    await shell.run("(exit 3)")

    assert list((shell.root.parent / "scratch").iterdir()) == []
    assert list((shell.root.parent / "tasks").iterdir()) == []


async def test_commands_leave_no_descriptor_open(shell: Shell) -> None:
    async def a_few() -> int:
        for command in ("true", "exit 3", "cd /", "sleep 600 >/dev/null 2>&1 &"):
            await shell.run(command)
        await shell.run("sleep 600", timeout=1)
        shell.scope.cwd, shell.environ = None, {"PATH": "/nowhere"}
        await shell.run("true")
        shell.environ = dict(os.environ)
        await anyio.wait_all_tasks_blocked()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = await a_few()

    assert [await a_few() for _ in range(3)] == [before] * 3


# Environment


async def test_a_command_sees_the_server_s_environment_without_our_variables(shell: Shell) -> None:
    shell.environ = {
        "PATH": os.environ["PATH"],
        "MY_TOKEN": "mine",
        "MCP_DISPATCH_TOKEN": "secret",
        "MCP_DISPATCH_RUN": "of a server around this one",
    }

    result = await shell.run("env | sort")

    assert get_text(result).splitlines() == [
        "CLAUDECODE=1",
        f"MCP_DISPATCH_RUN={shell.children.run_id}.1",
        "MY_TOKEN=mine",
        f"PATH={os.environ['PATH']}",
        f"PWD={shell.root}",
        "SHLVL=0" if "SHLVL=0" in get_text(result) else "SHLVL=1",
        "_=/usr/bin/env" if "_=/usr/bin/env" in get_text(result) else "_=/bin/env",
    ]


async def test_the_prelude_leaves_no_trace_in_the_shell(shell: Shell) -> None:
    result = await shell.run('echo "$0|$#|$-|$?|${BASH_ENV-unset}|${!DISPATCH*}"')

    assert get_text(result) == "bash|0|hBc|0|unset|"


async def test_set_x_traces_only_the_command(shell: Shell) -> None:
    assert get_text(await shell.run("set -x; echo a")) == "+ echo a\na"


async def test_a_bash_env_of_the_user_is_read_and_kept(shell: Shell, tmp_path: Path) -> None:
    own = tmp_path / "own env"
    own.write_text("greeting=hello\n", encoding="utf-8")
    shell.environ["BASH_ENV"] = str(own)
    (shell.root / "sub").mkdir()

    result = await shell.run("cd sub; echo $greeting $BASH_ENV; bash -c 'echo $greeting'")

    assert get_text(result) == f"hello {own}\nhello"
    assert result.changes == (DirectoryChanged(shell.root / "sub"),)


async def test_a_shell_in_posix_mode_still_runs_commands(shell: Shell) -> None:
    shell.environ["POSIXLY_CORRECT"] = "1"

    result = await shell.run("echo a; unset POSIXLY_CORRECT; bash -c 'cd /; echo b'; true")

    assert (get_text(result), result.changes) == ("a\nb", ())


async def test_a_command_that_looks_like_an_option_is_a_command(shell: Shell) -> None:
    result = await shell.run("-x")

    assert get_text(result) == "Exit code 127\nbash: line 1: -x: command not found"


# Refusals


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo \0", "the command contains a NUL character; a command cannot hold one"),
        ("echo \ud800", "the command contains half a surrogate pair; write the character"),
        (
            "x" * 131_072,
            "the command has 131,072 bytes, more than the 131,071 the system takes;"
            " write it to a file with Write and run that",
        ),
    ],
)
async def test_unusable_commands_are_refused(shell: Shell, command: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        await shell.create_tool().check({"command": command}, CallContext("call", shell.scope))

    assert caught.value.refusal == Refusal(RefusedBy.SEMANTIC, message)


async def test_the_longest_command_runs(shell: Shell) -> None:
    command = f"echo {'x' * 131_066}"

    await shell.create_tool().check({"command": command}, CallContext("call", shell.scope))

    assert get_text(await shell.run(command)) == "x" * 131_066


async def test_without_a_workspace_no_command_runs(shell: Shell) -> None:
    tool = BashTool(
        Workspace(None, unset_reason="/ is the root"),
        shell.children,
        shell.root,
        shell.environ,
        BackgroundTasks(shell.children, shell.root),
        ResultStore(shell.root),
    )

    with pytest.raises(Refused) as caught:
        await tool.check({"command": "true"}, CallContext("call", shell.scope))

    assert str(caught.value).startswith("no workspace: / is the root")


async def test_without_bash_the_result_is_an_error(shell: Shell) -> None:
    shell.environ = {"PATH": "/nowhere"}

    assert await shell.run("true") == build_error_result(
        "cannot start 'bash': no such executable; install it, or correct the name or PATH"
    )


async def test_bash_runs_alone_unless_the_command_is_read_only(shell: Shell) -> None:
    tool: Tool = shell.create_tool()

    assert tool.decide_sharing({"command": "make"}) is Sharing.EXCLUSIVE
    assert tool.decide_sharing({"command": "ls | head -5"}) is Sharing.SHARED
    assert tool.decide_sharing({"command": "ls > out"}) is Sharing.EXCLUSIVE
    assert tool.decide_sharing({"command": "cd src"}) is Sharing.EXCLUSIVE
    assert tool.decide_sharing({"command": "ls $(make)"}) is Sharing.EXCLUSIVE
    assert tool.decide_sharing({"command": "ls", "run_in_background": True}) is Sharing.EXCLUSIVE


async def test_bash_is_cancellable_and_declares_itself_destructive(shell: Shell) -> None:
    tool: Tool = shell.create_tool()

    assert tool.interrupt is Interrupt.CANCEL
    assert tool.definition["annotations"] == {
        "title": "Run a command",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
