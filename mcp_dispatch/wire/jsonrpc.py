"""Checks JSON-RPC envelopes and converts JSON objects to the SDK's messages and back."""

from dataclasses import dataclass
from typing import Any

from mcp_types import (
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.sdk import MessageMetadata, SessionMessage


@dataclass(frozen=True, slots=True)
class EnvelopeProblem:
    """Why a message is rejected.

    `id` is the id of an invalid request, for the error response. `response_id` is the id of an
    invalid response: the request of ours that it answers.
    """

    code: int
    message: str
    id: RequestId | None = None
    response_id: RequestId | None = None


def check_envelope(message: Json) -> EnvelopeProblem | None:
    """Return why the SDK could not process the message, or None.

    A member that is null counts as absent, except for `id`.
    """
    if isinstance(message, list):
        return _build_problem("batches are not supported; send one message per line")
    if not isinstance(message, dict):
        return _build_problem("expected a JSON object")
    has_method, has_outcome = message.get("method") is not None, _has_outcome(message)
    if has_method and has_outcome:
        return _build_problem("a message has a method, or a result or an error, not both")
    if has_method:
        return _check_request(message)
    if has_outcome:
        return _check_response(message)
    return _build_problem(
        "expected a method, a result or an error", id=parse_request_id(message.get("id"))
    )


def parse_request_id(value: Json) -> RequestId | None:
    """Return `value` if it is a string or an integer, but not a boolean; else None."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value
    return None


def to_session_message(message: JsonObject, metadata: MessageMetadata = None) -> SessionMessage:
    """Convert a message without an envelope problem. Unknown top-level members are dropped."""
    return SessionMessage(_to_sdk(message), metadata)


def from_session_message(item: SessionMessage) -> JsonObject:
    match item.message:
        case JSONRPCResponse(id=id, result=result):
            return {"jsonrpc": "2.0", "id": id, "result": result}
        case JSONRPCRequest(id=id, method=method, params=params):
            return _with_params({"jsonrpc": "2.0", "id": id, "method": method}, params)
        case JSONRPCNotification(method=method, params=params):
            return _with_params({"jsonrpc": "2.0", "method": method}, params)
        case JSONRPCError(id=id, error=error):
            return {"jsonrpc": "2.0", "id": id, "error": _to_error_object(error)}


def build_error_message(id: RequestId | None, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _has_outcome(message: JsonObject) -> bool:
    return "result" in message or message.get("error") is not None


def _build_problem(
    message: str, id: RequestId | None = None, response_id: RequestId | None = None
) -> EnvelopeProblem:
    return EnvelopeProblem(INVALID_REQUEST, f"Invalid Request: {message}", id, response_id)


def _check_request(message: JsonObject) -> EnvelopeProblem | None:
    id = parse_request_id(message.get("id"))
    if message.get("jsonrpc") != "2.0":
        return _build_problem('"jsonrpc" must be "2.0"', id)
    if "id" in message and id is None:
        return _build_problem("id must be a string or an integer")
    if not isinstance(message["method"], str):
        return _build_problem("method must be a string", id)
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        return _build_problem("params must be an object", id)
    if message["method"] == "notifications/progress" and params and _has_overflow(params):
        return _build_problem("progress and total must fit a double", id)
    return None


def _has_overflow(params: JsonObject) -> bool:
    # The SDK's receive loop converts both to floats; an OverflowError there ends the connection.
    return any(_is_too_large_for_double(params.get(member)) for member in ("progress", "total"))


def _is_too_large_for_double(value: Json) -> bool:
    return isinstance(value, int) and value.bit_length() >= 1024


def _check_response(message: JsonObject) -> EnvelopeProblem | None:
    id = parse_request_id(message.get("id"))
    if message.get("jsonrpc") != "2.0":
        return _build_problem('"jsonrpc" must be "2.0"', response_id=id)
    result, error = message.get("result"), message.get("error")
    if error is None and not isinstance(result, dict):
        return _build_problem("result must be an object", response_id=id)
    if error is not None and result is not None:
        return _build_problem("a response has a result or an error, not both", response_id=id)
    if error is not None and not _is_valid_error(error):
        text = "error must be an object with an integer code and a string message"
        return _build_problem(text, response_id=id)
    # An error response to a request with an unreadable id has the id null.
    if id is None and (error is None or message.get("id") is not None):
        return _build_problem("id must be a string or an integer")
    return None


def _is_valid_error(error: Json) -> bool:
    if not isinstance(error, dict):
        return False
    code = error.get("code")
    is_integer = isinstance(code, int) and not isinstance(code, bool)
    return is_integer and isinstance(error.get("message"), str)


def _to_sdk(
    message: JsonObject,
) -> JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError:
    method, params = message.get("method"), message.get("params")
    optional: dict[str, Any] = {} if params is None else {"params": params}
    if method is not None and "id" in message:
        return JSONRPCRequest.model_construct(
            jsonrpc="2.0", id=message["id"], method=method, **optional
        )
    if method is not None:
        return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, **optional)
    error = message.get("error")
    if not isinstance(error, dict):
        return JSONRPCResponse.model_construct(
            jsonrpc="2.0", id=message["id"], result=message["result"]
        )
    members: dict[str, Any] = {
        name: error[name] for name in ("code", "message", "data") if name in error
    }
    return JSONRPCError.model_construct(
        jsonrpc="2.0", id=message.get("id"), error=ErrorData.model_construct(**members)
    )


def _with_params(message: JsonObject, params: JsonObject | None) -> JsonObject:
    if params is not None:
        message["params"] = params
    return message


def _to_error_object(error: ErrorData) -> JsonObject:
    members: JsonObject = {"code": error.code, "message": error.message}
    if "data" in error.model_fields_set:
        members["data"] = error.data
    return members
