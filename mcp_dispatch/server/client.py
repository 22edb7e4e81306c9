"""The client of one request: how it is asked, notified and sent log messages."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

import anyio

from mcp_dispatch.approval.elicitation import can_elicit, defer_question, elicit_answer
from mcp_dispatch.model.approval import ApprovalReply, CannotAsk, Question
from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress, ignore_progress
from mcp_dispatch.server.sessions import BoundedOutput
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

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
REQUEST_CANCELLED: Final = -32800
_LEVEL_KEY: Final = "mcp_dispatch/level"
_DEFAULT_LEVEL: Final = "info"
_MODERN_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"
_ELICITATION_MODES_SINCE: Final = "2025-11-25"

T = TypeVar("T")


class WireClient:
    """The client of one request, for the requests and notifications of upstream servers."""

    def __init__(self, ctx: sdk.Context) -> None:
        self._ctx = ctx

    @property
    def is_live(self) -> bool:
        return not sdk.is_modern(self._ctx)

    @property
    def capabilities(self) -> JsonObject:
        return sdk.get_client_capabilities(self._ctx)

    @property
    def log_level(self) -> str | None:
        """Return None for a 2026-07-28 client that names no level: it gets no log messages."""
        if self.is_live:
            return get_log_level(sdk.get_connection_state(self._ctx)) or _DEFAULT_LEVEL
        level = sdk.get_raw_meta(self._ctx).get(_MODERN_LEVEL_KEY)
        return level if isinstance(level, str) else None

    @property
    def early_responses(self) -> JsonObject:
        # With a request state, the responses belong to the questions that we sent.
        params = self._ctx.params or {}
        responses = params.get("inputResponses")
        if self.is_live or "requestState" in params or not isinstance(responses, dict):
            return {}
        return cast(JsonObject, responses)

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        if self._ctx.protocol_version < _ELICITATION_MODES_SINCE:
            params = {key: value for key, value in params.items() if key != "mode"}
        try:
            return await sdk.get_request_outbound(self._ctx).send_raw_request(method, params)
        except MCPError as error:
            raise ClientRequestError(error.code, error.message, error.data) from error

    async def send_notification(self, method: str, params: JsonObject) -> None:
        if method != LOG_MESSAGE_METHOD or self._accepts_log_message(params):
            await sdk.get_request_outbound(self._ctx).notify(method, params)

    def _accepts_log_message(self, message: JsonObject) -> bool:
        if self.is_live:
            level = get_log_level(sdk.get_connection_state(self._ctx))
            return is_severe_enough(message, level)
        return self.log_level is not None and is_severe_enough(message, self.log_level)


class WireCaller:
    """The client of one `tools/call`, as the pipeline reaches it."""

    def __init__(self, ctx: sdk.Context, output: BoundedOutput, ask_timeout: float) -> None:
        self._ctx = ctx
        self._output = output
        self._ask_timeout = ask_timeout
        self.client = WireClient(ctx)

    @property
    def progress(self) -> Progress:
        if sdk.get_progress_token(self._ctx) is None:
            return ignore_progress
        return partial(sdk.send_progress, self._ctx)

    async def wait_until_ready(self) -> None:
        await self._output.wait_for_capacity()

    async def ask(self, question: Question) -> ApprovalReply:
        if not can_elicit(self.client.capabilities):
            return CannotAsk()
        if sdk.is_modern(self._ctx):
            return defer_question(question)
        return await elicit_answer(
            question,
            sdk.get_request_outbound(self._ctx),
            with_mode=self._ctx.protocol_version >= _ELICITATION_MODES_SINCE,
            progress=self.progress,
            timeout=self._ask_timeout,
        )


def get_log_level(state: dict[str, Any]) -> str | None:
    """Return the level that a client up to 2025-11-25 has set, or None if it never did."""
    return cast("str | None", state.get(_LEVEL_KEY))


def set_log_level(state: dict[str, Any], level: str) -> None:
    state[_LEVEL_KEY] = level


def is_severe_enough(message: JsonObject, level: str | None) -> bool:
    """Return True for a message at or above `level`, and if either level is unknown."""
    message_level = message.get("level")
    if level is None or message_level not in LOG_LEVELS or level not in LOG_LEVELS:
        return True
    return LOG_LEVELS.index(cast(str, message_level)) >= LOG_LEVELS.index(level)


async def run_until_disconnect(
    disconnected: anyio.Event | None, operation: Callable[[], Awaitable[T]]
) -> T:
    """Run `operation` and cancel it when `disconnected` is set.

    None stands for a transport whose disconnects the SDK handles itself.
    """
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
