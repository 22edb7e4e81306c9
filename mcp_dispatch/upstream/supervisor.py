"""Runs one upstream server: starts it, keeps its lists current, and restarts it when it ends."""

import logging
from pathlib import Path

import anyio

from mcp_dispatch.model.client import ClientBridge, InputRequired
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes.child import ProcessStartError
from mcp_dispatch.upstream.cache import CachedServer
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import ConnectionLost, RequestNotExecuted, UpstreamError
from mcp_dispatch.upstream.handshake import HandshakeOptions
from mcp_dispatch.upstream.lifecycle import ConnectionLease, Lifecycle, ServerState, Timing
from mcp_dispatch.upstream.listener import UpstreamListener
from mcp_dispatch.upstream.pagination import Listing
from mcp_dispatch.upstream.requests.open_calls import OpenCalls
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import UpstreamAnswer
from mcp_dispatch.upstream.requests.send import RequestSender, RequestSpec
from mcp_dispatch.upstream.resources import ServerResources
from mcp_dispatch.upstream.tool_schemas import ToolSchemaCache
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.open import LaunchContext, open_transport
from mcp_dispatch.upstream.transports.process import StderrLog

logger = logging.getLogger(__name__)


class Supervisor:
    """One upstream server. Its failures stay here: `run` raises nothing."""

    def __init__(
        self,
        config: ServerConfig,
        context: LaunchContext,
        timing: Timing,
        listener: UpstreamListener,
        *,
        cached: CachedServer | None = None,
        start_signal: anyio.Event | None = None,
        handshake_options: HandshakeOptions | None = None,
    ) -> None:
        """A server with cached tools starts when `start_signal` is set or a call needs it."""
        self.config = config
        self.cached = cached or CachedServer(config, None)
        self.schemas = ToolSchemaCache.restore(self.cached.snapshot)
        self.unexpected_output_count = 0
        self.first_attempt_done = anyio.Event()
        self.resources = ServerResources(config.name, listener)
        self._context = context
        self._timing = timing
        self._listener = listener
        self._log = StderrLog(context.logs, config.name)
        self._relay = Relay(config.name, listener)
        self._handshake_options = handshake_options or HandshakeOptions()
        self._relist_requested = anyio.Event()
        self._start_signal = (
            start_signal if self.cached.has_listing and not config.disabled else None
        )
        self._lifecycle = Lifecycle(
            config, timing, self._log.path, idle=self._start_signal is not None
        )
        self.tools = () if config.disabled else self.cached.snapshot.tools
        self._sender = RequestSender(
            config, self._lifecycle, self._relay, context.children.spawn_task
        )
        self._change_announced = False

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def tools(self) -> tuple[JsonObject, ...]:
        """The last known definitions, as the server listed them."""
        return self._lifecycle.tools

    @tools.setter
    def tools(self, tools: tuple[JsonObject, ...]) -> None:
        self._lifecycle.tools = tools

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

    @property
    def open_calls(self) -> OpenCalls:
        return self._sender.open_calls

    # -- requests

    async def send(
        self, request: RequestSpec, bridge: ClientBridge, *, exclusive: bool = False
    ) -> UpstreamAnswer | InputRequired:
        """Send a request for the client of `bridge`; the server executes it at most once.

        Raises `CallFailed`.
        """
        return await self._sender.send(request, bridge, exclusive=exclusive)

    async def wait_for_fresh_tools(self) -> None:
        """Start a server whose tools are only cached, and wait until it has listed them."""
        if self.state is ServerState.IDLE:
            self._lifecycle.wake()
        if self.cached.has_listing and self.state is not ServerState.DISABLED:
            with anyio.move_on_after(self._timing.connect_wait):
                await self.first_attempt_done.wait()

    def notify_roots_changed(self) -> None:
        """Send the server a notification that the list of roots has changed."""
        self._context.children.spawn_task(self._send_roots_changed)

    async def _send_roots_changed(self) -> None:
        lease = self._lifecycle.lease
        if lease is not None and not lease.connection.modern:
            await lease.connection.notify("notifications/roots/list_changed")

    def refresh_list(self, kind: str) -> None:
        """Read the list of `tools`, `resources` or `prompts` again: it may be out of date."""
        if kind == "tools":
            self._relist_requested.set()
        else:
            self.resources.refresh(kind)

    # -- the task of this server

    async def run(self) -> None:
        """Keep the server running until cancelled."""
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
        """Start an idle server unless it is lazy; return whether `first_attempt_done` will be set."""
        if self.state is ServerState.IDLE:
            if self.config.lazy:
                return False
            self._lifecycle.wake()
        return True

    async def _connect_and_serve(self) -> str:
        """Run one connection from start to end; return why it ended."""
        try:
            async with open_transport(
                self.config, self._context, self._log, self._log_unexpected_output
            ) as transport:
                problem = await self._run_connection(transport)
                # Marked before the process is terminated, which may take a while.
                self._mark_down(problem)
                return problem
        except ProcessStartError as error:
            return f"cannot be started: {error.problem}"
        except RequestNotExecuted as error:
            return str(error)
        except OSError as error:
            return f"cannot be started: {self._log.path}: {error.strerror}"
        except Exception as error:  # the boundary: a failure of one server never affects another
            logger.exception("upstream %s failed", self.name)
            return f"failed unexpectedly: {type(error).__name__}: {error}"

    async def _run_connection(self, transport: Transport) -> str:
        lease = ConnectionLease(
            Connection(transport, self._handle_list_changed, self._relay, self._handshake_options)
        )
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(lease.connection.run)
                tasks.start_soon(self._follow_tool_list, lease)
                tasks.start_soon(self._follow_resources, lease)
                lease.end_reason = await self._serve(lease) or await transport.wait_for_end_reason(
                    self._timing.exit_timeout
                )
                tasks.cancel_scope.cancel()
        finally:
            lease.ended.set()
        return lease.end_reason

    async def _serve(self, lease: ConnectionLease) -> str | None:
        """Wait until the connection is over; return why, or None if the transport knows."""
        connection, list_timeout = lease.connection, self._timing.list_timeout
        try:
            await connection.negotiate(self.config.connect_timeout)
            listing = await connection.list_tools(list_timeout)
        except TimeoutError:
            if not connection.version:
                return f"did not answer within {self.config.connect_timeout:g} s"
            return f"did not answer 'tools/list' within {list_timeout:g} s"
        except ConnectionLost:
            return None
        except UpstreamError as error:
            return str(error)
        self._lifecycle.mark_connected(lease)
        self._adopt_listing(listing)
        self.first_attempt_done.set()
        await connection.closed.wait()
        return None

    async def _follow_tool_list(self, lease: ConnectionLease) -> None:
        await lease.ready.wait()
        while True:
            await self._relist_requested.wait()
            self._relist_requested = anyio.Event()
            await self._reload_tools(lease.connection)
            # A server may announce a change each time its list is read.
            await self._timing.pause(self._timing.relist_interval)

    async def _follow_resources(self, lease: ConnectionLease) -> None:
        await lease.ready.wait()
        await self.resources.run(lease.connection)

    async def _reload_tools(self, connection: Connection) -> None:
        try:
            announced, self._change_announced = self._change_announced, False
            listing = await connection.list_tools(self._timing.list_timeout)
            self._adopt_listing(listing, announced=announced)
        except TimeoutError:
            self._lifecycle.set_state(
                ServerState.DEGRADED, "did not answer 'tools/list'; its old list is kept"
            )
        except ConnectionLost:
            return
        except UpstreamError as error:
            self._lifecycle.set_state(ServerState.DEGRADED, f"{error}; its old list is kept")

    # -- changes of state

    def _adopt_listing(self, listing: Listing, *, announced: bool = False) -> None:
        # Compared as text: 1, 1.0 and true are equal in Python but not in a schema.
        changed = repr(listing.entries) != repr(self.tools)
        if changed:
            self.tools = listing.entries
        self.cached.record_listing(listing)
        self._lifecycle.set_state(
            ServerState.READY if listing.problem is None else ServerState.DEGRADED, listing.problem
        )
        if changed:
            self._listener.handle_tools_changed()
        elif announced:
            # The server has announced a change, even though the list looks the same to us.
            self._listener.handle_offers_changed("tools")

    def _mark_down(self, problem: str) -> None:
        if self.state is not ServerState.DOWN:
            self._lifecycle.mark_down(problem)
            self.cached.record_failure(problem)
            self.first_attempt_done.set()
            logger.warning("upstream %s %s", self.name, problem)

    def _handle_list_changed(self, kind: str) -> None:
        if kind == "tools":
            self._change_announced = True
            self._relist_requested.set()
        else:
            self.resources.mark_changed(kind)

    def _log_unexpected_output(self, kind: str, head: bytes) -> None:
        self.unexpected_output_count += 1
        self._log.write(b"[no message, " + kind.encode("ascii") + b"] " + head + b"\n")
