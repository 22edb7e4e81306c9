"""The client of one request, on the wire: what it can answer and how it is told things."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import anyio
from mcp.shared.exceptions import MCPError

from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire import sdk

LOG_LEVELS: Final = (
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

LOG_MESSAGE_METHOD: Final = "notifications/message"
_LEVEL_KEY: Final = "mcp_dispatch/level"
_DEFAULT_LEVEL: Final = "info"
_MODERN_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"


@dataclass(frozen=True, slots=True)
class WireClient:
    """Of either era."""

    ctx: sdk.Context

    @property
    def is_live(self) -> bool:
        return not sdk.is_modern(self.ctx)

    @property
    def capabilities(self) -> JsonObject:
        return sdk.get_client_capabilities(self.ctx)

    @property
    def log_level(self) -> str | None:
        """Since 2026-07-28 a client that names none wants no messages."""
        if self.is_live:
            return get_log_level(sdk.get_connection_state(self.ctx)) or _DEFAULT_LEVEL
        level = sdk.get_raw_meta(self.ctx).get(_MODERN_LEVEL_KEY)
        return level if isinstance(level, str) else None

    @property
    def early_responses(self) -> JsonObject:
        """With a state of ours, answers belong to what we asked."""
        params = self.ctx.params or {}
        responses = params.get("inputResponses")
        if self.is_live or "requestState" in params or not isinstance(responses, dict):
            return {}
        return cast(JsonObject, responses)

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        if self.ctx.protocol_version < "2025-11-25":
            params = {key: value for key, value in params.items() if key != "mode"}
        try:
            return await sdk.get_request_outbound(self.ctx).send_raw_request(method, params)
        except MCPError as error:
            raise ClientRequestError(error.code, error.message, error.data) from error

    async def send_notification(self, method: str, params: JsonObject) -> None:
        if method != LOG_MESSAGE_METHOD or self._accepts_message(params):
            await sdk.get_request_outbound(self.ctx).notify(method, params)

    def _accepts_message(self, message: JsonObject) -> bool:
        if self.is_live:
            return is_severe_enough(message, get_log_level(sdk.get_connection_state(self.ctx)))
        return self.log_level is not None and is_severe_enough(message, self.log_level)


def get_log_level(state: dict[str, Any]) -> str | None:
    """What a client up to 2025-11-25 asked for; None where it never did."""
    return cast("str | None", state.get(_LEVEL_KEY))


def set_log_level(state: dict[str, Any], level: str) -> None:
    state[_LEVEL_KEY] = level


def is_severe_enough(message: JsonObject, level: str | None) -> bool:
    """A level that nobody knows is not held back."""
    said = message.get("level")
    if level is None or said not in LOG_LEVELS or level not in LOG_LEVELS:
        return True
    return LOG_LEVELS.index(cast(str, said)) >= LOG_LEVELS.index(level)


REQUEST_CANCELLED = -32800

T = TypeVar("T")


async def run_until_disconnect(
    disconnected: anyio.Event | None, operation: Callable[[], Awaitable[T]]
) -> T:
    """`over` is set when nobody waits any more; None where the SDK itself notices that."""
    if disconnected is None:
        return await operation()
    results: list[T] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def cancel_on_disconnect() -> None:
            await disconnected.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(cancel_on_disconnect)
        try:
            results.append(await operation())
        except Exception as failure:  # raised below: a task group would wrap it
            failures.append(failure)
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise MCPError(REQUEST_CANCELLED, "the call was cancelled: the server is stopping")
    return results[0]
