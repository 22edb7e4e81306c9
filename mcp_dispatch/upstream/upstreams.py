"""All upstream servers, each supervised by a task of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.model.client import ClientBridge, InputRequired
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.cache import CachedServer, CatalogueCache
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.handshake import HandshakeOptions, select_relayed_capabilities
from mcp_dispatch.upstream.lifecycle import Timing
from mcp_dispatch.upstream.listener import NullListener, ServerNotification, UpstreamListener
from mcp_dispatch.upstream.requests.request import UpstreamAnswer
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import (
    ExposeName,
    RejectedTool,
    ServerTools,
    UpstreamTool,
    build_server_tools,
)
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.upstream.transports.process import build_child_environment

HOLD_SECONDS: Final = 5.0
"""How long servers with cached tools wait for a client that does not list any tools."""


class Upstreams:
    """Entering starts every server; leaving ends every server.

    A server with cached tools waits until `release`, so that its tools can be listed before it
    runs. `servers` keeps the order of the configuration.
    """

    _tasks: TaskGroup | None = None

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        context: LaunchContext,
        listener: UpstreamListener | None = None,
        *,
        timing: Timing | None = None,
        cache: CatalogueCache | None = None,
    ) -> None:
        self.context = context
        self.listener = listener or NullListener()
        self.timing = timing or Timing()
        self._cache = cache
        self._cancel_scopes: dict[Supervisor, anyio.CancelScope] = {}
        self._start_signal = anyio.Event()
        self.servers = tuple(self._create_supervisor(config) for config in configs)

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for server in self.servers:
            self._start_supervisor(server)
        self.release(HOLD_SECONDS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        # Without the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)
        self._tasks = None

    def replace_servers(
        self, configs: Sequence[ServerConfig], environ: Mapping[str, str], cwd: Path | None
    ) -> None:
        """Run these servers from now on.

        A server keeps running if its entry, its environment and its directory are unchanged. A
        server that is removed or replaced ends when its open calls have ended.
        """
        before = {server.name: server for server in self.servers}
        context = replace(self.context, environ=environ, cwd=cwd or Path.cwd())
        unchanged = {
            config.name
            for config in configs
            if config.name in before
            and self._is_unchanged(before[config.name].config, config, context)
        }
        self.context = context
        self.servers = tuple(
            before[config.name] if config.name in unchanged else self._create_supervisor(config)
            for config in configs
        )
        for name, server in before.items():
            if name not in unchanged:
                self._retire(server)
        for server in self.servers:
            if server.name not in unchanged:
                self._start_supervisor(server)

    def _is_unchanged(
        self, before: ServerConfig, after: ServerConfig, context: LaunchContext
    ) -> bool:
        if before != after:
            return False
        if not isinstance(after.endpoint, StdioEndpoint):
            return True
        environments = (
            build_child_environment(after.endpoint, each.environ)
            for each in (self.context, context)
        )
        return (
            self.context.cwd == context.cwd
            and len({tuple(sorted(each.items())) for each in environments}) == 1
        )

    def _create_supervisor(self, config: ServerConfig) -> Supervisor:
        cached = CachedServer(config, self._cache, self.listener)
        start_signal = anyio.Event() if config.lazy else self._start_signal
        if config.connection == "per-scope":
            return _PerScopeSupervisor(self, config, cached, start_signal)
        return Supervisor(
            config,
            self.context,
            self.timing,
            self.listener,
            cached=cached,
            start_signal=start_signal,
        )

    def start_scoped_supervisor(self, shared: Supervisor, bridge: ClientBridge) -> Supervisor:
        """Start a supervisor that connects to the server of `shared` for one client only."""
        client = bridge.client
        capabilities = select_relayed_capabilities(client.capabilities)
        server = Supervisor(
            shared.config,
            self.context,
            self.timing,
            _ScopedListener(self.listener, shared),
            handshake_options=HandshakeOptions(capabilities, modern_first=not client.is_live),
        )
        self._start_supervisor(server)
        return server

    def _start_supervisor(self, server: Supervisor) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._run_supervisor, server, name=f"upstream {server.name}")

    async def _run_supervisor(self, server: Supervisor) -> None:
        with anyio.CancelScope() as scope:
            self._cancel_scopes[server] = scope
            await server.run()

    def _retire(self, server: Supervisor) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(
                self._end_when_idle, server, name=f"end of upstream {server.name}"
            )

    async def _end_when_idle(self, server: Supervisor) -> None:
        await server.open_calls.wait_until_idle()
        if isinstance(server, _PerScopeSupervisor):
            for scoped in server.pop_all_scopes():
                self._retire(scoped)
        scope = self._cancel_scopes.pop(server, None)
        if scope is not None:
            scope.cancel()

    def release(self, delay: float = 0.0) -> None:
        """Let waiting servers start after `delay` seconds; lazy ones still wait for a call."""
        if self._tasks is None or not delay:
            self._start_signal.set()
        elif not self._start_signal.is_set():
            self._tasks.start_soon(self._release_after, delay)

    async def _release_after(self, delay: float) -> None:
        await anyio.sleep(delay)
        self._start_signal.set()

    def end_scope(self, scope_id: str) -> None:
        """End the connections of a scope that has ended."""
        for server in self.servers:
            scoped = server.pop_scope(scope_id) if isinstance(server, _PerScopeSupervisor) else None
            if scoped is not None:
                self._retire(scoped)

    async def wait_until_settled(self, timeout: float) -> bool:
        """Wait until every server has cached tools, is ready, or has failed once.

        Return False if `timeout` passes first.
        """
        with anyio.move_on_after(timeout):
            for server in self.servers:
                if not server.cached.has_listing:
                    await server.first_attempt_done.wait()
            return True
        return False

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until `condition` holds or every server that is not lazy has been tried.

        The condition is evaluated at first and after the first attempt of each server.
        """
        if condition():
            return

        async def check_server(server: Supervisor) -> None:
            await server.first_attempt_done.wait()
            if condition():
                tasks.cancel_scope.cancel()

        with anyio.move_on_after(timeout):
            async with anyio.create_task_group() as tasks:
                for server in self.servers:
                    if server.wake_unless_lazy():
                        tasks.start_soon(check_server, server)

    def notify_roots_changed(self) -> None:
        for server in self.servers:
            server.notify_roots_changed()


