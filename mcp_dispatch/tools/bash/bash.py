"""Bash: one command in a shell of its own, with a deadline and all that it started in hand."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from anyio import to_thread

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    DirectoryChanged,
    Interrupt,
    Sharing,
    ToolResult,
    error_result,
)
from mcp_dispatch.processes.child import CannotStart, Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.output_file import Recording
from mcp_dispatch.results.store import CannotKeep, Kept, ResultStore
from mcp_dispatch.shell.analyze import is_read_only
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.bash import background as bash_background
from mcp_dispatch.tools.bash import result as bash_text
from mcp_dispatch.tools.bash.background import LIFE_MS, LONGEST_LIFE_MS, BackgroundTasks, Job, Task
from mcp_dispatch.tools.bash.process import (
    DirectoryReport,
    Watched,
    environment,
    open_recording,
    refuse_what_bash_cannot_take,
    start,
    watch,
)
from mcp_dispatch.tools.bash.result import Ending, ended, persisted_result, stopped, timed_out

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
INLINE_CHARACTERS = 30_000
SUCCESS_BYTES = 2_000_000
FAILURE_BYTES = 10_000
OUTPUT_LIMIT = 5_000_000_000

_DECLARATION = Declaration(
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
        f" it may live (default {LIFE_MS:,}, at most {LONGEST_LIFE_MS:,}).\n"
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
    result_limit=INLINE_CHARACTERS,
)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A command that somebody waits for. `task` is what it becomes when it is late, if it may."""

    command: str
    child: Child
    recording: Recording
    report: DirectoryReport
    task: Task | None


