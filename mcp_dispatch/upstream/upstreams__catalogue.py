"""The tools of all upstreams; a server's schemas are looked at anew only when its list is new."""

from collections.abc import Callable, Iterable

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import Expose, HeldBack, Offer, UpstreamTool, offer_of

Say = Callable[[HeldBack], None]


class Catalogue:
    """`say` is told once of each tool that is held back or odd, for as long as it stays so."""

    def __init__(self, expose: Expose, say: Say) -> None:
        self._expose = expose
        self._say = say
        self._said: dict[str, frozenset[HeldBack]] = {}
        self._learnt: dict[str, tuple[Supervisor, tuple[JsonObject, ...], Offer]] = {}

    def tools(self, servers: Iterable[Supervisor]) -> list[UpstreamTool]:
        """In the order of the configuration."""
        return [tool for server in servers for tool in self.offer(server).tools]

    def offer(self, server: Supervisor) -> Offer:
        learnt = self._learnt.get(server.name)
        if learnt is not None and learnt[0] is server and learnt[1] is server.tools:
            return learnt[2]
        offer = offer_of(server, self._expose)
        self._learnt[server.name] = (server, server.tools, offer)
        self._report(server.name, frozenset((*offer.held_back, *offer.notes)))
        return offer

    def _report(self, server: str, found: frozenset[HeldBack]) -> None:
        for each in sorted(found - self._said.get(server, frozenset()), key=str):
            self._say(each)
        self._said[server] = found
