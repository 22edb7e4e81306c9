"""Conversion of results to blocks of the Anthropic Messages API."""

import pytest

from mcp_dispatch.library.anthropic_blocks import is_tool_use, to_definition_block, to_result_block
from mcp_dispatch.model.calls import (
    CheckedCall,
    Completed,
    Executed,
    Outcome,
    PermittedCall,
    PreHookResult,
    ResolvedCall,
    ReviewedCall,
    ToolCall,
    ValidCall,
)
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    CancelReason,
    ProtocolError,
    Refusal,
    RefusedBy,
    Suspended,
)
from mcp_dispatch.model.tools import Sharing, ToolResult
from tests.support.stand_ins import RecordingTool

VOTE = Vote(Tier.ALLOW, Effect.ALLOW, "a rule", Origin("settings.json"))


def build_completed(wire: JsonObject) -> Completed:
    resolved = ResolvedCall(ToolCall("id", "toolu_1", "T", {}), RecordingTool("T"))
    checked = CheckedCall(ValidCall(resolved, {}, Sharing.SHARED), {}, None)
    reviewed = ReviewedCall(checked, checked, PreHookResult())
    return Completed(Executed(PermittedCall(reviewed, decide([VOTE])), ToolResult(wire), 0.0), wire)


def convert_content(*blocks: JsonObject, **more: Json) -> object:
    wire: JsonObject = {"content": list(blocks), **more}
    return to_result_block("toolu_1", "T", build_completed(wire))["content"]


def build_text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def build_source(media_type: str, data: str = "QUJD") -> JsonObject:
    return {"type": "base64", "media_type": media_type, "data": data}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": "hi", "annotations": {}, "x": 1}, build_text("hi")),
        (
            {"type": "image", "data": "QUJD", "mimeType": "image/png"},
            {"type": "image", "source": build_source("image/png")},
        ),
        (
            {"type": "image", "data": "QUJD", "mimeType": "image/tiff"},
            build_text("[Image, image/tiff, 3 bytes: not shown]"),
        ),
        (
            {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"},
            build_text("[Audio, audio/wav, 3 bytes: not shown]"),
        ),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}, build_text("inside")),
        (
            {
                "type": "resource",
                "resource": {"uri": "a:b", "mimeType": "application/pdf", "blob": "QUJD"},
            },
            {"type": "document", "source": build_source("application/pdf")},
        ),
        (
            {"type": "resource", "resource": {"uri": "a:b", "blob": "QUJD"}},
            build_text("[Resource a:b, type unknown, 3 bytes: not shown]"),
        ),
        (
            {"type": "resource_link", "name": "N", "uri": "a:b", "description": "D"},
            build_text("[Resource link: N] a:b (D)"),
        ),
        ({"type": "x-new"}, build_text("[Content of the type 'x-new' is not shown]")),
    ],
)
def test_an_mcp_block_becomes_a_block_of_the_api(block: JsonObject, expected: JsonObject) -> None:
    assert convert_content(block) == [expected]


def test_empty_text_is_left_out_because_the_api_refuses_it() -> None:
    assert convert_content(build_text(""), build_text("a")) == [build_text("a")]


def test_structured_content_becomes_text_if_there_is_no_other_content() -> None:
    assert convert_content(structuredContent={"n": 1}) == [build_text('{"n": 1}')]
    assert convert_content(build_text("n is 1"), structuredContent={"n": 1}) == [
        build_text("n is 1")
    ]


def test_an_error_has_text_only_because_the_api_refuses_anything_else() -> None:
    wire: JsonObject = {
        "content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}],
        "isError": True,
    }

    assert to_result_block("toolu_1", "T", build_completed(wire)) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [build_text("[Image, image/png, 3 bytes: not shown]")],
        "is_error": True,
    }


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Refusal(RefusedBy.LOOKUP, "no tool named 'T'"), "no tool named 'T'"),
        (
            Cancelled(CancelReason.SIBLING_ERROR, "Bash `false` failed"),
            "The call was cancelled (sibling_error): Bash `false` failed.",
        ),
        (
            Cancelled(CancelReason.USER_INTERRUPTED),
            "The call was cancelled (user_interrupted).",
        ),
        (ProtocolError(-32602, "bad cursor"), "T answered with the error -32602: bad cursor"),
        (
            Suspended({}, "state"),
            "T wants to ask something first, and nobody here can be asked; it did not run.",
        ),
    ],
)
def test_every_other_outcome_is_an_error_with_its_reason(outcome: Outcome, message: str) -> None:
    assert to_result_block("toolu_1", "T", outcome) == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [build_text(f"<tool_use_error>{message}</tool_use_error>")],
        "is_error": True,
    }


def test_only_the_type_of_a_block_makes_it_a_call() -> None:
    assert is_tool_use({"type": "tool_use"})
    assert not is_tool_use({"type": "server_tool_use", "id": "x", "name": "web_search"})
    assert not is_tool_use({"type": "text", "text": "tool_use"})


def test_a_definition_has_the_three_fields_that_the_api_knows() -> None:
    listed: JsonObject = {
        "name": "T",
        "title": "The T",
        "description": "does T",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }

    assert to_definition_block(listed) == {
        "name": "T",
        "description": "does T",
        "input_schema": {"type": "object"},
    }
