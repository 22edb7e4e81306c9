"""The output schemas of one server: each judged once, and advertised so that it admits what we may
have to put in the place of a result."""

from collections.abc import Collection
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.results.output_schema import ORIGINAL_POINTER, extend_output_schema
from mcp_dispatch.schema.definition import (
    find_input_schema_problem,
    prepare_output_schema,
    remove_unknown_draft,
)
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.refs import rebase_references
from mcp_dispatch.schema.validator import compile_schema


class LazyValidator:
    """What turns out to be unusable after all fits nothing."""

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._compiled: Validator | None = None

    def find_problems(self, arguments: Json) -> list[str]:
        if self._compiled is None:
            try:
                self._compiled = compile_schema(self._schema)
            except SchemaUnusable as unusable:
                return [f"the schema of the tool itself {unusable.reason}"]
        return self._compiled.find_problems(arguments)


@dataclass(frozen=True, slots=True)
class AdvertisedSchema:
    """What clients are shown, and what a structure is held against before they hold it."""

    schema: JsonObject
    validator: Validator


class OutputSchemaCache:
    """Judging a schema takes milliseconds, and lists are read again whenever one tool changes."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, AdvertisedSchema | str]] = {}

    def compile(self, tool: str, schema: Json) -> AdvertisedSchema | str:
        """What to advertise, or what is wrong with the schema: a clause, as in "is no object"."""
        # As text: 1, 1.0 and true are equal in Python and not in a schema.
        spelling = repr(schema)
        known = self._entries.get(tool)
        if known is None or known[0] != spelling:
            known = (spelling, _compile_output(schema))
            self._entries[tool] = known
        return known[1]

    def restore(self, tool: str, schema: Json, problem: str | None) -> None:
        """An earlier look at this very schema, which is not repeated."""
        self._entries[tool] = (repr(schema), problem or _restore_output(schema))

    @property
    def problems(self) -> dict[str, str]:
        """The tools whose schemas cannot be used, and why."""
        return {
            tool: known[1] for tool, known in self._entries.items() if isinstance(known[1], str)
        }

    def forget_except(self, tools: Collection[str]) -> None:
        self._entries = {tool: known for tool, known in self._entries.items() if tool in tools}


def _compile_output(schema: Json) -> AdvertisedSchema | str:
    try:
        advertised = extend_output_schema(
            rebase_references(prepare_output_schema(schema), ORIGINAL_POINTER)
        )
        return AdvertisedSchema(advertised, compile_schema(advertised))
    except SchemaUnusable as unusable:
        return unusable.reason


def _restore_output(schema: Json) -> AdvertisedSchema | str:
    if not isinstance(schema, dict):
        return _compile_output(schema)
    try:
        advertised = extend_output_schema(
            rebase_references(remove_unknown_draft(schema), ORIGINAL_POINTER)
        )
    except SchemaUnusable as unusable:
        return unusable.reason
    return AdvertisedSchema(advertised, LazyValidator(advertised))


class ToolSchemaCache:
    """Judging a schema takes milliseconds, and lists are read again whenever one tool changes."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[str, Validator | str]] = {}
        self.outputs = OutputSchemaCache()

    def compile(self, tool: str, schema: Json) -> Validator | str:
        """The validator, or what is wrong with the schema: a clause, as in "is not an object"."""
        # As text: 1, 1.0 and true are equal in Python and not in a schema.
        spelling = repr(schema)
        known = self._entries.get(tool)
        if known is None or known[0] != spelling:
            known = (spelling, _compile_input(schema))
            self._entries[tool] = known
        return known[1]

    def restore(self, tool: str, schema: Json, problem: str | None) -> None:
        """An earlier look at this very schema, which is not repeated."""
        self._entries[tool] = (repr(schema), problem or LazyValidator(schema))

    @property
    def problems(self) -> dict[str, str]:
        """The tools whose schemas cannot be used, and why."""
        return {
            tool: known[1] for tool, known in self._entries.items() if isinstance(known[1], str)
        }

    def forget_except(self, tools: Collection[str]) -> None:
        self._entries = {tool: known for tool, known in self._entries.items() if tool in tools}


def _compile_input(schema: Json) -> Validator | str:
    problem = find_input_schema_problem(schema)
    if problem is not None:
        return problem
    try:
        return compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
