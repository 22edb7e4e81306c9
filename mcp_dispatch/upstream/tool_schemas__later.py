"""A schema that was found usable before, compiled when the first call needs it."""

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import compile_schema


class LaterValidator:
    """What turns out to be unusable after all fits nothing."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._compiled: Validator | None = None

    def problems(self, arguments: Json) -> list[str]:
        if self._compiled is None:
            try:
                self._compiled = compile_schema(self._schema)
            except SchemaUnusable as unusable:
                return [f"the schema of the tool itself {unusable.reason}"]
        return self._compiled.problems(arguments)
