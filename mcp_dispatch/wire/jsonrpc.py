"""JSON objects to the SDK's messages and back; the envelope is checked here, nothing is copied."""

from dataclasses import dataclass
from typing import Any

from mcp.shared.message import MessageMetadata, SessionMessage
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


@dataclass(frozen=True, slots=True)
class EnvelopeProblem:
    """Why a message is not one we take.

    `id` is for the answer: set only where the message is a request. `awaited` is set where it is
    a broken response: the id of the request of ours that it was meant for.
    """

    code: int
    message: str
    id: RequestId | None = None
    awaited: RequestId | None = None


def envelope_problem(message: Json) -> EnvelopeProblem | None:
    """What the SDK would stumble over. A member that is null counts as absent, but for `id`."""
    if isinstance(message, list):
        return _problem("batches are not supported; send one message per line")
    if not isinstance(message, dict):
        return _problem("expected a JSON object")
    asks, answers = message.get("method") is not None, _has_outcome(message)
    if asks and answers:
        return _problem("a message has a method, or a result or an error, not both")
    if asks:
        return _request_problem(message)
    if answers:
        return _response_problem(message)
    return _problem("expected a method, a result or an error", id=usable_id(message.get("id")))


def usable_id(value: Json) -> RequestId | None:
    """A string or an integer; `true` is no integer here."""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return value
    return None


def to_session_message(message: JsonObject, metadata: MessageMetadata = None) -> SessionMessage:
    """For a message without an envelope problem. Unknown members beside the known are dropped."""
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
            return {"jsonrpc": "2.0", "id": id, "error": _error_object(error)}


def error_message(id: RequestId | None, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


def _has_outcome(message: JsonObject) -> bool:
    return "result" in message or message.get("error") is not None


def _problem(
    message: str, id: RequestId | None = None, awaited: RequestId | None = None
) -> EnvelopeProblem:
    return EnvelopeProblem(INVALID_REQUEST, f"Invalid Request: {message}", id, awaited)


def _request_problem(message: JsonObject) -> EnvelopeProblem | None:
    id = usable_id(message.get("id"))
    if message.get("jsonrpc") != "2.0":
        return _problem('"jsonrpc" must be "2.0"', id)
    if "id" in message and id is None:
        return _problem("id must be a string or an integer")
    if not isinstance(message["method"], str):
        return _problem("method must be a string", id)
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        return _problem("params must be an object", id)
    if message["method"] == "notifications/progress" and params and _overflows(params):
        return _problem("progress and total must fit a double", id)
    return None


def _overflows(params: JsonObject) -> bool:
    # The SDK's receive loop turns both into floats, and an OverflowError there ends the connection.
    return any(_no_double(params.get(member)) for member in ("progress", "total"))


def _no_double(value: Json) -> bool:
    return isinstance(value, int) and value.bit_length() >= 1024


def _response_problem(message: JsonObject) -> EnvelopeProblem | None:
    id = usable_id(message.get("id"))
    if message.get("jsonrpc") != "2.0":
        return _problem('"jsonrpc" must be "2.0"', awaited=id)
    result, error = message.get("result"), message.get("error")
    if error is None and not isinstance(result, dict):
        return _problem("result must be an object", awaited=id)
    if error is not None and result is not None:
        return _problem("a response has a result or an error, not both", awaited=id)
    if error is not None and not _well_formed_error(error):
        text = "error must be an object with an integer code and a string message"
        return _problem(text, awaited=id)
    # An error about a request whose id could not be read has null here.
    if id is None and (error is None or message.get("id") is not None):
        return _problem("id must be a string or an integer")
    return None


def _well_formed_error(error: Json) -> bool:
    if not isinstance(error, dict):
        return False
    code = error.get("code")
    whole = isinstance(code, int) and not isinstance(code, bool)
    return whole and isinstance(error.get("message"), str)


def _to_sdk(
    message: JsonObject,
) -> JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError:
    method, params = message.get("method"), message.get("params")
    given: dict[str, Any] = {} if params is None else {"params": params}
    if method is not None and "id" in message:
        return JSONRPCRequest.model_construct(
            jsonrpc="2.0", id=message["id"], method=method, **given
        )
    if method is not None:
        return JSONRPCNotification.model_construct(jsonrpc="2.0", method=method, **given)
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


def _error_object(error: ErrorData) -> JsonObject:
    members: JsonObject = {"code": error.code, "message": error.message}
    if "data" in error.model_fields_set:
        members["data"] = error.data
    return members
