"""Changes of tool definitions are detected and described."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.definition_diff import (
    MAX_DIFFERENCES,
    describe_differences,
    diff_definitions,
    hash_definition,
)


def tool(name: str = "t", **more: Any) -> JsonObject:
    return {"name": name, "description": "Adds two numbers.", **more}


def test_a_new_tool_is_not_a_change() -> None:
    assert diff_definitions([tool("a")], [tool("b"), tool("a")]) == ((), ())


def test_a_tool_that_is_not_listed_stays_pinned() -> None:
    assert diff_definitions([tool("a"), tool("b")], [tool("a")]) == ((), (tool("b"),))


def test_a_swapped_tool_is_reported_with_its_differences() -> None:
    before = tool(annotations={"readOnlyHint": True}, inputSchema={"required": ["a"]})
    after = tool(annotations={"readOnlyHint": False}, inputSchema={"required": ["a", "path"]})

    (change,), gone = diff_definitions([before], [after])

    assert (change.tool, gone) == ("t", ())
    assert change.differences == (
        "annotations.readOnlyHint: true → false",
        'inputSchema.required: added "path"',
    )
    assert change.digest == hash_definition(after) != hash_definition(before)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, ("a: 1 → 1.0",)),
        ({"a": 1}, {"a": True}, ("a: 1 → true",)),
        ({"a": 1}, {}, ("a: removed (was 1)",)),
        ({}, {"a": {"b": None}}, ('a: added: {"b": null}',)),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, ("a: in another order",)),
        ({"a": ["x"]}, {"a": [1]}, ('a: ["x"] → [1]',)),
        ({"a": "x"}, {"a": "x\u202e"}, ('a: "x" → "x\\u{202e}"',)),
        (
            {"a": "The quick brown fox jumps over the lazy dog."},
            {"a": "The quick brown fox jumps over the lazy dog. <IMPORTANT>"},
            ('a: …"s over the lazy dog." → …"s over the lazy dog. <IMPORTANT>"',),
        ),
    ],
)
def test_a_difference_is_described_visibly(
    before: JsonObject, after: JsonObject, expected: tuple[str, ...]
) -> None:
    assert describe_differences(before, after) == expected


def test_many_differences_are_counted_and_long_values_cut() -> None:
    before: JsonObject = {f"k{at:03}": "x" * 500 for at in range(100)}
    after: JsonObject = {f"k{at:03}": "y" * 500 for at in range(100)}

    lines = describe_differences(before, after)

    assert len(lines) == MAX_DIFFERENCES + 1
    assert lines[-1] == "and 80 more"
    assert max(map(len, lines)) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), JSON), st.dictionaries(st.text(max_size=4), JSON))
def test_differences_are_described_exactly_if_the_hashes_differ(
    before: JsonObject, after: JsonObject
) -> None:
    lines = describe_differences(before, after)

    assert bool(lines) == (hash_definition(before) != hash_definition(after))
    assert all(len(line.splitlines()) == 1 for line in lines)


@given(st.dictionaries(st.text(max_size=4), JSON))
def test_the_order_of_keys_is_not_a_difference(definition: JsonObject) -> None:
    turned = dict(reversed(definition.items()))

    assert hash_definition(turned) == hash_definition(definition)
