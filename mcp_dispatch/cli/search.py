"""`mcp-dispatch search`: which tools a query finds, in which order, and why."""

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
    from mcp_dispatch.model.json import JsonObject
    from mcp_dispatch.registry.listing import ToolRanking

_EXIT_NOTHING_FOUND = 1
_MAX_DESCRIPTION_CHARS = 300


def search(
    query: Annotated[
        list[str],
        typer.Argument(
            help="What the tool should do; or select:NAME,NAME, +word rest, mcp__SERVER rest."
        ),
    ],
    max_results: Annotated[
        int, typer.Option("--max-results", "-n", min=1, metavar="N", help="How many at most.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
) -> None:
    """Show what `tool_search` would find for a query, with the reasons.

    Takes the flags of `serve` and starts the servers that it would start. Exits with 1 where
    nothing was found.
    """
    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.cli.flags import run_with_app

    options = AppOptions(
        workspace=workspace,
        settings=tuple(settings or ()),
        mcp_config=tuple(mcp_config or ()),
        claude_settings=claude_settings,
    )
    ranking = run_with_app(
        options, state_dir, lambda app: app.tool_listing.search(" ".join(query), max_results)
    )
    print(json.dumps(_to_json(ranking), indent=2) if as_json else _format_results(ranking))
    raise typer.Exit(0 if ranking.ranked else _EXIT_NOTHING_FOUND)


def _to_json(ranking: "ToolRanking") -> "JsonObject":
    return {
        "query": ranking.query,
        "tools": [
            {
                "name": each.tool.name,
                "rule_name": each.tool.rule_name,
                "server": each.tool.server,
                "deferred": each.deferred,
                "score": round(each.hit.score, 3),
                "reasons": list(each.hit.reasons),
            }
            for each in ranking.ranked
        ],
        "total": ranking.total,
        "connecting": list(ranking.connecting),
        "failed": [down.server for down in ranking.unavailable],
        "remarks": list(ranking.remarks),
    }


def _format_results(ranking: "ToolRanking") -> str:
    lines: list[str] = []
    for rank, each in enumerate(ranking.ranked, 1):
        state = "deferred" if each.deferred else "listed"
        description = str(each.tool.definition.get("description", "")).strip().split("\n")[0]
        lines.append(wrap_text(f"{rank:>2}. ", f"{each.tool.name} ({state}) {each.hit.score:.1f}"))
        lines += [wrap_text("    ", description[:_MAX_DESCRIPTION_CHARS])] if description else []
        lines += [wrap_text("    - ", reason) for reason in each.hit.reasons] + [""]
    lines += [wrap_text("", remark) for remark in ranking.remarks]
    lines.append(f"{ranking.total} tools were searched.")
    if ranking.connecting:
        lines.append(wrap_text("Still connecting: ", ", ".join(ranking.connecting)))
    lines += [wrap_text("Down: ", f"{down.server} {down.problem}") for down in ranking.unavailable]
    return "\n".join(lines)
