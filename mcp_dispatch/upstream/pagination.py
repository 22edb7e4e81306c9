"""Reads paginated lists, with limits for servers that never end a list."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject

MAX_PAGES: Final = 200
MAX_TOOLS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries as the server sent them; `problem` says why the list may be incomplete."""

    entries: tuple[JsonObject, ...] = ()
    problem: str | None = None


async def read_pages(
    fetch_page: Callable[[JsonObject], Awaitable[JsonObject]],
    key: str = "tools",
    method: str = "tools/list",
) -> Listing:
    """Read all pages. `key` holds the entries of a page; entries before a fault are kept."""
    entries: list[Json] = []
    seen: set[str] = set()
    params: JsonObject = {}
    for _ in range(MAX_PAGES):
        answer = await fetch_page(params)
        listed = answer.get(key)
        if not isinstance(listed, list):
            return _build_listing(entries, f"answered {method!r} without a list of {key}")
        entries += listed
        if len(entries) > MAX_TOOLS:
            return _build_listing(entries[:MAX_TOOLS], f"lists more than {MAX_TOOLS} {key}")
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor:
            return _build_listing(entries, None)
        if cursor in seen:
            return _build_listing(entries, f"gave the page cursor {cursor[:80]!r} twice")
        seen.add(cursor)
        params = {"cursor": cursor}
    return _build_listing(entries, f"lists its {key} on more than {MAX_PAGES} pages")


def _build_listing(entries: list[Json], problem: str | None) -> Listing:
    objects = tuple(tool for tool in entries if isinstance(tool, dict))
    if problem is None and len(objects) < len(entries):
        problem = f"lists {len(entries) - len(objects)} tool(s) that are not objects"
    return Listing(objects, problem)
