"""The output schemas of one server: each judged once, and advertised so that it admits what we may
have to put in the place of a result."""

from collections.abc import Collection
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.results.output_schema import ORIGINAL_AT, admitting
from mcp_dispatch.schema.definition import as_shown, input_schema_problem, usable_output_schema
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.refs import rebased
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


@dataclass(frozen=True, slots=True)
class Advertised:
    """What clients are shown, and what a structure is held against before they hold it."""

    schema: JsonObject
    validator: Validator


class OutputSchemas:
    """Judging a schema takes milliseconds, and lists are read again whenever one tool changes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Advertised | str]] = {}

    def of(self, tool: str, schema: Json) -> Advertised | str:
        """What to advertise, or what is wrong with the schema: a clause, as in "is no object"."""
        # As text: 1, 1.0 and true are equal in Python and not in a schema.
        spelling = repr(schema)
        known = self._known.get(tool)
        if known is None or known[0] != spelling:
            known = (spelling, _judge_output(schema))
            self._known[tool] = known
        return known[1]

    def recall(self, tool: str, schema: Json, refused: str | None) -> None:
        """An earlier look at this very schema, which is not repeated."""
        self._known[tool] = (repr(schema), refused or _recalled(schema))

    @property
    def refused(self) -> dict[str, str]:
        """The tools whose schemas cannot be used, and why."""
        return {tool: known[1] for tool, known in self._known.items() if isinstance(known[1], str)}

    def forget_all_but(self, tools: Collection[str]) -> None:
        self._known = {tool: known for tool, known in self._known.items() if tool in tools}


def _judge_output(schema: Json) -> Advertised | str:
    try:
        advertised = admitting(rebased(usable_output_schema(schema), ORIGINAL_AT))
        return Advertised(advertised, compile_schema(advertised))
    except SchemaUnusable as unusable:
        return unusable.reason


def _recalled(schema: Json) -> Advertised | str:
    if not isinstance(schema, dict):
        return _judge_output(schema)
    try:
        advertised = admitting(rebased(as_shown(schema), ORIGINAL_AT))
    except SchemaUnusable as unusable:
        return unusable.reason
    return Advertised(advertised, LaterValidator(advertised))


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
            known = (spelling, _judge_input(schema))
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


def _judge_input(schema: Json) -> Validator | str:
    problem = input_schema_problem(schema)
    if problem is not None:
        return problem
    try:
        return compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
