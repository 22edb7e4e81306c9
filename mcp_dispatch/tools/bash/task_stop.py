"""TaskStop: terminates a background task of the calling scope."""

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Sharing,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration, build_refusal
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.result import format_headline

TASK_STOP_ALIASES = {"KillShell": "TaskStop", "KillBash": "TaskStop"}
"""Former names of the tool, which are still accepted."""

_DECLARATION = ToolDeclaration(
    name="TaskStop",
    title="Stop a background task",
    description=(
        "Stops a command that Bash runs in the background, with everything it started.\n"
        "- Takes the task_id that Bash answered with.\n"
        "- What it has printed stays in its output file."
    ),
    properties={
        "task_id": {"type": "string", "description": "The ID of the task to stop"},
        "shell_id": {"type": "string", "description": "Deprecated: use task_id instead"},
    },
    required=(),
    read_only=False,
    destructive=True,
    idempotent=True,
    open_world=False,
    # It takes a few seconds at most, and a command that received SIGTERM cannot be resumed.
    interrupt=Interrupt.BLOCK,
    result_limit=None,
)


class TaskStopTool(BuiltInTool):
    def __init__(self, tasks: BackgroundTasks) -> None:
        super().__init__(_DECLARATION)
        self._tasks = tasks

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        """Return SHARED: it affects one process that no other call uses, so it need not wait."""
        return Sharing.SHARED

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        ids = [arguments[key] for key in ("task_id", "shell_id") if key in arguments]
        if len(ids) != 1:
            given = "both task_id and shell_id" if ids else "neither task_id nor shell_id"
            raise build_refusal(
                f"expected one ID, got {given}; give the task_id that Bash answered with",
            )
        task_id = str(ids[0])
        if task_id not in {task.id for task in self._tasks.list_running(context.scope.id)}:
            raise build_refusal(self._explain_unknown_task(task_id, context.scope.id))
        return CheckResult({"task_id": task_id})

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        task_id = str(arguments["task_id"])
        task = await self._tasks.stop(context.scope.id, task_id)
        if task is None:
            return build_error_result(self._explain_unknown_task(task_id, context.scope.id))
        text = f"Stopped task {task}. Its output is in {task.output_path}"
        response: JsonObject = {
            "message": text,
            "task_id": task.id,
            "task_type": "local_bash",
            "command": task.command,
        }
        return build_text_result(text, response=response)

    def _explain_unknown_task(self, task_id: str, scope_id: str) -> str:
        """Return one message for all cases: it must not disclose the tasks of other scopes."""
        running = ", ".join(map(str, self._tasks.list_running(scope_id)))
        return (
            f"no task with the ID {format_headline(task_id)!r} is running: it has ended, or never was one"
            f" of yours; {f'running now: {running}' if running else 'none is running now'}"
        )
