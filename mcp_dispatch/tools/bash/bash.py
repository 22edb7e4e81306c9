"""Bash: runs one command in its own shell, with a timeout, in the foreground or background."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    DirectoryChanged,
    Interrupt,
    Sharing,
    ToolResult,
    build_error_result,
    build_text_block,
)
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.output_file import OutputFile
from mcp_dispatch.results.store import CannotStore, ResultStore, StoredResult
from mcp_dispatch.shell.analyze import is_read_only
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration, build_refusal
from mcp_dispatch.tools.bash import background as bash_background
from mcp_dispatch.tools.bash import result as bash_text
from mcp_dispatch.tools.bash.background import (
    DEFAULT_LIFETIME_MS,
    MAX_LIFETIME_MS,
    BackgroundTask,
    BackgroundTasks,
    TaskProcess,
)
from mcp_dispatch.tools.bash.process import (
    DirectoryReport,
    WatchResult,
    build_environment,
    open_output_file,
    refuse_unusable_command,
    start_command,
    watch_command,
)
from mcp_dispatch.tools.bash.result import (
    CommandOutcome,
    build_persisted_result,
    describe_exit,
    describe_stop,
    describe_timeout,
)

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
MAX_INLINE_CHARS = 30_000
MAX_SUCCESS_BYTES = 2_000_000
MAX_FAILURE_BYTES = 10_000
MAX_OUTPUT_BYTES = 5_000_000_000

_DECLARATION = ToolDeclaration(
    name="Bash",
    title="Run a command",
    description=(
        "Runs a command with bash and returns what it prints, stdout and stderr as they come.\n"
        "- Each command has a shell of its own: variables and functions do not carry over. The"
        " working directory does, as long as it stays inside the workspace.\n"
        "- There is no terminal and no input: pass flags instead of answering questions.\n"
        f"- `timeout` is in milliseconds (default {DEFAULT_TIMEOUT_MS:,}, at most"
        f" {MAX_TIMEOUT_MS:,}). A command that takes longer is moved to the background where that"
        " is safe, and ended otherwise.\n"
        "- With `run_in_background` the answer comes at once, with a task ID and the path of an"
        " output file. Use Read on that file to see what the command prints, while it runs and"
        " after; use TaskStop with the ID to end it. No `&` is needed. `timeout` is then how long"
        f" it may live (default {DEFAULT_LIFETIME_MS:,}, at most {MAX_LIFETIME_MS:,}).\n"
        "- To read, search or change files prefer the tools made for that."
    ),
    properties={
        "command": {"type": "string", "description": "The command to run"},
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Milliseconds that the command may take",
        },
        "description": {
            "type": "string",
            "description": "What the command does, in a few words, for the person who is asked",
        },
        "run_in_background": {
            "type": "boolean",
            "description": "Do not wait for the command; its output goes to a file for Read",
        },
    },
    required=("command",),
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=True,
    interrupt=Interrupt.CANCEL,
    result_limit=MAX_INLINE_CHARS,
)


@dataclass(frozen=True, slots=True)
class _StartedCommand:
    """A command in the foreground. `task` is set if it may move to the background on timeout."""

    command: str
    child: ChildProcess
    output_file: OutputFile
    report: DirectoryReport
    task: BackgroundTask | None


class BashTool(BuiltInTool):
    """`environ` is the server's environment; commands inherit it without our own variables.

    `tasks` is shared with TaskStop, and with later instances of this class.
    """

    def __init__(
        self,
        workspace: Workspace,
        children: ProcessGroup,
        scratch: Path,
        environ: Mapping[str, str],
        tasks: BackgroundTasks,
        results: ResultStore,
        *,
        output_limit: int = MAX_OUTPUT_BYTES,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._children = children
        self._scratch = scratch
        self._environ = dict(environ)
        self._tasks = tasks
        self._results = results
        self._output_limit = output_limit

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        """Return SHARED for a read-only command in the foreground."""
        root, command = self._workspace.root, str(arguments["command"])
        if root is None or _is_background_call(arguments) or not is_read_only(command, root):
            return Sharing.EXCLUSIVE
        return Sharing.SHARED

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        self._workspace.require()
        refuse_unusable_command(str(arguments["command"]))
        if _is_background_call(arguments):
            problem = self._tasks.check_capacity(context.scope.id)
            if problem is not None:
                raise build_refusal(problem)
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        run = self._run_in_background if _is_background_call(arguments) else self._run_in_foreground
        try:
            with ExitStack() as resources:
                return await run(arguments, context, resources)
        except ProcessStartError as problem:
            return build_error_result(str(problem))

    async def _run_in_background(
        self, arguments: JsonObject, context: CallContext, resources: ExitStack
    ) -> ToolResult:
        """Start the command and return its task id.

        The directory in which it ends is ignored: later calls have changed the cwd by then.
        """
        problem = self._tasks.check_capacity(context.scope.id)
        if problem is not None:
            return build_error_result(problem)
        command, lifetime_ms = str(arguments["command"]), self.parse_lifetime_ms(arguments)
        cwd = self._choose_start_directory(context)
        task = self._tasks.create_task(context.scope.id, command)
        output_file = open_output_file(
            resources, self._tasks.folder, self._output_limit, task.output_path.name
        )
        env = build_environment(self._environ, cwd, None)
        child = await start_command(self._children, command, cwd, env, output_file)
        await self._tasks.adopt(
            task, TaskProcess(child, output_file, lifetime_ms, resources.pop_all())
        )
        return bash_background.build_started_result(task, lifetime_ms)

    async def _run_in_foreground(
        self, arguments: JsonObject, context: CallContext, resources: ExitStack
    ) -> ToolResult:
        timeout_ms = self.parse_timeout_ms(arguments)
        started = await self._start_command(str(arguments["command"]), context, resources)
        watch_result = await watch_command(
            started.child, started.output_file, timeout_ms / 1000, context.progress
        )
        timed_out = watch_result is WatchResult.TIMED_OUT
        move_problem = None
        if timed_out and started.task is not None:
            move_problem = self._tasks.check_capacity(context.scope.id)
            if move_problem is None:
                return await self._move_to_background(started, started.task, timeout_ms, resources)
        if watch_result is not WatchResult.ENDED:
            await started.child.stop()
        started.output_file.drain()
        outcome = (
            describe_timeout(timeout_ms, move_problem=move_problem)
            if timed_out
            else _classify_outcome(started)
        )
        stored = await self._store_output(started.output_file, outcome)
        return self._build_result(outcome, started, context, stored)

    async def _store_output(
        self, output_file: OutputFile, outcome: CommandOutcome
    ) -> StoredResult | None:
        """Store output that is too large for memory as a file; return None if it is small."""
        if outcome.failure or output_file.size <= MAX_SUCCESS_BYTES:
            return None
        try:
            return await to_thread.run_sync(self._results.save, output_file.iter_pieces)
        except CannotStore as problem:
            logger.warning("the output of a command was cut: %s", problem)
            return None

    async def _start_command(
        self, command: str, context: CallContext, resources: ExitStack
    ) -> _StartedCommand:
        cwd = self._choose_start_directory(context)
        task = None
        if bash_background.can_move_to_background(command):
            task = self._tasks.create_task(context.scope.id, command)
        report = DirectoryReport(resources, self._scratch)
        env = build_environment(self._environ, cwd, report)
        name = task.output_path.name if task else None
        output_file = open_output_file(resources, self._tasks.folder, self._output_limit, name)
        child = await start_command(self._children, command, cwd, env, output_file)
        return _StartedCommand(command, child, output_file, report, task)

    async def _move_to_background(
        self, started: _StartedCommand, task: BackgroundTask, timeout_ms: int, resources: ExitStack
    ) -> ToolResult:
        output = bash_text.render_output(started.output_file, MAX_FAILURE_BYTES)
        lifetime_ms = self._tasks.lifetime_ms
        process = TaskProcess(started.child, started.output_file, lifetime_ms, resources.pop_all())
        await self._tasks.adopt(task, process)
        return bash_background.build_moved_result(task, timeout_ms, lifetime_ms, output)

    def parse_timeout_ms(self, arguments: JsonObject) -> int:
        default = self._read_milliseconds("BASH_DEFAULT_TIMEOUT_MS", DEFAULT_TIMEOUT_MS)
        maximum = max(default, self._read_milliseconds("BASH_MAX_TIMEOUT_MS", MAX_TIMEOUT_MS))
        return _parse_timeout(arguments, default, maximum)

    def parse_lifetime_ms(self, arguments: JsonObject) -> int:
        """Return how long a command that starts in the background may run."""
        return _parse_timeout(arguments, self._tasks.lifetime_ms, MAX_LIFETIME_MS)

    def _read_milliseconds(self, name: str, default: int) -> int:
        value = self._environ.get(name, "")
        return int(value) if value.isdecimal() and int(value) > 0 else default

    def _choose_start_directory(self, context: CallContext) -> Path:
        cwd = context.scope.cwd
        if cwd is not None and cwd.is_dir() and self._workspace.contains(cwd):
            return cwd
        return self._workspace.require()

    def _build_result(
        self,
        outcome: CommandOutcome,
        started: _StartedCommand,
        context: CallContext,
        stored: StoredResult | None,
    ) -> ToolResult:
        note, changes = self._resolve_directory_change(started.report.read_directory(), context)
        if stored is not None:
            return build_persisted_result(outcome, started.output_file, stored, note, changes)
        limit = MAX_FAILURE_BYTES if outcome.failure else MAX_SUCCESS_BYTES
        output = bash_text.render_output(started.output_file, limit)
        text = "\n".join(part for part in (outcome.failure, output, note) if part)
        wire: JsonObject = {"content": [build_text_block(text)]}
        if outcome.failure:
            wire["isError"] = True
        return ToolResult(wire, outcome.build_response(output), changes, foreign=True)

    def _resolve_directory_change(
        self, reported: Path | None, context: CallContext
    ) -> tuple[str, tuple[DirectoryChanged, ...]]:
        """Return a note for the model and the change of the cwd of the scope."""
        root = self._workspace.require()
        before = context.scope.cwd or root
        if reported is None or reported == before:
            return "", ()
        if self._workspace.contains(reported):
            return "", (DirectoryChanged(reported),)
        changes = () if before == root else (DirectoryChanged(root),)
        return f"Shell cwd was reset to {root}", changes


def _is_background_call(arguments: JsonObject) -> bool:
    return arguments.get("run_in_background") is True


def _parse_timeout(arguments: JsonObject, default: int, maximum: int) -> int:
    timeout = arguments.get("timeout")
    return int(min(timeout, maximum)) if isinstance(timeout, int | float) else default


def _classify_outcome(started: _StartedCommand) -> CommandOutcome:
    """Describe the end of a command that did not time out."""
    if started.output_file.problem is not None:
        return describe_stop(started.output_file.problem)
    if started.child.returncode is None:
        return describe_stop("it does not end, not even when killed")
    return describe_exit(started.command, started.child.returncode)
