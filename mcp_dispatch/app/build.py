"""Settings to live objects: the one place that builds the tools, the policy and the hooks."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.app.settings_options import add_directories, build_policy
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks, HookServices
from mcp_dispatch.hooks.runners.http import AllowedUrls, HttpLimits
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.pipeline.batch import BatchSettings, SiblingAbort
from mcp_dispatch.pipeline.hook_env import HookToolCaller, build_condition
from mcp_dispatch.pipeline.services import Snapshot
from mcp_dispatch.policy.known_tools import BUILT_IN_TOOLS
from mcp_dispatch.policy.rules.conditions import HookConditions
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.deferral import DeferralMode, DeferralSettings
from mcp_dispatch.registry.inventory import ToolInventory, build_inventory
from mcp_dispatch.registry.listing import ToolListing
from mcp_dispatch.registry.names import Naming, NamingStyle, build_exposed_name, find_reserved_name
from mcp_dispatch.registry.registry import ToolRegistry, build_registry
from mcp_dispatch.results.limits import MAX_BASH_CHARS, ResultLimits
from mcp_dispatch.results.retention import Retention
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.settings import RuleText, Settings
from mcp_dispatch.settings.stale_approvals import find_stale_rules, remove_rules
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.task_stop import TASK_STOP_ALIASES
from mcp_dispatch.tools.builtins import BuiltInTools, describe_unknown_names
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.config.select import SelectedServers, ServerFiles, select_servers
from mcp_dispatch.upstream.tool import ExposeName
from mcp_dispatch.upstream.upstreams import ToolCatalogue, Upstreams

logger = logging.getLogger(__name__)

_READ_ONCE_KEYS = ("naming", "tool_search", "concurrency", "approvals", "http")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings and servers that the files configure for one workspace.

    `workspace` does not contain the directories that settings add. `environ` is the environment
    of commands, hooks and upstream servers.
    """

    workspace: Workspace
    settings: Settings
    servers: SelectedServers
    environ: Mapping[str, str]


class ConfigurationReader:
    """Reads the configuration files of one process, any number of times."""

    def __init__(self, options: AppOptions) -> None:
        self._environ = options.environ
        self._settings_reader = options.create_settings_reader()
        self._server_files = ServerFiles(options.mcp_config)

    def read(self, workspace: Workspace) -> Configuration:
        """Raise `ConfigError` if a file cannot be read and has never been readable."""
        settings = self._settings_reader.read(workspace.root)
        files, problems = self._server_files.read()
        environ = {**self._environ, **settings.processes.environment}
        servers = select_servers(files, settings, workspace.root, environ)
        servers = replace(servers, problems=(*servers.problems, *problems))
        return Configuration(workspace, settings, servers, environ)

    def list_watched_files(self, root: Path | None) -> tuple[Path, ...]:
        return (*self._settings_reader.list_watched_files(root), *self._server_files.paths)


