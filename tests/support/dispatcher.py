"""A dispatcher over a temporary folder, with rules and hooks from a settings file."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_dispatch.approval.approver import Approver, AskFallback
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.settings import Layer, LayerKind, Settings, load_settings
from tests.support.stand_ins import RecordingTool, ScriptedCaller


@dataclass
class DispatcherFixture:
    """A dispatcher over a temporary folder."""

    folder: Path
    children: ProcessGroup
    tools: Sequence[RecordingTool]
    fallback: AskFallback = AskFallback.DENY
    scope: Scope = field(init=False)
    snapshot: Snapshot = field(init=False)
    dispatcher: Dispatcher = field(init=False)

    def __post_init__(self) -> None:
        self.scope = Scope(self.folder, limit=10)
        self.journal = Journal(self.folder / "journal")
        self.apply_settings({})
        self.dispatcher = Dispatcher(
            Services(
                lambda: self.snapshot,
                Approver(self.fallback),
                ResultStore(self.folder / "results"),
                self.journal,
            )
        )

    def apply_settings(self, content: Mapping[str, Any]) -> "DispatcherFixture":
        """Rules and hooks from a settings file, as if it had just been changed."""
        path = self.folder / "settings.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        settings: Settings = load_settings(
            [Layer(LayerKind.FLAG, path)], supported=frozenset({"hooks"})
        )
        sources = [HookSource(kept.value, kept.file) for kept in settings.hooks.sections]
        config, problems = parse_hooks(sources)
        assert problems == ()
        hooks = Hooks(config, self.children, {"PATH": "/usr/bin:/bin"}, workspace=self.folder)
        policy = Policy(
            settings, (self.folder,), own_directories=(), mode=settings.permissions.mode
        )
        self.snapshot = Snapshot(build_registry(self.tools, ()), hooks, policy)
        return self

    async def call(
        self, name: str, caller: ScriptedCaller | None = None, **arguments: Json
    ) -> Outcome:
        call = ToolCall("call", "use", name, arguments)
        return await self.dispatcher.dispatch(call, self.scope, caller or ScriptedCaller())

    def read_journal(self) -> list[JsonObject]:
        lines = self.journal.path.read_text(encoding="utf-8").splitlines()
        entries: list[Json] = [json.loads(line) for line in lines]
        return [entry for entry in entries if isinstance(entry, dict)]


@asynccontextmanager
async def open_dispatcher(
    folder: Path, *tools: RecordingTool
) -> AsyncGenerator[DispatcherFixture, None]:
    for name in ("journal", "results"):
        (folder / name).mkdir(mode=0o700)
    async with ProcessGroup() as children:
        yield DispatcherFixture(folder, children, tools)


def hooks_for(event: str, *commands: str) -> dict[str, Any]:
    handlers = [{"type": "command", "command": command} for command in commands]
    return {event: [{"matcher": "*", "hooks": handlers}]}


def print_output(**output: Any) -> str:
    """A hook command that prints this as PreToolUse output."""
    text = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}})
    return f"printf '%s' '{text}'"


def extract_texts(outcome: Outcome) -> list[Json]:
    assert isinstance(outcome, Completed)
    content = outcome.wire["content"]
    assert isinstance(content, list)
    return [block["text"] for block in content if isinstance(block, dict) and "text" in block]
