"""The client of a request, as far as a server that works on the request may reach it."""

from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import Json, JsonObject

PENDING_SECONDS = 600.0
"""How long a request waits until the client sends it again with answers, or answers a question.

A detached question of ours can be answered, and its answer used, for as long."""


class ClientRequestError(MCPDispatchError):
    """A request of a server to the client is answered with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Client(Protocol):
    """The sender of a request. A live client answers questions while its request waits; a client of
    protocol version 2026-07-28 receives them as the result and sends its request again."""

    @property
    def is_live(self) -> bool: ...

    @property
    def capabilities(self) -> JsonObject: ...

    @property
    def log_level(self) -> str | None:
        """The lowest level of log messages that the client wants for this request."""
        ...

    @property
    def early_responses(self) -> JsonObject:
        """Answers that the client sent with the request before any question, by key."""
        ...

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request to a live client and return its answer. Raise `ClientRequestError`."""
        ...

    async def send_notification(self, method: str, params: JsonObject) -> None:
        """Send a notification that belongs to this request."""
        ...


class NoClient:
    """The client of calls for which no client can be asked."""

    is_live = True
    log_level = None

    @property
    def capabilities(self) -> JsonObject:
        return {}

    @property
    def early_responses(self) -> JsonObject:
        return {}

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        raise ClientRequestError(-32601, f"nobody is there to answer {method!r}")

    async def send_notification(self, method: str, params: JsonObject) -> None:
        return None


@dataclass(frozen=True, slots=True)
class ClientBridge:
    """Handles the requests that a server sends to the client while it works on one request.

    This one has no hooks and no slot; the pipeline has a subclass with both.
    """

    scope_id: str
    """All requests of one scope come from the same person."""

    client: Client

    async def answer_by_hook(self, server: str, params: JsonObject) -> JsonObject | None:
        """Return a hook's answer to an elicitation, or None if the client is to be asked."""
        return None

    async def review_answer(
        self, server: str, params: JsonObject, answer: JsonObject
    ) -> JsonObject:
        """Return the client's answer to an elicitation as hooks have changed it."""
        return answer

    def release_slot(self) -> None:
        """Give the slot of the request back: none is held while a person is asked."""


class Continuation(Protocol):
    """A request that continues when the client sends it again with answers."""

    def drop(self) -> None:
        """Give the request up. Do nothing if it has continued already."""
        ...


@dataclass(frozen=True, slots=True)
class InputRequired:
    """A server asks questions; the client has to send the request again with the answers."""

    input_requests: JsonObject
    continuation: Continuation


@dataclass(frozen=True, slots=True)
class Retry:
    """A request that was sent again: its continuation, and the answers it brings."""

    continuation: Continuation
    responses: JsonObject
