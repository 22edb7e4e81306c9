"""`mcp-dispatch trust`: shows what a workspace asks for, and grants it to that workspace."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mcp_dispatch.cli.text import escape_non_ascii

if TYPE_CHECKING:
    from mcp_dispatch.settings.trust import TrustStatus
    from mcp_dispatch.settings.trust_survey import TrustEntry, TrustSurvey


WIDTH = 78

WorkspaceArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The workspace, as in `serve --workspace DIR`.")
]


def trust(
    directory: WorkspaceArgument,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask: whoever runs this has read the files.")
    ] = False,
    claude_settings: Annotated[
        bool,
        typer.Option(
            "--claude-settings", help="Look at Claude Code's files in the workspace, too."
        ),
    ] = False,
) -> None:
    """Show what a workspace's own settings would change, and let them.

    Until then its deny and ask rules hold, and nothing else of them. What is added later is off
    until you have run this again.
    """
    from mcp_dispatch.settings.layers import build_sources, locate_own_file
    from mcp_dispatch.settings.settings import inspect_layers, list_workspace_layers
    from mcp_dispatch.settings.trust import (
        build_confirmed_record,
        evaluate_trust,
        read_record,
        write_record,
    )

    refuse_to_models("trust")
    root = resolve_directory(directory)
    sources = build_sources(os.environ, include_claude=claude_settings)
    layers = list_workspace_layers(sources, root)
    files = [layer.path for layer in layers]
    survey, problems = inspect_layers(layers)
    before, record_problems = read_record(sources.config_dir, root)
    status = evaluate_trust(before, survey, files)
    print(f"Workspace {escape_non_ascii(str(root))}")
    _print_problems([*problems, *record_problems])
    _print_survey(root, survey, status, locate_own_file(sources.config_dir, root))
    if not _needs_confirmation(status, first=before is None):
        raise typer.Exit
    if not yes:
        _confirm()
    # Exactly what was shown, even if the files have changed since.
    try:
        write_record(sources.config_dir, build_confirmed_record(before, root, survey, files))
    except OSError as error:
        fail(f"cannot write to {sources.config_dir}: {error.strerror}")
    print("\nTrusted. A server that is running takes it over within seconds.")


def refuse_to_models(command: str) -> None:
    """Fail in a process that the server started, so that a model cannot approve its own calls."""
    from mcp_dispatch.processes.kill_tree import MARKER_VARIABLE

    if MARKER_VARIABLE in os.environ:
        fail(f"`{command}` is for a person, and this is a process that mcp-dispatch started")


def resolve_directory(directory: Path) -> Path:
    try:
        root = directory.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        fail(f"{directory}: {reason}")
    if not root.is_dir():
        fail(f"{directory}: not a directory")
    return root


def fail(message: str) -> NoReturn:
    print(f"mcp-dispatch: {message}", file=sys.stderr)
    raise typer.Exit(1)


def format_entry(entry: "TrustEntry", root: Path) -> str:
    """Format one entry in full length, because a hidden end could be what matters."""
    file = entry.file.relative_to(root) if entry.file.is_relative_to(root) else entry.file
    line = f":{entry.line}" if entry.line else ""
    value = json.dumps(entry.value)
    return f"{escape_non_ascii(str(file))}{line}  {escape_non_ascii(entry.key)}  {value}"


def _print_survey(root: Path, survey: "TrustSurvey", status: "TrustStatus", own_file: Path) -> None:
    from mcp_dispatch.settings.trust import Trust

    headings = {
        Trust.NOT_NEEDED: "",
        Trust.UNTRUSTED: "asks for this, which is off:",
        Trust.TRUSTED: "",
        Trust.CHANGED: "asks for this since you trusted it; it is off:",
        Trust.LOOSENED: "asks for this; all of it is off, because guards are gone:",
    }
    _print_list(headings[status.trust], [format_entry(entry, root) for entry in status.withheld])
    kept = [format_entry(entry, root) for entry in survey.grants if entry in status.granted]
    _print_list("has this, as you confirmed:", kept)
    _print_list(
        "no longer asks for:", [format_entry(entry, root) for entry in status.removed_grants]
    )
    _print_list(
        "no longer has these guards:",
        [format_entry(entry, root) for entry in status.missing_guards],
    )
    _print_list(
        "cannot have this, trusted or not:",
        [f"{format_entry(each.entry, root)}\n{each.reason}" for each in survey.refused],
    )
    if survey.refused:
        print(f"  Your own settings for this workspace:\n    {escape_non_ascii(str(own_file))}")
    if status.trust is Trust.NOT_NEEDED:
        print("\nIt asks for nothing that needs trust. Its deny and ask rules hold anyway.")


def _print_list(heading: str, entries: Sequence[str]) -> None:
    if not entries:
        return
    print(f"\n  {heading}")
    for entry in entries:
        first, *more = entry.split("\n")
        print(_wrap(first, "    "))
        for line in more:
            print(_wrap(line, "        "))


def _print_problems(problems: Iterable[object]) -> None:
    for problem in problems:
        print(_wrap(f"! {escape_non_ascii(str(problem))}", "  "))


def _needs_confirmation(status: "TrustStatus", *, first: bool) -> bool:
    from mcp_dispatch.settings.trust import Trust

    if status.trust in (Trust.UNTRUSTED, Trust.CHANGED, Trust.LOOSENED):
        return True
    if first:
        return False
    if status.removed_grants or status.missing_guards:
        return True
    print("\nIt is trusted as it is; nothing has changed.")
    return False


def _confirm() -> None:
    if not sys.stdin.isatty():
        fail("nothing was changed: there is no terminal to ask on; add --yes once you have read it")
    print("\nIts hooks and servers are programs: they will run as you, with your files.")
    if not typer.confirm("Trust this workspace with everything above?", default=False):
        fail("nothing was changed")


def _wrap(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=False,
    )


def untrust(directory: WorkspaceArgument) -> None:
    """Take back the trust in a workspace. Its deny and ask rules still hold."""
    from mcp_dispatch.settings.layers import find_user_config_dir
    from mcp_dispatch.settings.trust import remove_record

    refuse_to_models("untrust")
    root = _resolve_leniently(directory)
    try:
        was_trusted = remove_record(find_user_config_dir(os.environ), root)
    except OSError as error:
        fail(f"cannot take back the trust in {root}: {error.strerror}")
    if was_trusted:
        print(f"{escape_non_ascii(str(root))} is no longer trusted.")
    else:
        print(f"{escape_non_ascii(str(root))} was not trusted.")


def _resolve_leniently(directory: Path) -> Path:
    """Resolve the directory, which may not exist any more."""
    try:
        return directory.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        fail(f"{directory}: {error}")
