"""Limits on the size of a schema, and on the work of validating a call."""

import time
from collections.abc import Callable

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.cost_bounds import bound_schema
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import compile_schema


def refusal(schema: Json) -> str:
    with pytest.raises(SchemaUnusable) as caught:
        bound_schema(schema)
    return caught.value.reason


def chain(length: int, link: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Build definitions d0 to d`length`; `link` builds each from a reference to the next."""
    definitions: dict[str, Json] = {
        f"d{index}": link({"$ref": f"#/$defs/d{index + 1}"}) for index in range(length)
    }
    definitions[f"d{length}"] = {"type": "string"}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


TREE: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "left": {"$ref": "#"},
        "right": {"$ref": "#"},
        "children": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["name"],
}


Link = Callable[[JsonObject], JsonObject]

DOUBLINGS: dict[str, Link] = {
    "allOf": lambda ref: {"allOf": [ref, ref]},
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "properties": lambda ref: {"properties": {"a": ref, "b": ref}},
    "not and if": lambda ref: {"not": ref, "if": ref},
    "items and contains": lambda ref: {"items": ref, "contains": ref},
}


@pytest.mark.parametrize("link", DOUBLINGS.values(), ids=DOUBLINGS)
def test_doubling_references_are_refused_at_once(link: Link) -> None:
    schema = chain(40, link)

    began = time.process_time()
    reason = refusal(schema)
    seconds = time.process_time() - began

    assert reason == (
        "holds more than a billion subschemas with its references expanded; "
        "at most 200000 are accepted"
    )
    assert seconds < 0.5


def test_the_error_contains_the_expanded_size() -> None:
    schema = chain(16, DOUBLINGS["allOf"])

    reason = refusal(schema)

    assert reason == (
        "holds 262142 subschemas with its references expanded; at most 200000 are accepted"
    )


def test_nested_unevaluated_properties_are_counted_as_they_multiply() -> None:
    schema = chain(20, lambda ref: {"anyOf": [ref], "unevaluatedProperties": False})

    assert refusal(schema).startswith("holds more than a billion subschemas")


def test_doubling_references_inside_a_cycle_are_refused() -> None:
    schema = chain(40, lambda ref: {"allOf": [{"properties": {"n": ref}} for _ in range(2)]})
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    definitions["d40"] = {"properties": {"n": {"$ref": "#/$defs/d0"}}}

    assert refusal(schema).startswith("holds more than a billion subschemas")


def test_doubling_by_anchors_and_identifiers_is_counted_too() -> None:
    definitions: dict[str, Json] = {}
    for index in range(80):
        by_anchor: JsonObject = {"$ref": f"#a{index + 1}"}
        by_identifier: JsonObject = {"$ref": f"item{index + 1}"}
        definitions[f"d{index}"] = {
            "$id": f"https://example.com/item{index}",
            "$defs": {"x": {"$anchor": f"a{index}", "allOf": [by_identifier, by_identifier]}},
            "allOf": [by_anchor],
        }
    definitions["d80"] = {"$id": "https://example.com/item80", "$anchor": "a80"}

    reason = refusal({"$defs": definitions, "$ref": "https://example.com/item0"})

    assert reason.startswith("holds more than a billion subschemas")


def test_a_recursive_schema_is_accepted_and_works_at_any_depth_we_accept() -> None:
    validator = compile_schema(TREE)
    value: dict[str, Json] = {"name": "leaf"}
    for _ in range(90):
        value = {"name": "x", "left": value, "children": [{"name": "y"}]}

    assert validator.find_problems(value) == []
    assert validator.find_problems({"name": "x", "left": {}}) == [
        "left.name: required, but missing"
    ]


def test_a_recursive_union_of_twenty_kinds_validates_deep_documents_quickly() -> None:
    kinds: list[Json] = [
        {
            "properties": {
                "type": {"const": f"k{index}"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["type"],
        }
        for index in range(20)
    ]
    validator = compile_schema({"$defs": {"node": {"anyOf": kinds}}, "$ref": "#/$defs/node"})
    document: dict[str, Json] = {"type": "k19"}
    for _ in range(40):
        document = {"type": "k19", "children": [document]}

    began = time.process_time()
    problems = validator.find_problems(document)
    seconds = time.process_time() - began

    assert problems == []
    assert seconds < 1


def test_a_mistake_deep_in_a_recursive_union_is_refused_quickly() -> None:
    kinds: list[Json] = [
        {"properties": {"type": {"const": f"k{index}"}, "child": {"$ref": "#"}}}
        for index in range(10)
    ]
    validator = compile_schema({"anyOf": kinds})
    document: dict[str, Json] = {"type": "wrong"}
    for _ in range(10):
        document = {"type": "k1", "child": document}

    began = time.process_time()
    problems = validator.find_problems(document)
    seconds = time.process_time() - began

    assert len(problems) == 1
    assert problems[0].startswith("(arguments): do not fit the schema, at a place so deep inside")
    assert seconds < 2


def test_a_call_that_would_take_too_long_is_refused_before_validation() -> None:
    wide: list[Json] = [{"minProperties": index % 2} for index in range(4_900)]
    validator = compile_schema({"items": {"allOf": wide}})

    began = time.process_time()
    problems = validator.find_problems([{"a": 1} for _ in range(20_000)])
    seconds = time.process_time() - began

    assert problems == [
        "(arguments): too large or too deeply nested to check against the schema; send less"
    ]
    assert seconds < 1


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}},
            "$ref": "#/$defs/a",
        },
        {"$dynamicAnchor": "m", "allOf": [{"$dynamicRef": "#m"}]},
    ],
)
def test_a_reference_that_leads_back_to_the_same_value_is_refused(schema: JsonObject) -> None:
    assert refusal(schema) == "has a reference that leads back to itself for the same value"


@pytest.mark.parametrize(("levels", "accepted"), [(63, True), (64, False), (100_000, False)])
def test_nesting_is_bounded(levels: int, accepted: bool) -> None:
    schema: Json = {}
    for _ in range(levels):
        schema = {"not": schema}

    if accepted:
        assert bound_schema(schema).expanded_size == 64
    else:
        assert refusal(schema) == "is nested more than 64 levels deep"


def test_the_number_of_values_is_bounded() -> None:
    schema: JsonObject = {"properties": {f"p{index}": {} for index in range(10_000)}}

    assert refusal(schema) == "holds more than 10000 values"


def test_a_long_enum_is_accepted() -> None:
    options: list[Json] = [f"Area/City{index}" for index in range(5_000)]

    validator = compile_schema({"properties": {"zone": {"enum": options}}})

    assert validator.find_problems({"zone": "Area/City4999"}) == []


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("(a{1,1000}){1,1000}", 1_000_000),
        ("((a{1,100}){1,100}){1,100}", 1_000_000),
        ("(?:x{500}){2,}[abc]{20000}", 21_500),
        ("a" * 20_001, 20_001),
    ],
)
def test_patterns_are_bounded_with_their_repetitions_written_out(pattern: str, length: int) -> None:
    reason = refusal({"properties": {"a": {"pattern": pattern}}})

    assert reason.startswith("has patterns of ")
    counted = int(reason.split()[3])
    assert length <= counted <= length + 10
    assert reason.endswith("repetitions written out; at most 20000 are accepted")


def test_a_value_that_is_not_a_schema_is_refused() -> None:
    assert refusal("string") == "is neither an object nor a boolean"
    assert refusal(None) == "is neither an object nor a boolean"
    assert refusal({"default": float("nan")}) == "holds nan, which is not JSON"


def test_a_reference_to_nothing_is_refused() -> None:
    assert refusal({"$ref": "#/$defs/nope"}) == (
        'refers to "#/$defs/nope", which is not inside the schema; '
        "references to other documents are never fetched"
    )


def test_a_property_named_like_a_keyword_is_only_a_property() -> None:
    schema: JsonObject = {
        "properties": {"$ref": {"type": "string"}, "id": {"type": "string"}, "pattern": {}},
        "default": {"$ref": "http://example.com/x", "id": "http://example.com/y"},
    }

    assert compile_schema(schema).find_problems({"$ref": 1}) == ["$ref: expected string, got 1"]
