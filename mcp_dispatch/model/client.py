"""The client behind a request, as far as a server that works on it may reach it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import Json, JsonObject


class NotAnswered(MCPDispatchError):
    """The client, or we in its place, answer a server's question with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Client(Protocol):
    """Whoever made a request. A live one is asked while its request waits; the others (since
    2026-07-28) take questions along and make the request again."""

    @property
    def live(self) -> bool: ...

    @property
    def capabilities(self) -> JsonObject: ...

    @property
    def log_level(self) -> str | None:
        """The least severe log message that it wants to see for this request."""
        ...

    @property
    def volunteered(self) -> JsonObject:
        """Answers that came with the request before anything was asked, by key."""
        ...

    async def put(self, method: str, params: JsonObject) -> JsonObject:
        """A live client's answer. Raises `NotAnswered`."""
        ...

    async def tell(self, method: str, params: JsonObject) -> None:
        """A notification that belongs to this request."""
        ...


class NoClient:
    """For calls that nobody can be asked about."""

    live = True
    log_level = None

    @property
    def capabilities(self) -> JsonObject:
        return {}

    @property
    def volunteered(self) -> JsonObject:
        return {}

    async def put(self, method: str, params: JsonObject) -> JsonObject:
        raise NotAnswered(-32601, f"nobody is there to answer {method!r}")

    async def tell(self, method: str, params: JsonObject) -> None:
        return None


async def not_foreseen(server: str, params: JsonObject) -> JsonObject | None:
    """Where no hook answers in the person's place."""
    return None


async def as_answered(server: str, params: JsonObject, answer: JsonObject) -> JsonObject:
    """Where no hook changes what a person answered."""
    return answer


def nothing_held() -> None:
    """For requests that hold no slot."""


@dataclass(frozen=True, slots=True)
class Respondent:
    """Who answers the questions that a server has while it works on one request."""

    scope: str
    """Whose state the request shares; all requests of one scope are one person's."""

    client: Client
    foresee: Callable[[str, JsonObject], Awaitable[JsonObject | None]] = not_foreseen
    """A hook's answer to an elicitation, in the person's place."""

    review: Callable[[str, JsonObject, JsonObject], Awaitable[JsonObject]] = as_answered
    """What becomes of a person's answer to an elicitation before the server gets it."""

    let_go: Callable[[], None] = nothing_held
    """Gives the slot back: none is held while a person thinks."""


class Rest(Protocol):
    """What goes on once the client has come back with answers."""

    def drop(self) -> None:
        """Nobody will come back. Does nothing where it went on already."""
        ...


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A server has questions that the client takes along: it makes the request again."""

    input_requests: JsonObject
    rest: Rest


@dataclass(frozen=True, slots=True)
class Resumed:
    """The request was made again: what waits for it, and the answers it brought."""

    rest: Rest
    responses: JsonObject
