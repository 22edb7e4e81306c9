"""A tool's schema judged when it is learnt: may the tool be offered at all?"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.cost_bounds import bound
from mcp_dispatch.schema.error_messages import cut, place, shown
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.js_regex import NotJavaScript, check_pattern
from mcp_dispatch.schema.refs import Draft, draft_of, names_known_draft
from mcp_dispatch.schema.validator import compile_schema

if TYPE_CHECKING:
    from jsonschema import ValidationError


_DISTINCT = frozenset({"type", "required", "enum"})
_DISTINCT_WITHIN = frozenset({"dependentRequired", "dependencies"})
_LONG_LIST = 200


def definition_problem(schema: Json) -> str | None:
    """Why `schema` is not a schema of its draft, or None. It is bounded before it is read.

    Costs milliseconds per schema, and the first call imports `jsonschema`: not for the way of a
    call. Formats are not checked, as `regex` would mean Python's dialect.
    """
    try:
        bound(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
    return _lists_problem(schema) or _metaschema_problem(schema)


def input_schema_problem(schema: Json) -> str | None:
    """Why a tool with this `inputSchema` must be held back, or None."""
    if not isinstance(schema, dict):
        return f"is not an object schema: {shown(schema)}"
    if schema.get("type") != "object":
        return f'is not an object schema: type is {shown(schema.get("type"))}, expected "object"'
    if problem := definition_problem(schema):
        return problem
    try:
        compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
    return None


def _lists_problem(schema: Json) -> str | None:
    """Long lists that must hold no item twice, where the package would compare pair by pair."""
    keywords = _DISTINCT if draft_of(schema) is Draft.DRAFT_4 else _DISTINCT - {"enum"}
    waiting: list[Json] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
            lists = [(name, value[name]) for name in keywords & value.keys()]
            for name in _DISTINCT_WITHIN & value.keys():
                within = value[name]
                lists.extend(
                    (name, one) for one in (within.values() if isinstance(within, dict) else ())
                )
            for name, items in lists:
                if _is_long_and_mixed(items):
                    return f"has a long list of mixed items, which takes too long to check: {name}"
    return None


def _is_long_and_mixed(items: Json) -> bool:
    """Whether the package cannot sort `items`, and comparing them all would take seconds."""
    if not isinstance(items, list) or len(items) <= _LONG_LIST:
        return False
    kinds = {type(item) for item in items}
    return not (kinds <= {str} or kinds <= {int, float})


def _metaschema_problem(schema: Json) -> str | None:
    # The package is only partly typed.
    validators: Any = import_module("jsonschema.validators")
    known = getattr(validators, draft_of(schema).value)
    metaschema = known(known.META_SCHEMA)
    try:
        error: ValidationError | None = next(metaschema.iter_errors(schema), None)
    except RecursionError:
        return "is nested too deeply to be checked against its metaschema"
    if error is None:
        return None
    where = f"{place(list(error.absolute_path))}: " if error.absolute_path else ""
    return f"breaks its metaschema: {where}{cut(error.message)}"


_TOO_OLD = re.compile(r"https?://json-schema\.org/draft-0[0-5]/")


def usable_output_schema(schema: Json) -> JsonObject:
    """The schema as it may be shown to clients. Raises `SchemaUnusable`.

    A `$schema` that nobody knows is left out: it is read as 2020-12 anyway.
    """
    if not isinstance(schema, dict):
        raise SchemaUnusable(f"is not a schema in an object: {shown(schema)}")
    named = schema.get("$schema")
    if isinstance(named, str) and (draft_of(schema) is Draft.DRAFT_4 or _TOO_OLD.match(named)):
        raise SchemaUnusable(f"is written in a draft before 6: {shown(named)}")
    schema = as_shown(schema)
    if problem := definition_problem(schema):
        raise SchemaUnusable(problem)
    for pattern in compile_schema(schema).pattern_costs:
        _check_for_clients(pattern)
    return schema


def as_shown(schema: JsonObject) -> JsonObject:
    """Without a `$schema` that nobody knows."""
    if names_known_draft(schema):
        return schema
    return {key: value for key, value in schema.items() if key != "$schema"}


def _check_for_clients(pattern: str) -> None:
    """JavaScript and Python each have an engine of their own, and clients are written in both."""
    try:
        check_pattern(pattern)
    except NotJavaScript as problem:
        raise SchemaUnusable(
            f"has a pattern that JavaScript does not accept: {shown(pattern)} ({problem})"
        ) from problem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise SchemaUnusable(
            f"has a pattern that Python does not accept: {shown(pattern)} ({problem})"
        ) from problem
