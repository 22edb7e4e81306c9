"""Tools that are not offered because of their schema."""

import time

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.definition import find_definition_problem, find_input_schema_problem

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_a_plain_schema_has_no_problem() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"path": {"type": "string", "pattern": r"^\p{L}+(?<x>a)$"}},
        "required": ["path"],
    }

    assert find_definition_problem(schema) is None
    assert find_input_schema_problem(schema) is None
    assert find_input_schema_problem({"$schema": DRAFT_7, **schema}) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strng"}, "breaks its metaschema: type: 'strng' is not valid under any of the"),
        ({"properties": {"a": {"minimum": "1"}}}, "breaks its metaschema: properties.a.minimum: "),
        ({"required": "path"}, "breaks its metaschema: required: 'path' is not of type 'array'"),
        ({"required": ["a", "a"]}, "breaks its metaschema: required: ['a', 'a'] has non-unique"),
        ({"$schema": DRAFT_7, "items": 1}, "breaks its metaschema: items: "),
        ({"$ref": "#/nope"}, 'refers to "#/nope", which is not inside the schema'),
        ("text", "is neither an object nor a boolean"),
    ],
)
def test_an_invalid_schema_is_reported_with_the_reason(schema: Json, problem: str) -> None:
    found = find_definition_problem(schema)

    assert found is not None
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (None, "is not an object schema: null"),
        (True, "is not an object schema: true"),
        ({}, 'is not an object schema: type is null, expected "object"'),
        ({"type": "string"}, 'is not an object schema: type is "string", expected "object"'),
        (
            {"type": ["object", "null"]},
            'is not an object schema: type is ["object", "null"], expected "object"',
        ),
        (
            {"type": "object", "required": [1]},
            "breaks its metaschema: required[0]: 1 is not of type 'string'",
        ),
        (
            {"type": "object", "properties": {"a": {"pattern": "(a"}}},
            'does not compile: properties.a.pattern: expected text in the format "regex", got "(a"',
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
            'refers to "file:///etc/passwd", which is not inside the schema; '
            "references to other documents are never fetched",
        ),
        (
            {"type": "object", "allOf": [{"$ref": "#"}]},
            "has a reference that leads back to itself for the same value",
        ),
    ],
)
def test_a_tool_with_an_unusable_input_schema_is_not_offered(schema: Json, problem: str) -> None:
    assert find_input_schema_problem(schema) == problem


def test_a_hostile_definition_is_checked_quickly() -> None:
    mixed: list[Json] = [index if index % 2 else str(index) for index in range(9_000)]
    objects: list[Json] = [{"a": index} for index in range(4_000)]
    schemas: list[JsonObject] = [
        {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"enum": mixed}}},
        {"$schema": DRAFT_7, "type": "object", "properties": {"a": {"enum": objects}}},
        {"$schema": DRAFT_4, "type": "object", "properties": {"a": {"enum": mixed}}},
        {"$schema": DRAFT_4, "type": "object", "properties": {"a": {"enum": objects}}},
        {"type": "object", "required": [str(index) for index in range(9_000)]},
        {"type": "object", "required": mixed},
        {"type": "object", "properties": {"a": {"type": mixed}}},
        {"type": "object", "dependentRequired": {"a": mixed}},
        {"$schema": DRAFT_7, "type": "object", "dependencies": {"a": mixed}},
        {"type": "object", "$id": "a" * 1_000_000 + "#x"},
        {"type": "object", "$anchor": "a" * 1_000_000 + "!"},
    ]

    for schema in schemas:
        began = time.process_time()
        find_input_schema_problem(schema)
        seconds = time.process_time() - began
        assert seconds < 3


def test_a_long_mixed_list_of_unique_items_is_reported() -> None:
    mixed: list[Json] = [index if index % 2 else str(index) for index in range(300)]

    problem = find_definition_problem({"properties": {"a": {"type": mixed}}})

    assert problem == "has a long list of mixed items, which takes too long to check: type"
    assert find_definition_problem({"$schema": DRAFT_4, "enum": mixed}) == (
        "has a long list of mixed items, which takes too long to check: enum"
    )
    assert find_definition_problem({"$schema": DRAFT_7, "enum": mixed}) is None


def test_the_deepest_schema_within_bounds_does_not_exhaust_the_stack() -> None:
    schema: JsonObject = {}
    for _ in range(62):
        schema = {"not": schema}
    schema["type"] = "object"

    assert find_input_schema_problem(schema) in (
        None,
        "is nested too deeply to be checked against its metaschema",
    )
