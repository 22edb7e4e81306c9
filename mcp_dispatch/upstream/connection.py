"""One live connection to an upstream: handshake, listing and calls, raw dicts end to end."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_dispatch import __version__
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.errors import ConnectionLost, HandshakeFailed, UpstreamError
from mcp_dispatch.upstream.listing import Listing, read_pages
from mcp_dispatch.upstream.patience import Patience
from mcp_dispatch.upstream.progress import ProgressQueue
from mcp_dispatch.upstream.transport import Transport
from mcp_dispatch.wire.codec import Unencodable

CLIENT: Final[JsonObject] = {"name": "mcp-dispatch", "version": __version__}
HANDSHAKE_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]
MODERN_VERSION: Final = MODERN_PROTOCOL_VERSIONS[-1]

_PREFIX: Final = "io.modelcontextprotocol/"
# What a request says about its own hop. The client's are not ours to repeat.
_HOP_KEYS: Final = frozenset(
    {"progressToken"}
    | {_PREFIX + key for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel")}
)


class Connection:
    """Speaks MCP over a `Transport` as a client, in whichever era the server knows.

    `run` must be going while anything else is used. `over` is set when the server can no longer
    be reached; every request then open, or made later, raises `ConnectionLost`.
    """

    def __init__(self, transport: Transport, on_tools_changed: Callable[[], None]) -> None:
        self._transport = transport
        self._dispatcher = JSONRPCDispatcher(transport.reader, transport.writer)
        self._on_tools_changed = on_tools_changed
        self._stamp: JsonObject = {}
        self._last_id = 0
        self._last_token = 0
        self._progress: dict[int, ProgressQueue] = {}
        self._patience: dict[int, Patience] = {}
        self.version = ""

    @property
    def over(self) -> anyio.Event:
        return self._transport.over

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Read and write until the server goes away."""
        async with anyio.create_task_group() as carrying:
            await carrying.start(self._transport.run)
            try:
                await self._dispatcher.run(
                    self._answer, _ignore, self._observe, task_status=task_status
                )
            finally:
                self._transport.over.set()
                carrying.cancel_scope.cancel()

    async def handshake(self, timeout: float) -> None:
        """Agree on a version. Raises `HandshakeFailed`, `ConnectionLost`, `TimeoutError`."""
        with anyio.fail_after(timeout):
            try:
                await self._initialize()
            except MCPError as refusal:
                await self._discover(refusal)

    async def _initialize(self) -> None:
        params: JsonObject = {
            "protocolVersion": HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": CLIENT,
        }
        answer = await self._request("initialize", params, cancellable=False)
        version = answer.get("protocolVersion")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise HandshakeFailed(
                f"speaks protocol version {str(version)[:40]!r}, which is none of "
                f"{', '.join(HANDSHAKE_PROTOCOL_VERSIONS)}"
            )
        self._agree(version)
        await self._dispatcher.notify("notifications/initialized", None)

    async def _discover(self, refusal: MCPError) -> None:
        """A server that knows no `initialize` may be one of the era without a handshake."""
        self._stamp = {
            f"{_PREFIX}protocolVersion": MODERN_VERSION,
            f"{_PREFIX}clientInfo": CLIENT,
            f"{_PREFIX}clientCapabilities": {},
        }
        try:
            answer = await self._request("server/discover", {})
        except MCPError:
            raise HandshakeFailed(f"refused 'initialize': {_in_words(refusal)}") from refusal
        versions = answer.get("supportedVersions")
        if not isinstance(versions, list) or MODERN_VERSION not in versions:
            raise HandshakeFailed(
                f"speaks protocol versions {str(versions)[:80]}, which do not include {MODERN_VERSION}"
            )
        self._agree(MODERN_VERSION)

    def _agree(self, version: str) -> None:
        self.version = version
        self._transport.agreed(version)

    async def list_tools(self, timeout: float) -> Listing:
        """All pages. Raises `HandshakeFailed`, `ConnectionLost`, `TimeoutError`."""
        with anyio.fail_after(timeout):
            try:
                return await read_pages(lambda params: self._request("tools/list", params))
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return Listing()
                raise HandshakeFailed(f"refused 'tools/list': {_in_words(error)}") from error

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        *,
        meta: JsonObject,
        progress: Progress | None,
        timeout: float,
        idle: float = math.inf,
    ) -> JsonObject | ProtocolError:
        """The result, or the error, exactly as the server gave it; sent once, never repeated.

        Every progress that came before the result has been delivered before this returns.
        Cancelling, or `TimeoutError` after `timeout` seconds, or `Silence` after `idle` seconds
        without progress, tells the server to stop.
        Raises `ConnectionLost`, `RequestLost`, `NotTaken`.
        """
        kept = {key: value for key, value in meta.items() if key not in _HOP_KEYS}
        request = _Call(name, arguments, kept, Patience(timeout, idle))
        if progress is None and idle == math.inf:
            return await self._send(request)
        self._last_token += 1
        token = self._last_token
        self._patience[token] = request.patience
        try:
            if progress is None:
                return await self._send(request.with_token(token))
            return await self._send_with_progress(request.with_token(token), token, progress)
        finally:
            del self._patience[token]

    async def _send_with_progress(
        self, request: "_Call", token: int, progress: Progress
    ) -> JsonObject | ProtocolError:
        queue = ProgressQueue(progress)
        self._progress[token] = queue
        failure: UpstreamError | TimeoutError | None = None
        answer: JsonObject | ProtocolError = {}
        async with anyio.create_task_group() as beside:
            beside.start_soon(queue.run)
            try:
                answer = await self._send(request)
            except (UpstreamError, TimeoutError) as error:
                failure = error  # raised below, as a task group would wrap it
            finally:
                del self._progress[token]
                queue.finish()
        if failure is not None:
            raise failure
        return answer

    async def _send(self, request: "_Call") -> JsonObject | ProtocolError:
        try:
            with request.patience.applied():
                return await self._request("tools/call", request.params())
        except MCPError as error:
            return ProtocolError(error.code, error.message, error.data)
        except Unencodable as error:
            return ProtocolError(INVALID_PARAMS, f"the arguments cannot be sent: {error}")

    async def _request(
        self,
        method: str,
        params: JsonObject,
        *,
        cancellable: bool = True,
        headers: dict[str, str] | None = None,
    ) -> JsonObject:
        self._last_id += 1
        id = self._last_id
        options: CallOptions = {"cancel_on_abandon": cancellable, "request_id": id}
        if headers:
            options["headers"] = headers
        try:
            return await self._dispatcher.send_raw_request(method, self._stamped(params), options)
        except MCPError as error:
            loss = self._transport.loss(id)
            if loss is not None:
                raise loss from error
            if self._transport.over.is_set() and _closed(error):
                raise ConnectionLost(f"went away before it answered {method!r}") from error
            raise

    def _stamped(self, params: JsonObject) -> JsonObject:
        if not self._stamp:
            return params
        meta = params.get("_meta")
        return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), **self._stamp}}

    async def _answer(self, _: object, method: str, __: Mapping[str, Any] | None) -> JsonObject:
        if method == "ping":
            return {}
        raise MCPError(METHOD_NOT_FOUND, f"mcp-dispatch does not answer {method!r} from a server")

    def _observe(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Notifications in the order of arrival, before the next message is looked at."""
        if method == "notifications/tools/list_changed":
            self._on_tools_changed()
        elif method == "notifications/progress" and params is not None:
            token = params.get("progressToken")
            if type(token) is not int:
                return True
            patience, queue = self._patience.get(token), self._progress.get(token)
            if patience is not None:
                patience.heard()
            if queue is not None:
                queue.put({key: value for key, value in params.items() if key != "progressToken"})
        return True


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: JsonObject
    meta: JsonObject
    patience: Patience

    def with_token(self, token: int) -> "_Call":
        return replace(self, meta={**self.meta, "progressToken": token})

    def params(self) -> JsonObject:
        params: JsonObject = {"name": self.name, "arguments": self.arguments}
        return {**params, "_meta": self.meta} if self.meta else params


async def _ignore(_: object, __: str, ___: Mapping[str, Any] | None) -> None:
    """Never reached: `_observe` consumes every notification."""


def _closed(error: MCPError) -> bool:
    """Whether the SDK made this up because the stream ended; a server may use the code too."""
    return (error.code, error.message, error.data) == (CONNECTION_CLOSED, "Connection closed", None)


def _in_words(error: MCPError) -> str:
    return f"{error.message} ({error.code})"
