"""What all servers offer beside tools, as one: whose a resource or a prompt is, and its name here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import visible
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import Expose

INSTRUCTIONS_OF_ONE: Final = 2_000
INSTRUCTIONS_OF_ALL: Final = 10_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`entry` is the list entry under the name that it has here."""

    server: Supervisor
    name: str
    entry: JsonObject


class Offered:
    """A server that a rule denies as a whole offers nothing. Of two servers with the same URI or
    name the earlier configured has it."""

    def __init__(
        self,
        servers: Callable[[], Sequence[Supervisor]],
        expose: Expose,
        hidden: Callable[[str], bool],
    ) -> None:
        self._every = servers
        self._expose = expose
        self._hidden = hidden

    @property
    def servers(self) -> list[Supervisor]:
        return [server for server in self._every() if not self._hidden(server.name)]

    async def known(self, timeout: float) -> None:
        """Waits until every server has said what it offers, or has failed once."""
        with anyio.move_on_after(timeout):
            for server in self.servers:
                if server.nudge():
                    await server.tried.wait()
                if server.alive:
                    await server.shelf.known.wait()

    def resources(self) -> list[JsonObject]:
        return list(_first_by("uri", (each.shelf.offers.resources for each in self.servers)))

    def templates(self) -> list[JsonObject]:
        lists = (each.shelf.offers.templates for each in self.servers)
        return list(_first_by("uriTemplate", lists))

    def prompts(self) -> list[Prompt]:
        """Sorted by name, as tools are."""
        found: dict[str, Prompt] = {}
        for server in self.servers:
            for entry in server.shelf.offers.prompts:
                name = entry.get("name")
                if isinstance(name, str):
                    exposed = self._expose(server.config, name)
                    found.setdefault(exposed, Prompt(server, name, {**entry, "name": exposed}))
        return [found[name] for name in sorted(found)]

    def prompt(self, name: str) -> Prompt | None:
        return next((each for each in self.prompts() if each.entry["name"] == name), None)

    def owner_of(self, uri: str) -> Supervisor | None:
        """Who lists it; else whose template it fits; else who has others of its kind; else the
        only one that has any resources."""
        able = [server for server in self.servers if "resources" in server.shelf.capabilities]
        for fits in (_lists, _has_template_for, _has_kin_of):
            for server in able:
                if fits(server, uri):
                    return server
        return able[0] if len(able) == 1 else None

    def offers(self, capability: str) -> bool:
        """Whether anybody may offer it: who has not answered yet may."""
        return any(
            capability in server.shelf.capabilities or not server.tried.is_set()
            for server in self.servers
        )

    def instructions(self) -> str:
        """What servers say of themselves, each under its name, within a budget."""
        parts: list[str] = []
        room = INSTRUCTIONS_OF_ALL
        for server in self.servers:
            text = visible(server.shelf.instructions.strip())
            if not text or room <= 0:
                continue
            text = _cut(text, min(room, INSTRUCTIONS_OF_ONE))
            room -= len(text)
            parts.append(f"The server {server.name} says of itself:\n{text}")
        return "\n\n".join(parts)


def _first_by(key: str, lists: Iterable[tuple[JsonObject, ...]]) -> Iterator[JsonObject]:
    seen: set[Json] = set()
    for entries in lists:
        for entry in entries:
            name = entry.get(key)
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                yield entry


def _lists(server: Supervisor, uri: str) -> bool:
    return any(entry.get("uri") == uri for entry in server.shelf.offers.resources)


def _has_template_for(server: Supervisor, uri: str) -> bool:
    templates = (entry.get("uriTemplate") for entry in server.shelf.offers.templates)
    return any(isinstance(each, str) and (each == uri or fits(each, uri)) for each in templates)


def _has_kin_of(server: Supervisor, uri: str) -> bool:
    scheme = _scheme(uri)
    offers = server.shelf.offers
    uris = [each.get("uri") for each in offers.resources]
    uris += [each.get("uriTemplate") for each in offers.templates]
    return bool(scheme) and any(isinstance(each, str) and _scheme(each) == scheme for each in uris)


def _scheme(uri: str) -> str:
    try:
        return urlsplit(uri).scheme
    except ValueError:
        return ""


def fits(template: str, uri: str) -> bool:
    """Whether `uri` may come of an RFC 6570 template: what stands between the expressions is there,
    in order."""
    literals = _literals(template)
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


def _literals(template: str) -> list[str]:
    literals, rest = [""], template
    while rest:
        literal, brace, rest = rest.partition("{")
        literals[-1] += literal
        if brace:
            _, closed, rest = rest.partition("}")
            if closed:
                literals.append("")
    return literals


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
