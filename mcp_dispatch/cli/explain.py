"""`mcp-dispatch explain`: shows how the rules decide about a call, without running it."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import (
    AskFallbackChoice,
    AskFallbackFlag,
    ClaudeSettingsFlag,
    McpConfigFlag,
    PermissionModeFlag,
    SettingsFlag,
    StateDirFlag,
    WorkspaceFlag,
    exit_with_usage_error,
)
from mcp_dispatch.cli.text import wrap_text

if TYPE_CHECKING:
    from mcp_dispatch.cli.explanation import RuleExplainer


def explain(
    tool: Annotated[
        str | None,
        typer.Argument(help="The tool: Bash, Edit, mcp__server__tool, … or short: 'Bash(ls -l)'."),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Argument(metavar="[JSON]", help="Its arguments, as a JSON object."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    batch: Annotated[
        Path | None,
        typer.Option(
            "--batch",
            metavar="FILE",
            help='Judge every line {"id": …, "tool": …, "input": {…}} of FILE (- for standard '
            "input), and print one line of JSON for each.",
        ),
    ] = None,
    test: Annotated[
        bool,
        typer.Option("--test", help="Run the examples in dispatch.ruleTests instead."),
    ] = False,
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    permission_mode: PermissionModeFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
    ask_fallback: AskFallbackFlag = AskFallbackChoice.DENY,
) -> None:
    """Show what would become of a call: the decision, and every vote with its file and line.

    Takes the flags of `serve`. Nothing is run: no tool, no hook, no server.
    """
    from mcp_dispatch.app.settings_options import SettingsOptions
    from mcp_dispatch.cli.explanation import load_explainer
    from mcp_dispatch.model.errors import StartError
    from mcp_dispatch.settings.models import PermissionMode

    modes = [tool is not None, batch is not None, test]
    if sum(modes) != 1 or (arguments is not None and tool is None):
        exit_with_usage_error(
            "give a tool with its arguments, or --batch FILE, or --test; and only one of them"
        )
    try:
        explainer = load_explainer(
            SettingsOptions(
                workspace=workspace,
                settings=tuple(settings or ()),
                mcp_config=tuple(mcp_config or ()),
                state_dir=state_dir,
                permission_mode=PermissionMode(permission_mode.value) if permission_mode else None,
                claude_settings=claude_settings,
            )
        )
    except StartError as error:
        exit_with_usage_error(str(error))
    if batch is not None:
        _answer_batch(batch, explainer)
    elif test:
        raise typer.Exit(_run_rule_tests(explainer, as_json=as_json))
    else:
        _explain_one(str(tool), arguments, explainer, as_json=as_json)


def _explain_one(
    tool: str, arguments: str | None, explainer: "RuleExplainer", *, as_json: bool
) -> None:
    from mcp_dispatch.cli.explanation import InvalidCallError, format_verdict, to_verdict_json

    try:
        call = explainer.parse_call(tool, arguments)
        verdict = explainer.judge(call)
    except InvalidCallError as error:
        exit_with_usage_error(str(error))
    if as_json:
        print(json.dumps(to_verdict_json(verdict), indent=2))
    else:
        print(format_verdict(verdict, explainer.suggest_allow_line(call)))


def _answer_batch(file: Path, explainer: "RuleExplainer") -> None:
    from mcp_dispatch.cli.explanation import answer_line

    try:
        for line in _read_lines(file):
            if line.strip():
                print(json.dumps(answer_line(line, explainer)), flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe, so the rest of the buffer must not be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        exit_with_usage_error(f"--batch {file}: {error.strerror}")


def _read_lines(file: Path) -> Iterable[bytes]:
    if str(file) == "-":
        return sys.stdin.buffer
    return _iter_file_lines(file)


def _iter_file_lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def _run_rule_tests(explainer: "RuleExplainer", *, as_json: bool) -> int:
    from mcp_dispatch.cli.explanation import to_failure_json

    failed = explainer.find_failures()
    if as_json:
        result = {
            "tests": explainer.test_count,
            "failed": [to_failure_json(each) for each in failed],
        }
        print(json.dumps(result, indent=2))
        return 1 if failed else 0
    for each in failed:
        print(wrap_text("  - ", str(each.problem)))
    print(f"{explainer.test_count - len(failed)} of {explainer.test_count} rule tests hold.")
    return 1 if failed else 0
