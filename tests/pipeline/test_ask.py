"""A yes that reaches further than one call: for the session, for good, and never past a rule."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcp_dispatch.approval.approver import Approver, AskFallback
from mcp_dispatch.approval.pending import PendingApprovals
from mcp_dispatch.approval.remember import AllowRuleWriter
from mcp_dispatch.model.approval import (
    ApprovalScope,
    Approved,
    AskDeferred,
    Declined,
    RememberOptions,
)
from mcp_dispatch.model.calls import ApprovalAnswer, AskedContext, Outcome, PreHookResult, ToolCall
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import Refusal, Suspended
from mcp_dispatch.model.tools import ToolAsk
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.results.store import ResultStore
from tests.support.dispatcher import (
    DispatcherFixture,
    extract_texts,
    hooks_for,
    open_dispatcher,
    print_output,
)
from tests.support.stand_ins import RecordingTool, ScriptedCaller

ONCE, SESSION, ALWAYS = (Approved(extent) for extent in ApprovalScope)


@asynccontextmanager
async def open_approvals(
    folder: Path,
    *tools: RecordingTool,
    fallback: AskFallback = AskFallback.DENY,
    file: Callable[[], Path | None] = lambda: None,
) -> AsyncGenerator[tuple[DispatcherFixture, PendingApprovals], None]:
    """A line whose questions can be answered at a desk, and where "always" has a file."""
    async with open_dispatcher(folder, *tools) as line:
        desk = PendingApprovals()
        desk.reachable = True

        def reread() -> None:
            path = file()
            line.apply_settings(
                {} if path is None else json.loads(path.read_text(encoding="utf-8"))
            )

        approver = Approver(fallback, pending=desk, rule_writer=AllowRuleWriter(file, reread))
        store = ResultStore(folder / "results")
        line.dispatcher = Dispatcher(Services(lambda: line.snapshot, approver, store, line.journal))
        yield line, desk


def extract_refusal(outcome: Outcome) -> str:
    assert isinstance(outcome, Refusal)
    return outcome.message


async def test_a_yes_for_the_session_covers_its_kind_and_nothing_else(tmp_path: Path) -> None:
    tool = RecordingTool("Bash")
    yes, silent = ScriptedCaller(reply=SESSION), ScriptedCaller(reply=Declined("no"))
    async with open_dispatcher(tmp_path, tool) as line:
        await line.call("Bash", yes, command="npm test")
        same = await line.call("Bash", silent, command="npm test -- -v")
        other = await line.call("Bash", silent, command="npm publish")
        longer = await line.call("Bash", silent, command="npm test && npm publish")

    assert yes.questions[0].options == RememberOptions(("Bash(npm test:*)",))
    assert extract_texts(same) == ["done"]
    assert isinstance(other, Refusal)
    assert isinstance(longer, Refusal)
    assert len(silent.questions) == 2


async def test_a_yes_for_the_session_ends_with_it(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        await line.call("T", ScriptedCaller(reply=SESSION))
        line.scope = Scope(tmp_path, limit=10)
        outcome = await line.call("T")

    assert isinstance(outcome, Refusal)


@pytest.mark.parametrize("closed", [{"deny": ["T"]}, {"ask": ["T"]}])
async def test_a_yes_for_the_session_passes_no_rule_that_comes_later(
    tmp_path: Path, closed: dict[str, list[str]]
) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as line:
        await line.call("T", ScriptedCaller(reply=SESSION))
        line.apply_settings({"permissions": closed})
        outcome = await line.call("T", ScriptedCaller(reply=Declined("no")))

    assert isinstance(outcome, Refusal)
    assert len(tool.calls) == 1


async def test_a_yes_for_the_session_passes_no_protected_path(tmp_path: Path) -> None:
    tool = RecordingTool("Write")
    async with open_dispatcher(tmp_path, tool) as line:
        await line.call("Write", ScriptedCaller(reply=SESSION), file_path=str(tmp_path / "a"))
        caller = ScriptedCaller(reply=Declined("no"))
        outcome = await line.call("Write", caller, file_path=str(tmp_path / ".git" / "config"))

    assert isinstance(outcome, Refusal)
    assert caller.questions[0].decision.by.reason == "it writes a protected path"
    assert caller.questions[0].options == RememberOptions()


async def test_a_hooks_question_is_asked_each_time(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    caller = ScriptedCaller(reply=ONCE)
    rules = {"hooks": hooks_for("PreToolUse", print_output(permissionDecision="ask"))}
    async with open_dispatcher(tmp_path, tool) as line:
        await line.apply_settings(rules).call("T", caller)

    assert caller.questions[0].options == RememberOptions()
    assert caller.questions[0].allow_line is None


async def test_the_tools_own_question_can_be_settled_for_the_session(tmp_path: Path) -> None:
    tool = RecordingTool("T", ask=ToolAsk("sure?"))
    async with open_dispatcher(tmp_path, tool) as line:
        await line.call("T", ScriptedCaller(reply=SESSION))
        again = await line.call("T")

    assert extract_texts(again) == ["done"]


async def test_an_upstream_tool_that_changed_is_asked_again(tmp_path: Path) -> None:
    class Described(RecordingTool):
        @property
        def definition(self) -> JsonObject:
            return {"name": self.name, "description": self.said}

        said = "reads"

    tool = Described("git__log", server="git", rule="mcp__git__log")
    async with open_dispatcher(tmp_path, tool) as line:
        await line.call("git__log", ScriptedCaller(reply=SESSION))
        same = await line.call("git__log")
        tool.said = "deletes"
        changed = await line.call("git__log")
        tool.said = "reads"
        line.scope.forget_approvals({"mcp__git__log"})
        forgotten = await line.call("git__log")

    assert extract_texts(same) == ["done"]
    assert isinstance(changed, Refusal)
    assert isinstance(forgotten, Refusal)


async def test_always_is_written_and_holds_at_once(tmp_path: Path) -> None:
    own = tmp_path / "config" / "1.json"
    tool = RecordingTool("git__log", server="git", rule="mcp__git__log")
    caller = ScriptedCaller(reply=ALWAYS)
    async with open_approvals(tmp_path, tool, file=lambda: own) as (line, _):
        await line.call("git__log", caller)
        again = await line.call("git__log")

    assert caller.questions[0].options == RememberOptions(("mcp__git__log",), own)
    assert extract_texts(again) == ["done"]
    written = json.loads(own.read_text(encoding="utf-8"))
    assert written["permissions"] == {"allow": ["mcp__git__log"]}
    assert list(written["approvedDefinitions"]) == ["mcp__git__log"]


async def test_an_always_that_cannot_be_written_is_a_yes_for_this_call(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text("{", encoding="utf-8")
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool, file=lambda: own) as (line, _):
        first = await line.call("T", ScriptedCaller(reply=ALWAYS))
        second = await line.call("T")

    assert extract_texts(first) == ["done"]
    assert isinstance(second, Refusal)
    assert own.read_text(encoding="utf-8") == "{"


async def test_a_lasting_yes_is_not_set_down_for_a_rule_that_asks_by_now(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    async with open_approvals(tmp_path, RecordingTool("T"), file=lambda: own) as (line, _):

        async def always_but_the_rules_change(_: object) -> Approved:
            line.apply_settings({"permissions": {"ask": ["T"]}})
            return ALWAYS

        outcome = await line.call("T", ScriptedCaller(reply=always_but_the_rules_change))

    assert extract_texts(outcome) == ["done"]
    assert not own.exists()


@pytest.mark.parametrize(("decision", "held"), [("allow for this session", True), ("x", False)])
async def test_a_retried_call_brings_its_lasting_yes_along(
    tmp_path: Path, decision: str, held: bool
) -> None:
    answer: JsonObject = {"action": "accept", "content": {"decision": decision}}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        first = await line.call("T", ScriptedCaller(reply=AskDeferred({})))
        assert isinstance(first, Suspended)
        asked = line.scope.pending_questions.pop(first.state, {"name": "T", "arguments": {}})
        assert asked is not None
        assert asked == AskedContext(PreHookResult(), {}, RememberOptions(("T",)))
        call = ToolCall("again", "use", "T", {}, approval_answer=ApprovalAnswer(asked, answer))
        second = await line.dispatcher.dispatch(call, line.scope, ScriptedCaller())
        third = await line.call("T")

    assert isinstance(second, Refusal) is not held
    assert isinstance(third, Refusal) is not held


async def test_with_nobody_to_ask_the_answer_at_the_desk_is_used_once_by_the_same_call(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (line, desk):
        first = await line.call("T", x=1)
        await desk.answer(desk.unanswered[0].id, ONCE)
        other = await line.call("T", x=True)
        scope, line.scope = line.scope, Scope(tmp_path, limit=10)
        elsewhere = await line.call("T", x=1)
        line.scope = scope
        same = await line.call("T", x=1)
        again = await line.call("T", x=1)

    assert "make exactly the same call again" in extract_refusal(first)
    assert [isinstance(each, Refusal) for each in (other, elsewhere, same, again)] == [
        *(True, True, False, True)
    ]
    assert tool.calls == [{"x": 1}]


async def test_a_rule_that_denies_by_now_stands_above_an_answer_at_the_desk(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (line, desk):
        await line.call("T")
        await desk.answer(desk.unanswered[0].id, ONCE)
        line.apply_settings({"permissions": {"deny": ["T"]}})
        outcome = await line.call("T")

    assert "has been denied" in extract_refusal(outcome)
    assert tool.calls == []


async def test_an_answer_to_another_reason_is_not_used(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (line, desk):
        await line.call("T")
        await desk.answer(desk.unanswered[0].id, ONCE)
        line.apply_settings({"permissions": {"ask": ["T"]}})
        outcome = await line.call("T")

    assert isinstance(outcome, Refusal)
    assert tool.calls == []


async def test_session_and_always_at_the_desk_hold_for_the_call_made_again(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    first, second = RecordingTool("A"), RecordingTool("B")
    async with open_approvals(tmp_path, first, second, file=lambda: own) as (line, desk):
        await line.call("A")
        await desk.answer(desk.unanswered[0].id, SESSION)
        await line.call("B")
        await desk.answer(desk.unanswered[0].id, ALWAYS)
        outcomes = [await line.call(name) for name in "AABB"]

    assert [extract_texts(outcome) for outcome in outcomes] == [["done"]] * 4
    assert json.loads(own.read_text(encoding="utf-8")) == {"permissions": {"allow": ["B"]}}


async def test_a_call_that_waits_at_the_desk_holds_no_slot_and_is_overtaken(tmp_path: Path) -> None:
    asked, free = RecordingTool("Asked"), RecordingTool("Free")
    ended: list[str] = []
    async with open_approvals(tmp_path, asked, free) as (line, desk):
        desk.terminal_count = 1
        line.apply_settings({"permissions": {"allow": ["Free"]}})

        async def one(name: str) -> None:
            assert extract_texts(await line.call(name)) == ["done"]
            ended.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "Asked")
            await wait_all_tasks_blocked()
            await one("Free")
            await desk.answer(desk.unanswered[0].id, ONCE)

    assert ended == ["Free", "Asked"]


async def test_the_client_fallback_never_covers_a_call_through_call_tool(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool, fallback=AskFallback.CLIENT) as (line, _):
        call = ToolCall("call", "use", "T", {}, via_call_tool=True)
        enveloped = await line.dispatcher.dispatch(call, line.scope, ScriptedCaller())
        plain = await line.dispatcher.dispatch(
            replace(call, via_call_tool=False), line.scope, ScriptedCaller()
        )
        recorded = line.read_journal()

    assert "--ask-fallback client does not cover a call through call_tool" in extract_refusal(
        enveloped
    )
    assert extract_texts(plain) == ["done"]
    assert recorded[-1]["approved"] == {"by": "fallback", "extent": "once"}


async def test_the_denial_of_a_hard_question_names_no_line_that_would_not_help(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        outcome = await line.apply_settings({"permissions": {"ask": ["T"]}}).call("T")

    assert extract_refusal(outcome) == (
        "Permission to use T was not given: an ask rule wants a person to confirm it "
        f"(T in {tmp_path / 'settings.json'}:1); this client cannot be asked."
    )
