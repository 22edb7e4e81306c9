"""Messages to the model about invalid arguments."""

import time

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.validator import compile_schema

EDIT: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "mode": {"enum": ["a", "b"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}

TABLE: list[tuple[str, JsonObject, Json, list[str]]] = [
    ("missing", EDIT, {}, ["path: required, but missing"]),
    (
        "type",
        EDIT,
        {"path": "x", "count": "three"},
        ['count: expected integer, got "three"'],
    ),
    (
        "enum",
        EDIT,
        {"path": "x", "mode": "c"},
        ['mode: expected one of "a", "b", got "c"'],
    ),
    (
        "unexpected",
        EDIT,
        {"path": "x", "zz": 1},
        ['(arguments): unexpected property "zz"; known properties: "path", "count", "mode"'],
    ),
    (
        "several unexpected",
        {"additionalProperties": False},
        {"x": 1, "y": 2},
        ['(arguments): unexpected properties "x", "y"'],
    ),
    (
        "no properties at all",
        {"properties": {}, "additionalProperties": False},
        {"x": 1},
        ['(arguments): unexpected property "x"; known properties: none'],
    ),
    (
        "everything at once",
        EDIT,
        {"count": 1.5, "mode": None, "zz": []},
        [
            '(arguments): unexpected property "zz"; known properties: "path", "count", "mode"',
            "count: expected integer, got 1.5",
            'mode: expected one of "a", "b", got null',
            "path: required, but missing",
        ],
    ),
    ("not an object", EDIT, [1], ["(arguments): expected object, got [1]"]),
    (
        "inside a list",
        {"properties": {"edits": {"items": {"required": ["old"]}}}},
        {"edits": [{"old": ""}, {}]},
        ["edits[1].old: required, but missing"],
    ),
    (
        "a name that is no identifier",
        {"properties": {"a b.c\n": {"type": "null"}}},
        {"a b.c\n": 1},
        ['["a b.c\\n"]: expected null, got 1'],
    ),
    (
        "several types",
        {"type": ["null", "string"]},
        1,
        ["(arguments): expected string or null, got 1"],
    ),
    ("constant", {"const": {"a": 1}}, 1, ['(arguments): expected {"a": 1}, got 1']),
    ("minimum", {"minimum": 10**30}, 1, [f"(arguments): expected at least {10**30}, got 1"]),
    ("maximum", {"maximum": 1.5}, 2, ["(arguments): expected at most 1.5, got 2"]),
    ("over", {"exclusiveMinimum": 1}, 1, ["(arguments): expected more than 1, got 1"]),
    ("under", {"exclusiveMaximum": 1}, 1, ["(arguments): expected less than 1, got 1"]),
    ("multiple", {"multipleOf": 3}, 4, ["(arguments): expected a multiple of 3, got 4"]),
    (
        "too short",
        {"minLength": 3},
        "é",
        ['(arguments): expected at least 3 characters, got 1: "é"'],
    ),
    (
        "too long",
        {"maxLength": 1},
        "abc",
        ['(arguments): expected at most 1 characters, got 3: "abc"'],
    ),
    ("too few", {"minItems": 2}, [1], ["(arguments): expected at least 2 items, got 1"]),
    ("too many", {"maxItems": 1}, [1, 2], ["(arguments): expected at most 1 items, got 2"]),
    (
        "too few properties",
        {"minProperties": 1},
        {},
        ["(arguments): expected at least 1 properties, got 0"],
    ),
    (
        "pattern",
        {"pattern": "^x"},
        "a",
        ['(arguments): expected text that matches "^x", got "a"'],
    ),
    (
        "duplicates",
        {"uniqueItems": True},
        [1, 1.0],
        ["(arguments): expected items that all differ, got [1, 1.0]"],
    ),
    (
        "forbidden",
        {"properties": {"a": False}},
        {"a": 1},
        ["a: no value is allowed here, got 1"],
    ),
    (
        "not",
        {"not": {"type": "integer"}},
        1,
        ['(arguments): expected a value that does not fit {"type": "integer"}, got 1'],
    ),
    (
        "names",
        {"propertyNames": {"pattern": "^x"}},
        {"a": 1},
        ['(arguments): property name "a": expected text that matches "^x"'],
    ),
    (
        "too many alternatives fit",
        {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
        1,
        ["(arguments): expected to fit exactly one of 2 alternatives, but fits several, got 1"],
    ),
    (
        "contains",
        {"contains": {"type": "string"}},
        [1],
        ['(arguments): the number of items that fit "contains" is out of bounds, got [1]'],
    ),
    (
        "unevaluated",
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        {"a": 1, "b": 2},
        ['(arguments): unexpected property "b"'],
    ),
    (
        "other properties have a schema",
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": {"type": "string"}},
        {"b": 2},
        ['(arguments): property "b": expected to fit {"type": "string"}'],
    ),
]


@pytest.mark.parametrize(
    ("schema", "arguments", "expected"), [case[1:] for case in TABLE], ids=[c[0] for c in TABLE]
)
def test_each_problem_has_path_expectation_and_value(
    schema: JsonObject, arguments: Json, expected: list[str]
) -> None:
    problems = compile_schema(schema).find_problems(arguments)

    assert sorted(problems) == sorted(expected)


def test_known_properties_are_found_through_a_reference() -> None:
    schema: JsonObject = {
        "$defs": {"P": {"properties": {"x": {}, "y": {}}, "additionalProperties": False}},
        "properties": {"p": {"$ref": "#/$defs/P"}},
    }

    problems = compile_schema(schema).find_problems({"p": {"z": 1}})

    assert problems == ['p: unexpected property "z"; known properties: "x", "y"']


def test_an_optional_value_of_the_wrong_type_names_all_types() -> None:
    schema: JsonObject = {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}

    problems = compile_schema(schema).find_problems({"a": 5})

    assert problems == ["a: expected string or null, got 5"]


def test_an_optional_object_is_explained_as_if_it_were_not_optional() -> None:
    inner: JsonObject = {"type": "object", "required": ["id"]}
    schema: JsonObject = {"properties": {"a": {"anyOf": [inner, {"type": "null"}]}}}

    problems = compile_schema(schema).find_problems({"a": {}})

    assert problems == ["a.id: required, but missing"]


def test_a_union_of_constants_lists_them_all() -> None:
    schema: JsonObject = {"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]}

    problems = compile_schema(schema).find_problems("c")

    assert problems == ['(arguments): expected "a", "b" or null, got "c"']


SHAPES: JsonObject = {
    "oneOf": [
        {
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
            "required": ["kind", "radius"],
        },
        {
            "properties": {"kind": {"const": "box"}, "width": {"type": "number"}},
            "required": ["kind", "width"],
        },
        {"type": "string"},
    ]
}


def test_the_nearest_alternative_is_the_one_whose_constant_fits() -> None:
    problems = compile_schema(SHAPES).find_problems({"kind": "box", "radius": 1})

    assert problems == ["width: required, but missing (nearest of 2 alternatives)"]


def test_a_wrong_discriminator_lists_the_right_ones() -> None:
    shapes: list[Json] = [
        {"properties": {"kind": {"const": kind}}, "required": ["kind", kind]}
        for kind in ("circle", "box")
    ]

    problems = compile_schema({"anyOf": shapes}).find_problems({"kind": "star"})

    assert problems == ['kind: expected "circle" or "box", got "star"']


def test_the_deeper_error_decides_between_alternatives_of_one_error_each() -> None:
    shallow: JsonObject = {"required": ["b"]}
    deep: JsonObject = {"properties": {"a": {"properties": {"c": {"type": "integer"}}}}}

    problems = compile_schema({"anyOf": [shallow, deep]}).find_problems({"a": {"c": "x"}})

    assert problems == ['a.c: expected integer, got "x" (nearest of 2 alternatives)']


def test_a_union_within_a_union_is_explained_to_its_end() -> None:
    inner: JsonObject = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema: JsonObject = {"anyOf": [{"properties": {"a": inner}}, {"type": "null"}]}

    problems = compile_schema(schema).find_problems({"a": "x"})

    assert problems == ['a: expected integer or null, got "x"']


def test_only_the_first_problems_are_listed_and_the_rest_is_counted() -> None:
    problems = compile_schema({"items": {"type": "null"}}).find_problems(list(range(25)))

    assert problems == [
        *(f"[{index}]: expected null, got {index}" for index in range(20)),
        "and 5 more problems",
    ]


def test_long_lists_of_names_are_cut() -> None:
    options: list[Json] = [f"o{index}" for index in range(1000)]

    problems = compile_schema({"enum": options}).find_problems("x")

    listed = ", ".join(f'"o{index}"' for index in range(20))
    assert problems == [f'(arguments): expected one of {listed} and 980 more, got "x"']


def test_a_long_value_is_cut_to_80_characters_quickly() -> None:
    validator = compile_schema({"properties": {"a": {"type": "integer"}}})
    arguments: Json = {"a": "x" * 10_000_000}

    began = time.process_time()
    problems = validator.find_problems(arguments)
    seconds = time.process_time() - began

    assert problems == [f'a: expected integer, got "{"x" * 78}…']
    assert seconds < 1


def test_a_large_structure_is_cut_to_80_characters() -> None:
    rows: list[Json] = [{"id": index, "name": "n" * 200} for index in range(1000)]

    problems = compile_schema({"type": "object"}).find_problems(rows)

    assert problems == ['(arguments): expected object, got [{"id": 0, "name": "' + "n" * 59 + "…"]


def test_of_a_million_wrong_items_the_first_are_reported() -> None:
    validator = compile_schema({"items": {"type": "string"}})
    arguments: list[Json] = [1] * 1_000_000

    began = time.process_time()
    problems = validator.find_problems(arguments)
    seconds = time.process_time() - began

    assert problems == [
        *(f"[{index}]: expected string, got 1" for index in range(20)),
        "and perhaps more: only a part of these large arguments was looked at",
    ]
    assert seconds < 10


def test_an_error_far_down_a_very_long_list_is_still_a_refusal() -> None:
    arguments: Json = [*["x"] * 1_000_000, 1]

    problems = compile_schema({"items": {"type": "string"}}).find_problems(arguments)

    assert problems == [
        "(arguments): do not fit the schema, at a place so deep inside or so far down a list that "
        "looking for it would take too long; send a smaller part to see what is wrong"
    ]


def test_a_truncated_list_is_not_reported_as_too_short() -> None:
    items: JsonObject = {"type": "object", "required": ["id"]}
    schema: JsonObject = {"properties": {"rows": {"minItems": 100_000, "items": items}}}
    rows: list[Json] = [{} for _ in range(200_000)]

    problems = compile_schema(schema).find_problems({"rows": rows})

    assert problems == [
        *(f"rows[{index}].id: required, but missing" for index in range(20)),
        "and perhaps more: only a part of these large arguments was looked at",
    ]
