"""A path that leads elsewhere after it was judged: the tool opens what was judged, or nothing."""

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.approval import ApprovalReply, Approved, Question
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.client import InputRequired
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError, Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    FileRead,
    Interrupt,
    Sharing,
    Tool,
    ToolResult,
    Validator,
)
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.settings import Layer, LayerKind, load_settings
from mcp_dispatch.tools.base import BuiltInTool
from mcp_dispatch.tools.files.edit import EditTool
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.client import ERAS, Era, Installation, text_of
from tests.support.file_scope import FileScope
from tests.support.stand_ins import ScriptedCaller

TOOLS = (ReadTool, WriteTool, EditTool)
SECRET = "the secret outside\n"


class Ground:
    """A workspace with a file and a file outside, and two ways to the first that can be swapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = to_real_path(folder)
        self.workspace = self.folder / "workspace"
        self.outside = self.folder / "outside"
        for directory in (self.workspace / "inside", self.outside):
            directory.mkdir(parents=True)
        self.file = self.workspace / "inside" / "file"
        self.secret = self.outside / "file"
        self.file.write_text("harmless\n", encoding="utf-8")
        self.secret.write_text(SECRET, encoding="utf-8")

    def link(self) -> Path:
        """A link to the file."""
        link = self.workspace / "link"
        link.symlink_to(self.file)
        return link

    def path_through_parent(self) -> Path:
        """The file by way of a real directory that can be replaced by a link."""
        return self.file

    def swap_link(self) -> None:
        point(self.workspace / "link", self.secret)

    def swap_parent(self) -> None:
        (self.workspace / "inside").rename(self.workspace / "moved")
        (self.workspace / "inside").symlink_to(self.outside)


def point(link: Path, target: Path) -> None:
    """The link leads to `target`, from one moment to the next."""
    new = link.with_name("new-link")
    new.symlink_to(target)
    os.replace(new, link)  # noqa: PTH105  (Path.replace says the same, less plainly)


WAYS: dict[str, tuple[Callable[[Ground], Path], Callable[[Ground], None]]] = {
    "link": (Ground.link, Ground.swap_link),
    "parent": (Ground.path_through_parent, Ground.swap_parent),
}

each_tool = pytest.mark.parametrize("kind", TOOLS)
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def arguments_for(kind: type[BuiltInTool], path: Path, found: str = "harmless") -> JsonObject:
    if kind is ReadTool:
        return {"file_path": str(path)}
    if kind is WriteTool:
        return {"file_path": str(path), "content": "overwritten"}
    return {"file_path": str(path), "old_string": found, "new_string": "overwritten"}


def changed(path: Path) -> str:
    return (
        f"{path} changed while the call was being decided: it leads to another place now."
        " Call again."
    )


@each_way
@each_tool
async def test_a_tool_opens_nothing_but_what_was_judged(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool], way: str
):
    make, swap = WAYS[way]
    tool, path, scope = kind(Workspace(ground.workspace)), make(ground), FileScope()
    await remember(ground, scope)
    checked = await tool.check(arguments_for(kind, path), scope.context())
    judged = replace(scope.context(), judged_paths=frozenset({ground.file}))

    swap(ground)

    with pytest.raises(Refused) as refused:
        await tool.run(checked.arguments, judged)
    assert refused.value.refusal == Refusal(RefusedBy.PERMISSION, changed(path))
    assert ground.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_a_tool_that_was_judged_for_no_file_opens_none(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool]
):
    tool, scope = kind(Workspace(ground.workspace)), FileScope()
    await remember(ground, scope)

    with pytest.raises(Refused) as refused:
        await tool.run(
            arguments_for(kind, ground.file), replace(scope.context(), judged_paths=frozenset())
        )

    assert str(refused.value) == changed(ground.file)


async def test_a_new_file_is_not_written_through_a_directory_that_became_a_link(ground: Ground):
    path = ground.workspace / "new" / "file"
    tool, context = WriteTool(Workspace(ground.workspace)), FileScope().context()
    checked = await tool.check(arguments_for(WriteTool, path), context)

    (ground.workspace / "new").symlink_to(ground.outside)

    with pytest.raises(Refused) as refused:
        await tool.run(checked.arguments, replace(context, judged_paths=frozenset({path})))
    assert str(refused.value) == changed(path)
    assert ground.secret.read_text(encoding="utf-8") == SECRET


async def remember(ground: Ground, scope: FileScope | Scope) -> None:
    """The scope has read both files, so that only the path is left to stop it."""
    reader = ReadTool(Workspace(ground.workspace))
    for path in (ground.file, ground.secret):
        result = await reader.run({"file_path": str(path)}, CallContext("call", scope))
        [change] = result.changes
        assert isinstance(change, FileRead)
        if isinstance(scope, Scope):
            scope.apply_changes([change])
        else:
            scope.files[change.path] = change.seen


@dataclass(frozen=True)
class Late:
    """A tool that runs a moment after somebody swapped the path."""

    inner: Tool
    swap: Callable[[], None]
    name: str
    rule_name: str
    server: str | None
    definition: JsonObject
    validator: Validator
    interrupt: Interrupt
    result_limit: int | None
    output_validator: Validator | None = None

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return self.inner.decide_sharing(arguments)

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        return await self.inner.check(arguments, context)

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> ToolResult | ProtocolError | InputRequired:
        self.swap()
        return await self.inner.run(arguments, context)


def late(tool: Tool, swap: Callable[[], None]) -> Late:
    return Late(
        tool,
        swap,
        tool.name,
        tool.rule_name,
        tool.server,
        tool.definition,
        tool.validator,
        tool.interrupt,
        tool.result_limit,
    )


@dataclass(frozen=True)
class Line:
    dispatcher: Dispatcher
    scope: Scope

    async def call(
        self, name: str, arguments: JsonObject, caller: ScriptedCaller | None = None
    ) -> Outcome:
        call = ToolCall("call", "use", name, arguments)
        return await self.dispatcher.dispatch(call, self.scope, caller or ScriptedCaller())


@asynccontextmanager
async def a_line(
    ground: Ground, tool: Tool, settings: Mapping[str, Any]
) -> AsyncGenerator[Line, None]:
    """A dispatcher with one tool, whose scope has read both files."""
    file = ground.folder / "settings.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    for name in ("journal", "results"):
        (ground.folder / name).mkdir(mode=0o700)
    loaded = load_settings([Layer(LayerKind.FLAG, file)], supported=frozenset({"hooks"}))
    config, problems = parse_hooks(
        [HookSource(kept.value, kept.file) for kept in loaded.hooks.sections]
    )
    assert problems == ()
    policy = Policy(loaded, (ground.workspace,), own_directories=(), mode=loaded.permissions.mode)
    async with ProcessGroup() as children:
        hooks = Hooks(config, children, {"PATH": "/usr/bin:/bin"}, workspace=ground.workspace)
        live = Snapshot(build_registry([tool], ()), hooks, policy)
        journal = Journal(ground.folder / "journal")
        results = ResultStore(ground.folder / "results")
        line = Line(
            Dispatcher(Services(lambda: live, Approver(), results, journal)),
            Scope(ground.workspace, limit=10),
        )
        await remember(ground, line.scope)
        yield line
        journal.close()


@each_way
@each_tool
async def test_a_swap_between_the_decision_and_the_run_is_refused(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool], way: str
):
    make, swap = WAYS[way]
    path = make(ground)
    tool = late(kind(Workspace(ground.workspace)), lambda: swap(ground))
    async with a_line(ground, tool, {"permissions": {"allow": ["Edit(./**)"]}}) as line:
        outcome = await line.call(tool.name, arguments_for(kind, path))

    assert outcome == Refusal(RefusedBy.PERMISSION, changed(path))
    assert ground.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_without_a_swap_the_same_calls_run(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool]
):
    path, tool = ground.link(), late(kind(Workspace(ground.workspace)), lambda: None)
    async with a_line(ground, tool, {"permissions": {"allow": ["Edit(./**)"]}}) as line:
        outcome = await line.call(tool.name, arguments_for(kind, path))

    assert isinstance(outcome, Completed)
    assert outcome.wire.get("isError") is None


@each_tool
async def test_a_yes_is_not_for_the_file_that_was_swapped_in_while_a_person_thought(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool]
):
    other = ground.outside / "other"
    other.write_text("harmless\n", encoding="utf-8")
    path = ground.workspace / "link"
    path.symlink_to(other)

    async def swap_and_allow(_: Question) -> ApprovalReply:
        ground.swap_link()
        return Approved()

    caller = ScriptedCaller(reply=swap_and_allow)
    tool = kind(Workspace(ground.workspace))
    async with a_line(ground, tool, {}) as line:
        outcome = await line.call(tool.name, arguments_for(kind, path, "secret"), caller)

    assert outcome == Refusal(RefusedBy.PERMISSION, changed(path))
    assert len(caller.questions) == 1
    assert ground.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_a_yes_holds_where_nothing_was_swapped(
    ground: Ground, kind: type[ReadTool | WriteTool | EditTool]
):
    path = ground.workspace / "link"
    path.symlink_to(ground.secret)
    caller = ScriptedCaller(reply=Approved())
    tool = kind(Workspace(ground.workspace))
    async with a_line(ground, tool, {}) as line:
        outcome = await line.call(tool.name, arguments_for(kind, path, "secret"), caller)

    assert isinstance(outcome, Completed)
    assert outcome.wire.get("isError") is None
    assert len(caller.questions) == 1


async def test_what_a_person_allowed_is_denied_when_a_deny_rule_covers_what_it_leads_to_now(
    ground: Ground,
):
    path = ground.workspace / "link"
    path.symlink_to(ground.file)

    async def swap_and_allow(_: Question) -> ApprovalReply:
        ground.swap_link()
        return Approved()

    rules = {"permissions": {"ask": ["Read"], "deny": [f"Read(/{ground.secret})"]}}
    tool = ReadTool(Workspace(ground.workspace))
    async with a_line(ground, tool, rules) as line:
        outcome = await line.call(
            "Read", {"file_path": str(path)}, ScriptedCaller(reply=swap_and_allow)
        )

    assert outcome == Refusal(
        RefusedBy.PERMISSION,
        "Permission to use Read has been denied: a deny rule forbids it "
        f"(Read(/{ground.secret}) in {ground.folder / 'settings.json'}:1).",
    )


async def test_what_a_hook_swaps_is_judged_as_it_leads_now(ground: Ground):
    path = ground.link()
    swap = f"ln -sfn '{ground.secret}' '{path}'"
    hooks = [{"matcher": "*", "hooks": [{"type": "command", "command": swap}]}]
    rules = {
        "permissions": {"deny": [f"Read(/{ground.secret})"]},
        "hooks": {"PreToolUse": hooks},
    }
    async with a_line(ground, ReadTool(Workspace(ground.workspace)), rules) as line:
        outcome = await line.call("Read", {"file_path": str(path)})

    assert isinstance(outcome, Refusal)
    assert "a deny rule forbids it" in outcome.message


async def test_a_kept_result_that_became_a_link_is_judged_by_where_it_leads(ground: Ground):
    kept = ground.outside / "kept.txt"
    kept.write_text("kept\n", encoding="utf-8")
    async with a_line(ground, ReadTool(Workspace(ground.workspace)), {}) as line:
        line.scope.mark_delivered(str(kept))
        before = await line.call("Read", {"file_path": str(kept)})
        point(kept, ground.secret)
        after = await line.call("Read", {"file_path": str(kept)})

    assert isinstance(before, Completed)
    assert isinstance(after, Refusal)
    assert after.message.startswith("Permission to use Read was not given: ")


@each_tool
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_whose_user_is_outwitted_gets_nothing(
    tmp_path: Path, kind: type[ReadTool | WriteTool | EditTool], era: Era
):
    installed = Installation(tmp_path)
    harmless, secret = tmp_path / "harmless", tmp_path / "secret"
    harmless.write_text("harmless\n", encoding="utf-8")
    secret.write_text(SECRET, encoding="utf-8")
    link = installed.workspace / "link"
    link.symlink_to(harmless)
    installed.rules(allow=[f"Read(/{tmp_path}/**)"], ask=["Edit"])
    if kind is ReadTool:
        installed.rules(ask=["Read"])

    async def swap_and_allow(context: Any, params: Any) -> ElicitResult:
        if "link" in params.message:
            point(link, secret)
        return ElicitResult(action="accept", content={"decision": "allow once"})

    async with installed.client(era, elicitation_callback=swap_and_allow) as client:
        for path in (harmless, secret):
            await client.call_tool("Read", {"file_path": str(path)})
        result = await client.call_tool(
            kind.__name__.removesuffix("Tool"), arguments_for(kind, link, "secret")
        )

    assert result.is_error
    assert text_of(result) == f"<tool_use_error>{changed(link)}</tool_use_error>"
    assert secret.read_text(encoding="utf-8") == SECRET
