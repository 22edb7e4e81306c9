"""`mcp-dispatch doctor`: which settings hold, which do not, and why."""

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import (
    ClaudeSettingsFlag,
    Fallback,
    FallbackFlag,
    McpConfigFlag,
    ModeFlag,
    SettingsFlag,
    StateDirFlag,
    WorkspaceFlag,
)

if TYPE_CHECKING:
    from mcp_dispatch.cli.doctor_checks import Checkup
    from mcp_dispatch.model.json import JsonObject
    from mcp_dispatch.settings.settings import Settings
    from mcp_dispatch.settings.trust_survey import Entry

WIDTH = 80


def doctor(
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    permission_mode: ModeFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
    ask_fallback: FallbackFlag = Fallback.DENY,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which settings are read with these flags, what is skipped, and what is wrong.

    Takes the flags of `serve`. Exits with 1 where there are errors, else with 0.
    """
    from mcp_dispatch.cli.doctor_checks import Wanted, examine
    from mcp_dispatch.settings.models import PermissionMode
    from mcp_dispatch.settings.problems import Severity

    checkup = examine(
        Wanted(
            workspace=workspace,
            settings=tuple(settings or ()),
            mcp_config=tuple(mcp_config or ()),
            state_dir=state_dir,
            permission_mode=PermissionMode(permission_mode.value) if permission_mode else None,
            claude_settings=claude_settings,
        )
    )
    if as_json:
        print(json.dumps(_document(checkup), indent=2))
    else:
        _print(checkup)
    raise typer.Exit(1 if checkup.texts(Severity.ERROR) else 0)


def _document(checkup: "Checkup") -> "JsonObject":
    from mcp_dispatch.settings.problems import Severity

    settings = checkup.settings
    return {
        "versions": {**checkup.versions},
        "programs": {**checkup.programs},
        "workspace": str(checkup.workspace) if checkup.workspace else None,
        "configDir": str(checkup.config_dir),
        "stateDir": str(checkup.state_dir),
        "mode": checkup.mode.value,
        "rules": len(settings.rules) if settings else 0,
        "trust": settings.standing.trust.name.lower() if settings else None,
        "files": [
            {
                "layer": source.layer.kind.value,
                "path": str(source.layer.path),
                "state": source.state.value,
            }
            for source in (settings.sources if settings else ())
        ],
        "withheld": [_entry(each) for each in (settings.standing.withheld if settings else ())],
        "refused": [
            {**_entry(each.entry), "reason": each.reason}
            for each in (settings.refused if settings else ())
        ],
        "errors": [*checkup.texts(Severity.ERROR)],
        "warnings": [*checkup.texts(Severity.WARNING)],
    }


def _entry(entry: "Entry") -> "JsonObject":
    """Of variables and servers not the value: this is what people paste into bug reports."""
    named: JsonObject = {"file": str(entry.file), "line": entry.line, "key": entry.key}
    return {**named, "value": entry.value} if entry.key.startswith("permissions.") else named


def _print(checkup: "Checkup") -> None:
    from mcp_dispatch.settings.problems import Severity

    print("  ".join(f"{name} {number}" for name, number in checkup.versions.items()))
    for name, place in checkup.programs.items():
        _line(f"{name:<11}", place or "not found")
    print()
    _line("workspace  ", _shown(checkup.workspace))
    _line("config     ", _shown(checkup.config_dir))
    _line("state      ", _shown(checkup.state_dir))
    if checkup.settings is not None:
        _line("mode       ", checkup.mode.value)
        _print_settings(checkup.settings)
    errors, warnings = checkup.texts(Severity.ERROR), checkup.texts(Severity.WARNING)
    _section("Errors", errors)
    _section("Warnings", warnings)
    counted = f"{_count(len(errors), 'error')}, {_count(len(warnings), 'warning')}."
    print(f"\n{counted.capitalize()}")


def _print_settings(settings: "Settings") -> None:
    print("\nSettings files, the one that counts most first")
    for source in settings.sources:
        _line(f"  {source.layer.kind.value:<14} {source.state.value:<7} ", str(source.layer.path))
    withheld = settings.standing.withheld
    _section(f"Off: the workspace {settings.standing.trust.value}", map(_place, withheld))


def _place(entry: "Entry") -> str:
    line = f":{entry.line}" if entry.line else ""
    value = f" {json.dumps(entry.value)}" if entry.key.startswith("permissions.") else ""
    return f"{entry.file}{line}: {entry.key}{value}"


def _section(title: str, lines: Iterable[str]) -> None:
    wrapped = [_wrapped("  - ", line) for line in lines]
    if wrapped:
        print(f"\n{title}", *wrapped, sep="\n")


def _line(label: str, text: str) -> None:
    print(_wrapped(label, text))


def _wrapped(label: str, text: str) -> str:
    from mcp_dispatch.cli.trust import plain

    return textwrap.fill(
        plain(text),
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_on_hyphens=False,
        break_long_words=False,  # a path is there to be copied
    )


def _shown(path: Path | None) -> str:
    return "none" if path is None else str(path)


def _count(number: int, noun: str) -> str:
    amount = str(number) if number else "no"
    return f"{amount} {noun}" if number == 1 else f"{amount} {noun}s"
