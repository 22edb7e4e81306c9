"""The names of deferred tools for the description of `tool_search`: a model uses the search only if
it knows what there is to find."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from mcp_dispatch.model.tools import Tool

MAX_CHARS = 1_300
"""Some clients cut descriptions and instructions at 2,048 characters, and they cost tokens in every
request."""

_MAX_NAME_CHARS = 64
_COUNT_CHARS = len(" and 9999 more")
_MORE_SERVERS_CHARS = len("\n- and 9999 more servers")


class Announcement:
    """Renders the names of deferred tools. The text changes only when the set of servers changes:
    it is near the start of the prompt, and a change invalidates the prompt cache of the model."""

    def __init__(self) -> None:
        self._servers: frozenset[str] = frozenset()
        self._text = ""

    def render(self, tools: Iterable[Tool]) -> str:
        names = group_names_by_server(tools)
        if frozenset(names) != self._servers:
            self._servers, self._text = frozenset(names), render_names(names)
        return self._text


def group_names_by_server(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """Return the names of upstream tools without their prefix. Rule names have a restricted
    alphabet, so that a name cannot contain instructions for the model."""
    names: dict[str, list[str]] = {}
    for tool in sorted(tools, key=lambda tool: tool.rule_name):
        if tool.server is not None:
            own = tool.rule_name.removeprefix(f"mcp__{tool.server}__")
            names.setdefault(tool.server, []).append(own)
    return dict(sorted(names.items()))


def render_names(names: Mapping[str, Sequence[str]], max_chars: int = MAX_CHARS) -> str:
    """Return a line for each server, with names of its tools. Lines come first, then names, one per
    server in turn, until `max_chars` is reached."""
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
    """A server whose tools are not known yet has no count."""
    hidden = count - len(shown)
    if not count:
        return f"- {server}"
    if not shown:
        return f"- {server}: {count} tool{'s' if count > 1 else ''}"
    more = f" and {hidden} more" if hidden else ""
    return f"- {server}: {', '.join(shown)}{more}"
