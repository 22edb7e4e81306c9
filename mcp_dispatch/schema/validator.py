"""Compiles schemas and validates arguments against them.

The validator is third-party code that processes untrusted schemas, so it is restricted:

* it fetches nothing: its retriever always raises;
* patterns run on an engine that is linear in the text. Only a schema whose patterns need more
  (look-around, back-references) uses the backtracking engine, with a limit on its steps. For both,
  the cost of matching the given text is estimated first;
* formats are annotations in every draft: upstreams disagree on the meaning of `uri` or `email`, so
  each upstream checks them itself;
* every exception that it raises is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.arguments import DEPTH_LIMIT, ArgumentSize, measure_arguments
from mcp_dispatch.schema.cost_bounds import BoundedSchema, bound_schema
from mcp_dispatch.schema.cost_estimate import ValidationMode, WorkEstimate, count_work
from mcp_dispatch.schema.error_messages import (
    ROOT,
    ErrorContext,
    describe_unlocated_error,
    explain_errors,
    truncate_line,
)
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.excerpt import Excerpt, take_excerpt
from mcp_dispatch.schema.refs import detect_draft

if TYPE_CHECKING:
    import jsonschema_rs

# Each limit is about one second of the slowest input that we could construct.
CHECK_LIMIT = 10_000_000
MATCHING_LIMIT = 20_000_000
EXPLANATION_LIMIT = 1_000_000

BACKTRACK_LIMIT = 10_000
# A step of the backtracking engine may read the whole text, at a fraction of a unit per
# character.
_BACKTRACKING_COST = BACKTRACK_LIMIT // 16
_MAX_PROGRAM_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A `Validator`. The schema must not be changed after compiling."""

    schema: Json
    bounded: BoundedSchema
    pattern_costs: dict[str, int]
    validator: jsonschema_rs.Validator

    def find_problems(self, arguments: Json) -> list[str]:
        """Return one message for each problem; empty if the arguments are valid. Never raises."""
        measured = measure_arguments(arguments)
        if isinstance(measured, str):
            return [measured]
        try:
            return self._validate(arguments, measured)
        # The validator raises UnicodeEncodeError, ValueError, and for panics of its runtime
        # something that is no `Exception`. None of these may count as valid.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            return [
                f"{ROOT}: could not be validated: {type(error).__name__}: {truncate_line(str(error))}"
            ]

    def _validate(self, arguments: Json, size: ArgumentSize) -> list[str]:
        if excess := self._find_excess(arguments, size):
            return [excess]
        if self.validator.is_valid(arguments):
            return []
        part = self._select_explainable(arguments)
        lines = explain_errors(
            self.validator.iter_errors(part.value), ErrorContext(part, self.schema)
        )
        if not lines:
            return [describe_unlocated_error()]
        if part.truncated_paths:
            return [*lines, "and perhaps more: only a part of these large arguments was looked at"]
        return lines

    def _find_excess(self, arguments: Json, size: ArgumentSize) -> str | None:
        """Return a message if validating would take too long."""
        per_value = self.bounded.expanded_size * (1 + len(self.bounded.memoized_edges))
        per_character = per_value * sum(self.pattern_costs.values())
        quick = size.values * per_value <= CHECK_LIMIT
        if quick and size.characters * per_character <= MATCHING_LIMIT:
            return None
        work = self._count_work(arguments, ValidationMode.VERDICT, CHECK_LIMIT)
        if not work.is_complete:
            return f"{ROOT}: too large or too deeply nested to check against the schema; send less"
        if work.matching_cost > MATCHING_LIMIT:
            return f"{ROOT}: too much text to match against the patterns of the schema; send less"
        return None

    def _select_explainable(self, arguments: Json) -> Excerpt:
        """Return the part of `arguments` that can be searched for all errors in bounded time."""
        if self._count_work(arguments, ValidationMode.ERRORS, EXPLANATION_LIMIT).is_complete:
            return Excerpt(arguments)
        narrow = take_excerpt(arguments, levels=DEPTH_LIMIT + 1)
        work = self._count_work(narrow.value, ValidationMode.ERRORS, EXPLANATION_LIMIT)
        return narrow if work.is_complete else take_excerpt(arguments, levels=max(1, work.levels))

    def _count_work(self, arguments: Json, mode: ValidationMode, limit: int) -> WorkEstimate:
        return count_work(self.bounded, self.pattern_costs, arguments, mode, limit)


def compile_schema(schema: Json) -> CompiledSchema:
    """Check and compile `schema`; raise `SchemaUnusable` if it cannot be used safely."""
    bounded = bound_schema(schema)
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=_MAX_PROGRAM_BYTES)
    try:
        return CompiledSchema(
            schema, bounded, bounded.pattern_costs, _build_validator(schema, linear)
        )
    except SchemaUnusable:
        if not bounded.pattern_costs:
            raise
    backtracking = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=BACKTRACK_LIMIT, size_limit=_MAX_PROGRAM_BYTES
    )
    costs = {
        pattern: cost if _can_compile(pattern, linear) else max(cost, _BACKTRACKING_COST)
        for pattern, cost in bounded.pattern_costs.items()
    }
    return CompiledSchema(schema, bounded, costs, _build_validator(schema, backtracking))


def _can_compile(pattern: str, options: jsonschema_rs.RegexOptions) -> bool:
    try:
        _build_validator({"pattern": pattern}, options)
    except SchemaUnusable:
        return False
    return True


def _build_validator(
    schema: Json, options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Validator:
    import jsonschema_rs

    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, detect_draft(schema).value)
    if not isinstance(schema, dict | bool):
        raise SchemaUnusable("is neither an object nor a boolean")
    try:
        return validator(
            schema,
            validate_formats=False,
            retriever=_refuse_fetch,
            mask="…",
            pattern_options=options,
        )
    # Every exception, panics included, means that the schema is refused.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        raise SchemaUnusable(
            f"does not compile: {_describe_compile_error(error, schema)}"
        ) from error


def _describe_compile_error(error: BaseException, schema: Json) -> str:
    import jsonschema_rs

    if isinstance(error, jsonschema_rs.ValidationError) and error.instance_path:
        return "; ".join(explain_errors([error], ErrorContext(Excerpt(schema), None)))
    return truncate_line(str(error).partition("\n")[0])


def _refuse_fetch(uri: str, /) -> NoReturn:
    raise LookupError(f"{uri}: references to other documents are never fetched")
