"""Structured content that validating clients accept, with our notes visible."""

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.output_schema import (
    ORIGINAL_POINTER,
    REFERENCE_SCHEMA,
    add_notes,
    build_reference,
    conform_to_schema,
    extend_output_schema,
    move_structure_to_text,
)
from mcp_dispatch.schema.refs import rebase_references
from mcp_dispatch.schema.validator import CompiledSchema, compile_schema

OPEN: JsonObject = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/n"}},
    "required": ["n"],
    "$defs": {"n": {"type": "integer"}},
}
CLOSED: JsonObject = {**OPEN, "additionalProperties": False}


def output(schema: JsonObject) -> CompiledSchema:
    return compile_schema(extend_output_schema(rebase_references(schema, ORIGINAL_POINTER)))


def result(text: str, **fields: Json) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], **fields}


def texts(wire: JsonObject) -> list[Json]:
    content = wire["content"]
    assert isinstance(content, list)
    return [block["text"] for block in content if isinstance(block, dict)]


def test_the_advertised_schema_allows_only_the_original_or_a_reference() -> None:
    closed = output(CLOSED)

    assert closed.find_problems({"n": 1}) == []
    assert (
        closed.find_problems(
            build_reference({"path": "/x", "size": 3, "notes": ["a"], "value": [1]})
        )
        == []
    )
    assert closed.find_problems({"n": "one"}) != []
    assert closed.find_problems({"n": 1, "m": 2}) != []
    assert closed.find_problems(build_reference({"path": 7})) != []
    assert closed.find_problems(build_reference({"evil": 7})) != []
    assert closed.find_problems({**build_reference({"size": 3}), "n": 1}) != []


def test_the_draft_is_named_once_at_the_top() -> None:
    draft = "http://json-schema.org/draft-07/schema#"

    advertised = extend_output_schema({"$schema": draft, "type": "object"})

    assert advertised == {
        "$schema": draft,
        "type": "object",
        "anyOf": [{"type": "object"}, REFERENCE_SCHEMA],
    }


@pytest.mark.parametrize(
    "wire",
    [
        result("1", structuredContent={"n": 1}),
        result("no", isError=True),
        result("no", isError=True, structuredContent={"n": 1}),
        result("kept", structuredContent=build_reference({"path": "/x"})),
    ],
)
def test_a_result_that_a_client_accepts_is_the_same_object(wire: JsonObject) -> None:
    assert conform_to_schema(wire, output(CLOSED), "t") is wire
    assert conform_to_schema(wire, None, "t") is wire


def test_structure_that_breaks_its_schema_becomes_an_error_with_text_and_structure() -> None:
    wire = conform_to_schema(result("one", structuredContent={"n": "one"}), output(CLOSED), "t")

    assert wire["isError"] is True
    assert "structuredContent" not in wire
    problem, *data = texts(wire)
    assert str(problem).startswith("<tool_use_error>The structured result of t breaks the output")
    assert data == ["one", '{"n":"one"}']


def test_an_error_keeps_its_text_and_loses_invalid_structure() -> None:
    failed = result("no", isError=True, structuredContent={"why": "no"})

    wire = conform_to_schema(failed, output(CLOSED), "t")

    assert wire["isError"] is True
    assert "structuredContent" not in wire
    assert texts(wire) == ["no", '{"why":"no"}']


def test_a_result_without_declared_structure_gets_its_text_as_structure() -> None:
    wire = conform_to_schema(result("only text"), output(CLOSED), "t")

    assert output(CLOSED).find_problems(wire["structuredContent"]) == []
    assert wire["structuredContent"] == {
        "mcp-dispatch/result": {
            "notes": [
                "The tool's server advertises structured content and sent none; this is its text."
            ],
            "value": "only text",
        }
    }


def test_notes_become_a_property_of_structure_that_allows_it() -> None:
    wire = add_notes(result("1", structuredContent={"n": 1}), ["look"], output(OPEN))

    assert wire == {
        "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "look"}],
        "structuredContent": {"n": 1, "mcp-dispatch/result": {"notes": ["look"]}},
    }


def test_notes_wrap_structure_that_allows_no_other_property() -> None:
    wire = add_notes(result("1", structuredContent={"n": 1}), ["look"], output(CLOSED))

    assert wire["structuredContent"] == build_reference({"notes": ["look"], "value": {"n": 1}})
    assert output(CLOSED).find_problems(wire["structuredContent"]) == []


def test_notes_are_appended_to_those_of_a_reference() -> None:
    reference = result("x", structuredContent=build_reference({"path": "/x", "notes": ["a"]}))

    wire = add_notes(reference, ["b"], output(CLOSED))

    assert wire["structuredContent"] == build_reference({"path": "/x", "notes": ["a", "b"]})


def test_notes_turn_structure_without_an_output_schema_into_text() -> None:
    wire = add_notes(result("see below", structuredContent={"n": 1}), ["look"], None)

    assert "structuredContent" not in wire
    assert texts(wire) == ["see below", "look", '{"n":1}']


def test_structure_that_the_text_repeats_is_not_added_as_text() -> None:
    wire = move_structure_to_text(result('{ "n": 1 }', structuredContent={"n": 1}))

    assert wire == result('{ "n": 1 }')


def test_no_notes_change_nothing() -> None:
    wire = result("1", structuredContent={"n": 1})

    assert add_notes(wire, [], None) is wire
