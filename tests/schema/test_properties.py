"""Properties that hold for every schema and all arguments."""

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.definition import find_input_schema_problem
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import compile_schema
from tests.support.depth import choose_count

NAMES = st.sampled_from(["a", "b", "type", "$ref", "x y", "\n"])
TEXT = st.text(st.characters(exclude_categories=()), max_size=8) | NAMES
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
VALUES = cast(
    "st.SearchStrategy[Json]",
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=12,
    ),
)

REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#x", "http://localhost:9/", "b"])
PATTERNS = st.sampled_from(["^a", "(a+)+$", "(?!a)b", "[", r"\p{L}", "a{3}", "(a){9999}"])
TYPES = st.sampled_from(["null", "boolean", "object", "array", "number", "string", "integer"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES | st.lists(TYPES, max_size=2),
            "$ref": REFERENCES,
            "$dynamicRef": REFERENCES,
            "$anchor": st.just("x"),
            "$id": st.sampled_from(["b", "http://localhost:9/b", "#x"]),
            "$defs": st.fixed_dictionaries({"a": inner, "b": inner}),
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "properties": named,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "propertyNames": inner,
            "items": inner,
            "prefixItems": several,
            "contains": inner,
            "unevaluatedItems": inner,
            "required": st.lists(NAMES, max_size=2),
            "enum": st.lists(VALUES, max_size=3),
            "const": VALUES,
            "pattern": PATTERNS,
            "minimum": st.integers() | st.floats(),
            "maxLength": st.integers(0, 5),
            "uniqueItems": st.booleans(),
        },
    )


SCHEMAS = cast(
    "st.SearchStrategy[Json]", st.recursive(st.booleans() | VALUES, keywords, max_leaves=8)
)


@settings(max_examples=choose_count(quick=60, deep=3000), deadline=None)
@given(schema=SCHEMAS, arguments=VALUES)
def test_validation_never_raises_and_returns_single_lines(schema: Json, arguments: Json) -> None:
    try:
        problems = compile_schema(schema).find_problems(arguments)
    except SchemaUnusable as unusable:
        problems = [unusable.reason]

    for problem in problems:
        assert problem.encode("utf-8")
        assert problem.splitlines() == [problem]


@settings(max_examples=choose_count(quick=40, deep=1500), deadline=None)
@given(schema=SCHEMAS)
def test_checking_a_definition_never_raises_and_agrees_with_compiling(schema: Json) -> None:
    problem = find_input_schema_problem(schema)

    if problem is None:
        compile_schema(schema)
    else:
        assert problem.encode("utf-8")
        assert problem.splitlines() == [problem]
