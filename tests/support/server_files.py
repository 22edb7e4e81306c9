"""Loads servers from `--mcp-config` files the way the application does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mcp_dispatch.settings.settings import Settings
from mcp_dispatch.upstream.config.load import ServerConfigProblem
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.config.select import ServerFiles, select_servers


def load_servers(
    paths: Sequence[Path], environ: Mapping[str, str]
) -> tuple[tuple[ServerConfig, ...], tuple[ServerConfigProblem, ...]]:
    files, _ = ServerFiles(paths).read()
    selected = select_servers(files, Settings(), None, environ)
    problems = [each for each in selected.problems if isinstance(each, ServerConfigProblem)]
    assert len(problems) == len(selected.problems)
    return selected.servers, tuple(problems)
