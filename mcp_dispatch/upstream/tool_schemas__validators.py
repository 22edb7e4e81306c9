"""The input schemas of one server, each judged and compiled once for as long as it stays the same."""

from collections.abc import Collection

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.schema.definition import input_schema_problem
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import compile_schema
from mcp_dispatch.upstream.tool_schemas import OutputSchemas
from mcp_dispatch.upstream.tool_schemas__later import LaterValidator


class Validators:
    """Judging a schema takes milliseconds, and lists are read again whenever one tool changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Validator | str]] = {}
        self.outputs = OutputSchemas()

    def of(self, tool: str, schema: Json) -> Validator | str:
        """The validator, or what is wrong with the schema: a clause, as in "is not an object"."""
        # As text: 1, 1.0 and true are equal in Python and not in a schema.
        spelling = repr(schema)
        known = self._known.get(tool)
        if known is None or known[0] != spelling:
            known = (spelling, _judge(schema))
            self._known[tool] = known
        return known[1]

    def recall(self, tool: str, schema: Json, refused: str | None) -> None:
        """An earlier look at this very schema, which is not repeated."""
        self._known[tool] = (repr(schema), refused or LaterValidator(schema))

    @property
    def refused(self) -> dict[str, str]:
        """The tools whose schemas cannot be used, and why."""
        return {tool: known[1] for tool, known in self._known.items() if isinstance(known[1], str)}

    def forget_all_but(self, tools: Collection[str]) -> None:
        self._known = {tool: known for tool, known in self._known.items() if tool in tools}


def _judge(schema: Json) -> Validator | str:
    problem = input_schema_problem(schema)
    if problem is not None:
        return problem
    try:
        return compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
