"""Checks the schemas of a tool when its definition is received."""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.cost_bounds import bound_schema
from mcp_dispatch.schema.error_messages import format_path, format_value, truncate_line
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.js_regex import InvalidJavaScriptPattern, check_pattern
from mcp_dispatch.schema.refs import Draft, detect_draft, has_known_draft
from mcp_dispatch.schema.validator import compile_schema

if TYPE_CHECKING:
    from jsonschema import ValidationError


_DISTINCT_LISTS = frozenset({"type", "required", "enum"})
_DISTINCT_LIST_MAPS = frozenset({"dependentRequired", "dependencies"})
_MAX_MIXED_ITEMS = 200


def find_definition_problem(schema: Json) -> str | None:
    """Return why `schema` is not a valid schema of its draft, or None.

    This takes milliseconds per schema, and the first use imports `jsonschema`: do not use it while
    a call waits. Formats are not checked, because `regex` would mean Python's dialect.
    """
    try:
        bound_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
    return _find_list_problem(schema) or _find_metaschema_problem(schema)


def find_input_schema_problem(schema: Json) -> str | None:
    """Return why a tool with this `inputSchema` must not be offered, or None."""
    if not isinstance(schema, dict):
        return f"is not an object schema: {format_value(schema)}"
    if schema.get("type") != "object":
        return f'is not an object schema: type is {format_value(schema.get("type"))}, expected "object"'
    if problem := find_definition_problem(schema):
        return problem
    try:
        compile_schema(schema)
    except SchemaUnusable as unusable:
        return unusable.reason
    return None


def _find_list_problem(schema: Json) -> str | None:
    """Find a long list of unique items that `jsonschema` would compare pair by pair."""
    keywords = (
        _DISTINCT_LISTS if detect_draft(schema) is Draft.DRAFT_4 else _DISTINCT_LISTS - {"enum"}
    )
    waiting: list[Json] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(value.values())
            lists = [(name, value[name]) for name in keywords & value.keys()]
            for name in _DISTINCT_LIST_MAPS & value.keys():
                within = value[name]
                lists.extend(
                    (name, one) for one in (within.values() if isinstance(within, dict) else ())
                )
            for name, items in lists:
                if _is_long_and_mixed(items):
                    return f"has a long list of mixed items, which takes too long to check: {name}"
    return None


def _is_long_and_mixed(items: Json) -> bool:
    """Return whether `jsonschema` cannot sort `items` and would need seconds to compare them."""
    if not isinstance(items, list) or len(items) <= _MAX_MIXED_ITEMS:
        return False
    kinds = {type(item) for item in items}
    return not (kinds <= {str} or kinds <= {int, float})


def _find_metaschema_problem(schema: Json) -> str | None:
    # `jsonschema` is only partly typed.
    validators: Any = import_module("jsonschema.validators")
    known = getattr(validators, detect_draft(schema).value)
    metaschema = known(known.META_SCHEMA)
    try:
        error: ValidationError | None = next(metaschema.iter_errors(schema), None)
    except RecursionError:
        return "is nested too deeply to be checked against its metaschema"
    if error is None:
        return None
    where = f"{format_path(list(error.absolute_path))}: " if error.absolute_path else ""
    return f"breaks its metaschema: {where}{truncate_line(error.message)}"


_DRAFT_BEFORE_6 = re.compile(r"https?://json-schema\.org/draft-0[0-5]/")


def prepare_output_schema(schema: Json) -> JsonObject:
    """Return the schema that may be shown to clients. Raises `SchemaUnusable`.

    An unknown `$schema` is removed: validators read such a schema as 2020-12 anyway.
    """
    if not isinstance(schema, dict):
        raise SchemaUnusable(f"is not a schema in an object: {format_value(schema)}")
    named = schema.get("$schema")
    if isinstance(named, str) and (
        detect_draft(schema) is Draft.DRAFT_4 or _DRAFT_BEFORE_6.match(named)
    ):
        raise SchemaUnusable(f"is written in a draft before 6: {format_value(named)}")
    schema = remove_unknown_draft(schema)
    if problem := find_definition_problem(schema):
        raise SchemaUnusable(problem)
    for pattern in compile_schema(schema).pattern_costs:
        _check_client_pattern(pattern)
    return schema


def remove_unknown_draft(schema: JsonObject) -> JsonObject:
    """Remove a `$schema` that validators do not know."""
    if has_known_draft(schema):
        return schema
    return {key: value for key, value in schema.items() if key != "$schema"}


def _check_client_pattern(pattern: str) -> None:
    """Require a pattern that JavaScript and Python compile: clients are written in both."""
    try:
        check_pattern(pattern)
    except InvalidJavaScriptPattern as problem:
        raise SchemaUnusable(
            f"has a pattern that JavaScript does not accept: {format_value(pattern)} ({problem})"
        ) from problem
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise SchemaUnusable(
            f"has a pattern that Python does not accept: {format_value(pattern)} ({problem})"
        ) from problem
