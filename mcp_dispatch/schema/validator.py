"""Schemas compiled once per tool, and arguments held against them.

The validator is foreign code that works on foreign schemas, so it is fenced in:

* it fetches nothing: its retriever always raises;
* its patterns run on an engine that is linear in the text. Only a schema whose patterns need more
  (look-around, back-references) is given the backtracking engine, with a limit on its steps. What
  the patterns may cost on the given text is counted beforehand for both;
* formats are annotations in every draft: upstreams disagree on what `uri` or `email` means, and
  checking them is theirs;
* whatever it raises is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.arguments import DEPTH_LIMIT, Measured, measure
from mcp_dispatch.schema.cost_bounds import Bounded, bound
from mcp_dispatch.schema.cost_estimate import Question, Work, count_work
from mcp_dispatch.schema.error_messages import ROOT, Case, cut, explain, unexplained
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.excerpt import Excerpt, excerpt
from mcp_dispatch.schema.refs import draft_of

if TYPE_CHECKING:
    import jsonschema_rs

# Each of these is about a second of the slowest work we could construct.
CHECK_LIMIT = 10_000_000
MATCHING_LIMIT = 20_000_000
EXPLANATION_LIMIT = 1_000_000

BACKTRACK_LIMIT = 10_000
# A step of the backtracking engine may read the whole text, at a fraction of a unit per character.
_BACKTRACKING_COST = BACKTRACK_LIMIT // 16
_PROGRAM_BYTES = 2_000_000


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A `Validator`. Immutable; the schema must not be changed after compiling."""

    schema: Json
    bounded: Bounded
    pattern_costs: dict[str, int]
    validator: jsonschema_rs.Validator

    def problems(self, arguments: Json) -> list[str]:
        """Every way in which `arguments` break the schema; never raises, empty means valid."""
        measured = measure(arguments)
        if isinstance(measured, str):
            return [measured]
        try:
            return self._judge(arguments, measured)
        # Foreign code: UnicodeEncodeError, ValueError and the panics of its runtime, which are
        # no `Exception`, have been seen. None of them may pass for "valid".
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            return [f"{ROOT}: could not be validated: {type(error).__name__}: {cut(str(error))}"]

    def _judge(self, arguments: Json, measured: Measured) -> list[str]:
        if excess := self._excess(arguments, measured):
            return [excess]
        if self.validator.is_valid(arguments):
            return []
        part = self._explainable(arguments)
        lines = explain(self.validator.iter_errors(part.value), Case(part, self.schema))
        if not lines:
            return [unexplained()]
        if part.cut:
            return [*lines, "and perhaps more: only a part of these large arguments was looked at"]
        return lines

    def _excess(self, arguments: Json, measured: Measured) -> str | None:
        """Why validating would take too long, if it would."""
        per_value = self.bounded.expanded * (1 + len(self.bounded.remembered))
        per_character = per_value * sum(self.pattern_costs.values())
        quick = measured.values * per_value <= CHECK_LIMIT
        if quick and measured.characters * per_character <= MATCHING_LIMIT:
            return None
        work = self._work(arguments, Question.VERDICT, CHECK_LIMIT)
        if not work.whole:
            return f"{ROOT}: too large or too deeply nested to check against the schema; send less"
        if work.matching > MATCHING_LIMIT:
            return f"{ROOT}: too much text to match against the patterns of the schema; send less"
        return None

    def _explainable(self, arguments: Json) -> Excerpt:
        """As much of `arguments` as can be searched for every error in bounded time."""
        if self._work(arguments, Question.ERRORS, EXPLANATION_LIMIT).whole:
            return Excerpt(arguments)
        narrow = excerpt(arguments, levels=DEPTH_LIMIT + 1)
        work = self._work(narrow.value, Question.ERRORS, EXPLANATION_LIMIT)
        return narrow if work.whole else excerpt(arguments, levels=max(1, work.levels))

    def _work(self, arguments: Json, question: Question, limit: int) -> Work:
        return count_work(self.bounded, self.pattern_costs, arguments, question, limit)


def compile_schema(schema: Json) -> CompiledSchema:
    """Bounds and compiles `schema`; raises `SchemaUnusable` when it cannot be used safely."""
    bounded = bound(schema)
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=_PROGRAM_BYTES)
    try:
        return CompiledSchema(schema, bounded, bounded.pattern_costs, _build(schema, linear))
    except SchemaUnusable:
        if not bounded.pattern_costs:
            raise
    backtracking = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=BACKTRACK_LIMIT, size_limit=_PROGRAM_BYTES
    )
    costs = {
        pattern: cost if _compiles(pattern, linear) else max(cost, _BACKTRACKING_COST)
        for pattern, cost in bounded.pattern_costs.items()
    }
    return CompiledSchema(schema, bounded, costs, _build(schema, backtracking))


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions) -> bool:
    try:
        _build({"pattern": pattern}, options)
    except SchemaUnusable:
        return False
    return True


def _build(
    schema: Json, options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
) -> jsonschema_rs.Validator:
    import jsonschema_rs

    validator: type[jsonschema_rs.Validator] = getattr(jsonschema_rs, draft_of(schema).value)
    if not isinstance(schema, dict | bool):
        raise SchemaUnusable("is neither an object nor a boolean")
    try:
        return validator(
            schema,
            validate_formats=False,
            retriever=_fetch_nothing,
            mask="…",
            pattern_options=options,
        )
    # Foreign code on a foreign schema: whatever it raises, panics included, is a refusal.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        raise SchemaUnusable(f"does not compile: {_reason(error, schema)}") from error


def _reason(error: BaseException, schema: Json) -> str:
    import jsonschema_rs

    if isinstance(error, jsonschema_rs.ValidationError) and error.instance_path:
        return "; ".join(explain([error], Case(Excerpt(schema), None)))
    return cut(str(error).partition("\n")[0])


def _fetch_nothing(uri: str, /) -> NoReturn:
    raise LookupError(f"{uri}: references to other documents are never fetched")
