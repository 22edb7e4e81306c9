"""One connection to an upstream server: lists and requests, as raw JSON objects."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio
import anyio.abc
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.errors import ConnectionLost, HandshakeFailed, UpstreamError
from mcp_dispatch.upstream.handshake import (
    HandshakeOptions,
    HandshakeResult,
    add_client_meta,
    format_mcp_error,
    negotiate_protocol,
    strip_hop_keys,
)
from mcp_dispatch.upstream.pagination import Listing, read_pages
from mcp_dispatch.upstream.requests.deadline import Deadline
from mcp_dispatch.upstream.requests.progress import ProgressQueue
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import UpstreamRequest
from mcp_dispatch.upstream.transports.base import RelatedRequestReader, Transport, find_related_id
from mcp_dispatch.upstream.transports.param_headers import ParamHeaders
from mcp_dispatch.wire.codec import Unencodable
from mcp_dispatch.wire.sdk import (
    CallOptions,
    DispatchContext,
    JSONRPCDispatcher,
    MCPError,
    TransportContext,
)

_INPUT_REQUIRED_TYPES: Final = frozenset({"input_required"})
_KIND_BY_LIST_CHANGED: Final = {
    f"notifications/{kind}/list_changed": kind for kind in ("tools", "resources", "prompts")
}


class Connection:
    """An MCP client over a `Transport`, in the protocol era that the server supports.

    `run` must be running while other methods are used. `closed` is set when the server can no
    longer be reached; requests that are open then, or are sent later, raise `ConnectionLost`.
    """

    def __init__(
        self,
        transport: Transport,
        on_list_changed: Callable[[str], None],
        relay: Relay | None = None,
        handshake_options: HandshakeOptions | None = None,
    ) -> None:
        """`on_list_changed` receives `tools`, `resources` or `prompts`."""
        self._transport = transport
        self._reader = RelatedRequestReader(transport.reader)
        self._dispatcher = JSONRPCDispatcher(self._reader, transport.writer)
        self._on_list_changed = on_list_changed
        self._relay = relay or Relay("server")
        self._handshake_options = handshake_options or HandshakeOptions()
        self._param_headers = ParamHeaders()
        self._last_id = 0
        self._progress_queues: dict[int, ProgressQueue] = {}
        self._deadlines: dict[int, Deadline] = {}
        self.listen_acknowledged = ChangeSignal()
        """Notified when the server has acknowledged a `subscriptions/listen` request."""

        self._handshake = HandshakeResult()

    @property
    def closed(self) -> anyio.Event:
        return self._transport.closed

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Read and write until the connection ends."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._transport.run)
            tasks.start_soon(self._relay.deliver)
            try:
                await self._dispatcher.run(
                    self._answer_server_request,
                    _ignore_notification,
                    self._handle_notification,
                    task_status=task_status,
                )
            finally:
                self._transport.closed.set()
                tasks.cancel_scope.cancel()

    @property
    def renewals(self) -> int:
        """How often a lost session was replaced; subscriptions of the old one are gone then."""
        return self._transport.renewals

    def invalidate_lists(self) -> None:
        """Report all lists as changed: notifications may have been missed."""
        for kind in _KIND_BY_LIST_CHANGED.values():
            self._on_list_changed(kind)

    @property
    def version(self) -> str:
        """Empty before the handshake."""
        return self._handshake.version

    @property
    def capabilities(self) -> JsonObject:
        return self._handshake.capabilities

    @property
    def instructions(self) -> str:
        return self._handshake.instructions

    @property
    def modern(self) -> bool:
        return self._handshake.modern

    async def negotiate(self, timeout: float) -> None:
        """Negotiate the protocol version. Raises `HandshakeFailed`, `ConnectionLost`, `TimeoutError`."""
        with anyio.fail_after(timeout):
            self._handshake = await negotiate_protocol(self._request, self._handshake_options)
            self._transport.set_protocol_version(self.version)
            if not self.modern:
                await self._dispatcher.notify("notifications/initialized", None)

    @property
    def _needs_param_headers(self) -> bool:
        return self._transport.has_headers and self.modern

    async def list_tools(self, timeout: float) -> Listing:
        """Return all pages. Raises `HandshakeFailed`, `ConnectionLost`, `TimeoutError`."""
        listing = await self.list_entries("tools/list", "tools", timeout)
        return self._param_headers.update(listing) if self._needs_param_headers else listing

    async def list_entries(self, method: str, key: str, timeout: float) -> Listing:
        """Return all pages of a list. Raises `HandshakeFailed`, `ConnectionLost`, `TimeoutError`."""
        with anyio.fail_after(timeout):
            try:
                return await read_pages(
                    lambda params: self._request_with_meta(method, params), key, method
                )
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return Listing()
                raise HandshakeFailed(f"refused {method!r}: {format_mcp_error(error)}") from error

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        await self._dispatcher.notify(method, self._add_meta(params or {}, None) or None)

    async def request(
        self,
        method: str,
        params: JsonObject,
        *,
        timeout: float,
        idle_timeout: float = math.inf,
        meta: JsonObject | None = None,
        progress: Progress | None = None,
        upstream_request: UpstreamRequest | None = None,
    ) -> JsonObject | ProtocolError:
        """Send a request once and return its result or error exactly as the server sent it.

        Requests that the server sends meanwhile belong to `upstream_request`. All progress that
        arrives before the result is delivered before this method returns. Cancellation, a
        `TimeoutError` after `timeout` seconds, or an `IdleTimeout` after `idle_timeout` seconds
        without progress, sends the server a cancellation.
        Raises `ConnectionLost`, `RequestLost`, `RequestNotExecuted`.
        """
        deadline = Deadline(timeout, idle_timeout)
        request = _OutgoingRequest(
            self._next_id(), method, params, strip_hop_keys(meta or {}), deadline, upstream_request
        )
        if progress is not None or idle_timeout < math.inf:
            request = request.with_token()
        self._deadlines[request.id] = deadline
        try:
            if upstream_request is None:
                return await self._send_with_progress(request, progress)
            upstream_request.deadline = deadline
            with self._relay.track_request(request.id, upstream_request):
                answer = await self._send_with_progress(request, progress)
                await self._relay.drain()
        finally:
            del self._deadlines[request.id]
        if (
            not self.modern
            and isinstance(answer, dict)
            and answer.get("resultType") in _INPUT_REQUIRED_TYPES
        ):
            return ProtocolError(INTERNAL_ERROR, "asks in the way of another protocol version")
        return answer

    async def _send_with_progress(
        self, request: "_OutgoingRequest", progress: Progress | None
    ) -> JsonObject | ProtocolError:
        if progress is None:
            return await self._send(request)
        queue = self._progress_queues[request.id] = ProgressQueue(progress)
        failure: UpstreamError | TimeoutError | None = None
        answer: JsonObject | ProtocolError = {}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(queue.run)
            try:
                answer = await self._send(request)
            except (UpstreamError, TimeoutError) as error:
                failure = error  # raised below: a task group would wrap it
            finally:
                del self._progress_queues[request.id]
                queue.finish()
        if failure is not None:
            raise failure
        return answer

    async def _send(self, request: "_OutgoingRequest") -> JsonObject | ProtocolError:
        params = self._add_meta(request.to_params(), request.upstream_request)
        try:
            with request.deadline.enforce():
                return await self._request(request.method, params, id=request.id)
        except MCPError as error:
            return ProtocolError(error.code, error.message, error.data)
        except Unencodable as error:
            return ProtocolError(INVALID_PARAMS, f"the arguments cannot be sent: {error}")

    async def _request_with_meta(self, method: str, params: JsonObject) -> JsonObject:
        return await self._request(method, self._add_meta(params, None))

    async def _request(
        self, method: str, params: JsonObject, *, cancellable: bool = True, id: int | None = None
    ) -> JsonObject:
        id = id or self._next_id()
        options: CallOptions = {"cancel_on_abandon": cancellable, "request_id": id}
        if method == "tools/call" and self._needs_param_headers:
            options["headers"] = self._param_headers.build_headers(params)
        try:
            return await self._dispatcher.send_raw_request(method, params, options)
        except MCPError as error:
            lost = self._transport.pop_error(id)
            if lost is not None:
                raise lost from error
            if self._transport.closed.is_set() and _is_connection_closed(error):
                raise ConnectionLost(f"went away before it answered {method!r}") from error
            raise

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _add_meta(self, params: JsonObject, upstream_request: UpstreamRequest | None) -> JsonObject:
        return (
            add_client_meta(params, upstream_request) if self.modern or not self.version else params
        )

    async def _answer_server_request(
        self,
        context: DispatchContext[TransportContext],
        method: str,
        params: Mapping[str, Any] | None,
    ) -> JsonObject:
        related = find_related_id(getattr(context, "message_metadata", None))
        try:
            return await self._relay.answer(method, dict(params or {}), related)
        except ClientRequestError as refusal:
            raise MCPError(refusal.code, refusal.message, refusal.data) from refusal

    def _handle_notification(self, method: str, params: Mapping[str, Any] | None) -> bool:
        """Handle notifications in order of arrival, before the next message is read."""
        changed = _KIND_BY_LIST_CHANGED.get(method)
        if changed is not None:
            self._on_list_changed(changed)
        elif method == "notifications/progress" and params is not None:
            token = params.get("progressToken")
            if type(token) is not int:
                return True
            deadline, queue = self._deadlines.get(token), self._progress_queues.get(token)
            if deadline is not None:
                deadline.reset_idle()
            if queue is not None:
                queue.put({key: value for key, value in params.items() if key != "progressToken"})
        elif method == "notifications/subscriptions/acknowledged":
            self.listen_acknowledged.notify()
        else:
            self._relay.handle_notification(method, dict(params or {}), self._reader.related_id)
        return True


@dataclass(frozen=True, slots=True)
class _OutgoingRequest:
    """A request with its id, which is also its progress token."""

    id: int
    method: str
    params: JsonObject
    meta: JsonObject
    deadline: Deadline
    upstream_request: UpstreamRequest | None

    def with_token(self) -> "_OutgoingRequest":
        return replace(self, meta={**self.meta, "progressToken": self.id})

    def to_params(self) -> JsonObject:
        return {**self.params, "_meta": self.meta} if self.meta else self.params


async def _ignore_notification(_: object, __: str, ___: Mapping[str, Any] | None) -> None:
    """Never called: `_handle_notification` consumes every notification."""


def _is_connection_closed(error: MCPError) -> bool:
    """Return whether the SDK created the error because the stream ended.

    A server may use the same code, so message and data are compared too.
    """
    return (error.code, error.message, error.data) == (CONNECTION_CLOSED, "Connection closed", None)
