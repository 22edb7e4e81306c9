"""`mcp-dispatch results`: lists, shows and removes the results that are kept in files."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import SettingsFlag, StateDirFlag
from mcp_dispatch.cli.trust import fail, refuse_to_models

if TYPE_CHECKING:
    from mcp_dispatch.results.retention import PruneResult, ResultFile, Retention

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]

app = typer.Typer(
    name="results",
    help="Results that were too large for their model, and are kept in files.",
    no_args_is_help=True,
)


@app.command("list")
def list_results(state_dir: StateDirFlag = None, as_json: JsonFlag = False) -> None:
    """List the kept results, the most recently used first."""
    results = _load_results(_open_directory(state_dir))
    if as_json:
        print(json.dumps([_to_json(each) for each in results], indent=2))
        return
    if not results:
        print("No results are kept.")
        return
    from mcp_dispatch.results.preview import format_size

    print(f"{'id':<32}  {'size':>9}  {'last used':<16}  kind")
    for each in results:
        size, kind = format_size(each.size), each.path.suffix.removeprefix(".")
        print(f"{each.id:<32}  {size:>9}  {_format_time(each.last_used, ' '):<16}  {kind}")
    print(f"{len(results)} results, {format_size(sum(each.size for each in results))}")


@app.command()
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id, or enough of its beginning.")],
    raw: Annotated[
        bool, typer.Option("--raw", help="The bytes as they are, for a file or another program.")
    ] = False,
    state_dir: StateDirFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Print one kept result. Characters that could fool a terminal are shown as escapes."""
    refuse_to_models("results show")
    from mcp_dispatch.results.pages import is_text

    result = _find_result(id, _load_results(_open_directory(state_dir)))
    if as_json:
        print(json.dumps(_to_json(result), indent=2))
    elif raw:
        _copy_bytes(result.path)
    elif is_text(result.path):
        _print_text(result.path)
    else:
        print(f"{result.path} is not text ({result.size} bytes); --raw gives its bytes.")


@app.command()
def prune(
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", metavar="DAYS", min=0, help="Instead of retentionDays."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", metavar="BYTES", min=0, help="Instead of maxTotalBytes."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove every one.")] = False,
    settings: SettingsFlag = None,
    state_dir: StateDirFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove kept results now, as a running server does by itself: what is older than
    `dispatch.results.retentionDays`, and the oldest of what is more than `maxTotalBytes`.

    A result that somebody is reading at this moment stays.
    """
    refuse_to_models("results prune")
    from mcp_dispatch.results.retention import Retention, remove_all
    from mcp_dispatch.results.retention import prune as prune_directory

    directory = _open_directory(state_dir)
    chosen = _load_retention(settings)
    retention = Retention(
        chosen.days if older_than is None else older_than,
        chosen.total_bytes if max_bytes is None else max_bytes,
    )
    try:
        done = remove_all(directory) if every else prune_directory(directory, retention)
    except OSError as problem:
        fail(f"{directory}: {problem.strerror}")
    _print_pruned(done, as_json)


def _print_pruned(pruned: "PruneResult", as_json: bool) -> None:
    from mcp_dispatch.results.preview import format_size

    if as_json:
        lists = {"removed": pruned.removed, "in_use": pruned.in_use}
        output = {name: [_to_json(each) for each in results] for name, results in lists.items()}
        print(json.dumps(output, indent=2))
        return
    print(
        f"Removed {len(pruned.removed)}, {format_size(sum(each.size for each in pruned.removed))}."
    )
    if pruned.in_use:
        print(f"Left {len(pruned.in_use)} that are being read.")


def _open_directory(state_dir: Path | None) -> Path:
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.model.errors import StartError

    try:
        return StateDirectory.open(state_dir).results
    except StartError as problem:
        fail(str(problem))


def _load_results(directory: Path) -> "list[ResultFile]":
    from mcp_dispatch.results.retention import list_result_files

    try:
        return list_result_files(directory)
    except OSError as problem:
        fail(f"{directory}: {problem.strerror}")


def _find_result(id: str, results: "list[ResultFile]") -> "ResultFile":
    prefix = id.removeprefix("dispatch://results/")
    matches = [each for each in results if prefix and each.id.startswith(prefix)]
    if not matches:
        fail(f"no kept result has the id {id[:80]!r}; `mcp-dispatch results list` has them all")
    if len({each.id for each in matches}) > 1:
        fail(f"{len(matches)} kept results begin with {id[:80]!r}; give more of the id")
    return matches[0]


def _load_retention(settings: list[Path] | None) -> "Retention":
    from mcp_dispatch.model.errors import ConfigError
    from mcp_dispatch.results.retention import Retention
    from mcp_dispatch.settings.layers import build_sources
    from mcp_dispatch.settings.settings import SettingsReader

    try:
        loaded = SettingsReader(build_sources(os.environ, settings or ())).read(None)
    except ConfigError as problem:
        fail(str(problem))
    chosen = loaded.dispatch.results
    return Retention(chosen.retention_days, chosen.max_total_bytes)


def _to_json(result: "ResultFile") -> dict[str, str | int]:
    return {
        "id": result.id,
        "path": str(result.path),
        "bytes": result.size,
        "used": _format_time(result.last_used, "T"),
    }


def _format_time(used: float, separator: str) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(used).isoformat(separator, timespec="minutes")


def _print_text(path: Path) -> None:
    from mcp_dispatch.model.text import escape_control_characters

    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        while text := file.read(1 << 16):
            print("\t".join(map(escape_control_characters, text.split("\t"))), end="")
    print()


def _copy_bytes(path: Path) -> None:
    import shutil

    with path.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
