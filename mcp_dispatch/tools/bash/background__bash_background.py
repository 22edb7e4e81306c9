"""What a call is told of its command in the background, and which commands may move there."""

import re
from pathlib import PurePosixPath

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import FileDelivered, ToolResult, text_result
from mcp_dispatch.shell.ast import Unknown
from mcp_dispatch.shell.plain_parser import read
from mcp_dispatch.tools.bash.background import Task
from mcp_dispatch.tools.bash.result import duration

_GIT = re.compile(r"\bgit\b")


def may_move(command: str) -> bool:
    """Whether a late command goes on in the background. The others are ended.

    Nobody waits for a `sleep` that is not waited for, `git` would go on holding its locks, and of
    a command that is not understood nobody knows what it would go on with.
    """
    understood = read(command)
    if isinstance(understood, Unknown):
        return False
    words = [word.value for each in understood.commands for word in each.words]
    if any(_GIT.search(text) for text in (command, *words)):
        return False
    first = understood.commands[0].words
    return not first or PurePosixPath(first[0].value).name != "sleep"


def started(task: Task, life_ms: int) -> ToolResult:
    text = f"Command is running in the background with ID: {task.id}\n{_what_next(task, life_ms)}"
    return _result(task, text, {"stdout": "", "stderr": "", "interrupted": False})


def moved(task: Task, timeout_ms: int, life_ms: int, output: str) -> ToolResult:
    """`output` is what was printed until now."""
    text = (
        f"Command did not complete within its {timeout_ms / 1000:g}s timeout and was moved to the"
        f" background with ID: {task.id}\n{_what_next(task, life_ms)}"
    )
    if output:
        text += f"\nOutput so far:\n{output}"
    return _result(
        task,
        text,
        {"stdout": output, "stderr": "", "interrupted": False, "timedOutAfterMs": timeout_ms},
    )


def _what_next(task: Task, life_ms: int) -> str:
    return (
        f"Output is being written to: {task.output}\n"
        "Read that file to see what it prints; a last line will say how it ended.\n"
        f"It may run for {duration(life_ms / 1000)}; to end it earlier, call TaskStop with"
        f' task_id "{task.id}".'
    )


def _result(task: Task, text: str, response: JsonObject) -> ToolResult:
    return text_result(
        text,
        response={**response, "backgroundTaskId": task.id},
        changes=(FileDelivered(str(task.output)),),
    )
