"""A config directory and a workspace with the application over them."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcp_dispatch.app.app import App, open_app
from mcp_dispatch.app.listener import AppListener
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import Refusal
from tests.support.client import extract_raw_text
from tests.support.stand_ins import ScriptedCaller


class Home:
    """A person's config directory and workspace, and the application over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.root.mkdir()
        self.user = folder / "config" / "settings.json"
        self.project = self.root / ".mcp-dispatch" / "settings.json"
        self.managed = folder / "managed"

    def write(self, path: Path, content: Mapping[str, Any] | str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name("temporary")
        text = content if isinstance(content, str) else json.dumps(content)
        temporary.write_text(text, encoding="utf-8")
        return temporary.replace(path)

    @property
    def options(self) -> AppOptions:
        environ = {
            "MCP_DISPATCH_CONFIG_DIR": str(self.user.parent),
            "CLAUDE_CONFIG_DIR": str(self.folder / "claude"),
            "PATH": "/usr/bin:/bin",
        }
        return AppOptions(workspace=self.root, managed_dir=self.managed, environ=environ)

    @asynccontextmanager
    async def app(self, options: AppOptions | None = None) -> AsyncGenerator["Running", None]:
        state = StateDirectory.open(self.folder / "state")
        listener = ReloadListener()
        async with open_app(options or self.options, state, listener) as app:
            yield Running(app, listener)


class ReloadListener(AppListener):
    """Signals each reload."""

    def __init__(self) -> None:
        self.reloaded = anyio.Event()

    def on_reloaded(self) -> None:
        self.reloaded.set()
        self.reloaded = anyio.Event()


class Running:
    """The application, and a way to wait until it has reloaded its settings."""

    def __init__(self, app: App, listener: ReloadListener) -> None:
        self.app = app
        self._listener = listener

    async def after(self, change: Callable[[], Path]) -> None:
        async with self.reloading():
            change()

    @asynccontextmanager
    async def reloading(self) -> AsyncGenerator[None, None]:
        reloaded = self._listener.reloaded
        with anyio.fail_after(30):
            yield
            await reloaded.wait()

    async def bash(self, command: str) -> str:
        return _extract_text(await self.call("Bash", {"command": command}))

    async def call(self, name: str, arguments: JsonObject) -> Outcome:
        call = ToolCall("1", "1", name, arguments)
        with anyio.fail_after(20):
            return await self.app.dispatcher.dispatch(call, self.app.scope, ScriptedCaller())
        raise AssertionError("the deadline passed")


def _extract_text(outcome: Outcome) -> str:
    if isinstance(outcome, Refusal):
        return outcome.message
    assert isinstance(outcome, Completed)
    return extract_raw_text({"result": outcome.wire})
