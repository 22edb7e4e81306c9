"""Paths that are swapped after the decision: a tool opens the judged file or nothing."""

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
from tests.support.client import ERAS, Era, Installation, extract_text
from tests.support.file_scope import FileScope
from tests.support.stand_ins import ScriptedCaller

TOOLS = (ReadTool, WriteTool, EditTool)
SECRET = "the secret outside\n"


class SwapFiles:
    """A file in a workspace, a file outside, and two ways to swap the path of the first."""

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

    def create_link(self) -> Path:
        """Return a link to the file."""
        link = self.workspace / "link"
        link.symlink_to(self.file)
        return link

    def path_through_parent(self) -> Path:
        """Return the file itself; its directory can be replaced by a link."""
        return self.file

    def swap_link(self) -> None:
        redirect_link(self.workspace / "link", self.secret)

    def swap_parent(self) -> None:
        (self.workspace / "inside").rename(self.workspace / "moved")
        (self.workspace / "inside").symlink_to(self.outside)


def redirect_link(link: Path, target: Path) -> None:
    """Replace the link atomically by one to `target`."""
    new = link.with_name("new-link")
    new.symlink_to(target)
    os.replace(new, link)  # noqa: PTH105  (os.replace is clearer here)


SWAPS: dict[str, tuple[Callable[[SwapFiles], Path], Callable[[SwapFiles], None]]] = {
    "link": (SwapFiles.create_link, SwapFiles.swap_link),
    "parent": (SwapFiles.path_through_parent, SwapFiles.swap_parent),
}

each_tool = pytest.mark.parametrize("kind", TOOLS)
each_swap = pytest.mark.parametrize("swap_kind", SWAPS)


@pytest.fixture
def swap_files(tmp_path: Path) -> SwapFiles:
    return SwapFiles(tmp_path)


def build_arguments(kind: type[BuiltInTool], path: Path, found: str = "harmless") -> JsonObject:
    if kind is ReadTool:
        return {"file_path": str(path)}
    if kind is WriteTool:
        return {"file_path": str(path), "content": "overwritten"}
    return {"file_path": str(path), "old_string": found, "new_string": "overwritten"}


def format_refusal(path: Path) -> str:
    return (
        f"{path} changed while the call was being decided: it leads to another place now."
        " Call again."
    )


@each_swap
@each_tool
async def test_a_tool_opens_nothing_but_what_was_judged(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool], swap_kind: str
):
    make, swap = SWAPS[swap_kind]
    tool, path, scope = kind(Workspace(swap_files.workspace)), make(swap_files), FileScope()
    await read_both_files(swap_files, scope)
    checked = await tool.check(build_arguments(kind, path), scope.context())
    judged = replace(scope.context(), judged_paths=frozenset({swap_files.file}))

    swap(swap_files)

    with pytest.raises(Refused) as refused:
        await tool.run(checked.arguments, judged)
    assert refused.value.refusal == Refusal(RefusedBy.PERMISSION, format_refusal(path))
    assert swap_files.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_a_call_that_was_judged_for_no_file_opens_none(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool]
):
    tool, scope = kind(Workspace(swap_files.workspace)), FileScope()
    await read_both_files(swap_files, scope)

    with pytest.raises(Refused) as refused:
        await tool.run(
            build_arguments(kind, swap_files.file),
            replace(scope.context(), judged_paths=frozenset()),
        )

    assert str(refused.value) == format_refusal(swap_files.file)


async def test_a_new_file_is_not_written_through_a_directory_that_became_a_link(
    swap_files: SwapFiles,
):
    path = swap_files.workspace / "new" / "file"
    tool, context = WriteTool(Workspace(swap_files.workspace)), FileScope().context()
    checked = await tool.check(build_arguments(WriteTool, path), context)

    (swap_files.workspace / "new").symlink_to(swap_files.outside)

    with pytest.raises(Refused) as refused:
        await tool.run(checked.arguments, replace(context, judged_paths=frozenset({path})))
    assert str(refused.value) == format_refusal(path)
    assert swap_files.secret.read_text(encoding="utf-8") == SECRET


