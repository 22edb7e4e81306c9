"""`mcp-dispatch doctor`: shows which settings take effect, which do not, and why."""

import json
from collections.abc import Iterable
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
)
from mcp_dispatch.cli.text import wrap_text

if TYPE_CHECKING:
    from mcp_dispatch.cli.doctor_checks import DoctorReport
    from mcp_dispatch.model.json import JsonObject
    from mcp_dispatch.settings.settings import Settings
    from mcp_dispatch.settings.trust_survey import TrustEntry


def doctor(
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    permission_mode: PermissionModeFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
    ask_fallback: AskFallbackFlag = AskFallbackChoice.DENY,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show which settings are read with these flags, what is skipped, and what is wrong.

    Takes the flags of `serve`. Exits with 1 where there are errors, else with 0.
    """
    from mcp_dispatch.app.settings_options import SettingsOptions
    from mcp_dispatch.cli.doctor_checks import run_checks
    from mcp_dispatch.settings.models import PermissionMode
    from mcp_dispatch.settings.problems import Severity

    report = run_checks(
        SettingsOptions(
            workspace=workspace,
            settings=tuple(settings or ()),
            mcp_config=tuple(mcp_config or ()),
            state_dir=state_dir,
            permission_mode=PermissionMode(permission_mode.value) if permission_mode else None,
            claude_settings=claude_settings,
        )
    )
    if as_json:
        print(json.dumps(_to_json(report), indent=2))
    else:
        _print_report(report)
    raise typer.Exit(1 if report.list_texts(Severity.ERROR) else 0)


def _to_json(report: "DoctorReport") -> "JsonObject":
    from mcp_dispatch.settings.problems import Severity

    settings = report.settings
    return {
        "versions": {**report.versions},
        "programs": {**report.programs},
        "workspace": str(report.workspace) if report.workspace else None,
        "configDir": str(report.config_dir),
        "stateDir": str(report.state_dir),
        "mode": report.mode.value,
        "rules": len(settings.rules.texts) if settings else 0,
        "trust": settings.report.trust_status.trust.name.lower() if settings else None,
        "files": [
            {
                "layer": source.layer.kind.value,
                "path": str(source.layer.path),
                "state": source.state.value,
            }
            for source in (settings.report.layer_statuses if settings else ())
        ],
        "withheld": [
            _to_entry_json(each)
            for each in (settings.report.trust_status.withheld if settings else ())
        ],
        "refused": [
            {**_to_entry_json(each.entry), "reason": each.reason}
            for each in (settings.report.refused if settings else ())
        ],
        "errors": [*report.list_texts(Severity.ERROR)],
        "warnings": [*report.list_texts(Severity.WARNING)],
    }


def _to_entry_json(entry: "TrustEntry") -> "JsonObject":
    """Leave out the values of variables and servers: reports are pasted into bug reports."""
    location: JsonObject = {"file": str(entry.file), "line": entry.line, "key": entry.key}
    return {**location, "value": entry.value} if entry.key.startswith("permissions.") else location


def _print_report(report: "DoctorReport") -> None:
    from mcp_dispatch.settings.problems import Severity

    print("  ".join(f"{name} {number}" for name, number in report.versions.items()))
    for name, path in report.programs.items():
        _print_line(f"{name:<11}", path or "not found")
    print()
    _print_line("workspace  ", _format_path(report.workspace))
    _print_line("config     ", _format_path(report.config_dir))
    _print_line("state      ", _format_path(report.state_dir))
    if report.settings is not None:
        _print_line("mode       ", report.mode.value)
        _print_settings(report.settings)
    errors, warnings = report.list_texts(Severity.ERROR), report.list_texts(Severity.WARNING)
    _print_section("Errors", errors)
    _print_section("Warnings", warnings)
    summary = f"{_format_count(len(errors), 'error')}, {_format_count(len(warnings), 'warning')}."
    print(f"\n{summary.capitalize()}")


def _print_settings(settings: "Settings") -> None:
    print("\nSettings files, the one that counts most first")
    for source in settings.report.layer_statuses:
        _print_line(
            f"  {source.layer.kind.value:<14} {source.state.value:<7} ", str(source.layer.path)
        )
    withheld = settings.report.trust_status.withheld
    _print_section(
        f"Off: the workspace {settings.report.trust_status.trust.value}",
        map(_format_entry, withheld),
    )


def _format_entry(entry: "TrustEntry") -> str:
    line = f":{entry.line}" if entry.line else ""
    value = f" {json.dumps(entry.value)}" if entry.key.startswith("permissions.") else ""
    return f"{entry.file}{line}: {entry.key}{value}"


def _print_section(title: str, lines: Iterable[str]) -> None:
    wrapped = [wrap_text("  - ", line) for line in lines]
    if wrapped:
        print(f"\n{title}", *wrapped, sep="\n")


def _print_line(label: str, text: str) -> None:
    print(wrap_text(label, text))


def _format_path(path: Path | None) -> str:
    return "none" if path is None else str(path)


def _format_count(number: int, noun: str) -> str:
    amount = str(number) if number else "no"
    return f"{amount} {noun}" if number == 1 else f"{amount} {noun}s"
