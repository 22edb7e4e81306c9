"""The examples under `configs/` are loaded as a user would load them."""

import json
import re
import shlex
from pathlib import Path

from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from mcp_dispatch.cli import app
from mcp_dispatch.settings.settings import Layer, LayerKind, load_settings
from mcp_dispatch.upstream.config.model import RemoteEndpoint, StdioEndpoint, ToolSelection
from tests.support.paths import ROOT
from tests.support.server_files import load_servers

CONFIGS = ROOT / "configs"


def test_the_servers_example_has_no_problem() -> None:
    servers, problems = load_servers([CONFIGS / "servers.json"], {"HOME": "/home/me"})

    assert problems == ()
    assert [server.name for server in servers] == ["demo", "time", "filesystem"]
    time, filesystem = (server.endpoint for server in servers[1:])
    assert isinstance(time, StdioEndpoint)
    assert time.env == {"TZ": "UTC"}
    assert isinstance(filesystem, StdioEndpoint)
    assert filesystem.args[-1] == "/home/me/Documents"


def test_the_example_with_servers_of_every_kind_has_no_problem() -> None:
    found, problems = load_servers([CONFIGS / "remote-servers.json"], {"TRACKER_TOKEN": "t"})

    assert problems == ()
    servers = {server.name: server for server in found}
    assert list(servers) == ["issues", "builds", "old", "browser"]
    assert servers["issues"].endpoint == RemoteEndpoint(
        "http", "https://tracker.example.com/mcp", {"Authorization": "Bearer t"}
    )
    assert servers["issues"].tools == ToolSelection(
        ("issue_*", "search"), ("issue_delete",), {"search": "find_issues"}
    )
    builds, old = servers["builds"], servers["old"]
    assert isinstance(builds.endpoint, RemoteEndpoint)
    assert builds.endpoint.headers_helper is not None
    assert (builds.prefix, builds.lazy) == ("ci", True)
    assert isinstance(old.endpoint, RemoteEndpoint)
    assert (old.endpoint.kind, old.restart) == ("sse", False)
    assert (servers["browser"].connection, servers["browser"].sharing) == ("per-scope", "server")


def test_the_commands_on_the_page_about_servers_exist_and_take_their_flags() -> None:
    page = (CONFIGS.parent / "docs" / "upstreams.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.+?)```", page, re.DOTALL)
    lines = [line.split(" | ")[-1] for block in blocks for line in block.splitlines()]
    group = get_command(app)
    assert isinstance(group, TyperGroup)

    for line in lines:
        program, name, *words = shlex.split(line)
        assert program == "mcp-dispatch"
        command = group.commands[name]
        command.make_context(name, words)  # raises for a flag that there is not

    assert len(lines) >= 8


def test_the_servers_on_the_page_about_them_have_no_problem(tmp_path: Path) -> None:
    page = (CONFIGS.parent / "docs" / "upstreams.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- servers -->\n```json\n(.+?)\n```", page, re.DOTALL)
    assert found is not None
    file = tmp_path / "servers.json"
    file.write_text(found.group(1), encoding="utf-8")

    servers, problems = load_servers([file], {})

    assert problems == ()
    assert [server.name for server in servers] == ["time", "issues", "builds", "old"]


def test_the_starter_settings_have_no_problem() -> None:
    settings = load_settings([Layer(LayerKind.FLAG, CONFIGS / "starter.json")])

    assert settings.report.problems == ()
    assert settings.rules.texts


def test_the_checked_in_schema_is_the_one_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["schema"])

    kept = (CONFIGS / "settings.schema.json").read_text(encoding="utf-8")
    assert json.loads(printed.stdout) == json.loads(kept)