async def read_both_files(swap_files: SwapFiles, scope: FileScope | Scope) -> None:
    """Let the scope read both files, so that only the check of the path can refuse."""
    reader = ReadTool(Workspace(swap_files.workspace))
    for path in (swap_files.file, swap_files.secret):
        result = await reader.run({"file_path": str(path)}, CallContext("call", scope))
        [change] = result.changes
        assert isinstance(change, FileRead)
        if isinstance(scope, Scope):
            scope.apply_changes([change])
        else:
            scope.files[change.path] = change.seen


@dataclass(frozen=True)
class SwappingTool:
    """A tool that swaps the path right before it runs."""

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


def create_swapping_tool(tool: Tool, swap: Callable[[], None]) -> SwappingTool:
    return SwappingTool(
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
class DispatchSetup:
    dispatcher: Dispatcher
    scope: Scope

    async def call(
        self, name: str, arguments: JsonObject, caller: ScriptedCaller | None = None
    ) -> Outcome:
        call = ToolCall("call", "use", name, arguments)
        return await self.dispatcher.dispatch(call, self.scope, caller or ScriptedCaller())


@asynccontextmanager
async def open_dispatcher(
    swap_files: SwapFiles, tool: Tool, settings: Mapping[str, Any]
) -> AsyncGenerator[DispatchSetup, None]:
    """Yield a dispatcher with one tool and a scope that has read both files."""
    file = swap_files.folder / "settings.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    for name in ("journal", "results"):
        (swap_files.folder / name).mkdir(mode=0o700)
    loaded = load_settings([Layer(LayerKind.FLAG, file)], supported=frozenset({"hooks"}))
    config, problems = parse_hooks(
        [HookSource(kept.value, kept.file) for kept in loaded.hooks.sections]
    )
    assert problems == ()
    policy = Policy(
        loaded, (swap_files.workspace,), own_directories=(), mode=loaded.permissions.mode
    )
    async with ProcessGroup() as children:
        hooks = Hooks(config, children, {"PATH": "/usr/bin:/bin"}, workspace=swap_files.workspace)
        live = Snapshot(build_registry([tool], ()), hooks, policy)
        journal = Journal(swap_files.folder / "journal")
        results = ResultStore(swap_files.folder / "results")
        setup = DispatchSetup(
            Dispatcher(Services(lambda: live, Approver(), results, journal)),
            Scope(swap_files.workspace, limit=10),
        )
        await read_both_files(swap_files, setup.scope)
        yield setup
        journal.close()


@each_swap
@each_tool
async def test_a_swap_between_the_decision_and_the_run_is_refused(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool], swap_kind: str
):
    make, swap = SWAPS[swap_kind]
    path = make(swap_files)
    tool = create_swapping_tool(kind(Workspace(swap_files.workspace)), lambda: swap(swap_files))
    async with open_dispatcher(
        swap_files, tool, {"permissions": {"allow": ["Edit(./**)"]}}
    ) as setup:
        outcome = await setup.call(tool.name, build_arguments(kind, path))

    assert outcome == Refusal(RefusedBy.PERMISSION, format_refusal(path))
    assert swap_files.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_the_same_calls_run_without_a_swap(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool]
):
    path, tool = (
        swap_files.create_link(),
        create_swapping_tool(kind(Workspace(swap_files.workspace)), lambda: None),
    )
    async with open_dispatcher(
        swap_files, tool, {"permissions": {"allow": ["Edit(./**)"]}}
    ) as setup:
        outcome = await setup.call(tool.name, build_arguments(kind, path))

    assert isinstance(outcome, Completed)
    assert outcome.wire.get("isError") is None


@each_tool
async def test_an_approval_does_not_cover_a_file_swapped_in_during_the_prompt(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool]
):
    other = swap_files.outside / "other"
    other.write_text("harmless\n", encoding="utf-8")
    path = swap_files.workspace / "link"
    path.symlink_to(other)

    async def swap_and_allow(_: Question) -> ApprovalReply:
        swap_files.swap_link()
        return Approved()

    caller = ScriptedCaller(reply=swap_and_allow)
    tool = kind(Workspace(swap_files.workspace))
    async with open_dispatcher(swap_files, tool, {}) as setup:
        outcome = await setup.call(tool.name, build_arguments(kind, path, "secret"), caller)

    assert outcome == Refusal(RefusedBy.PERMISSION, format_refusal(path))
    assert len(caller.questions) == 1
    assert swap_files.secret.read_text(encoding="utf-8") == SECRET


