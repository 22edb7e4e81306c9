"""The clients of the TypeScript SDK, 1.x and 2.x, connected to a real server process."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_dispatch.model.json import Json
from tests.support.client import Installation
from tests.support.paths import SUPPORT
from tests.support.real_servers import install_npm_package

SCRIPT = SUPPORT / "typescript" / "client.mjs"
SECONDS = 120


@dataclass(frozen=True)
class TypeScript:
    """A version of the SDK, and how its client negotiates."""

    name: str
    sdk: int
    package: str
    mode: Json = "legacy"

    def run(self, installation: Installation, *steps: dict[str, Json]) -> list[Any]:
        """What came of each step: `{"result": …}` or `{"error": …}`."""
        command, *arguments = installation.command
        plan = {
            "sdk": self.sdk,
            "mode": self.mode,
            "folder": str(install_npm_package(self.package)),
            "server": {
                "command": command,
                "args": arguments,
                "env": installation.environ,
                "cwd": str(installation.workspace),
                "stderr": "ignore",
            },
            "steps": steps,
        }
        done = subprocess.run(
            [node(), str(SCRIPT)],
            input=json.dumps(plan),
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outcomes: list[Any] = json.loads(done.stdout)
        return outcomes


ONE = TypeScript("1.x", 1, "@modelcontextprotocol/sdk@1.32.2")
TWO = TypeScript("2.x", 2, "@modelcontextprotocol/client@2.4.0")
TWO_MODERN = TypeScript(
    "2.x-modern", 2, "@modelcontextprotocol/client@2.4.0", {"pin": "2026-07-28"}
)
CLIENTS = [pytest.param(client, id=client.name) for client in (ONE, TWO, TWO_MODERN)]


def node() -> str:
    """Node 20 or later, from here or from npm."""
    found = shutil.which("node")
    if found is not None:
        version = subprocess.run([found, "--version"], capture_output=True, encoding="utf-8")
        if int(version.stdout.removeprefix("v").partition(".")[0] or 0) >= 20:
            return found
    return str(install_npm_package("node@22") / "node_modules" / "node" / "bin" / "node")
