"""What waits behind `tool_search`, by name: a model ignores a search of which it knows nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from mcp_dispatch.model.tools import Tool

MAX_CHARS = 1_300
"""Characters. Some clients cut descriptions and instructions off at 2,048, and every model pays
for them with each request."""

_MAX_NAME_CHARS = 64
_COUNT_CHARS = len(" and 9999 more")
_MORE_SERVERS_CHARS = len("\n- and 9999 more servers")


class Announcement:
    """Keeps its words, which stand early in what models cache, for as long as the same servers
    have something to announce."""

    def __init__(self) -> None:
        self._servers: frozenset[str] = frozenset()
        self._text = ""

    def render(self, tools: Iterable[Tool]) -> str:
        names = group_names_by_server(tools)
        if frozenset(names) != self._servers:
            self._servers, self._text = frozenset(names), render_names(names)
        return self._text


def group_names_by_server(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """Of upstream tools, in the alphabet of rules: a name cannot carry a sentence."""
    names: dict[str, list[str]] = {}
    for tool in sorted(tools, key=lambda tool: tool.rule_name):
        if tool.server is not None:
            own = tool.rule_name.removeprefix(f"mcp__{tool.server}__")
            names.setdefault(tool.server, []).append(own)
    return dict(sorted(names.items()))


def render_names(names: Mapping[str, Sequence[str]], max_chars: int = MAX_CHARS) -> str:
    """A line for each server, as many as there is room for; then as many names as there is room
    for, every server in turn."""
    shown: dict[str, list[str]] = {}
    left = max_chars
    for server in names:
        cost = len(f"\n- {server}: ") + _COUNT_CHARS
        if left - cost < _MORE_SERVERS_CHARS:
            break
        left -= cost
        shown[server] = []
    for server, name in _iterate_round_robin({server: names[server] for server in shown}):
        if len(name) <= _MAX_NAME_CHARS and (left := left - len(name) - 2) >= 0:
            shown[server].append(name)
        if left < 0:
            break
    lines = [_format_line(server, shown[server], len(names[server])) for server in shown]
    if others := len(names) - len(shown):
        lines.append(f"- and {others} more server{'s' if others > 1 else ''}")
    return "\n".join(lines)


def _iterate_round_robin(names: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    for row in zip_longest(*names.values()):
        yield from (
            (server, name) for server, name in zip(names, row, strict=True) if name is not None
        )


def _format_line(server: str, shown: Sequence[str], count: int) -> str:
    """A server of which nothing is known yet has no count."""
    hidden = count - len(shown)
    if not count:
        return f"- {server}"
    if not shown:
        return f"- {server}: {count} tool{'s' if count > 1 else ''}"
    more = f" and {hidden} more" if hidden else ""
    return f"- {server}: {', '.join(shown)}{more}"
