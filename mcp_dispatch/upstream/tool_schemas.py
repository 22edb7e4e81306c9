"""Compiled schemas of the tools of one server, each compiled once while it stays the same."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

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
from mcp_dispatch.upstream.cache import ServerSnapshot


class LazyValidator:
    """Compiles its schema on first use. A schema that turns out to be unusable matches nothing."""

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
    """The output schema that clients receive, and the validator that results must satisfy."""

    schema: JsonObject
    validator: Validator


Compiled = TypeVar("Compiled")


class SchemaCache(Generic[Compiled]):
    """Compiling takes milliseconds, and lists are read again whenever one tool changes."""

    def __init__(
        self,
        compile_new: Callable[[Json], Compiled | str],
        compile_known: Callable[[Json], Compiled | str],
    ) -> None:
        """Both return a problem as text; `compile_known` trusts a schema that was checked before."""
        self._compile_new = compile_new
        self._compile_known = compile_known
        self._entries: dict[str, tuple[str, Compiled | str]] = {}

    def compile(self, tool: str, schema: Json) -> Compiled | str:
        """Return the compiled schema, or its problem as a clause such as "is not an object"."""
        # Compared as text: 1, 1.0 and true are equal in Python but not in a schema.
        spelling = repr(schema)
        entry = self._entries.get(tool)
        if entry is None or entry[0] != spelling:
            entry = (spelling, self._compile_new(schema))
            self._entries[tool] = entry
        return entry[1]

    def restore(self, tool: str, schema: Json, problem: str | None) -> None:
        """Add the result of an earlier check of this schema."""
        self._entries[tool] = (repr(schema), problem or self._compile_known(schema))

    @property
    def problems(self) -> dict[str, str]:
        """The tools whose schemas cannot be used, and why."""
        return {
            tool: entry[1] for tool, entry in self._entries.items() if isinstance(entry[1], str)
        }

    def forget_except(self, tools: Collection[str]) -> None:
        self._entries = {tool: entry for tool, entry in self._entries.items() if tool in tools}


class ToolSchemaCache:
    """The input and output schemas of one server."""

    def __init__(self) -> None:
        self.inputs: SchemaCache[Validator] = SchemaCache(_compile_input, LazyValidator)
        self.outputs: SchemaCache[AdvertisedSchema] = SchemaCache(_compile_output, _restore_output)

    @staticmethod
    def restore(snapshot: ServerSnapshot) -> "ToolSchemaCache":
        """Return a cache that holds the schemas that were checked before."""
        cache = ToolSchemaCache()
        for tool, schema, problem in snapshot.verdicts:
            cache.inputs.restore(tool, schema, problem)
        for tool, schema, problem in snapshot.output_verdicts:
            cache.outputs.restore(tool, schema, problem)
        return cache

    def forget_except(self, tools: Collection[str]) -> None:
        self.inputs.forget_except(tools)
        self.outputs.forget_except(tools)


def _compile_input(schema: Json) -> Validator | str:
    problem = find_input_schema_problem(schema)
    if problem is not None:
        return problem
    try:
        return compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason


def _compile_output(schema: Json) -> AdvertisedSchema | str:
    try:
        advertised = _extend(prepare_output_schema(schema))
        return AdvertisedSchema(advertised, compile_schema(advertised))
    except SchemaUnusable as unusable:
        return unusable.reason


def _restore_output(schema: Json) -> AdvertisedSchema | str:
    if not isinstance(schema, dict):
        return _compile_output(schema)
    try:
        advertised = _extend(remove_unknown_draft(schema))
    except SchemaUnusable as unusable:
        return unusable.reason
    return AdvertisedSchema(advertised, LazyValidator(advertised))


def _extend(schema: JsonObject) -> JsonObject:
    """Extend the schema by the forms that can take the place of a result."""
    return extend_output_schema(rebase_references(schema, ORIGINAL_POINTER))
