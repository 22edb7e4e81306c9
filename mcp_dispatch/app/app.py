"""The running application: what lives as long as the server, its sessions, and reload."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import anyio

from mcp_dispatch.app.build import (
    Configuration,
    ConfigurationReader,
    SnapshotBuilder,
    create_tool_namer,
    to_batch_settings,
    to_retention,
)
from mcp_dispatch.app.listener import AppListener
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.approval.pending import PendingApprovals
from mcp_dispatch.approval.remember import AllowRuleWriter
from mcp_dispatch.approval.socket_server import ApprovalServer
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.journal.reader import find_activated_tools
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.hook_env import end_session
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.subreaper import enable_subreaper, reap_forever
from mcp_dispatch.registry.inventory import ToolInventory
from mcp_dispatch.registry.listing import ToolListing
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.layers import find_user_config_dir, locate_own_file
from mcp_dispatch.settings.models import HttpSettings, read_concurrency_limit
from mcp_dispatch.settings.settings import Settings
from mcp_dispatch.settings.watch import FileWatcher
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.upstream.aggregator import ResourceAggregator
from mcp_dispatch.upstream.cache import CatalogueCache
from mcp_dispatch.upstream.definition_diff import DefinitionChange
from mcp_dispatch.upstream.listener import ServerNotification, UpstreamListener
from mcp_dispatch.upstream.sanitize import escape_hidden_characters
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.upstream.upstreams import Upstreams

logger = logging.getLogger(__name__)

SERVER_START_DELAY_SECONDS = 0.2
"""The delay between the first answer to `tools/list` and the start of servers with cached tools."""


@asynccontextmanager
async def open_app(
    options: AppOptions, state: StateDirectory, listener: AppListener | None = None
) -> AsyncGenerator["App", None]:
    """Run the application while the block lasts. Raise `StartError` if the flags or the files they
    name cannot be used.
    """
    reader = ConfigurationReader(options)
    config = reader.read(Workspace.choose(options.workspace, (), Path.cwd()))
    options.log_unread_claude_settings(config.workspace.root)
    processes = ProcessGroup()
    async with processes:
        app = App(options, state, reader, config, processes, listener or AppListener())
        processes.spawn_task(app.watch_settings)
        if options.owns_process and enable_subreaper():
            processes.spawn_task(reap_forever)
        await app.approval_server.open()
        processes.spawn_task(app.approval_server.serve)
        async with app.run():
            yield app


class App(UpstreamListener):
    """Everything that lives as long as the server, and the parts that a reload replaces."""

    def __init__(
        self,
        options: AppOptions,
        state: StateDirectory,
        reader: ConfigurationReader,
        config: Configuration,
        processes: ProcessGroup,
        listener: AppListener,
    ) -> None:
        self._options = options
        self._state = state
        self._reader = reader
        self._config = config
        self._listener = listener
        self._journal = Journal(state.journal)
        self.results = ResultStore(state.results)
        self.results.retention = to_retention(config.settings)
        self.results.remove_abandoned()
        self.results.remove_expired()
        self._background_tasks = BackgroundTasks(processes, state.path / "tasks")
        self._background_tasks.remove_old_outputs()
        self._upstreams = Upstreams(
            config.servers.servers,
            LaunchContext(
                processes, state.logs, config.environ, config.workspace.root or Path.cwd()
            ),
            self,
            cache=CatalogueCache(state.catalogue),
        )
        tasks = self._background_tasks
        self._builder = SnapshotBuilder(
            options, state, config, processes, self._upstreams, tasks, self.results
        )
        self._concurrency_limit = read_concurrency_limit(options.environ)
        self._scopes: set[Scope] = set()
        self.scope = self.open_scope()
        self._pending_approvals = PendingApprovals()
        self.approval_server = ApprovalServer(
            self._pending_approvals, state.run, lambda: self._workspace.root
        )
        approver = Approver(
            options.ask_fallback,
            pending=self._pending_approvals,
            rule_writer=AllowRuleWriter(self._find_own_file, self.reload),
            timeout=self.ask_timeout,
            command=options.format_approvals_command(state),
        )
        self._services = Services(
            lambda: self._builder.snapshot, approver, self.results, self._journal
        )
        self.dispatcher = Dispatcher(self._services)
        self.resource_aggregator = ResourceAggregator(
            lambda: self._upstreams.servers,
            create_tool_namer(config.settings),
            lambda server: self._builder.snapshot.policy.find_server_deny(server) is not None,
        )

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        """Run the upstream servers; end every session and close the journal afterwards."""
        try:
            async with nullcontext() if self._options.offline else self._upstreams:
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end_sessions()
        finally:
            self._journal.close()

    @property
    def ask_timeout(self) -> float:
        return self._settings.dispatch.approvals.timeout_seconds

    @property
    def http(self) -> HttpSettings:
        return self._settings.dispatch.http

    @property
    def upstreams(self) -> tuple[Supervisor, ...]:
        return self._upstreams.servers

    @property
    def tool_listing(self) -> ToolListing:
        return self._builder.tool_listing

    @property
    def wants_roots(self) -> bool:
        """Whether the client's first root is the workspace, because no flag names one."""
        return self._options.workspace is None

    @property
    def _settings(self) -> Settings:
        return self._config.settings

    @property
    def _workspace(self) -> Workspace:
        return self._builder.workspace

    @property
    def _first_list_seconds(self) -> float:
        return self._settings.dispatch.upstreams.first_list_seconds

    # -- settings

    def use_roots(self, roots: Sequence[Path]) -> None:
        self._apply_workspace(Workspace.choose(self._options.workspace, roots, Path.cwd()))
        self.scope.cwd = self._workspace.root

    async def watch_settings(self) -> None:
        """Reload the settings whenever one of their files changes, until cancelled."""
        reader = self._reader
        watcher = FileWatcher(lambda: reader.list_watched_files(self._config.workspace.root))
        await watcher.run(self.reload)

    def reload(self) -> None:
        """Read the settings again and apply them in one step. A running call keeps the tool and
        the hooks that it started with.
        """
        if self._apply_workspace(self._config.workspace):
            logger.info("the settings were read again: %d rules", len(self._settings.rules.texts))
            self._listener.on_reloaded()

    def _apply_workspace(self, workspace: Workspace) -> bool:
        """Read the configuration for `workspace` and apply it. Return False, and change nothing, if
        it is the same as before or cannot be read.
        """
        try:
            config = self._reader.read(workspace)
        except ConfigError as error:
            logger.error("%s; the settings stay as they were", error)
            return False
        if config == self._config:
            return False
        names_before = self._list_visible_names()
        directories_before = self._workspace.directories
        self._config = config
        self._upstreams.replace_servers(config.servers.servers, config.environ, workspace.root)
        self._builder.use(config)
        if self._workspace.directories != directories_before:
            self._upstreams.notify_roots_changed()
        if self._list_visible_names() != names_before:
            self._listener.on_tools_changed()
        return True

    def _list_visible_names(self) -> list[str]:
        return [tool.name for tool in self.tool_listing.tool_list.visible]

    def _find_own_file(self) -> Path | None:
        """Return the file that "always allow" writes to, or None if there is no workspace or an
        administrator allows only managed rules.
        """
        root = self._config.workspace.root
        if root is None or self._settings.rules.managed_only:
            return None
        return locate_own_file(find_user_config_dir(self._options.environ), root)

    # -- sessions

    def open_scope(self) -> Scope:
        """Return a new scope, for one more client, that starts in the workspace."""
        scope = Scope(
            self._workspace.root,
            limit=self._concurrency_limit or self._settings.dispatch.concurrency.max,
            batch_settings=to_batch_settings(self._settings),
        )
        self._scopes.add(scope)
        return scope

    async def end_scope(self, scope: Scope) -> None:
        """End what the calls of `scope` left running. The calls themselves have ended already."""
        scope.pending_questions.clear()
        self._pending_approvals.remove_scope(scope.id)
        scope.pending_requests.clear()
        self._upstreams.end_scope(scope.id)
        self._scopes.discard(scope)
        await end_session(self._services, scope)
        await self._background_tasks.end_scope(scope.id)

    async def _end_sessions(self) -> None:
        async with anyio.create_task_group() as tasks:
            for scope in self._scopes:
                tasks.start_soon(end_session, self._services, scope)

    # -- tools

    def find_input_schema(self, name: str) -> JsonObject | None:
        tool = self._builder.snapshot.registry.find(name)
        schema = tool.definition.get("inputSchema") if tool else None
        return schema if isinstance(schema, dict) else None

    async def list_definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """Return the `tools/list` entries once the upstream servers are settled. Tools that a bare
        deny rule removes are left out; tools that `scope` has activated come last.
        """
        await self._upstreams.wait_until_settled(self._first_list_seconds)
        # The client gets its answer first: starting servers takes longer than listing their tools.
        self._upstreams.release(SERVER_START_DELAY_SECONDS)
        return self.list_current_definitions(scope)

    def list_current_definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """Return the `tools/list` entries without waiting for upstream servers."""
        return self.tool_listing.list_definitions(scope.activated_tools if scope else ())

    def build_instructions(self) -> str:
        return self.tool_listing.build_instructions()

    def build_overview(self) -> ToolInventory:
        """Describe every tool, with the activations of all processes of this state directory."""
        return self._builder.build_inventory(find_activated_tools(self._state.journal))

    async def wait_until_connected(self) -> None:
        """Wait, within the bound of a first list, until each server that is not lazy was tried.
        Return at once when offline.
        """
        if not self._options.offline:
            await self._upstreams.wait_until(lambda: False, self._first_list_seconds)

    async def wait_for_tool(self, name: str) -> None:
        """Wait, within a bound, until the tool can be judged by its current definition.

        An unknown name may belong to a server that is still starting, and a tool from the cache
        may have changed.
        """
        tool = self._builder.snapshot.registry.find(name)
        for server in self._upstreams.servers:
            if tool is not None and tool.server == server.name:
                await server.wait_for_fresh_tools()
        if not self._has_tool(name):
            await self._upstreams.wait_until(lambda: self._has_tool(name), self._first_list_seconds)

    def _has_tool(self, name: str) -> bool:
        return self._builder.snapshot.registry.find(name) is not None

    # -- events of the upstream servers

    def list_roots(self) -> list[JsonObject]:
        return [
            {"uri": path.as_uri(), "name": path.name or str(path)}
            for path in self._workspace.directories
        ]

    def handle_tools_changed(self) -> None:
        self._builder.update_tools()
        self._listener.on_tools_changed()

    def handle_offers_changed(self, kind: str) -> None:
        self._listener.on_offers_changed(kind)

    async def handle_notification(self, notification: ServerNotification) -> None:
        await self._listener.on_notification(notification)

    def handle_definitions_changed(
        self, server: str, changes: tuple[DefinitionChange, ...]
    ) -> None:
        for change in changes:
            logger.warning(
                "the tool %r of %s is no longer what it was: %s",
                escape_hidden_characters(change.tool),
                server,
                "; ".join(change.differences),
            )
        names = frozenset(build_rule_name(server, each.tool) for each in changes)
        for scope in self._scopes:
            scope.forget_approvals(names)
        self._listener.on_definitions_changed(names)
