"""The tools of all upstreams; a server's schemas are compiled anew only when its list is."""

import logging
from collections.abc import Iterable

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import Expose, UpstreamTool, upstream_tools

logger = logging.getLogger(__name__)


class Catalogue:
    def __init__(self, expose: Expose) -> None:
        self._expose = expose
        self._learnt: dict[str, tuple[tuple[JsonObject, ...], tuple[UpstreamTool, ...]]] = {}

    def tools(self, servers: Iterable[Supervisor]) -> list[UpstreamTool]:
        """In the order of the configuration."""
        return [tool for server in servers for tool in self._tools_of(server)]

    def _tools_of(self, server: Supervisor) -> tuple[UpstreamTool, ...]:
        definitions, tools = self._learnt.get(server.name, ((), ()))
        if definitions is server.tools:
            return tools
        tools, held_back = upstream_tools(server, self._expose)
        self._learnt[server.name] = (server.tools, tools)
        for problem in held_back:
            logger.warning("%s", problem)
        return tools
