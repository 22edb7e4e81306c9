"""All upstreams of this server, each in its own task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.model.client import ClientBridge
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.upstream.cache import CachedServer, CatalogueCache, OnDefinitionsChanged
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.definition_diff import DefinitionChange
from mcp_dispatch.upstream.handshake import HandshakeOptions, select_relayed_capabilities
from mcp_dispatch.upstream.lifecycle import Timing
from mcp_dispatch.upstream.requests.relay import (
    ListRoots,
    OnNotification,
    discard_notification,
    list_no_roots,
)
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
"""How long servers whose tools are known wait for a client that does not list any tools."""


class Upstreams:
    """Entered, every server starts beside the others; left, every one has ended. A server that
    `memory` knows waits until `release`, so that what it offers can be told before it is there.

    `servers` keeps the order of the configuration. `on_change` may be set at any time; it is
    called, and must return at once, when the tools of any server have changed.
    """

    _tasks: TaskGroup | None = None

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        children: ProcessGroup,
        state_dir: Path,
        environ: Mapping[str, str],
        *,
        cwd: Path | None = None,
        on_change: Callable[[], None] | None = None,
        on_definitions_changed: OnDefinitionsChanged | None = None,
        timing: Timing | None = None,
        cache: CatalogueCache | None = None,
    ) -> None:
        self._context = LaunchContext(children, state_dir / "logs", environ, cwd or Path.cwd())
        self._timing = timing or Timing()
        self._cancel_scopes: dict[Supervisor, anyio.CancelScope] = {}
        self._cache = cache
        self._start_signal = anyio.Event()
        self._scoped: dict[tuple[Supervisor, str], Supervisor] = {}
        self.on_change = on_change
        self.on_offers_changed: Callable[[str], None] = lambda _: None
        """Told what has changed at some server: `resources` or `prompts`."""

        self.on_notification: OnNotification = discard_notification
        self.list_roots: ListRoots = list_no_roots
        self.on_definitions_changed = on_definitions_changed
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
        # Not given the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)
        self._tasks = None

    def replace_servers(
        self, configs: Sequence[ServerConfig], environ: Mapping[str, str], cwd: Path | None
    ) -> None:
        """From now on these servers. One whose entry stays as it was, and that would start with
        the same environment in the same place, just goes on; one that is left out or replaced
        ends when the calls that it runs have ended."""
        before = {server.name: server for server in self.servers}
        place = replace(self._context, environ=environ, cwd=cwd or Path.cwd())
        stays = {
            config.name
            for config in configs
            if config.name in before
            and self._is_unchanged(before[config.name].config, config, place)
        }
        self._context = place
        self.servers = tuple(
            before[config.name] if config.name in stays else self._create_supervisor(config)
            for config in configs
        )
        for name, server in before.items():
            if name not in stays:
                self._retire(server)
        for server in self.servers:
            if server.name not in stays:
                self._start_supervisor(server)

    def _is_unchanged(
        self, before: ServerConfig, after: ServerConfig, context: LaunchContext
    ) -> bool:
        if before != after:
            return False
        if not isinstance(after.endpoint, StdioEndpoint):
            return True
        seen = (
            build_child_environment(after.endpoint, each.environ)
            for each in (self._context, context)
        )
        return (
            self._context.cwd == context.cwd
            and len({tuple(sorted(each.items())) for each in seen}) == 1
        )

    def _create_supervisor(self, config: ServerConfig) -> Supervisor:
        dossier = CachedServer(config, self._cache, self._notify_definitions_changed)
        hold = anyio.Event() if config.lazy else self._start_signal
        return self._attach_callbacks(
            Supervisor(config, self._context, self._timing, self._notify_change, dossier, hold)
        )

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
        await server.calls.wait_until_idle()
        for key in [key for key in self._scoped if key[0] is server]:
            self._retire(self._scoped.pop(key))
        scope = self._cancel_scopes.pop(server, None)
        if scope is not None:
            scope.cancel()

    def release(self, delay: float = 0.0) -> None:
        """Servers that wait may start, after `delay` seconds; lazy ones go on waiting for a call."""
        if self._tasks is None or not delay:
            self._start_signal.set()
        elif not self._start_signal.is_set():
            self._tasks.start_soon(self._release_after, delay)

    async def _release_after(self, delay: float) -> None:
        await anyio.sleep(delay)
        self._start_signal.set()

    def _select_supervisor(self, server: Supervisor, bridge: ClientBridge) -> Supervisor:
        """Opened when it is first needed; ended with the scope."""
        if server.config.connection == "shared":
            return server
        own = self._scoped.get((server, bridge.scope_id))
        if own is None:
            own = Supervisor(server.config, self._context, self._timing, lambda: None)
            own.relay.on_notification, own.relay.list_roots = (
                server.relay.on_notification,
                server.relay.list_roots,
            )
            client = bridge.client
            own.handshake_options = HandshakeOptions(
                select_relayed_capabilities(client.capabilities), modern_first=not client.is_live
            )
            own.on_offers_changed = partial(self._handle_scoped_change, server)
            self._scoped[server, bridge.scope_id] = own
            self._start_supervisor(own)
        return own

    def _handle_scoped_change(self, server: Supervisor, kind: str) -> None:
        """What a server offers is read on the connection that is everybody's."""
        self.on_offers_changed(kind)
        server.refresh_list(kind)

    def end_scope(self, scope: str) -> None:
        """Its connections are needed no more."""
        for server, owner in [key for key in self._scoped if key[1] == scope]:
            self._retire(self._scoped.pop((server, owner)))

    async def wait_until_settled(self, timeout: float) -> bool:
        """Wait until every server is known, is ready, or has failed once; False when `timeout` came
        first."""
        with anyio.move_on_after(timeout):
            for server in self.servers:
                if not server.cached.has_listing:
                    await server.first_attempt_done.wait()
            return True
        return False

    async def wait_until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until `found`, which may hold once a server is there, or until every server that is
        not lazy has been tried."""
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

    def _attach_callbacks(self, server: Supervisor) -> Supervisor:
        server.on_offers_changed = lambda what: self.on_offers_changed(what)
        server.relay.on_notification = lambda notice: self.on_notification(notice)
        server.relay.list_roots = lambda: self.list_roots()
        server.select_supervisor = lambda respondent: self._select_supervisor(server, respondent)
        return server

    def _notify_change(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _notify_definitions_changed(
        self, server: str, changes: tuple[DefinitionChange, ...]
    ) -> None:
        if self.on_definitions_changed is not None:
            self.on_definitions_changed(server, changes)


ReportRejectedTool = Callable[[RejectedTool], None]


class ToolCatalogue:
    """`say` is told once of each tool that is held back or odd, for as long as it stays so."""

    def __init__(self, expose_name: ExposeName, report: ReportRejectedTool) -> None:
        self._expose_name = expose_name
        self._report = report
        self._reported: dict[str, frozenset[RejectedTool]] = {}
        self._cached: dict[str, tuple[Supervisor, tuple[JsonObject, ...], ServerTools]] = {}

    def list_tools(self, servers: Iterable[Supervisor]) -> list[UpstreamTool]:
        """In the order of the configuration."""
        return [tool for server in servers for tool in self.list_server_tools(server).tools]

    def list_server_tools(self, server: Supervisor) -> ServerTools:
        learnt = self._cached.get(server.name)
        if learnt is not None and learnt[0] is server and learnt[1] is server.tools:
            return learnt[2]
        offer = build_server_tools(server, self._expose_name)
        self._cached[server.name] = (server, server.tools, offer)
        self._report_new(server.name, frozenset((*offer.rejected, *offer.warnings)))
        return offer

    def _report_new(self, server: str, found: frozenset[RejectedTool]) -> None:
        for each in sorted(found - self._reported.get(server, frozenset()), key=str):
            self._report(each)
        self._reported[server] = found
