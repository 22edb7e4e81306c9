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
from mcp_dispatch.cli.text import wrap_text

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.model.json import JsonObject
    from mcp_dispatch.registry.inventory import ToolInventory, ToolSource

_BUILT_IN_LABEL = "(built in)"


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
    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.cli.flags import run_with_app

    options = AppOptions(
        workspace=workspace,
        settings=tuple(settings or ()),
        mcp_config=tuple(mcp_config or ()),
        claude_settings=claude_settings,
        offline=offline,
    )
    inventory = run_with_app(options, state_dir, _load_overview)
    if as_json:
        print(json.dumps(_to_json(inventory), indent=2))
    elif server is None:
        print(_format_by_server(inventory))
    else:
        print(_format_server(inventory, server))


async def _load_overview(app: "App") -> "ToolInventory":
    await app.wait_until_connected()
    return app.build_overview()


def _to_json(overview: "ToolInventory") -> "JsonObject":
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
            for source in overview.sources
        ],
        "listed_tokens": overview.listed_tokens,
        "all_tokens": overview.total_tokens,
        "saved": round(overview.saved_share, 3),
    }


def _format_by_server(overview: "ToolInventory") -> str:
    lines = [
        f"{'server':<26} {'state':<11} {'tools':>6} {'loaded':>7} {'deferred':>9} {'tokens':>8}"
    ]
    for source in overview.sources:
        lines.append(_format_source(source))
        lines += [wrap_text("    ", text) for text in _list_notes(source)]
    lines += ["", wrap_text("", _format_total(overview))]
    return "\n".join(lines)


def _format_source(source: "ToolSource") -> str:
    from mcp_dispatch.registry.inventory import ToolState

    loaded = source.count(ToolState.LOADED)
    deferred = source.count(ToolState.DEFERRED, ToolState.ACTIVATED)
    return (
        f"{(source.server or _BUILT_IN_LABEL)[:26]:<26} {source.state:<11} {len(source.tools):>6} "
        f"{loaded:>7} {deferred:>9} {source.tokens:>8,}"
    )


def _list_notes(source: "ToolSource") -> list[str]:
    from mcp_dispatch.registry.inventory import ToolState

    rare = (ToolState.ACTIVATED, ToolState.SHADOWED, ToolState.HIDDEN)
    counts = [(state, source.count(state)) for state in rare]
    notes = [f"{count} {state.value}" for state, count in counts if count]
    problem = [f"it {source.problem}"] if source.problem and source.state != "ready" else []
    return [*([", ".join(notes)] if notes else []), *problem, *source.notes]


def _format_total(overview: "ToolInventory") -> str:
    if overview.listed_tokens == overview.total_tokens:
        return f"The list takes {overview.listed_tokens:,} tokens; nothing is deferred."
    return (
        f"The list takes {overview.listed_tokens:,} tokens instead of {overview.total_tokens:,}: "
        f"{overview.saved_share:.1%} saved."
    )


def _format_server(overview: "ToolInventory", name: str) -> str:
    from mcp_dispatch.cli.flags import exit_with_usage_error

    matches = [source for source in overview.sources if (source.server or _BUILT_IN_LABEL) == name]
    if not matches:
        known = ", ".join(source.server or _BUILT_IN_LABEL for source in overview.sources)
        exit_with_usage_error(f"no server is named {name!r}; there are: {known}")
    source = matches[0]
    rows = (
        wrap_text(
            f"{t.tokens:>7,}  {t.state.value:<10} {t.sharing:<10} ", f"{t.name} ({t.rule_name})"
        )
        for t in source.tools
    )
    log_line = [f"log: {source.log}"] if source.log else []
    notes = (wrap_text("    ", text) for text in [*_list_notes(source), *log_line])
    return "\n".join([_format_source(source), *notes, "", *rows])
