"""How many tokens of a model's context `tools/list` takes, with all tools listed and deferred."""

import json
import sys
import tempfile
from pathlib import Path

import anyio

from mcp_dispatch.app.app import open_app
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.registry.deferral import estimate_tokens

TOOLS = 400
SERVERS = 8


def listed_tokens(corpus: Path) -> dict[str, int]:
    """For each mode the tokens of the whole list, built-ins included, before anything is found."""
    with tempfile.TemporaryDirectory() as folder:
        return {mode: anyio.run(_tokens, Path(folder), corpus, mode) for mode in ("never", "auto")}


async def _tokens(folder: Path, corpus: Path, mode: str) -> int:
    settings, servers = folder / f"{mode}.json", folder / "servers.json"
    settings.write_text(json.dumps({"dispatch": {"toolSearch": {"mode": mode}}}), encoding="utf-8")
    servers.write_text(json.dumps({"mcpServers": _servers(corpus)}), encoding="utf-8")
    options = AppOptions(
        workspace=folder,
        settings=(settings,),
        mcp_config=(servers,),
        environ={"MCP_DISPATCH_CONFIG_DIR": str(folder / "config"), "PATH": "/usr/bin:/bin"},
        managed_dir=folder / "managed",
    )
    async with open_app(options, StateDirectory.open(folder / "state")) as app:
        return sum(map(estimate_tokens, await app.list_definitions()))


def _servers(corpus: Path) -> dict[str, dict[str, object]]:
    each = TOOLS // SERVERS
    module = str(Path(__file__).with_name("many_tools.py"))
    return {
        f"server-{n}": {
            "command": sys.executable,
            "args": ["-S", "-E", module, str(corpus), str(n * each), str(each)],
        }
        for n in range(SERVERS)
    }