class _PerScopeSupervisor(Supervisor):
    """Sends each request over a connection of the client's scope.

    Its own connection only keeps the lists of tools, resources and prompts current.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        config: ServerConfig,
        cached: CachedServer,
        start_signal: anyio.Event,
    ) -> None:
        super().__init__(
            config,
            upstreams.context,
            upstreams.timing,
            upstreams.listener,
            cached=cached,
            start_signal=start_signal,
        )
        self._upstreams = upstreams
        self._scoped: dict[str, Supervisor] = {}

    async def send(
        self, request: RequestSpec, bridge: ClientBridge, *, exclusive: bool = False
    ) -> UpstreamAnswer | InputRequired:
        scoped = self._scoped.get(bridge.scope_id)
        if scoped is None:
            scoped = self._upstreams.start_scoped_supervisor(self, bridge)
            self._scoped[bridge.scope_id] = scoped
        return await scoped.send(request, bridge, exclusive=exclusive)

    def pop_scope(self, scope_id: str) -> Supervisor | None:
        return self._scoped.pop(scope_id, None)

    def pop_all_scopes(self) -> list[Supervisor]:
        scoped, self._scoped = self._scoped, {}
        return list(scoped.values())


class _ScopedListener(NullListener):
    """Receives the events of a connection of one scope. The lists are read on the shared one."""

    def __init__(self, listener: UpstreamListener, shared: Supervisor) -> None:
        self._listener = listener
        self._shared = shared

    def handle_offers_changed(self, kind: str) -> None:
        self._listener.handle_offers_changed(kind)
        self._shared.refresh_list(kind)

    async def handle_notification(self, notification: ServerNotification) -> None:
        await self._listener.handle_notification(notification)

    def list_roots(self) -> list[JsonObject]:
        return self._listener.list_roots()


ReportRejectedTool = Callable[[RejectedTool], None]


class ToolCatalogue:
    """The tools of all servers. Each rejected or odd tool is reported once while it stays so."""

    def __init__(self, expose_name: ExposeName, report: ReportRejectedTool) -> None:
        self._expose_name = expose_name
        self._report = report
        self._reported: dict[str, frozenset[RejectedTool]] = {}
        self._cached: dict[str, tuple[Supervisor, tuple[JsonObject, ...], ServerTools]] = {}

    def list_tools(self, servers: Iterable[Supervisor]) -> list[UpstreamTool]:
        """Return the tools in the order of the configuration."""
        return [tool for server in servers for tool in self.list_server_tools(server).tools]

    def list_server_tools(self, server: Supervisor) -> ServerTools:
        cached = self._cached.get(server.name)
        if cached is not None and cached[0] is server and cached[1] is server.tools:
            return cached[2]
        found = build_server_tools(server, self._expose_name)
        self._cached[server.name] = (server, server.tools, found)
        self._report_new(server.name, frozenset((*found.rejected, *found.warnings)))
        return found

    def _report_new(self, server: str, found: frozenset[RejectedTool]) -> None:
        for each in sorted(found - self._reported.get(server, frozenset()), key=str):
            self._report(each)
        self._reported[server] = found
