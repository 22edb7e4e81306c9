"""The examples under `configs/` are loaded as a user would load them."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from mcp_dispatch.cli import app
from mcp_dispatch.settings.load import Layer, LayerKind, load
from mcp_dispatch.upstream.config import load_servers
from mcp_dispatch.upstream.server import Launch

CONFIGS = Path(__file__).parents[1] / "configs"


def test_the_servers_example_has_no_problem() -> None:
    servers, problems = load_servers([CONFIGS / "servers.json"], {"HOME": "/home/me"})

    assert problems == ()
    assert [server.name for server in servers] == ["demo", "time", "filesystem"]
    time, filesystem = (server.reach for server in servers[1:])
    assert isinstance(time, Launch)
    assert time.env == {"TZ": "UTC"}
    assert isinstance(filesystem, Launch)
    assert filesystem.args[-1] == "/home/me/Documents"


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
    settings = load([Layer(LayerKind.FLAG, CONFIGS / "starter.json")])

    assert settings.problems == ()
    assert settings.rules


def test_the_checked_in_schema_is_the_one_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["schema"])

    kept = (CONFIGS / "settings.schema.json").read_text(encoding="utf-8")
    assert json.loads(printed.stdout) == json.loads(kept)
