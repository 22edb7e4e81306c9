"""Explains to a model why a query found nothing, and suggests similar names."""

import difflib
from collections.abc import Iterable, Iterator, Sequence

from mcp_dispatch.model.text import truncate
from mcp_dispatch.search.document import IndexedTool
from mcp_dispatch.search.index import ToolIndex
from mcp_dispatch.search.query import ToolSearchQuery, parse_query

_MAX_REMARKS = 5
_MAX_SUGGESTIONS = 3
_MAX_NAME_CHARS = 64
_MAX_SERVERS = 20


def explain_missing_tools(index: ToolIndex, query: str, *, has_hits: bool) -> tuple[str, ...]:
    """Return remarks on the parts of the query that match no tool; their number is limited."""
    parsed = parse_query(query)
    if not index.entries:
        return () if has_hits else ("No server offers a tool at present.",)
    if parsed.names:
        missing = [name for name in parsed.names if not index.find_by_name(name)]
        return tuple(_explain_unknown_name(index, name) for name in missing[:_MAX_REMARKS])
    return () if has_hits else tuple(_explain_no_match(index, parsed))


def _explain_unknown_name(index: ToolIndex, name: str) -> str:
    near = find_nearest(name, _list_names(index.entries))
    hint = f"near: {', '.join(near)}" if near else "search by keywords instead"
    return f"No tool is named {_quote(name)}; {hint}."


def _explain_no_match(index: ToolIndex, query: ToolSearchQuery) -> Iterator[str]:
    servers = sorted({entry.server for entry in index.entries})
    if query.server and not any(_has_prefix(server, query.server) for server in servers):
        shown = ", ".join(servers[:_MAX_SERVERS])
        more = "" if len(servers) <= _MAX_SERVERS else ", …"
        yield f"No server's name begins with {_quote(query.server)}; there are: {shown}{more}."
        return
    if not query.text.strip():
        yield "The query is empty; say in a few words what the tool should do."
        return
    if query.required:
        words = " and ".join(map(_quote, query.required))
        yield f"No tool that fits has {words} in its name."
        similar = [hit.entry.call_name for hit in index.search(query.text, _MAX_SUGGESTIONS)]
    else:
        yield "No tool shares a word or a notion with the query."
        similar = [near for word in query.text.split()[:8] for near in _find_near_word(index, word)]
    if near := list(dict.fromkeys(similar))[:_MAX_SUGGESTIONS]:
        yield f"Near: {', '.join(near)}."
    yield "Try other words for what the tool should do, or a server's name."


def find_nearest(name: str, names: Iterable[str]) -> list[str]:
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name[:_MAX_NAME_CHARS].casefold(), folded, _MAX_SUGGESTIONS)
    return [folded[match] for match in close]


def _find_near_word(index: ToolIndex, word: str) -> list[str]:
    return find_nearest(word, _list_names(index.entries)) if len(word) > 2 else []


def _list_names(entries: Sequence[IndexedTool]) -> list[str]:
    return [entry.call_name for entry in entries]


def _has_prefix(server: str, prefix: str) -> bool:
    return server.casefold().startswith(prefix.casefold())


def _quote(text: str) -> str:
    return repr(truncate(text, _MAX_NAME_CHARS))