class SnapshotBuilder:
    """Builds the tools, the policy and the hooks of a configuration.

    `snapshot` is replaced as a whole, so a running call keeps the tool and hooks it started with.
    """

    def __init__(
        self,
        options: AppOptions,
        state: StateDirectory,
        config: Configuration,
        processes: ProcessGroup,
        upstreams: Upstreams,
        tasks: BackgroundTasks,
        results: ResultStore,
    ) -> None:
        self._options = options
        self._state = state
        self._initial_settings = config.settings.dispatch
        self._processes = processes
        self._upstreams = upstreams
        self._results = results
        self._built_ins = BuiltInTools(processes, state.run, tasks, results, options.environ)
        self._catalogue = ToolCatalogue(create_tool_namer(config.settings), _log_warning)
        self.tool_listing = ToolListing(to_deferral_settings(config.settings), upstreams)
        self._registry: ToolRegistry | None = None
        self._settings_problems = _ProblemLog()
        self._missed_tools = _ProblemLog()
        self._shadowed_tools = _ProblemLog()
        self.use(config)

    def use(self, config: Configuration) -> None:
        """Rebuild everything for `config`."""
        self._config = config
        self.workspace, problems = add_directories(config.workspace, config.settings)
        _log_warnings(problems)
        self._rebuild()

    def update_tools(self) -> None:
        """Rebuild what depends on the tools of the upstream servers."""
        self.snapshot = replace(self.snapshot, registry=self._build_registry())
        if self._find_stale_approvals(self.snapshot.registry) != self._stale_approvals:
            self._rebuild()
        else:
            self._publish_tools()

    def build_inventory(self, activated: Collection[str]) -> ToolInventory:
        """Describe every tool; `activated` names those that any process has activated."""
        return build_inventory(
            self.tool_listing,
            self._upstreams.servers,
            activated,
            self._catalogue.list_server_tools,
        )

    def _rebuild(self) -> None:
        config = self._config
        registry = self._build_registry()
        self._stale_approvals = self._find_stale_approvals(registry)
        settings = remove_rules(config.settings, self._stale_approvals)
        policy = build_policy(self._options, settings, self.workspace, self._state.path)
        conditions = HookConditions(policy.home, self.workspace.directories)
        hook_config, hook_problems = parse_hooks(
            [HookSource(each.value, each.file) for each in settings.hooks.sections],
            conditions.find_fault,
        )
        server_names = [server.name for server in self._upstreams.servers]
        self._settings_problems.report(
            [
                *settings.report.problems,
                *config.servers.problems,
                *policy.problems,
                *policy.find_server_name_problems(server_names),
                *hook_problems,
                *self._list_ignored_changes(),
            ]
        )
        hooks = Hooks(
            hook_config,
            self._processes,
            config.environ,
            workspace=self.workspace.root,
            services=HookServices(
                HookToolCaller(lambda: self.snapshot.registry, lambda: self.snapshot.policy),
                build_condition(conditions),
                to_http_limits(config.settings),
            ),
        )
        self._results.retention = to_retention(settings)
        self.snapshot = Snapshot(
            registry, hooks, policy, to_result_limits(settings), self.tool_listing.is_deferred
        )
        self._publish_tools()

    def _publish_tools(self) -> None:
        registry, policy = self.snapshot.registry, self.snapshot.policy
        self.tool_listing.update(registry, policy)
        missed = policy.find_tool_name_problems(registry.rule_names_by_server)
        self._missed_tools.report(sorted(map(str, missed)))

    def _build_registry(self) -> ToolRegistry:
        upstream = self._catalogue.list_tools(self._upstreams.servers)
        enabled = self._config.settings.dispatch.tools
        _log_warnings(describe_unknown_names(enabled or ()))
        own = self._built_ins.create_tools(self.workspace, self._config.environ, enabled)
        own += self.tool_listing.built_ins
        self._registry = build_registry(own, upstream, TASK_STOP_ALIASES, self._registry)
        self._shadowed_tools.report(sorted(map(str, self._registry.shadowed)))
        return self._registry

    def _find_stale_approvals(self, registry: ToolRegistry) -> tuple[RuleText, ...]:
        def find_definition(name: str) -> JsonObject | None:
            tool = registry.find(name)
            return tool.definition if tool is not None and tool.rule_name == name else None

        return find_stale_rules(self._config.settings, find_definition)

    def _list_ignored_changes(self) -> list[str]:
        now, then = self._config.settings.dispatch, self._initial_settings
        return [
            f"dispatch.{key} is read once, at the start; it has changed since, without effect"
            for key in _READ_ONCE_KEYS
            if getattr(now, key) != getattr(then, key)
        ]


class _ProblemLog:
    """Logs each problem once until it disappears."""

    def __init__(self) -> None:
        self._reported: frozenset[str] = frozenset()

    def report(self, problems: Iterable[object]) -> None:
        texts = dict.fromkeys(map(str, problems))
        _log_warnings(text for text in texts if text not in self._reported)
        self._reported = frozenset(texts)


def _log_warnings(problems: Iterable[object]) -> None:
    for problem in problems:
        _log_warning(problem)


def _log_warning(problem: object) -> None:
    logger.warning("%s", problem)


def to_result_limits(settings: Settings) -> ResultLimits:
    chosen = settings.dispatch.results
    return ResultLimits(
        chosen.max_chars,
        chosen.servers,
        chosen.tools,
        settings.processes.bash_output_max_chars or MAX_BASH_CHARS,
        chosen.max_image_bytes,
    )


def to_retention(settings: Settings) -> Retention:
    chosen = settings.dispatch.results
    return Retention(chosen.retention_days, chosen.max_total_bytes)


def to_batch_settings(settings: Settings) -> BatchSettings:
    chosen = settings.dispatch.concurrency
    return BatchSettings(chosen.batch_window_ms / 1000, SiblingAbort(chosen.sibling_abort))


def to_deferral_settings(settings: Settings) -> DeferralSettings:
    chosen = settings.dispatch.tool_search
    return DeferralSettings(DeferralMode(chosen.mode), chosen.max_tools, chosen.max_tokens)


def to_http_limits(settings: Settings) -> HttpLimits:
    urls, variables = settings.hooks.http_urls, settings.hooks.http_variables
    return HttpLimits(
        AllowedUrls(() if urls is None else (urls,)),
        None if variables is None else frozenset(variables),
    )


def create_tool_namer(settings: Settings) -> ExposeName:
    """Return the function that names upstream tools; it logs each reserved name once."""
    style = settings.dispatch.naming
    chosen = Naming(NamingStyle(style.style), style.max_length, BUILT_IN_TOOLS)
    logged: set[tuple[str, str]] = set()

    def expose(server: ServerConfig, tool: str) -> str:
        exposed = build_exposed_name(server.name, tool, chosen, server.prefix)
        name = find_reserved_name(server.name, tool, chosen, server.prefix)
        if name is not None and (server.name, tool) not in logged:
            logged.add((server.name, tool))
            logger.warning("%s of %s is listed as %s: the name is ours", name, server.name, exposed)
        return exposed

    return expose
