"""`mcp-dispatch trust`: shows what a workspace asks for, and grants it to that workspace."""

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from mcp_dispatch.settings.trust import Standing
    from mcp_dispatch.settings.trust_survey import Entry, Survey


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
    from mcp_dispatch.settings.layers import own_file, sources_from
    from mcp_dispatch.settings.settings import survey_layers, workspace_layers
    from mcp_dispatch.settings.trust import confirmed, read_record, standing, write_record

    refuse_to_models("trust")
    root = real_directory(directory)
    sources = sources_from(os.environ, claude=claude_settings)
    layers = workspace_layers(sources, root)
    files = [layer.path for layer in layers]
    found, problems = survey_layers(layers)
    before, broken = read_record(sources.config_dir, root)
    stand = standing(before, found, files)
    print(f"Workspace {plain(str(root))}")
    _warn([*problems, *broken])
    _show(root, found, stand, own_file(sources.config_dir, root))
    if not _needs_a_person(stand, first=before is None):
        raise typer.Exit
    if not yes:
        _ask()
    # Exactly what was shown, whatever the files say by now.
    try:
        write_record(sources.config_dir, confirmed(before, root, found, files))
    except OSError as error:
        fail(f"cannot write to {sources.config_dir}: {error.strerror}")
    print("\nTrusted. A server that is running takes it over within seconds.")


def refuse_to_models(command: str) -> None:
    """Whatever the server has started carries its mark: a model must not approve itself."""
    from mcp_dispatch.processes.kill_tree import MARKER

    if MARKER in os.environ:
        fail(f"`{command}` is for a person, and this is a process that mcp-dispatch started")


def real_directory(directory: Path) -> Path:
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


def plain(text: str) -> str:
    """Without characters that could hide or rearrange what is shown."""
    return json.dumps(text)[1:-1].replace('\\"', '"')


def shown(entry: "Entry", root: Path) -> str:
    """One entry, whole: what is cut off could be what matters."""
    file = entry.file.relative_to(root) if entry.file.is_relative_to(root) else entry.file
    line = f":{entry.line}" if entry.line else ""
    value = json.dumps(entry.value)
    return f"{plain(str(file))}{line}  {plain(entry.key)}  {value}"


def _show(root: Path, found: "Survey", stand: "Standing", own: Path) -> None:
    from mcp_dispatch.settings.trust import Trust

    headings = {
        Trust.NOT_NEEDED: "",
        Trust.UNTRUSTED: "asks for this, which is off:",
        Trust.TRUSTED: "",
        Trust.CHANGED: "asks for this since you trusted it; it is off:",
        Trust.LOOSENED: "asks for this; all of it is off, because guards are gone:",
    }
    _list(headings[stand.trust], [shown(entry, root) for entry in stand.withheld])
    kept = [shown(entry, root) for entry in found.grants if entry in stand.granted]
    _list("has this, as you confirmed:", kept)
    _list("no longer asks for:", [shown(entry, root) for entry in stand.gone])
    _list("no longer has these guards:", [shown(entry, root) for entry in stand.missing_guards])
    _list(
        "cannot have this, trusted or not:",
        [f"{shown(each.entry, root)}\n{each.reason}" for each in found.refused],
    )
    if found.refused:
        print(f"  Your own settings for this workspace:\n    {plain(str(own))}")
    if stand.trust is Trust.NOT_NEEDED:
        print("\nIt asks for nothing that needs trust. Its deny and ask rules hold anyway.")


def _list(heading: str, entries: Sequence[str]) -> None:
    if not entries:
        return
    print(f"\n  {heading}")
    for entry in entries:
        first, *more = entry.split("\n")
        print(_wrapped(first, "    "))
        for line in more:
            print(_wrapped(line, "        "))


def _warn(problems: Iterable[object]) -> None:
    for problem in problems:
        print(_wrapped(f"! {plain(str(problem))}", "  "))


def _needs_a_person(stand: "Standing", *, first: bool) -> bool:
    from mcp_dispatch.settings.trust import Trust

    if stand.trust in (Trust.UNTRUSTED, Trust.CHANGED, Trust.LOOSENED):
        return True
    if first:
        return False
    if stand.gone or stand.missing_guards:
        return True
    print("\nIt is trusted as it is; nothing has changed.")
    return False


def _ask() -> None:
    if not sys.stdin.isatty():
        fail("nothing was changed: there is no terminal to ask on; add --yes once you have read it")
    print("\nIts hooks and servers are programs: they will run as you, with your files.")
    if not typer.confirm("Trust this workspace with everything above?", default=False):
        fail("nothing was changed")


def _wrapped(text: str, indent: str) -> str:
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
    from mcp_dispatch.settings.layers import user_config_dir
    from mcp_dispatch.settings.trust import remove_record

    refuse_to_models("untrust")
    root = _real(directory)
    try:
        was_trusted = remove_record(user_config_dir(os.environ), root)
    except OSError as error:
        fail(f"cannot take back the trust in {root}: {error.strerror}")
    if was_trusted:
        print(f"{plain(str(root))} is no longer trusted.")
    else:
        print(f"{plain(str(root))} was not trusted.")


def _real(directory: Path) -> Path:
    """The directory may be gone already: what remains of its path is taken as it is."""
    try:
        return directory.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        fail(f"{directory}: {error}")
