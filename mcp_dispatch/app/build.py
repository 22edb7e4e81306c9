"""What the settings say to each room, in that room's own words."""

import logging
from dataclasses import replace
from pathlib import Path

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.hooks.runners.http import AllowedUrls, HttpLimits
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.pipeline.batch import BatchSettings, SiblingAbort
from mcp_dispatch.policy.known_tools import BUILT_IN_TOOLS
from mcp_dispatch.registry.deferral import DeferralMode, DeferralSettings
from mcp_dispatch.registry.names import Naming, NamingStyle, build_exposed_name, find_reserved_name
from mcp_dispatch.results.limits import MAX_BASH_CHARS, ResultLimits
from mcp_dispatch.results.retention import Retention
from mcp_dispatch.settings.settings import Settings
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.tool import ExposeName

logger = logging.getLogger(__name__)


def to_result_limits(settings: Settings) -> ResultLimits:
    chosen = settings.dispatch.results
    return ResultLimits(
        chosen.max_chars,
        chosen.servers,
        chosen.tools,
        settings.bash_output_max_chars or MAX_BASH_CHARS,
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
    urls, variables = settings.http_hook_urls, settings.http_hook_variables
    return HttpLimits(
        AllowedUrls(() if urls is None else (urls,)),
        None if variables is None else frozenset(variables),
    )


def create_tool_namer(settings: Settings) -> ExposeName:
    style = settings.dispatch.naming
    chosen = Naming(NamingStyle(style.style), style.max_length, BUILT_IN_TOOLS)
    said: set[tuple[str, str]] = set()

    def expose(server: ServerConfig, tool: str) -> str:
        exposed = build_exposed_name(server.name, tool, chosen, server.prefix)
        name = find_reserved_name(server.name, tool, chosen, server.prefix)
        if name is not None and (server.name, tool) not in said:
            said.add((server.name, tool))
            logger.warning("%s of %s is listed as %s: the name is ours", name, server.name, exposed)
        return exposed

    return expose


def with_directories(workspace: Workspace, settings: Settings) -> Workspace:
    """Of the directories that settings add, those that can be found."""
    found: list[Path] = []
    for path in settings.additional_directories:
        try:
            found += workspace.with_directories([path]).additional
        except Refused as refused:
            logger.warning("permissions.additionalDirectories: %s; it is skipped", refused)
    return replace(workspace, additional=tuple(found))
