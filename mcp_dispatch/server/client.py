"""The client of one request, on the wire: what it can answer and how it is told things."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import anyio
from mcp.shared.exceptions import MCPError

from mcp_dispatch.model.client import NotAnswered
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire import sdk

LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""In order of severity."""

MESSAGE: Final = "notifications/message"
_LEVEL: Final = "mcp_dispatch/level"
_DEFAULT_LEVEL: Final = "info"
_MODERN_LEVEL: Final = "io.modelcontextprotocol/logLevel"


@dataclass(frozen=True, slots=True)
class WireClient:
    """Of either era."""

    ctx: sdk.Context

    @property
    def live(self) -> bool:
        return not sdk.is_modern(self.ctx)

    @property
    def capabilities(self) -> JsonObject:
        return sdk.client_capabilities(self.ctx)

    @property
    def log_level(self) -> str | None:
        """Since 2026-07-28 a client that names none wants no messages."""
        if self.live:
            return wanted_level(sdk.connection_state(self.ctx)) or _DEFAULT_LEVEL
        level = sdk.raw_meta(self.ctx).get(_MODERN_LEVEL)
        return level if isinstance(level, str) else None

    @property
    def volunteered(self) -> JsonObject:
        """With a state of ours, answers belong to what we asked."""
        params = self.ctx.params or {}
        responses = params.get("inputResponses")
        if self.live or "requestState" in params or not isinstance(responses, dict):
            return {}
        return cast(JsonObject, responses)

    async def put(self, method: str, params: JsonObject) -> JsonObject:
        if self.ctx.protocol_version < "2025-11-25":
            params = {key: value for key, value in params.items() if key != "mode"}
        try:
            return await sdk.request_outbound(self.ctx).send_raw_request(method, params)
        except MCPError as error:
            raise NotAnswered(error.code, error.message, error.data) from error

    async def tell(self, method: str, params: JsonObject) -> None:
        if method != MESSAGE or self._wants(params):
            await sdk.request_outbound(self.ctx).notify(method, params)

    def _wants(self, message: JsonObject) -> bool:
        if self.live:
            return is_wanted(message, wanted_level(sdk.connection_state(self.ctx)))
        return self.log_level is not None and is_wanted(message, self.log_level)


def wanted_level(state: dict[str, Any]) -> str | None:
    """What a client up to 2025-11-25 asked for; None where it never did."""
    return cast("str | None", state.get(_LEVEL))


def want_level(state: dict[str, Any], level: str) -> None:
    state[_LEVEL] = level


def is_wanted(message: JsonObject, level: str | None) -> bool:
    """A level that nobody knows is not held back."""
    said = message.get("level")
    if level is None or said not in LEVELS or level not in LEVELS:
        return True
    return LEVELS.index(cast(str, said)) >= LEVELS.index(level)


REQUEST_CANCELLED = -32800

T = TypeVar("T")


async def while_awaited(over: anyio.Event | None, work: Callable[[], Awaitable[T]]) -> T:
    """`over` is set when nobody waits any more; None where the SDK itself notices that."""
    if over is None:
        return await work()
    results: list[T] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await over.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave)
        try:
            results.append(await work())
        except Exception as failure:  # raised below: a task group would wrap it
            failures.append(failure)
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise MCPError(REQUEST_CANCELLED, "the call was cancelled: the server is stopping")
    return results[0]
