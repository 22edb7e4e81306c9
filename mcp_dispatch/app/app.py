"""Settings to live objects: the only place that constructs."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import anyio

from mcp_dispatch.app import build
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.approval.pending import PendingApprovals
from mcp_dispatch.approval.remember import AllowRuleWriter
from mcp_dispatch.approval.socket_server import ApprovalServer
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks, HookServices
from mcp_dispatch.journal.reader import find_activated_tools
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.hook_env import HookToolCaller, build_condition, end_session
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.conditions import HookConditions
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.subreaper import enable_subreaper, reap_forever
from mcp_dispatch.registry.inventory import ToolInventory, build_inventory
from mcp_dispatch.registry.listing import ToolListing
from mcp_dispatch.registry.registry import ToolRegistry, build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.layers import (
    find_user_config_dir,
    locate_own_file,
)
from mcp_dispatch.settings.models import HttpSettings, read_concurrency_limit
from mcp_dispatch.settings.settings import RuleText, Settings, SettingsReader
from mcp_dispatch.settings.stale_approvals import find_stale_rules, remove_rules
from mcp_dispatch.settings.watch import FileWatcher
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.task_stop import TASK_STOP_ALIASES
from mcp_dispatch.tools.builtins import BuiltInTools, describe_unknown_names
from mcp_dispatch.upstream.aggregator import ResourceAggregator
from mcp_dispatch.upstream.cache import CatalogueCache
from mcp_dispatch.upstream.config.select import SelectedServers, ServerFiles, select_servers
from mcp_dispatch.upstream.definition_diff import DefinitionChange
from mcp_dispatch.upstream.listener import ServerNotification, UpstreamListener
from mcp_dispatch.upstream.sanitize import escape_hidden_characters
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import RejectedTool
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.upstream.upstreams import ToolCatalogue, Upstreams

logger = logging.getLogger(__name__)

SERVER_START_DELAY_SECONDS = 0.2
"""Between the first answer to `tools/list` and the start of servers whose tools are known."""

_READ_ONCE_KEYS = ("naming", "tool_search", "concurrency", "approvals", "http")


@asynccontextmanager
async def open_app(options: AppOptions, state: StateDirectory) -> AsyncGenerator["App", None]:
    """Raises `StartError` where the flags or the files they name cannot be used."""
    files = options.locate_settings_files()
    chosen = Workspace.choose(options.workspace, (), Path.cwd())
    settings = files.read(chosen.root)
    options.log_unread_claude_settings(chosen.root)
    server_files = ServerFiles(options.mcp_config)
    environ = {**options.environ, **settings.environment}
    chosen_servers = select_servers(server_files.read()[0], settings, chosen.root, environ)
    results, journal = ResultStore(state.results), Journal(state.journal)
    results.retention = build.to_retention(settings)
    results.remove_abandoned()
    results.remove_expired()
    children = ProcessGroup()
    tasks = BackgroundTasks(children, state.path / "tasks")
    tasks.remove_old_outputs()
    async with children:
        app = App(
            *(options, files, server_files, settings, chosen_servers, chosen, state),
            *(children, environ, results, journal, tasks),
        )
        children.spawn_task(app.watch_settings)
        if options.owns_process and enable_subreaper():
            children.spawn_task(reap_forever)
        await app.approval_server.open()
        children.spawn_task(app.approval_server.serve)
        try:
            async with nullcontext() if options.offline else app.upstream_servers:
                try:
                    yield app
                finally:
                    with anyio.CancelScope(shield=True):
                        await app.end_sessions()
        finally:
            journal.close()


class App(UpstreamListener):
    """Everything that lives as long as the server, and the parts that are replaced meanwhile."""

    def __init__(
        self,
        options: AppOptions,
        settings_files: SettingsReader,
        server_files: ServerFiles,
        settings: Settings,
        chosen_servers: SelectedServers,
        chosen_workspace: Workspace,
        state: StateDirectory,
        children: ProcessGroup,
        environ: Mapping[str, str],
        results: ResultStore,
        journal: Journal,
        tasks: BackgroundTasks,
    ) -> None:
        self._options = options
        self._settings_files = settings_files
        self._server_files = server_files
        self._settings = settings
        self._chosen_servers = chosen_servers
        self._chosen_workspace = chosen_workspace
        self._workspace = build.with_directories(chosen_workspace, settings)
        self._reported_problems: frozenset[str] = frozenset()
        self._initial_settings = settings.dispatch
        self._state = state
        self._children = children
        self.upstream_servers = Upstreams(
            chosen_servers.servers,
            LaunchContext(children, state.logs, environ, chosen_workspace.root or Path.cwd()),
            self,
            cache=CatalogueCache(state.catalogue),
        )
        self._background_tasks = tasks
        self._built_ins = BuiltInTools(children, state.run, tasks, results, options.environ)
        self._catalogue = ToolCatalogue(build.create_tool_namer(settings), _report_rejected_tool)
        self.results = results
        self.tool_listing = ToolListing(build.to_deferral_settings(settings), self.upstream_servers)
        self._last_pool: ToolRegistry | None = None
        self.on_tools_changed: Callable[[], None] = lambda: None
        self.on_reloaded: Callable[[], None] = lambda: None
        self.on_offers_changed: Callable[[str], None] = lambda _: None
        self.on_notification: Callable[[ServerNotification], Awaitable[None]] = (
            _discard_notification
        )
        self._concurrency_limit = read_concurrency_limit(options.environ)
        self._scopes: set[Scope] = set()
        self.on_definitions_changed: Callable[[frozenset[str]], None] = lambda _: None
        """Told the rule names of tools that are no longer what they were."""

        self._reported_shadowed: frozenset[str] = frozenset()
        self._reported_missed: frozenset[str] = frozenset()
        self.scope = self.open_scope()
        self._snapshot = self._build_snapshot()
        self._pending_approvals = PendingApprovals()
        self.approval_server = ApprovalServer(
            self._pending_approvals, state.run, lambda: self._workspace.root
        )
        self.dispatcher = Dispatcher(
            Services(
                lambda: self._snapshot,
                Approver(
                    options.ask_fallback,
                    pending=self._pending_approvals,
                    rule_writer=AllowRuleWriter(self._find_own_file, self.reload),
                    timeout=self.ask_timeout,
                    command=options.format_approvals_command(state),
                ),
                results,
                journal,
            )
        )
        self.resource_aggregator = ResourceAggregator(
            lambda: self.upstream_servers.servers,
            build.create_tool_namer(settings),
            lambda server: self._snapshot.policy.find_server_deny(server) is not None,
        )

    @property
    def ask_timeout(self) -> float:
        return self._settings.dispatch.approvals.timeout_seconds

    @property
    def http(self) -> HttpSettings:
        return self._settings.dispatch.http

    @property
    def upstreams(self) -> tuple[Supervisor, ...]:
        return self.upstream_servers.servers

    @property
    def wants_roots(self) -> bool:
        """Without the flag, the client's first root is the workspace."""
        return self._options.workspace is None

    def use_roots(self, roots: Sequence[Path]) -> None:
        self._apply_workspace(Workspace.choose(self._options.workspace, roots, Path.cwd()))
        self.scope.cwd = self._workspace.root

    async def watch_settings(self) -> None:
        """Reads the settings again whenever one of their files changes, for ever."""
        await FileWatcher(self._list_watched_files).run(self.reload)

    def _list_watched_files(self) -> Sequence[Path]:
        return (
            *self._settings_files.list_watched_files(self._chosen_workspace.root),
            *self._server_files.paths,
        )

    def reload(self) -> None:
        """Reads the settings again. What follows from them takes its place in one step: a call in
        flight goes on with the tool and the hooks it began with.
        """
        if self._apply_workspace(self._chosen_workspace):
            logger.info("the settings were read again: %d rules", len(self._settings.rules))
            self.on_reloaded()

    def open_scope(self) -> Scope:
        """For one more client, which starts in the workspace."""
        limit = self._concurrency_limit or self._settings.dispatch.concurrency.max
        batching = build.to_batch_settings(self._settings)
        scope = Scope(self._workspace.root, limit=limit, batch_settings=batching)
        self._scopes.add(scope)
        return scope

    async def end_scope(self, scope: Scope) -> None:
        """Called once its calls have ended: what they left running ends too."""
        scope.pending_questions.clear()
        self._pending_approvals.remove_scope(scope.id)
        scope.pending_requests.clear()
        self.upstream_servers.end_scope(scope.id)
        self._scopes.discard(scope)
        await end_session(self.dispatcher.services, scope)
        await self._background_tasks.end_scope(scope.id)

    async def end_sessions(self) -> None:
        """The server ends, and with it every session that is left."""
        async with anyio.create_task_group() as ending:
            for scope in self._scopes:
                ending.start_soon(end_session, self.dispatcher.services, scope)

    def find_input_schema(self, name: str) -> JsonObject | None:
        tool = self._snapshot.registry.find(name)
        schema = tool.definition.get("inputSchema") if tool else None
        return schema if isinstance(schema, dict) else None

    async def list_definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """The `tools/list` entries: what a bare deny removes is not listed. What was activated in
        `scope` comes last."""
        await self.upstream_servers.wait_until_settled(self._first_list_seconds)
        # Whoever asked gets the answer first: starting servers takes more than telling of them.
        self.upstream_servers.release(SERVER_START_DELAY_SECONDS)
        return self.list_current_definitions(scope)

    def list_current_definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """The `tools/list` entries of this moment."""
        return self.tool_listing.list_definitions(scope.activated_tools if scope else ())

    def build_instructions(self) -> str:
        """Return what a client is told about the tools when it connects."""
        return self.tool_listing.build_instructions()

    def list_roots(self) -> list[JsonObject]:
        """The directories that servers behind us may know of."""
        return [
            {"uri": path.as_uri(), "name": path.name or str(path)}
            for path in self._workspace.directories
        ]

    def build_overview(self) -> ToolInventory:
        """Every tool there is, as other processes of this state directory see it too."""
        activated = find_activated_tools(self._state.journal)
        return build_inventory(
            self.tool_listing,
            self.upstream_servers.servers,
            activated,
            self._catalogue.list_server_tools,
        )

    async def wait_until_connected(self) -> None:
        """Waits until every server that is not lazy has been tried, as long as a first list does;
        offline, for nobody."""
        if not self._options.offline:
            await self.upstream_servers.wait_until(lambda: False, self._first_list_seconds)

    async def wait_for_tool(self, name: str) -> None:
        """A name that nobody has yet may belong to a server that is still starting; a tool that is
        only known from before may be another now, and the call is judged by what it is."""
        tool = self._snapshot.registry.find(name)
        for server in self.upstream_servers.servers:
            if tool is not None and tool.server == server.name:
                await server.wait_for_fresh_tools()
        if self._snapshot.registry.find(name) is None:
            await self.upstream_servers.wait_until(
                lambda: self._snapshot.registry.find(name) is not None, self._first_list_seconds
            )

    @property
    def _first_list_seconds(self) -> float:
        return self._settings.dispatch.upstreams.first_list_seconds

    def handle_tools_changed(self) -> None:
        self._snapshot = replace(self._snapshot, registry=self._build_pool())
        if self._find_stale_approvals(self._snapshot.registry) != self._stale_approvals:
            self._snapshot = self._build_snapshot()
        self.tool_listing.update(self._snapshot.registry, self._snapshot.policy)
        self._report_missed_rules(self._snapshot.registry, self._snapshot.policy)
        self.on_tools_changed()

    def _find_stale_approvals(self, pool: ToolRegistry) -> tuple[RuleText, ...]:
        def find_definition(name: str) -> JsonObject | None:
            tool = pool.find(name)
            return tool.definition if tool is not None and tool.rule_name == name else None

        return find_stale_rules(self._settings, find_definition)

    def _find_own_file(self) -> Path | None:
        """Where "always allow" writes; None where an administrator or the lack of a workspace
        leaves it no place."""
        if self._chosen_workspace.root is None or self._settings.managed_rules_only:
            return None
        return locate_own_file(
            find_user_config_dir(self._options.environ), self._chosen_workspace.root
        )

    def handle_offers_changed(self, kind: str) -> None:
        self.on_offers_changed(kind)

    async def handle_notification(self, notification: ServerNotification) -> None:
        await self.on_notification(notification)

    def handle_definitions_changed(
        self, server: str, changes: tuple[DefinitionChange, ...]
    ) -> None:
        for change in changes:
            logger.warning(
                "the tool %r of %s is no longer what it was: %s",
                *(escape_hidden_characters(change.tool), server, "; ".join(change.differences)),
            )
        names = frozenset(build_rule_name(server, each.tool) for each in changes)
        for scope in self._scopes:
            scope.forget_approvals(names)
        self.on_definitions_changed(names)

    def _apply_workspace(self, chosen_workspace: Workspace) -> bool:
        """Whether anything is different now. What cannot be read leaves everything as it was."""
        try:
            settings = self._settings_files.read(chosen_workspace.root)
            server_files, broken = self._server_files.read()
        except ConfigError as error:
            logger.error("%s; the settings stay as they were", error)
            return False
        environ = {**self._options.environ, **settings.environment}
        servers = select_servers(server_files, settings, chosen_workspace.root, environ)
        servers = replace(servers, problems=(*servers.problems, *broken))
        if (settings, servers, chosen_workspace) == (
            self._settings,
            self._chosen_servers,
            self._chosen_workspace,
        ):
            return False
        before = [tool.name for tool in self.tool_listing.tool_list.visible]
        self._settings, self._chosen_servers, self._chosen_workspace = (
            settings,
            servers,
            chosen_workspace,
        )
        self.upstream_servers.replace_servers(servers.servers, environ, chosen_workspace.root)
        directories = self._workspace.directories
        self._workspace = build.with_directories(chosen_workspace, settings)
        if self._workspace.directories != directories:
            self.upstream_servers.notify_roots_changed()
        self._snapshot = self._build_snapshot()
        if [tool.name for tool in self.tool_listing.tool_list.visible] != before:
            self.on_tools_changed()
        return True

    def _build_snapshot(self) -> Snapshot:
        pool = self._build_pool()
        self._stale_approvals = self._find_stale_approvals(pool)
        settings = remove_rules(self._settings, self._stale_approvals)
        policy = Policy(
            settings,
            self._workspace.directories,
            own_directories=(self._state.path, find_user_config_dir(self._options.environ)),
            mode=settings.resolve_mode(self._options.permission_mode),
            protected_files=[Path.cwd() / path for path in self._options.mcp_config],
        )
        conditions = HookConditions(policy.home, self._workspace.directories)
        config, of_hooks = parse_hooks(
            [HookSource(each.value, each.file) for each in settings.hooks], conditions.find_fault
        )
        missed = policy.find_server_name_problems(
            [server.name for server in self.upstream_servers.servers]
        )
        of_files = [*settings.problems, *self._chosen_servers.problems]
        self._report_new_problems(
            [*of_files, *policy.problems, *missed, *of_hooks, *self._list_ignored_changes()]
        )
        hooks = Hooks(
            config,
            self._children,
            self._environ,
            workspace=self._workspace.root,
            services=self._build_hook_services(conditions),
        )
        self.results.retention = build.to_retention(settings)
        self.tool_listing.update(pool, policy)
        self._report_missed_rules(pool, policy)
        return Snapshot(
            pool, hooks, policy, build.to_result_limits(settings), self.tool_listing.is_deferred
        )

    def _build_hook_services(self, conditions: HookConditions) -> HookServices:
        upstreams = HookToolCaller(lambda: self._snapshot.registry, lambda: self._snapshot.policy)
        return HookServices(
            upstreams, build_condition(conditions), build.to_http_limits(self._settings)
        )

    def _list_ignored_changes(self) -> list[str]:
        now, then = self._settings.dispatch, self._initial_settings
        return [
            f"dispatch.{key} is read once, at the start; it has changed since, without effect"
            for key in _READ_ONCE_KEYS
            if getattr(now, key) != getattr(then, key)
        ]

    @property
    def _environ(self) -> Mapping[str, str]:
        """What commands and hooks see."""
        return {**self._options.environ, **self._settings.environment}

    def _report_new_problems(self, problems: Iterable[object]) -> None:
        """Each of them once, for as long as it lasts."""
        texts = dict.fromkeys(map(str, problems))
        _log_warnings(text for text in texts if text not in self._reported_problems)
        self._reported_problems = frozenset(texts)

    def _report_missed_rules(self, pool: ToolRegistry, policy: Policy) -> None:
        """Which tools there are is known only once their servers have told."""
        missed = frozenset(map(str, policy.find_tool_name_problems(pool.rule_names_by_server)))
        _log_warnings(sorted(missed - self._reported_missed))
        self._reported_missed = missed

    def _build_pool(self) -> ToolRegistry:
        upstream = self._catalogue.list_tools(self.upstream_servers.servers)
        chosen = self._settings.dispatch.tools
        _log_warnings(describe_unknown_names(chosen or ()))
        own = self._built_ins.create_tools(self._workspace, self._environ, chosen)
        own += self.tool_listing.built_ins
        pool = self._last_pool = build_registry(own, upstream, TASK_STOP_ALIASES, self._last_pool)
        shadowed = frozenset(map(str, pool.shadowed))
        _log_warnings(sorted(shadowed - self._reported_shadowed))
        self._reported_shadowed = shadowed
        return pool


async def _discard_notification(_: ServerNotification) -> None:
    """For an app without clients to notify."""


def _report_rejected_tool(problem: RejectedTool) -> None:
    logger.warning("%s", problem)


def _log_warnings(problems: Iterable[object]) -> None:
    for problem in problems:
        logger.warning("%s", problem)
