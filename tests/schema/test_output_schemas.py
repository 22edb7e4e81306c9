"""Output schemas that clients can compile, and the rebasing of their references."""

import json
import random
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.output_schema import ORIGINAL_POINTER, extend_output_schema
from mcp_dispatch.schema.definition import prepare_output_schema
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.js_regex import InvalidJavaScriptPattern, check_pattern
from mcp_dispatch.schema.refs import rebase_references
from mcp_dispatch.schema.validator import compile_schema
from tests.support.typescript_client import node

BASE = "#/anyOf/0"


@pytest.mark.parametrize(
    ("schema", "moved"),
    [
        ({"$ref": "#"}, {"$ref": BASE}),
        ({"$ref": "#/$defs/a"}, {"$ref": f"{BASE}/$defs/a"}),
        ({"$ref": "#anchor"}, {"$ref": "#anchor"}),
        ({"$ref": "other.json#/a"}, {"$ref": "other.json#/a"}),
        ({"$dynamicRef": "#/a"}, {"$dynamicRef": f"{BASE}/a"}),
        ({"$dynamicRef": "#node"}, {"$dynamicRef": "#node"}),
        (
            {"properties": {"$ref": {"type": "string"}}},
            {"properties": {"$ref": {"type": "string"}}},
        ),
        ({"properties": {"$ref": {"$ref": "#"}}}, {"properties": {"$ref": {"$ref": BASE}}}),
        ({"properties": {"enum": {"$ref": "#"}}}, {"properties": {"enum": {"$ref": BASE}}}),
        ({"const": {"$ref": "#"}}, {"const": {"$ref": "#"}}),
        ({"enum": [{"$ref": "#"}]}, {"enum": [{"$ref": "#"}]}),
        ({"default": {"$ref": "#"}}, {"default": {"$ref": "#"}}),
        ({"examples": [{"$ref": "#"}]}, {"examples": [{"$ref": "#"}]}),
        ({"x-vendor": {"$ref": "#"}}, {"x-vendor": {"$ref": "#"}}),
        ({"items": [{"$ref": "#"}]}, {"items": [{"$ref": BASE}]}),
        ({"items": {"$ref": "#"}}, {"items": {"$ref": BASE}}),
        ({"allOf": [{"not": {"$ref": "#"}}, True]}, {"allOf": [{"not": {"$ref": BASE}}, True]}),
        ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b"]}}),
        ({"dependencies": {"a": {"$ref": "#"}}}, {"dependencies": {"a": {"$ref": BASE}}}),
        ({"$id": "https://x/y", "$ref": "#/a"}, {"$id": "https://x/y", "$ref": "#/a"}),
        ({"$id": "#here", "$ref": "#/a"}, {"$id": "#here", "$ref": f"{BASE}/a"}),
        (
            {"$defs": {"a": {"$id": "a.json", "items": {"$ref": "#"}}, "b": {"$ref": "#"}}},
            {"$defs": {"a": {"$id": "a.json", "items": {"$ref": "#"}}, "b": {"$ref": BASE}}},
        ),
    ],
)
def test_only_references_in_subschemas_are_rebased(schema: JsonObject, moved: JsonObject) -> None:
    assert rebase_references(schema, BASE) == moved


leaves: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "integer"},
        {"type": "string", "maxLength": 1},
        {"$ref": "#/$defs/a"},
        {"$ref": "#/properties/default"},
        {"const": {"$ref": "#/$defs/a"}},
        {"enum": [1, {"$ref": "#"}]},
    ]
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=4,
)
values = st.recursive(
    st.sampled_from([1, "a", "ab", None, {"$ref": "#/$defs/a"}, {"$ref": "#"}]),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@given(schemas, schemas, values, values)
def test_a_rebased_schema_accepts_the_same_values(
    one: Json, other: Json, value: Json, default: Json
) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": one, "default": {"type": "integer"}, "$ref": other},
        "$defs": {"a": {"type": "string"}},
        "additionalProperties": False,
    }
    instance: Json = {"a": value, "default": default, "$ref": value}

    here = compile_schema(schema)
    there = compile_schema(extend_output_schema(rebase_references(schema, ORIGINAL_POINTER)))

    assert (here.find_problems(instance) == []) == (there.find_problems(instance) == [])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (True, "is not a schema in an object: true"),
        (None, "is not a schema in an object: null"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "is written in a draft before 6"),
        ({"$schema": "http://json-schema.org/draft-03/schema"}, "is written in a draft before 6"),
        ({"type": "thing"}, "breaks its metaschema"),
        ({"$ref": "https://example.com/x"}, "references to other documents are never fetched"),
        ({"$ref": "#/nowhere"}, "is not inside the schema"),
        ({"pattern": "(?i)a"}, "has a pattern that JavaScript does not accept"),
        ({"pattern": "\\Aa"}, "has a pattern that JavaScript does not accept"),
        ({"pattern": "\\p{L}"}, "has a pattern that Python does not accept"),
        ({"patternProperties": {"(?<n>a)": {}}}, "has a pattern that Python does not accept"),
    ],
)
def test_an_output_schema_that_clients_cannot_use_is_refused_with_the_reason(
    schema: Json, reason: str
) -> None:
    with pytest.raises(SchemaUnusable) as caught:
        prepare_output_schema(schema)

    assert reason in caught.value.reason


def test_an_unknown_draft_is_not_shown_to_clients() -> None:
    schema: JsonObject = {"$schema": "https://example.com/mine", "type": "object"}

    assert prepare_output_schema(schema) == {"type": "object"}


PIECES = (
    *("a", "-", "^", "$", ".", "*", "+", "?", "{", "}", "{2}", "{1,}", "{2,1}", "(", ")", "(?:"),
    *("(?=", "(?!", "(?<=", "(?<!", "(?<n>", "(?P<n>", "(?i)", "(?>", "[", "]", "[^", "[a-z]"),
    *("[z-a]", "[\\d-x]", "[[:alpha:]]", "|", "\\d", "\\w", "\\b", "\\A", "\\Z", "\\1", "\\2"),
    *("\\k<n>", "\\0", "\\01", "\\x41", "\\x4", "\\u0041", "\\u{1F600}", "\\u{110000}", "\\pL"),
    *("\\p{L}", "\\p{Script=Greek}", "\\p{Foo}", "\\-", "\\/", "\\e", "\\cA", "\\_", "é", "\\"),
    *(" ", "\\]", "<", "/", "\\n", "\n", "😀"),
)
ASK = """
const patterns = JSON.parse(require("fs").readFileSync(0, "utf8"));
const compiles = (p) => { try { new RegExp(p, "u"); return true; } catch { return false; } };
console.log(JSON.stringify(patterns.map(compiles)));
"""


def test_patterns_are_accepted_only_if_javascript_accepts_them() -> None:
    drawn = random.Random(7)
    patterns = [
        *PIECES,
        *("".join(drawn.choices(PIECES, k=drawn.randint(2, 6))) for _ in range(20_000)),
    ]
    asked = subprocess.run(
        [node(), "-e", ASK],
        input=json.dumps(patterns),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    compiles: list[bool] = json.loads(asked.stdout)

    wrong = [
        pattern
        for pattern, expected in zip(patterns, compiles, strict=True)
        if accepted(pattern) is not expected
    ]

    assert wrong == []
    assert 100 < sum(compiles) < len(patterns)


def accepted(pattern: str) -> bool:
    try:
        check_pattern(pattern)
    except InvalidJavaScriptPattern:
        return False
    return True


@given(st.text())
def test_any_text_is_accepted_or_refused_without_another_exception(pattern: str) -> None:
    accepted(pattern)
