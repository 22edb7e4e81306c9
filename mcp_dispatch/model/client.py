"""The client behind a request, as far as a server that works on it may reach it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import Json, JsonObject


class ClientRequestError(MCPDispatchError):
    """The client, or we in its place, answer a server's question with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Client(Protocol):
    """Whoever made a request. A live one is asked while its request waits; the others (since
    2026-07-28) take questions along and make the request again."""

    @property
    def is_live(self) -> bool: ...

    @property
    def capabilities(self) -> JsonObject: ...

    @property
    def log_level(self) -> str | None:
        """The least severe log message that it wants to see for this request."""
        ...

    @property
    def early_responses(self) -> JsonObject:
        """Answers that came with the request before anything was asked, by key."""
        ...

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        """A live client's answer. Raises `NotAnswered`."""
        ...

    async def send_notification(self, method: str, params: JsonObject) -> None:
        """A notification that belongs to this request."""
        ...


class NoClient:
    """For calls that nobody can be asked about."""

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


async def skip_hook_answer(server: str, params: JsonObject) -> JsonObject | None:
    """Where no hook answers in the person's place."""
    return None


async def keep_answer(server: str, params: JsonObject, answer: JsonObject) -> JsonObject:
    """Where no hook changes what a person answered."""
    return answer


def release_nothing() -> None:
    """For requests that hold no slot."""


@dataclass(frozen=True, slots=True)
class ClientBridge:
    """Who answers the questions that a server has while it works on one request."""

    scope_id: str
    """Whose state the request shares; all requests of one scope are one person's."""

    client: Client
    answer_by_hook: Callable[[str, JsonObject], Awaitable[JsonObject | None]] = skip_hook_answer
    """A hook's answer to an elicitation, in the person's place."""

    review_answer: Callable[[str, JsonObject, JsonObject], Awaitable[JsonObject]] = keep_answer
    """What becomes of a person's answer to an elicitation before the server gets it."""

    release_slot: Callable[[], None] = release_nothing
    """Gives the slot back: none is held while a person thinks."""


class Continuation(Protocol):
    """What goes on once the client has come back with answers."""

    def drop(self) -> None:
        """Nobody will come back. Does nothing where it went on already."""
        ...


@dataclass(frozen=True, slots=True)
class InputRequired:
    """A server has questions that the client takes along: it makes the request again."""

    input_requests: JsonObject
    continuation: Continuation


@dataclass(frozen=True, slots=True)
class Retry:
    """The request was made again: what waits for it, and the answers it brought."""

    continuation: Continuation
    responses: JsonObject
