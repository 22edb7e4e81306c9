"""The envelope: which messages are passed to the SDK and which are rejected."""

import pytest
from mcp.shared.message import ServerMessageMetadata
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.jsonrpc import (
    EnvelopeProblem,
    check_envelope,
    from_session_message,
    to_session_message,
)

_NOT_AN_ID = "Invalid Request: id must be a string or an integer"
_VERSION = 'Invalid Request: "jsonrpc" must be "2.0"'
_NEITHER = "Invalid Request: expected a method, a result or an error"
_BOTH = "Invalid Request: a message has a method, or a result or an error, not both"
_BAD_ERROR = "Invalid Request: error must be an object with an integer code and a string message"


def _build_message(**members: Json) -> JsonObject:
    return {"jsonrpc": "2.0", **members}


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ([_build_message(id=1, method="a")], "Invalid Request: batches are not supported; "
         "send one message per line"),
        ("text", "Invalid Request: expected a JSON object"),
        (7, "Invalid Request: expected a JSON object"),
        (None, "Invalid Request: expected a JSON object"),
        ({}, _NEITHER),
        (_build_message(method="a", id={}), _NOT_AN_ID),
        (_build_message(method="a", id=[1]), _NOT_AN_ID),
        (_build_message(method="a", id=1.5), _NOT_AN_ID),
        (_build_message(method="a", id=True), _NOT_AN_ID),
        (_build_message(method="a", id=None), _NOT_AN_ID),
        (_build_message(result={}, id={}), _NOT_AN_ID),
        (_build_message(result={}), _NOT_AN_ID),
        (_build_message(error={"code": 1, "message": ""}, id=[]), _NOT_AN_ID),
        (_build_message(id=1, method="a", result={}), _BOTH),
        (_build_message(method="notifications/x", params=[1]), "Invalid Request: params must be an object"),
        (_build_message(method="notifications/progress", params={"progressToken": 1, "progress": 10**400}),
         "Invalid Request: progress and total must fit a double"),
        (_build_message(method="notifications/progress", params={"progress": 1, "total": -(10**400)}),
         "Invalid Request: progress and total must fit a double"),
    ],
)  # fmt: skip
def test_a_problem_without_a_valid_id_has_no_id(message: Json, problem: str) -> None:
    assert check_envelope(message) == EnvelopeProblem(-32600, problem)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"id": 1, "method": "a"}, _VERSION),
        ({"id": 1, "method": "a", "jsonrpc": "1.0"}, _VERSION),
        ({"id": 1, "method": "a", "jsonrpc": 2.0}, _VERSION),
        (_build_message(id=1, method=7), "Invalid Request: method must be a string"),
        (_build_message(id=1, method="a", params=[1]), "Invalid Request: params must be an object"),
        (_build_message(id=1, method="a", params="x"), "Invalid Request: params must be an object"),
        (_build_message(id=1), _NEITHER),
    ],
)
def test_a_bad_request_can_be_answered_under_its_id(message: Json, problem: str) -> None:
    assert check_envelope(message) == EnvelopeProblem(-32600, problem, id=1)


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({"id": 1, "result": {}}, _VERSION),
        (_build_message(id=1, result=[1]), "Invalid Request: result must be an object"),
        (_build_message(id=1, result=None), "Invalid Request: result must be an object"),
        (_build_message(id=1, result={}, error={"code": 1, "message": "x"}),
         "Invalid Request: a response has a result or an error, not both"),
        (_build_message(id=1, error="no"), _BAD_ERROR),
        (_build_message(id=1, error={"code": 1.5, "message": "x"}), _BAD_ERROR),
        (_build_message(id=1, error={"code": True, "message": "x"}), _BAD_ERROR),
        (_build_message(id=1, error={"code": 1}), _BAD_ERROR),
    ],
)  # fmt: skip
def test_a_bad_response_names_the_request_that_waits_for_it(message: Json, problem: str) -> None:
    assert check_envelope(message) == EnvelopeProblem(-32600, problem, response_id=1)


_ROUND_TRIPS: list[tuple[JsonObject, type]] = [
    (_build_message(id=1, method="a"), JSONRPCRequest),
    (
        _build_message(id="x", method="a", params={"b": {"c": [None, 10**30, 1.0]}, "_meta": {}}),
        JSONRPCRequest,
    ),
    (_build_message(id=10**30, method="a", params={}), JSONRPCRequest),
    (_build_message(method="n"), JSONRPCNotification),
    (_build_message(method="n", params={"unknown": None}), JSONRPCNotification),
    (_build_message(id=1, result={"vendor": {"deep": [1, None]}, "content": []}), JSONRPCResponse),
    (_build_message(id=1, error={"code": -1, "message": "m"}), JSONRPCError),
    (_build_message(id=1, error={"code": -1, "message": "m", "data": None}), JSONRPCError),
    (_build_message(id=None, error={"code": -1, "message": "m", "data": {"a": [1]}}), JSONRPCError),
]


@pytest.mark.parametrize(("message", "kind"), _ROUND_TRIPS)
def test_a_message_passes_through_the_sdk_type_unchanged(message: JsonObject, kind: type) -> None:
    metadata = ServerMessageMetadata()

    item = to_session_message(message, metadata)

    assert check_envelope(message) is None
    assert type(item.message) is kind
    assert item.metadata is metadata
    assert from_session_message(item) == message
    assert list(from_session_message(item)) == list(message)


def test_nulls_where_a_member_could_be_absent_are_tolerated() -> None:
    request = _build_message(id=1, method="a", params=None)
    response = _build_message(id=1, result={"a": 1}, error=None)

    assert check_envelope(request) is None
    assert from_session_message(to_session_message(request)) == _build_message(id=1, method="a")
    assert check_envelope(response) is None
    assert from_session_message(to_session_message(response)) == _build_message(
        id=1, result={"a": 1}
    )


def test_unknown_members_of_the_envelope_are_dropped() -> None:
    item = to_session_message(_build_message(id=1, method="a", extra=1))

    assert from_session_message(item) == _build_message(id=1, method="a")
