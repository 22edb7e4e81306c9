"""Settings to live objects: the only place that constructs."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import anyio

from mcp_dispatch.app import build
from mcp_dispatch.app.options import Options
from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.approval.pending import Desk
from mcp_dispatch.approval.remember import AlwaysAllowed
from mcp_dispatch.approval.socket_server import Counter
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks, Reach
from mcp_dispatch.journal.reader import activated_now
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import rule_name
from mcp_dispatch.pipeline.dispatcher import Dispatcher, Live
from mcp_dispatch.pipeline.hook_env import UpstreamsForHooks, condition_by
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.conditions import Conditions
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.subreaper import adopt, reap
from mcp_dispatch.registry.inventory import Overview, overview
from mcp_dispatch.registry.listing import Offering
from mcp_dispatch.registry.registry import Pool, assemble
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.layers import (
    own_file,
    user_config_dir,
)
from mcp_dispatch.settings.models import HttpSettings, limit_from
from mcp_dispatch.settings.settings import RuleText, Settings, SettingsFiles
from mcp_dispatch.settings.stale_approvals import outdated, without
from mcp_dispatch.settings.watch import Watch
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.task_stop import OLD_NAMES
from mcp_dispatch.tools.builtins import BuiltIns, unknown_names
from mcp_dispatch.upstream.aggregator import Offered
from mcp_dispatch.upstream.cache import Memory
from mcp_dispatch.upstream.config.select import Chosen, ServerFiles, choose_servers
from mcp_dispatch.upstream.definition_diff import Change
from mcp_dispatch.upstream.requests.relay import OnNotice
from mcp_dispatch.upstream.sanitize import visible
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import HeldBack
from mcp_dispatch.upstream.upstreams import Catalogue, Upstreams

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 0.2
"""Between the first answer to `tools/list` and the start of servers whose tools are known."""

_READ_ONCE = ("naming", "tool_search", "concurrency", "approvals", "http")


@asynccontextmanager
async def open_app(options: Options, state: StateDirectory) -> AsyncGenerator["App", None]:
    """Raises `StartError` where the flags or the files they name cannot be used."""
    files = options.settings_files()
    chosen = Workspace.choose(options.workspace, (), Path.cwd())
    settings = files.read(chosen.root)
    options.mention_claude(chosen.root)
    server_files = ServerFiles(options.mcp_config)
    environ = {**options.environ, **settings.environment}
    chosen_servers = choose_servers(server_files.read()[0], settings, chosen.root, environ)
    results, journal = ResultStore(state.results), Journal(state.journal)
    results.retention = build.retention(settings)
    results.remove_abandoned()
    results.remove_old()
    children = Children()
    upstreams = Upstreams(
        *(chosen_servers.servers, children, state.path, environ),
        cwd=chosen.root,
        memory=Memory(state.catalogue),
    )
    tasks = BackgroundTasks(children, state.path / "tasks")
    tasks.remove_old()
    async with children:
        app = App(
            *(options, files, server_files, settings, chosen_servers, chosen, state),
            *(children, upstreams, results, journal, tasks),
        )
        children.beside(app.follow_settings)
        if options.owns_process and adopt():
            children.beside(reap)
        await app.counter.open()
        children.beside(app.counter.attend)
        try:
            async with nullcontext() if options.offline else upstreams:
                try:
                    yield app
                finally:
                    with anyio.CancelScope(shield=True):
                        await app.end_sessions()
        finally:
            journal.close()


class App:
    """Everything that lives as long as the server, and the parts that are replaced meanwhile."""

    def __init__(
        self,
        options: Options,
        files: SettingsFiles,
        server_files: ServerFiles,
        settings: Settings,
        servers: Chosen,
        chosen: Workspace,
        state: StateDirectory,
        children: Children,
        upstreams: Upstreams,
        results: ResultStore,
        journal: Journal,
        tasks: BackgroundTasks,
    ) -> None:
        self._options = options
        self._files = files
        self._server_files = server_files
        self._settings = settings
        self._servers = servers
        self._chosen = chosen
        self._workspace = build.with_directories(chosen, settings)
        self._said: frozenset[str] = frozenset()
        self._started_with = settings.dispatch
        self._state = state
        self._children = children
        self._upstreams = upstreams
        self._tasks = tasks
        self._built_ins = BuiltIns(children, state.run, tasks, results, options.environ)
        self._catalogue = Catalogue(build.naming(settings), _say_of_tool)
        self.results = results
        self.offering = Offering(build.deferral(settings), upstreams)
        self._last_pool: Pool | None = None
        self.on_tools_changed: Callable[[], None] = lambda: None
        self.on_reloaded: Callable[[], None] = lambda: None
        self._limit = limit_from(options.environ)
        self._scopes: set[Scope] = set()
        self.on_definitions_changed: Callable[[frozenset[str]], None] = lambda _: None
        """Told the rule names of tools that are no longer what they were."""

        self._shadowed: frozenset[str] = frozenset()
        self._missed: frozenset[str] = frozenset()
        self.scope = self.open_scope()
        self._live = self._make_live()
        self._desk = Desk()
        self.counter = Counter(self._desk, state.run, lambda: self._workspace.root)
        self.dispatcher = Dispatcher(
            lambda: self._live,
            Approver(
                options.ask_fallback,
                desk=self._desk,
                always=AlwaysAllowed(self._own_file, self.reload),
                timeout=self.ask_timeout,
                command=options.approvals_command(state),
            ),
            results,
            journal,
        )
        upstreams.on_change = self._upstreams_changed
        upstreams.on_definitions_changed = self._definitions_changed
        upstreams.roots = self._roots
        self.offered = Offered(
            lambda: self._upstreams.servers,
            build.naming(settings),
            lambda server: self._live.policy.denies_server(server) is not None,
        )

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
    def wants_roots(self) -> bool:
        """Without the flag, the client's first root is the workspace."""
        return self._options.workspace is None

    def use_roots(self, roots: Sequence[Path]) -> None:
        self._adopt(Workspace.choose(self._options.workspace, roots, Path.cwd()))
        self.scope.cwd = self._workspace.root

    async def follow_settings(self) -> None:
        """Reads the settings again whenever one of their files changes, for ever."""
        await Watch(self._watched).run(self.reload)

    def _watched(self) -> Sequence[Path]:
        return (*self._files.watched(self._chosen.root), *self._server_files.paths)

    def reload(self) -> None:
        """Reads the settings again. What follows from them takes its place in one step: a call in
        flight goes on with the tool and the hooks it began with.
        """
        if self._adopt(self._chosen):
            logger.info("the settings were read again: %d rules", len(self._settings.rules))
            self.on_reloaded()

    def open_scope(self) -> Scope:
        """For one more client, which starts in the workspace."""
        limit = self._limit or self._settings.dispatch.concurrency.max
        batching = build.batching(self._settings)
        scope = Scope(self._workspace.root, limit=limit, batching=batching)
        self._scopes.add(scope)
        return scope

    async def end_scope(self, scope: Scope) -> None:
        """Called once its calls have ended: what they left running ends too."""
        scope.asks.clear()
        self._desk.withdraw_scope(scope.id)
        scope.rests.clear()
        self._upstreams.end_scope(scope.id)
        self._scopes.discard(scope)
        await self.dispatcher.end_session(scope)
        await self._tasks.end_scope(scope.id)

    async def end_sessions(self) -> None:
        """The server ends, and with it every session that is left."""
        async with anyio.create_task_group() as ending:
            for scope in self._scopes:
                ending.start_soon(self.dispatcher.end_session, scope)

    def input_schema(self, name: str) -> JsonObject | None:
        tool = self._live.pool.find(name)
        schema = tool.definition.get("inputSchema") if tool else None
        return schema if isinstance(schema, dict) else None

    async def definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """The `tools/list` entries: what a bare deny removes is not listed. What was activated in
        `scope` comes last."""
        await self._upstreams.settled(self._first_list_seconds)
        # Whoever asked gets the answer first: starting servers takes more than telling of them.
        self._upstreams.release(ANSWER_SECONDS)
        return self.listed(scope)

    def listed(self, scope: Scope | None = None) -> list[JsonObject]:
        """The `tools/list` entries of this moment."""
        return self.offering.definitions(scope.activated if scope else ())

    def on_offers_changed(self, tell: Callable[[str], None]) -> None:
        self._upstreams.on_offers_changed = tell

    def on_notice(self, tell: OnNotice) -> None:
        self._upstreams.on_notice = tell

    def _roots(self) -> list[JsonObject]:
        """The directories that servers behind us may know of."""
        return [
            {"uri": path.as_uri(), "name": path.name or str(path)}
            for path in self._workspace.directories
        ]

    def overview(self) -> Overview:
        """Every tool there is, as other processes of this state directory see it too."""
        activated = activated_now(self._state.journal)
        return overview(self.offering, self._upstreams.servers, activated, self._catalogue.offer)

    async def connected(self) -> None:
        """Waits until every server that is not lazy has been tried, as long as a first list does;
        offline, for nobody."""
        if not self._options.offline:
            await self._upstreams.until(lambda: False, self._first_list_seconds)

    async def expect(self, name: str) -> None:
        """A name that nobody has yet may belong to a server that is still starting; a tool that is
        only known from before may be another now, and the call is judged by what it is."""
        tool = self._live.pool.find(name)
        for server in self._upstreams.servers:
            if tool is not None and tool.server == server.name:
                await server.fresh()
        if self._live.pool.find(name) is None:
            await self._upstreams.until(
                lambda: self._live.pool.find(name) is not None, self._first_list_seconds
            )

    @property
    def _first_list_seconds(self) -> float:
        return self._settings.dispatch.upstreams.first_list_seconds

    def _upstreams_changed(self) -> None:
        self._live = replace(self._live, pool=self._pool())
        if self._outdated(self._live.pool) != self._left_out:
            self._live = self._make_live()
        self.offering.show(self._live.pool, self._live.policy)
        self._say_missed(self._live.pool, self._live.policy)
        self.on_tools_changed()

    def _outdated(self, pool: Pool) -> tuple[RuleText, ...]:
        def definition_of(name: str) -> JsonObject | None:
            tool = pool.find(name)
            return tool.definition if tool is not None and tool.rule_name == name else None

        return outdated(self._settings, definition_of)

    def _own_file(self) -> Path | None:
        """Where "always allow" writes; None where an administrator or the lack of a workspace
        leaves it no place."""
        if self._chosen.root is None or self._settings.managed_rules_only:
            return None
        return own_file(user_config_dir(self._options.environ), self._chosen.root)

    def _definitions_changed(self, server: str, changes: tuple[Change, ...]) -> None:
        for change in changes:
            logger.warning(
                "the tool %r of %s is no longer what it was: %s",
                *(visible(change.tool), server, "; ".join(change.what)),
            )
        names = frozenset(rule_name(server, each.tool) for each in changes)
        for scope in self._scopes:
            scope.forget_approvals(names)
        self.on_definitions_changed(names)

    def _adopt(self, chosen: Workspace) -> bool:
        """Whether anything is different now. What cannot be read leaves everything as it was."""
        try:
            settings = self._files.read(chosen.root)
            server_files, broken = self._server_files.read()
        except ConfigError as error:
            logger.error("%s; the settings stay as they were", error)
            return False
        environ = {**self._options.environ, **settings.environment}
        servers = choose_servers(server_files, settings, chosen.root, environ)
        servers = replace(servers, problems=(*servers.problems, *broken))
        if (settings, servers, chosen) == (self._settings, self._servers, self._chosen):
            return False
        before = [tool.name for tool in self.offering.shelf.visible]
        self._settings, self._servers, self._chosen = settings, servers, chosen
        self._upstreams.use(servers.servers, environ, chosen.root)
        directories = self._workspace.directories
        self._workspace = build.with_directories(chosen, settings)
        if self._workspace.directories != directories:
            self._upstreams.roots_changed()
        self._live = self._make_live()
        if [tool.name for tool in self.offering.shelf.visible] != before:
            self.on_tools_changed()
        return True

    def _make_live(self) -> Live:
        pool = self._pool()
        self._left_out = self._outdated(pool)
        settings = without(self._settings, self._left_out)
        policy = Policy(
            settings,
            self._workspace.directories,
            own=(self._state.path, user_config_dir(self._options.environ)),
            mode=settings.mode_with(self._options.permission_mode),
            protected_files=[Path.cwd() / path for path in self._options.mcp_config],
        )
        conditions = Conditions(policy.home, self._workspace.directories)
        config, of_hooks = parse_hooks(
            [HookSource(each.value, each.file) for each in settings.hooks], conditions.fault
        )
        missed = policy.problems_with([server.name for server in self._upstreams.servers])
        of_files = [*settings.problems, *self._servers.problems]
        self._say([*of_files, *policy.problems, *missed, *of_hooks, *self._too_late()])
        hooks = Hooks(
            config,
            self._children,
            self._environ,
            workspace=self._workspace.root,
            reach=self._reach_of_hooks(conditions),
        )
        self.results.retention = build.retention(settings)
        self.offering.show(pool, policy)
        self._say_missed(pool, policy)
        return Live(pool, hooks, policy, build.result_limits(settings), self.offering.is_deferred)

    def _reach_of_hooks(self, conditions: Conditions) -> Reach:
        upstreams = UpstreamsForHooks(lambda: self._live.pool, lambda: self._live.policy)
        return Reach(upstreams, condition_by(conditions), build.http_hooks(self._settings))

    def _too_late(self) -> list[str]:
        now, then = self._settings.dispatch, self._started_with
        return [
            f"dispatch.{key} is read once, at the start; it has changed since, without effect"
            for key in _READ_ONCE
            if getattr(now, key) != getattr(then, key)
        ]

    @property
    def _environ(self) -> Mapping[str, str]:
        """What commands and hooks see."""
        return {**self._options.environ, **self._settings.environment}

    def _say(self, problems: Iterable[object]) -> None:
        """Each of them once, for as long as it lasts."""
        texts = dict.fromkeys(map(str, problems))
        _report(text for text in texts if text not in self._said)
        self._said = frozenset(texts)

    def _say_missed(self, pool: Pool, policy: Policy) -> None:
        """Which tools there are is known only once their servers have told."""
        missed = frozenset(map(str, policy.problems_with_tools(pool.rule_names_by_server)))
        _report(sorted(missed - self._missed))
        self._missed = missed

    def _pool(self) -> Pool:
        upstream = self._catalogue.tools(self._upstreams.servers)
        chosen = self._settings.dispatch.tools
        _report(unknown_names(chosen or ()))
        own = self._built_ins.offered(self._workspace, self._environ, chosen)
        own += self.offering.built_ins
        pool = self._last_pool = assemble(own, upstream, OLD_NAMES, self._last_pool)
        shadowed = frozenset(map(str, pool.shadowed))
        _report(sorted(shadowed - self._shadowed))
        self._shadowed = shadowed
        return pool


def _say_of_tool(problem: HeldBack) -> None:
    logger.warning("%s", problem)


def _report(problems: Iterable[object]) -> None:
    for problem in problems:
        logger.warning("%s", problem)