@each_tool
async def test_an_approval_is_valid_if_the_path_was_not_swapped(
    swap_files: SwapFiles, kind: type[ReadTool | WriteTool | EditTool]
):
    path = swap_files.workspace / "link"
    path.symlink_to(swap_files.secret)
    caller = ScriptedCaller(reply=Approved())
    tool = kind(Workspace(swap_files.workspace))
    async with open_dispatcher(swap_files, tool, {}) as setup:
        outcome = await setup.call(tool.name, build_arguments(kind, path, "secret"), caller)

    assert isinstance(outcome, Completed)
    assert outcome.wire.get("isError") is None
    assert len(caller.questions) == 1


async def test_an_approved_path_is_denied_if_a_deny_rule_covers_its_new_target(
    swap_files: SwapFiles,
):
    path = swap_files.workspace / "link"
    path.symlink_to(swap_files.file)

    async def swap_and_allow(_: Question) -> ApprovalReply:
        swap_files.swap_link()
        return Approved()

    rules = {"permissions": {"ask": ["Read"], "deny": [f"Read(/{swap_files.secret})"]}}
    tool = ReadTool(Workspace(swap_files.workspace))
    async with open_dispatcher(swap_files, tool, rules) as setup:
        outcome = await setup.call(
            "Read", {"file_path": str(path)}, ScriptedCaller(reply=swap_and_allow)
        )

    assert outcome == Refusal(
        RefusedBy.PERMISSION,
        "Permission to use Read has been denied: a deny rule forbids it "
        f"(Read(/{swap_files.secret}) in {swap_files.folder / 'settings.json'}:1).",
    )


async def test_a_path_swapped_by_a_hook_is_judged_by_its_new_target(swap_files: SwapFiles):
    path = swap_files.create_link()
    swap = f"ln -sfn '{swap_files.secret}' '{path}'"
    hooks = [{"matcher": "*", "hooks": [{"type": "command", "command": swap}]}]
    rules = {
        "permissions": {"deny": [f"Read(/{swap_files.secret})"]},
        "hooks": {"PreToolUse": hooks},
    }
    async with open_dispatcher(
        swap_files, ReadTool(Workspace(swap_files.workspace)), rules
    ) as setup:
        outcome = await setup.call("Read", {"file_path": str(path)})

    assert isinstance(outcome, Refusal)
    assert "a deny rule forbids it" in outcome.message


async def test_a_stored_result_that_became_a_link_is_judged_by_its_target(swap_files: SwapFiles):
    kept = swap_files.outside / "kept.txt"
    kept.write_text("kept\n", encoding="utf-8")
    async with open_dispatcher(swap_files, ReadTool(Workspace(swap_files.workspace)), {}) as setup:
        setup.scope.mark_delivered(str(kept))
        before = await setup.call("Read", {"file_path": str(kept)})
        redirect_link(kept, swap_files.secret)
        after = await setup.call("Read", {"file_path": str(kept)})

    assert isinstance(before, Completed)
    assert isinstance(after, Refusal)
    assert after.message.startswith("Permission to use Read was not given: ")


@each_tool
@pytest.mark.parametrize("era", ERAS)
async def test_a_path_swapped_during_the_approval_is_refused(
    tmp_path: Path, kind: type[ReadTool | WriteTool | EditTool], era: Era
):
    installed = Installation(tmp_path)
    harmless, secret = tmp_path / "harmless", tmp_path / "secret"
    harmless.write_text("harmless\n", encoding="utf-8")
    secret.write_text(SECRET, encoding="utf-8")
    link = installed.workspace / "link"
    link.symlink_to(harmless)
    installed.add_rules(allow=[f"Read(/{tmp_path}/**)"], ask=["Edit"])
    if kind is ReadTool:
        installed.add_rules(ask=["Read"])

    async def swap_and_allow(context: Any, params: Any) -> ElicitResult:
        if "link" in params.message:
            redirect_link(link, secret)
        return ElicitResult(action="accept", content={"decision": "allow once"})

    async with installed.open_client(era, elicitation_callback=swap_and_allow) as client:
        for path in (harmless, secret):
            await client.call_tool("Read", {"file_path": str(path)})
        result = await client.call_tool(
            kind.__name__.removesuffix("Tool"), build_arguments(kind, link, "secret")
        )

    assert result.is_error
    assert extract_text(result) == f"<tool_use_error>{format_refusal(link)}</tool_use_error>"
    assert secret.read_text(encoding="utf-8") == SECRET
