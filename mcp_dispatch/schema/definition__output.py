"""A tool's `outputSchema` judged when it is learnt: may clients be shown it?

Clients compile every one they are shown, and some give up the whole list over a single bad one.
"""

import re
import warnings

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.definition import definition_problem
from mcp_dispatch.schema.error_messages__values import shown
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.js_regex import NotJavaScript, check_pattern
from mcp_dispatch.schema.refs__drafts import Draft, draft_of, names_known_draft
from mcp_dispatch.schema.validator import compile_schema

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
