"""`mcp-dispatch call`: one call of one tool through the whole pipeline, from a shell."""

import json
import secrets
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import (
    ClaudeSettingsFlag,
    McpConfigFlag,
    PermissionModeFlag,
    SettingsFlag,
    StateDirFlag,
    WorkspaceFlag,
    exit_with_usage_error,
    run_with_app,
)
from mcp_dispatch.cli.trust import refuse_to_models

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.model.calls import Outcome
    from mcp_dispatch.model.json import JsonObject

_EXIT_FAILED = 1


def call(
    tool: Annotated[
        str, typer.Argument(help="As it is listed (Read, server__tool), or mcp__server__tool.")
    ],
    arguments: Annotated[
        str,
        typer.Argument(
            metavar="[JSON]", help="Its arguments, as a JSON object; - reads standard input."
        ),
    ] = "{}",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result whole, as a client would get it.")
    ] = False,
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    permission_mode: PermissionModeFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
) -> None:
    """Call one tool as a client of `serve` would, and print what it answers.

    Takes the flags of `serve`: arguments are checked, hooks run, rules decide, the journal has it.
    Where a rule wants a question asked, it is asked here if this is a terminal, and else denied.
    Exits with 1 where the tool fails or the call is refused, with 2 where it cannot be made.
    """
    from mcp_dispatch.app.app import AppOptions
    from mcp_dispatch.settings.models import PermissionMode

    refuse_to_models("call")
    given = _read_arguments(arguments)
    options = AppOptions(
        workspace=workspace,
        settings=tuple(settings or ()),
        mcp_config=tuple(mcp_config or ()),
        state_dir=state_dir,
        permission_mode=PermissionMode(permission_mode.value) if permission_mode else None,
        claude_settings=claude_settings,
    )

    async def run_call(app: "App") -> "Outcome":
        return await _call_tool(app, tool, given)

    outcome = run_with_app(options, state_dir, run_call)
    raise typer.Exit(_print_outcome(tool, outcome, as_json=as_json))


def _read_arguments(arguments: str) -> "JsonObject":
    from mcp_dispatch.wire.codec import Undecodable, decode

    text = sys.stdin.buffer.read() if arguments == "-" else arguments.encode(errors="replace")
    try:
        given = decode(text)
    except Undecodable as error:
        exit_with_usage_error(f"the arguments are not JSON: {error}")
    if not isinstance(given, dict):
        exit_with_usage_error(
            f'the arguments must be a JSON object such as {{"key": 1}}, got {arguments[:60]!r}'
        )
    return given


async def _call_tool(app: "App", tool: str, arguments: "JsonObject") -> "Outcome":
    from mcp_dispatch.cli.prompt import TerminalCaller
    from mcp_dispatch.model.calls import ToolCall

    call_id = secrets.token_hex(8)
    await app.wait_for_tool(tool)
    call = app.dispatcher.unwrap_call_tool(ToolCall(call_id, call_id, tool, arguments))
    return await app.dispatcher.dispatch(call, app.scope, TerminalCaller())


def _print_outcome(tool: str, outcome: "Outcome", *, as_json: bool) -> int:
    """Print the result to stdout, or the error to stderr. Return the exit code."""
    from mcp_dispatch.library.anthropic_blocks import render_as_text
    from mcp_dispatch.model.outcome import strip_error_tags

    text, failed = render_as_text(tool, outcome)
    if as_json:
        print(json.dumps(_to_wire(outcome, text), indent=2))
    if failed:
        _write_text(strip_error_tags(text), error=True)
    elif not as_json:
        _write_text(text)
    return _EXIT_FAILED if failed else 0


def _to_wire(outcome: "Outcome", text: str) -> "JsonObject":
    from mcp_dispatch.model.calls import Completed
    from mcp_dispatch.model.outcome import ProtocolError
    from mcp_dispatch.model.tools import build_error_result

    match outcome:
        case Completed():
            return outcome.wire
        case ProtocolError():
            error: JsonObject = {"code": outcome.code, "message": outcome.message}
            return {"error": {**error, "data": outcome.data} if outcome.data is not None else error}
        case _:
            return build_error_result(text).wire


def _write_text(text: str, *, error: bool = False) -> None:
    """Escape control characters on a terminal, where they could hide output; not in a file."""
    from mcp_dispatch.model.text import escape_control_characters

    stream = sys.stderr if error else sys.stdout
    if stream.isatty():
        text = "\t".join(map(escape_control_characters, text.split("\t")))
    end = "" if text.endswith("\n") or not text else "\n"
    stream.flush()
    stream.buffer.write(f"{text}{end}".encode(errors="backslashreplace"))
    stream.buffer.flush()
