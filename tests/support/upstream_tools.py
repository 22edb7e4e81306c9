"""Tools of upstream servers with given definitions."""

from dataclasses import dataclass, field

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.registry.names import Naming, build_exposed_name
from tests.support.stand_ins import RecordingTool


@dataclass
class DescribedTool(RecordingTool):
    """An upstream tool; `fields` extend its definition."""

    fields: JsonObject = field(default_factory=lambda: {})

    @property
    def definition(self) -> JsonObject:
        return {**super().definition, **self.fields}


def build_upstream_tool(server: str, tool: str, **fields: object) -> Tool:
    exposed = build_exposed_name(server, tool, Naming())
    return DescribedTool(exposed, server, build_rule_name(server, tool), fields={**fields})  # pyright: ignore[reportArgumentType]  JSON as written
