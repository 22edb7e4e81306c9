"""`mcp-dispatch tools`: every tool, whether it is listed or deferred, and what it costs."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import (
    ClaudeSettingsFlag,
    McpConfigFlag,
    SettingsFlag,
    StateDirFlag,
    WorkspaceFlag,
)

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.model.json import JsonObject
    from mcp_dispatch.registry.inventory import Overview, Source

_OWN = "(built in)"


def tools(
    server: Annotated[
        str | None,
        typer.Argument(help="Show the tools of this server one by one; without it, all servers."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Start no server: show what is known of them.")
    ] = False,
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
) -> None:
    """Show which tools are listed, deferred, activated, shadowed, hidden or down.

    Takes the flags of `serve` and starts the servers that it would start, for at most ten seconds;
    lazy ones, and all with --offline, are shown as they were last known. Tokens are estimated.
    """
    from mcp_dispatch.app.options import Options
    from mcp_dispatch.cli.flags import look

    options = Options(
        workspace=workspace,
        settings=tuple(settings or ()),
        mcp_config=tuple(mcp_config or ()),
        claude_settings=claude_settings,
        offline=offline,
    )
    seen = look(options, state_dir, _overview)
    if as_json:
        print(json.dumps(_object(seen), indent=2))
    elif server is None:
        print(_by_server(seen))
    else:
        print(_one(seen, server))


async def _overview(app: "App") -> "Overview":
    await app.connected()
    return app.overview()


def _object(seen: "Overview") -> "JsonObject":
    return {
        "servers": [
            {
                "server": source.server,
                "state": source.state,
                "problem": source.problem,
                "tokens": source.tokens,
                "file": source.file,
                "log": source.log,
                "notes": [*source.notes],
                "tools": [
                    {
                        "name": tool.name,
                        "rule_name": tool.rule_name,
                        "state": tool.state.value,
                        "sharing": tool.sharing,
                        "tokens": tool.tokens,
                    }
                    for tool in source.tools
                ],
            }
            for source in seen.sources
        ],
        "listed_tokens": seen.listed,
        "all_tokens": seen.everything,
        "saved": round(seen.saved, 3),
    }


def _by_server(seen: "Overview") -> str:
    from mcp_dispatch.cli.explanation import wrapped

    lines = [
        f"{'server':<26} {'state':<11} {'tools':>6} {'loaded':>7} {'deferred':>9} {'tokens':>8}"
    ]
    for source in seen.sources:
        lines.append(_line(source))
        lines += [wrapped("    ", text) for text in _notes(source)]
    lines += ["", wrapped("", _total(seen))]
    return "\n".join(lines)


def _line(source: "Source") -> str:
    from mcp_dispatch.registry.inventory import ToolState

    loaded = source.count(ToolState.LOADED)
    deferred = source.count(ToolState.DEFERRED, ToolState.ACTIVATED)
    return (
        f"{(source.server or _OWN)[:26]:<26} {source.state:<11} {len(source.tools):>6} "
        f"{loaded:>7} {deferred:>9} {source.tokens:>8,}"
    )


def _notes(source: "Source") -> list[str]:
    from mcp_dispatch.registry.inventory import ToolState

    rare = (ToolState.ACTIVATED, ToolState.SHADOWED, ToolState.HIDDEN)
    counts = [(state, source.count(state)) for state in rare]
    notes = [f"{count} {state.value}" for state, count in counts if count]
    problem = [f"it {source.problem}"] if source.problem and source.state != "ready" else []
    return [*([", ".join(notes)] if notes else []), *problem, *source.notes]


def _total(seen: "Overview") -> str:
    if seen.listed == seen.everything:
        return f"The list takes {seen.listed:,} tokens; nothing is deferred."
    return (
        f"The list takes {seen.listed:,} tokens instead of {seen.everything:,}: "
        f"{seen.saved:.1%} saved."
    )


def _one(seen: "Overview", name: str) -> str:
    from mcp_dispatch.cli.explanation import wrapped
    from mcp_dispatch.cli.flags import wrong

    found = [source for source in seen.sources if (source.server or _OWN) == name]
    if not found:
        known = ", ".join(source.server or _OWN for source in seen.sources)
        wrong(f"no server is named {name!r}; there are: {known}")
    source = found[0]
    each = (
        wrapped(
            f"{t.tokens:>7,}  {t.state.value:<10} {t.sharing:<10} ", f"{t.name} ({t.rule_name})"
        )
        for t in source.tools
    )
    places = [f"log: {source.log}"] if source.log else []
    notes = (wrapped("    ", text) for text in [*_notes(source), *places])
    return "\n".join([_line(source), *notes, "", *each])
