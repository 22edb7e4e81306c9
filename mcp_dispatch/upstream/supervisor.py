"""One task per upstream: it owns the process from start to end and starts it again when it dies."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from mcp_dispatch.model.client import ClientBridge, InputRequired
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.child import ProcessStartError
from mcp_dispatch.upstream.cache import CachedServer
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import ConnectionLost, RequestNotExecuted, UpstreamError
from mcp_dispatch.upstream.handshake import HandshakeOptions
from mcp_dispatch.upstream.lifecycle import Lifecycle, ServerState, Timing
from mcp_dispatch.upstream.pagination import Listing
from mcp_dispatch.upstream.requests.open_calls import OpenCalls
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import UpstreamRequest
from mcp_dispatch.upstream.requests.send import (
    ConnectionLease,
    RequestSpec,
    check_definition,
    run_rounds,
    send_request,
    to_call_failed,
)
from mcp_dispatch.upstream.resources import ServerResources
from mcp_dispatch.upstream.tool_schemas import ToolSchemaCache
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.open import LaunchContext, open_transport
from mcp_dispatch.upstream.transports.process import StderrLog

logger = logging.getLogger(__name__)


class Supervisor:
    """One upstream, watched. Whatever befalls it stays here: `run` raises nothing."""

    def __init__(
        self,
        config: ServerConfig,
        context: LaunchContext,
        timing: Timing,
        on_change: Callable[[], None],
        cached: CachedServer | None = None,
        start_signal: anyio.Event | None = None,
    ) -> None:
        """A server whose tools are known is not started before `hold` is set or it is called."""
        self.config = config
        self.cached = cached or CachedServer(config, None)
        self.tools: tuple[JsonObject, ...] = () if config.disabled else self.cached.snapshot.tools
        self.schemas = ToolSchemaCache()
        for tool, schema, refused in self.cached.snapshot.verdicts:
            self.schemas.restore(tool, schema, refused)
        for tool, schema, refused in self.cached.snapshot.output_verdicts:
            self.schemas.outputs.restore(tool, schema, refused)
        self.calls = OpenCalls(config)
        self.unexpected_output_count = 0
        self.first_attempt_done = anyio.Event()
        self._context = context
        self._timing = timing
        self._on_change = on_change
        self._log = StderrLog(context.logs, config.name)
        self.relay = Relay(config.name)
        self.handshake_options = HandshakeOptions()
        self.select_supervisor: Callable[[ClientBridge], Supervisor] = lambda _: self
        """Who speaks with the server for this client: another where each scope has a connection."""
        self.resources = ServerResources(config.name, self._notify_offers_changed)
        self.on_offers_changed: Callable[[str], None] = lambda _: None
        """Told what has changed: `resources` or `prompts`."""
        self._relist_requested = anyio.Event()
        self._start_signal = (
            start_signal if self.cached.has_listing and not config.disabled else None
        )
        self._lifecycle = Lifecycle(
            config, timing, self._log.path, idle=self._start_signal is not None
        )
        self._change_announced = False

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def log(self) -> Path:
        return self._log.path

    @property
    def state(self) -> ServerState:
        return self._lifecycle.state

    @property
    def problem(self) -> str | None:
        return self._lifecycle.problem

    @property
    def is_connected(self) -> bool:
        return self._lifecycle.lease is not None

    # -- calls

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        meta: JsonObject,
        progress: Progress | None,
        exclusive: bool = False,
    ) -> JsonObject | ProtocolError:
        """What the server answered. Carried out at most once. Raises `CallFailed`."""
        params: JsonObject = {"name": tool, "arguments": arguments}
        async with self.calls.admit(exclusive=exclusive):
            return await self.request(RequestSpec("tools/call", params, tool, meta, progress))

    async def request(self, request: RequestSpec) -> JsonObject | ProtocolError:
        """As `call`, for any method."""
        life = await self._lifecycle.acquire_lease()
        check_definition(request, self.tools, self.name)
        try:
            return await send_request(life, request, self.config, self._timing.patience)
        except RequestNotExecuted as error:
            if not await life.has_ended(self._timing.patience):
                raise to_call_failed(error, self.name) from error
        life = await self._lifecycle.acquire_lease()
        check_definition(request, self.tools, self.name)
        try:
            return await send_request(life, request, self.config, self._timing.patience)
        except RequestNotExecuted as error:
            raise to_call_failed(error, self.name) from error

    async def wait_for_fresh_tools(self) -> None:
        """A server whose tools are only known from before is started, and asked for them."""
        if self.state is ServerState.IDLE:
            self._lifecycle.wake()
        if self.cached.has_listing and self.state is not ServerState.DISABLED:
            with anyio.move_on_after(self._timing.patience):
                await self.first_attempt_done.wait()

    async def send(
        self, request: RequestSpec, bridge: ClientBridge, *, exclusive: bool = False
    ) -> JsonObject | ProtocolError | InputRequired:
        """As `request`, with somebody to answer the questions that the server has meanwhile."""
        server = self.select_supervisor(bridge)
        if server is not self:
            return await server.send(request, bridge, exclusive=exclusive)
        errand = UpstreamRequest(bridge, request.progress)
        told = errand.report_progress if request.progress is not None else None
        asked = replace(request, progress=told, upstream_request=errand)

        async def send_round(params: JsonObject) -> JsonObject | ProtocolError:
            return await self.request(replace(asked, params=params))

        async def send_rounds(upstream_request: UpstreamRequest) -> JsonObject | ProtocolError:
            async with self.calls.admit(exclusive=exclusive):
                return await run_rounds(
                    send_round, request.params, upstream_request, self.name, self.relay.list_roots
                )

        return await errand.run(send_rounds, self._context.children.spawn_task)

    def notify_roots_changed(self) -> None:
        """The directories that the server may know of are others now."""
        self._context.children.spawn_task(self._send_roots_changed)

    async def _send_roots_changed(self) -> None:
        life = self._lifecycle.lease
        if life is not None and not life.connection.modern:
            await life.connection.notify("notifications/roots/list_changed")

    def refresh_tools(self) -> None:
        """Its list may be out of date: it is asked for once more."""
        self._relist_requested.set()

    # -- the one task

    async def run(self) -> None:
        """Keeps the server going until cancelled."""
        if self.state is ServerState.DISABLED:
            self.first_attempt_done.set()
            return
        if self._start_signal is not None:
            await self._lifecycle.wait_until_needed(self._start_signal)
        while True:
            self._relist_requested = anyio.Event()
            self._lifecycle.begin_attempt()
            problem = await self._connect_and_serve()
            self._mark_down(problem)
            delay = self._lifecycle.compute_restart_delay()
            await self._lifecycle.wait_for_restart(delay if self.config.restart else None)

    def wake_unless_lazy(self) -> bool:
        """Has a server that waits to be started start, unless it is lazy; whether `tried` comes."""
        if self.state is ServerState.IDLE:
            if self.config.lazy:
                return False
            self._lifecycle.wake()
        return True

    async def _connect_and_serve(self) -> str:
        """From start to end; returns why it ended."""
        try:
            async with open_transport(
                self.config, self._context, self._log, self._log_unexpected_output
            ) as transport:
                problem = await self._run_connection(transport)
                # Told before a process is cleared away, which may take a while.
                self._mark_down(problem)
                return problem
        except ProcessStartError as error:
            return f"cannot be started: {error.problem}"
        except RequestNotExecuted as error:
            return str(error)
        except OSError as error:
            return f"cannot be started: {self._log.path}: {error.strerror}"
        except Exception as error:  # the boundary: one server's trouble never reaches another
            logger.exception("upstream %s failed", self.name)
            return f"failed unexpectedly: {type(error).__name__}: {error}"

    async def _run_connection(self, transport: Transport) -> str:
        life = ConnectionLease(
            Connection(transport, self._handle_list_changed, self.relay, self.handshake_options)
        )
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(life.connection.run)
                tasks.start_soon(self._follow_tool_list, life)
                tasks.start_soon(self._follow_resources, life)
                life.end_reason = await self._serve(life) or await transport.wait_for_end_reason(
                    self._timing.exit
                )
                tasks.cancel_scope.cancel()
        finally:
            life.ended.set()
        return life.end_reason

    async def _serve(self, lease: ConnectionLease) -> str | None:
        """Until the connection is over; returns why, where it was not the transport that ended."""
        connection, timing = lease.connection, self._timing
        try:
            await connection.negotiate(self.config.connect_timeout)
            listing = await connection.list_tools(timing.listing)
        except TimeoutError:
            if not connection.version:
                return f"did not answer within {self.config.connect_timeout:g} s"
            return f"did not answer 'tools/list' within {timing.listing:g} s"
        except ConnectionLost:
            return None
        except UpstreamError as error:
            return str(error)
        self._mark_ready(lease, listing)
        await connection.closed.wait()
        return None

    async def _follow_tool_list(self, lease: ConnectionLease) -> None:
        await lease.ready.wait()
        while True:
            await self._relist_requested.wait()
            self._relist_requested = anyio.Event()
            await self._reload_tools(lease.connection)
            # A server may announce a change whenever it is asked for its list.
            await self._timing.pause(self._timing.relist)

    async def _follow_resources(self, lease: ConnectionLease) -> None:
        await lease.ready.wait()
        await self.resources.run(lease.connection)

    async def _reload_tools(self, connection: Connection) -> None:
        try:
            announced, self._change_announced = self._change_announced, False
            listing = await connection.list_tools(self._timing.listing)
            self._adopt_listing(listing, announced=announced)
        except TimeoutError:
            self._lifecycle.set_state(
                ServerState.DEGRADED, "did not answer 'tools/list'; its old list is kept"
            )
        except ConnectionLost:
            return
        except UpstreamError as error:
            self._lifecycle.set_state(ServerState.DEGRADED, f"{error}; its old list is kept")

    # -- what others see

    def _mark_ready(self, lease: ConnectionLease, listing: Listing) -> None:
        self._lifecycle.mark_connected(lease)
        self._adopt_listing(listing)
        self.first_attempt_done.set()

    def _adopt_listing(self, listing: Listing, *, announced: bool = False) -> None:
        # Compared as text: 1, 1.0 and true are equal in Python and not in a schema.
        changed = repr(listing.entries) != repr(self.tools)
        if changed:
            self.tools = listing.entries
        self.cached.record_listing(listing)
        self._lifecycle.set_state(
            ServerState.READY if listing.problem is None else ServerState.DEGRADED, listing.problem
        )
        if changed:
            self._on_change()
        elif announced:
            # Where the server says so, it is so, though its list may look the same to us.
            self.on_offers_changed("tools")

    def _mark_down(self, problem: str) -> None:
        if self.state is not ServerState.DOWN:
            self._lifecycle.mark_down(problem)
            self.cached.record_failure(problem)
            self.first_attempt_done.set()
            logger.warning("upstream %s %s", self.name, problem)

    def refresh_list(self, kind: str) -> None:
        """Its `tools`, `resources` or `prompts` may be others now."""
        if kind == "tools":
            self._relist_requested.set()
        else:
            self.resources.refresh(kind)

    def _handle_list_changed(self, kind: str) -> None:
        if kind == "tools":
            self._change_announced = True
            self._relist_requested.set()
        else:
            self.resources.mark_changed(kind)

    def _notify_offers_changed(self, kind: str) -> None:
        self.on_offers_changed(kind)

    def _log_unexpected_output(self, kind: str, head: bytes) -> None:
        self.unexpected_output_count += 1
        self._log.write(b"[no message, " + kind.encode("ascii") + b"] " + head + b"\n")