class Bash(BuiltIn):
    """`environ` is the server's environment, of which commands see all but our own variables.

    `tasks` is shared with TaskStop, and by every Bash that is made while the server runs.
    """

    def __init__(
        self,
        workspace: Workspace,
        children: Children,
        scratch: Path,
        environ: Mapping[str, str],
        tasks: BackgroundTasks,
        results: ResultStore,
        *,
        output_limit: int = OUTPUT_LIMIT,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._children = children
        self._scratch = scratch
        self._environ = dict(environ)
        self._tasks = tasks
        self._results = results
        self._output_limit = output_limit

    def sharing(self, arguments: JsonObject) -> Sharing:
        """What only looks runs beside others."""
        root, command = self._workspace.root, str(arguments["command"])
        if root is None or _wants_background(arguments) or not is_read_only(command, root):
            return Sharing.EXCLUSIVE
        return Sharing.SHARED

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        self._workspace.require()
        refuse_what_bash_cannot_take(str(arguments["command"]))
        full = self._tasks.full(context.scope.id) if _wants_background(arguments) else None
        if full is not None:
            raise Refused(RefusedBy.SEMANTIC, full)
        return Checked(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        run = self._in_background if _wants_background(arguments) else self._in_foreground
        try:
            with ExitStack() as opened:
                return await run(arguments, context, opened)
        except CannotStart as problem:
            return error_result(str(problem))

    async def _in_background(
        self, arguments: JsonObject, context: CallContext, opened: ExitStack
    ) -> ToolResult:
        """The directory that the command ends in is not kept: others have moved on by then."""
        full = self._tasks.full(context.scope.id)
        if full is not None:
            return error_result(full)
        command, life_ms = str(arguments["command"]), self.life_ms(arguments)
        cwd = self._start_directory(context)
        task = self._tasks.draft(context.scope.id, command)
        recording = open_recording(opened, self._tasks.folder, self._output_limit, task.output.name)
        env = environment(self._environ, cwd, None)
        child = await start(self._children, command, cwd, env, recording)
        await self._tasks.adopt(task, Job(child, recording, life_ms, opened.pop_all()))
        return bash_background.started(task, life_ms)

    async def _in_foreground(
        self, arguments: JsonObject, context: CallContext, opened: ExitStack
    ) -> ToolResult:
        timeout_ms = self.timeout_ms(arguments)
        begun = await self._begin(str(arguments["command"]), context, opened)
        watched = await watch(begun.child, begun.recording, timeout_ms / 1000, context.progress)
        full = self._tasks.full(context.scope.id) if watched is Watched.LATE else None
        if watched is Watched.LATE and begun.task is not None and full is None:
            return await self._move(begun, begun.task, timeout_ms, opened)
        if watched is not Watched.ENDED:
            await begun.child.stop()
        begun.recording.settle()
        if watched is Watched.LATE:
            ending = timed_out(timeout_ms, not_moved=full if begun.task else None)
        else:
            ending = _ending(begun)
        kept = await self._kept(begun.recording, ending)
        return self._result(ending, begun, context, kept)

    async def _kept(self, recording: Recording, ending: Ending) -> Kept | None:
        """What is too much to be held in memory goes from file to file, whole."""
        if ending.failure or recording.size <= SUCCESS_BYTES:
            return None
        try:
            return await to_thread.run_sync(self._results.keep, recording.pieces)
        except CannotKeep as problem:
            logger.warning("the output of a command was cut: %s", problem)
            return None

    async def _begin(self, command: str, context: CallContext, opened: ExitStack) -> _Begun:
        cwd = self._start_directory(context)
        movable = bash_background.may_move(command)
        task = self._tasks.draft(context.scope.id, command) if movable else None
        report = DirectoryReport(opened, self._scratch)
        env = environment(self._environ, cwd, report)
        name = task.output.name if task else None
        recording = open_recording(opened, self._tasks.folder, self._output_limit, name)
        child = await start(self._children, command, cwd, env, recording)
        return _Begun(command, child, recording, report, task)

    async def _move(
        self, begun: _Begun, task: Task, timeout_ms: int, opened: ExitStack
    ) -> ToolResult:
        output, life_ms = bash_text.shown(begun.recording, FAILURE_BYTES), self._tasks.life_ms
        job = Job(begun.child, begun.recording, life_ms, opened.pop_all())
        await self._tasks.adopt(task, job)
        return bash_background.moved(task, timeout_ms, life_ms, output)

    def timeout_ms(self, arguments: JsonObject) -> int:
        default = self._milliseconds("BASH_DEFAULT_TIMEOUT_MS", DEFAULT_TIMEOUT_MS)
        ceiling = max(default, self._milliseconds("BASH_MAX_TIMEOUT_MS", MAX_TIMEOUT_MS))
        return _asked_for(arguments, default, ceiling)

    def life_ms(self, arguments: JsonObject) -> int:
        """How long a command may live that starts in the background."""
        return _asked_for(arguments, self._tasks.life_ms, LONGEST_LIFE_MS)

    def _milliseconds(self, name: str, otherwise: int) -> int:
        value = self._environ.get(name, "")
        return int(value) if value.isdecimal() and int(value) > 0 else otherwise

    def _start_directory(self, context: CallContext) -> Path:
        cwd = context.scope.cwd
        usable = cwd is not None and cwd.is_dir() and self._workspace.contains(cwd)
        return cwd if cwd is not None and usable else self._workspace.require()

    def _result(
        self, ending: Ending, begun: _Begun, context: CallContext, kept: Kept | None
    ) -> ToolResult:
        note, changes = self._directory_after(begun.report.directory(), context)
        if kept is not None:
            return persisted_result(ending, begun.recording, kept, note, changes)
        limit = FAILURE_BYTES if ending.failure else SUCCESS_BYTES
        output = bash_text.shown(begun.recording, limit)
        text = "\n".join(part for part in (ending.failure, output, note) if part)
        wire: JsonObject = {"content": [{"type": "text", "text": text}]}
        if ending.failure:
            wire["isError"] = True
        return ToolResult(wire, ending.response(output), changes, foreign=True)

    def _directory_after(
        self, reported: Path | None, context: CallContext
    ) -> tuple[str, tuple[DirectoryChanged, ...]]:
        """What to say of the directory a command ended in, and where the next one starts."""
        root = self._workspace.require()
        before = context.scope.cwd or root
        if reported is None or reported == before:
            return "", ()
        if self._workspace.contains(reported):
            return "", (DirectoryChanged(reported),)
        changes = () if before == root else (DirectoryChanged(root),)
        return f"Shell cwd was reset to {root}", changes


def _wants_background(arguments: JsonObject) -> bool:
    return arguments.get("run_in_background") is True


def _asked_for(arguments: JsonObject, default: int, ceiling: int) -> int:
    asked = arguments.get("timeout")
    return int(min(asked, ceiling)) if isinstance(asked, int | float) else default


def _ending(begun: _Begun) -> Ending:
    """Of a command that was in time."""
    if begun.recording.problem is not None:
        return stopped(begun.recording.problem)
    if begun.child.returncode is None:
        return stopped("it does not end, not even when killed")
    return ended(begun.command, begun.child.returncode)
