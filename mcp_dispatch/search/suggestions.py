"""Why a query found nothing, or not all of it, and what is near; in words a model can act on."""

import difflib
from collections.abc import Iterable, Iterator, Sequence

from mcp_dispatch.search.document import Entry
from mcp_dispatch.search.index import ToolIndex
from mcp_dispatch.search.query import Query, parse

_MOST_REMARKS = 5
_NEAREST = 3
_LONGEST_NAME = 64
_SHOWN_SERVERS = 20


def remarks(index: ToolIndex, query: str, *, found: bool) -> tuple[str, ...]:
    """What of the query stands for no tool. Bounded, however much was asked for."""
    asked = parse(query)
    if not index.entries:
        return () if found else ("No server offers a tool at present.",)
    if asked.names:
        missing = [name for name in asked.names if not index.named(name)]
        return tuple(_not_named(index, name) for name in missing[:_MOST_REMARKS])
    return () if found else tuple(_nothing(index, asked))


def _not_named(index: ToolIndex, name: str) -> str:
    near = nearest(name, _names(index.entries))
    hint = f"near: {', '.join(near)}" if near else "search by keywords instead"
    return f"No tool is named {_quoted(name)}; {hint}."


def _nothing(index: ToolIndex, asked: Query) -> Iterator[str]:
    servers = sorted({entry.server for entry in index.entries})
    if asked.server and not any(_begins(server, asked.server) for server in servers):
        shown = ", ".join(servers[:_SHOWN_SERVERS])
        more = "" if len(servers) <= _SHOWN_SERVERS else ", …"
        yield f"No server's name begins with {_quoted(asked.server)}; there are: {shown}{more}."
        return
    if not asked.text.strip():
        yield "The query is empty; say in a few words what the tool should do."
        return
    if asked.required:
        words = " and ".join(map(_quoted, asked.required))
        yield f"No tool that fits has {words} in its name."
        without = [hit.entry.called for hit in index.search(asked.text, _NEAREST)]
    else:
        yield "No tool shares a word or a notion with the query."
        without = [near for word in asked.text.split()[:8] for near in _near_word(index, word)]
    if near := list(dict.fromkeys(without))[:_NEAREST]:
        yield f"Near: {', '.join(near)}."
    yield "Try other words for what the tool should do, or a server's name."


def nearest(name: str, names: Iterable[str]) -> list[str]:
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name[:_LONGEST_NAME].casefold(), folded, _NEAREST)
    return [folded[match] for match in close]


def _near_word(index: ToolIndex, word: str) -> list[str]:
    return nearest(word, _names(index.entries)) if len(word) > 2 else []


def _names(entries: Sequence[Entry]) -> list[str]:
    return [entry.called for entry in entries]


def _begins(server: str, prefix: str) -> bool:
    return server.casefold().startswith(prefix.casefold())


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…")
