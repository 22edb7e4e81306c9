"""Resources, prompts and instructions of all servers as one list, and the owner of each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters, shorten
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import ExposeName

MAX_SERVER_INSTRUCTIONS_CHARS: Final = 2_000
MAX_INSTRUCTIONS_CHARS: Final = 10_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of a server: `name` is the server's name for it, `entry` has the exposed name."""

    server: Supervisor
    name: str
    entry: JsonObject


class ResourceAggregator:
    """Leaves out servers that a rule denies as a whole.

    If two servers have the same URI or name, the one that is configured first counts.
    """

    def __init__(
        self,
        list_servers: Callable[[], Sequence[Supervisor]],
        expose_name: ExposeName,
        is_hidden: Callable[[str], bool],
    ) -> None:
        self._list_servers = list_servers
        self._expose_name = expose_name
        self._is_hidden = is_hidden

    @property
    def servers(self) -> list[Supervisor]:
        return [server for server in self._list_servers() if not self._is_hidden(server.name)]

    async def wait_until_loaded(self, timeout: float) -> None:
        """Wait until every server has listed its resources and prompts, or has failed once."""
        with anyio.move_on_after(timeout):
            for server in self.servers:
                if server.wake_unless_lazy():
                    await server.first_attempt_done.wait()
                if server.is_connected:
                    await server.resources.loaded.wait()

    def list_resources(self) -> list[JsonObject]:
        return list(_dedupe_by("uri", (each.resources.offers.resources for each in self.servers)))

    def list_templates(self) -> list[JsonObject]:
        lists = (each.resources.offers.templates for each in self.servers)
        return list(_dedupe_by("uriTemplate", lists))

    def list_prompts(self) -> list[Prompt]:
        """Return the prompts sorted by exposed name, as tools are."""
        found: dict[str, Prompt] = {}
        for server in self.servers:
            for entry in server.resources.offers.prompts:
                name = entry.get("name")
                if isinstance(name, str):
                    exposed = self._expose_name(server.config, name)
                    found.setdefault(exposed, Prompt(server, name, {**entry, "name": exposed}))
        return [found[name] for name in sorted(found)]

    def find_prompt(self, name: str) -> Prompt | None:
        return next((each for each in self.list_prompts() if each.entry["name"] == name), None)

    def find_owner(self, uri: str) -> Supervisor | None:
        """Return the server that lists the resource.

        Otherwise: the server with a matching template, then the server with resources of the same
        URI scheme, then the only server that has resources.
        """
        able = [server for server in self.servers if "resources" in server.resources.capabilities]
        for fits in (_has_resource, _has_template_for, _has_same_scheme):
            for server in able:
                if fits(server, uri):
                    return server
        return able[0] if len(able) == 1 else None

    def supports(self, capability: str) -> bool:
        """Return whether a server has the capability, or has not answered yet and may have it."""
        return any(
            capability in server.resources.capabilities or not server.first_attempt_done.is_set()
            for server in self.servers
        )

    def build_instructions(self) -> str:
        """Return the instructions of the servers, each under its name, within a budget."""
        parts: list[str] = []
        room = MAX_INSTRUCTIONS_CHARS
        for server in self.servers:
            text = escape_control_characters(server.resources.instructions.strip())
            if not text or room <= 0:
                continue
            text = shorten(text, min(room, MAX_SERVER_INSTRUCTIONS_CHARS))
            room -= len(text)
            parts.append(f"The server {server.name} says of itself:\n{text}")
        return "\n\n".join(parts)


def _dedupe_by(key: str, lists: Iterable[tuple[JsonObject, ...]]) -> Iterator[JsonObject]:
    seen: set[Json] = set()
    for entries in lists:
        for entry in entries:
            name = entry.get(key)
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                yield entry


def _has_resource(server: Supervisor, uri: str) -> bool:
    return any(entry.get("uri") == uri for entry in server.resources.offers.resources)


def _has_template_for(server: Supervisor, uri: str) -> bool:
    templates = (entry.get("uriTemplate") for entry in server.resources.offers.templates)
    return any(
        isinstance(each, str) and (each == uri or matches_template(each, uri)) for each in templates
    )


def _has_same_scheme(server: Supervisor, uri: str) -> bool:
    scheme = _parse_scheme(uri)
    offers = server.resources.offers
    uris = [each.get("uri") for each in offers.resources]
    uris += [each.get("uriTemplate") for each in offers.templates]
    return bool(scheme) and any(
        isinstance(each, str) and _parse_scheme(each) == scheme for each in uris
    )


def _parse_scheme(uri: str) -> str:
    try:
        return urlsplit(uri).scheme
    except ValueError:
        return ""


def matches_template(template: str, uri: str) -> bool:
    """Return whether `uri` may be an expansion of an RFC 6570 template.

    Only the literal parts between the expressions are compared, in order.
    """
    literals = _split_literals(template)
    if len(literals) == 1:
        return uri == template
    first, *middle, last = literals
    if not uri.startswith(first):
        return False
    at = len(first)
    for literal in middle:
        found = uri.find(literal, at)
        if found < 0:
            return False
        at = found + len(literal)
    return len(uri) - at >= len(last) and uri.endswith(last)


def _split_literals(template: str) -> list[str]:
    literals, rest = [""], template
    while rest:
        literal, brace, rest = rest.partition("{")
        literals[-1] += literal
        if brace:
            _, closed, rest = rest.partition("}")
            if closed:
                literals.append("")
    return literals
