"""Approvals that hold for longer than one call: for the session or always, never against a rule."""

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
    """A dispatcher whose questions are answered through `PendingApprovals`, with a file for
    "always"."""
    async with open_dispatcher(folder, *tools) as fixture:
        approvals = PendingApprovals()
        approvals.reachable = True

        def reread() -> None:
            path = file()
            fixture.apply_settings(
                {} if path is None else json.loads(path.read_text(encoding="utf-8"))
            )

        approver = Approver(fallback, pending=approvals, rule_writer=AllowRuleWriter(file, reread))
        store = ResultStore(folder / "results")
        fixture.dispatcher = Dispatcher(
            Services(lambda: fixture.snapshot, approver, store, fixture.journal)
        )
        yield fixture, approvals


def extract_refusal(outcome: Outcome) -> str:
    assert isinstance(outcome, Refusal)
    return outcome.message


async def test_a_session_approval_covers_similar_calls_only(tmp_path: Path) -> None:
    tool = RecordingTool("Bash")
    yes, silent = ScriptedCaller(reply=SESSION), ScriptedCaller(reply=Declined("no"))
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.call("Bash", yes, command="npm test")
        same = await fixture.call("Bash", silent, command="npm test -- -v")
        other = await fixture.call("Bash", silent, command="npm publish")
        longer = await fixture.call("Bash", silent, command="npm test && npm publish")

    assert yes.questions[0].options == RememberOptions(("Bash(npm test:*)",))
    assert extract_texts(same) == ["done"]
    assert isinstance(other, Refusal)
    assert isinstance(longer, Refusal)
    assert len(silent.questions) == 2


async def test_a_session_approval_ends_with_the_session(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        await fixture.call("T", ScriptedCaller(reply=SESSION))
        fixture.scope = Scope(tmp_path, limit=10)
        outcome = await fixture.call("T")

    assert isinstance(outcome, Refusal)


@pytest.mark.parametrize("closed", [{"deny": ["T"]}, {"ask": ["T"]}])
async def test_a_session_approval_does_not_override_a_later_rule(
    tmp_path: Path, closed: dict[str, list[str]]
) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.call("T", ScriptedCaller(reply=SESSION))
        fixture.apply_settings({"permissions": closed})
        outcome = await fixture.call("T", ScriptedCaller(reply=Declined("no")))

    assert isinstance(outcome, Refusal)
    assert len(tool.calls) == 1


async def test_a_session_approval_does_not_cover_a_protected_path(tmp_path: Path) -> None:
    tool = RecordingTool("Write")
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.call("Write", ScriptedCaller(reply=SESSION), file_path=str(tmp_path / "a"))
        caller = ScriptedCaller(reply=Declined("no"))
        outcome = await fixture.call("Write", caller, file_path=str(tmp_path / ".git" / "config"))

    assert isinstance(outcome, Refusal)
    assert caller.questions[0].decision.by.reason == "it writes a protected path"
    assert caller.questions[0].options == RememberOptions()


async def test_a_question_of_a_hook_is_asked_for_every_call(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    caller = ScriptedCaller(reply=ONCE)
    rules = {"hooks": hooks_for("PreToolUse", print_output(permissionDecision="ask"))}
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(rules).call("T", caller)

    assert caller.questions[0].options == RememberOptions()
    assert caller.questions[0].allow_line is None


async def test_a_question_of_the_tool_can_be_approved_for_the_session(tmp_path: Path) -> None:
    tool = RecordingTool("T", ask=ToolAsk("sure?"))
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.call("T", ScriptedCaller(reply=SESSION))
        again = await fixture.call("T")

    assert extract_texts(again) == ["done"]


async def test_an_upstream_tool_with_a_changed_definition_is_asked_again(tmp_path: Path) -> None:
    class Described(RecordingTool):
        @property
        def definition(self) -> JsonObject:
            return {"name": self.name, "description": self.said}

        said = "reads"

    tool = Described("git__log", server="git", rule="mcp__git__log")
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.call("git__log", ScriptedCaller(reply=SESSION))
        same = await fixture.call("git__log")
        tool.said = "deletes"
        changed = await fixture.call("git__log")
        tool.said = "reads"
        fixture.scope.forget_approvals({"mcp__git__log"})
        forgotten = await fixture.call("git__log")

    assert extract_texts(same) == ["done"]
    assert isinstance(changed, Refusal)
    assert isinstance(forgotten, Refusal)


async def test_an_always_approval_is_written_and_effective_at_once(tmp_path: Path) -> None:
    own = tmp_path / "config" / "1.json"
    tool = RecordingTool("git__log", server="git", rule="mcp__git__log")
    caller = ScriptedCaller(reply=ALWAYS)
    async with open_approvals(tmp_path, tool, file=lambda: own) as (fixture, _):
        await fixture.call("git__log", caller)
        again = await fixture.call("git__log")

    assert caller.questions[0].options == RememberOptions(("mcp__git__log",), own)
    assert extract_texts(again) == ["done"]
    written = json.loads(own.read_text(encoding="utf-8"))
    assert written["permissions"] == {"allow": ["mcp__git__log"]}
    assert list(written["approvedDefinitions"]) == ["mcp__git__log"]


async def test_an_always_approval_that_cannot_be_written_allows_this_call_only(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.json"
    own.write_text("{", encoding="utf-8")
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool, file=lambda: own) as (fixture, _):
        first = await fixture.call("T", ScriptedCaller(reply=ALWAYS))
        second = await fixture.call("T")

    assert extract_texts(first) == ["done"]
    assert isinstance(second, Refusal)
    assert own.read_text(encoding="utf-8") == "{"


async def test_a_lasting_approval_is_not_stored_when_a_new_rule_asks(tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    async with open_approvals(tmp_path, RecordingTool("T"), file=lambda: own) as (fixture, _):

        async def always_but_the_rules_change(_: object) -> Approved:
            fixture.apply_settings({"permissions": {"ask": ["T"]}})
            return ALWAYS

        outcome = await fixture.call("T", ScriptedCaller(reply=always_but_the_rules_change))

    assert extract_texts(outcome) == ["done"]
    assert not own.exists()


@pytest.mark.parametrize(("decision", "held"), [("allow for this session", True), ("x", False)])
async def test_a_retried_call_stores_its_lasting_approval(
    tmp_path: Path, decision: str, held: bool
) -> None:
    answer: JsonObject = {"action": "accept", "content": {"decision": decision}}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        first = await fixture.call("T", ScriptedCaller(reply=AskDeferred({})))
        assert isinstance(first, Suspended)
        asked = fixture.scope.pending_questions.pop(first.state, {"name": "T", "arguments": {}})
        assert asked is not None
        assert asked == AskedContext(PreHookResult(), {}, RememberOptions(("T",)))
        call = ToolCall("again", "use", "T", {}, approval_answer=ApprovalAnswer(asked, answer))
        second = await fixture.dispatcher.dispatch(call, fixture.scope, ScriptedCaller())
        third = await fixture.call("T")

    assert isinstance(second, Refusal) is not held
    assert isinstance(third, Refusal) is not held


async def test_without_a_client_to_ask_a_later_approval_is_used_once_by_the_same_call(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (fixture, approvals):
        first = await fixture.call("T", x=1)
        await approvals.answer(approvals.unanswered[0].id, ONCE)
        other = await fixture.call("T", x=True)
        scope, fixture.scope = fixture.scope, Scope(tmp_path, limit=10)
        elsewhere = await fixture.call("T", x=1)
        fixture.scope = scope
        same = await fixture.call("T", x=1)
        again = await fixture.call("T", x=1)

    assert "make exactly the same call again" in extract_refusal(first)
    assert [isinstance(each, Refusal) for each in (other, elsewhere, same, again)] == [
        *(True, True, False, True)
    ]
    assert tool.calls == [{"x": 1}]


async def test_a_new_deny_rule_wins_over_a_later_approval(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (fixture, approvals):
        await fixture.call("T")
        await approvals.answer(approvals.unanswered[0].id, ONCE)
        fixture.apply_settings({"permissions": {"deny": ["T"]}})
        outcome = await fixture.call("T")

    assert "has been denied" in extract_refusal(outcome)
    assert tool.calls == []


async def test_an_approval_for_another_reason_is_not_used(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool) as (fixture, approvals):
        await fixture.call("T")
        await approvals.answer(approvals.unanswered[0].id, ONCE)
        fixture.apply_settings({"permissions": {"ask": ["T"]}})
        outcome = await fixture.call("T")

    assert isinstance(outcome, Refusal)
    assert tool.calls == []


async def test_later_session_and_always_approvals_hold_for_the_repeated_call(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.json"
    first, second = RecordingTool("A"), RecordingTool("B")
    async with open_approvals(tmp_path, first, second, file=lambda: own) as (fixture, approvals):
        await fixture.call("A")
        await approvals.answer(approvals.unanswered[0].id, SESSION)
        await fixture.call("B")
        await approvals.answer(approvals.unanswered[0].id, ALWAYS)
        outcomes = [await fixture.call(name) for name in "AABB"]

    assert [extract_texts(outcome) for outcome in outcomes] == [["done"]] * 4
    assert json.loads(own.read_text(encoding="utf-8")) == {"permissions": {"allow": ["B"]}}


async def test_a_call_that_waits_for_approval_holds_no_slot(tmp_path: Path) -> None:
    asked, free = RecordingTool("Asked"), RecordingTool("Free")
    ended: list[str] = []
    async with open_approvals(tmp_path, asked, free) as (fixture, approvals):
        approvals.terminal_count = 1
        fixture.apply_settings({"permissions": {"allow": ["Free"]}})

        async def one(name: str) -> None:
            assert extract_texts(await fixture.call(name)) == ["done"]
            ended.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "Asked")
            await wait_all_tasks_blocked()
            await one("Free")
            await approvals.answer(approvals.unanswered[0].id, ONCE)

    assert ended == ["Free", "Asked"]


async def test_the_client_fallback_never_covers_a_call_through_call_tool(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_approvals(tmp_path, tool, fallback=AskFallback.CLIENT) as (fixture, _):
        call = ToolCall("call", "use", "T", {}, via_call_tool=True)
        enveloped = await fixture.dispatcher.dispatch(call, fixture.scope, ScriptedCaller())
        plain = await fixture.dispatcher.dispatch(
            replace(call, via_call_tool=False), fixture.scope, ScriptedCaller()
        )
        recorded = fixture.read_journal()

    assert "--ask-fallback client does not cover a call through call_tool" in extract_refusal(
        enveloped
    )
    assert extract_texts(plain) == ["done"]
    assert recorded[-1]["approved"] == {"by": "fallback", "extent": "once"}


async def test_the_denial_of_an_ask_rule_suggests_no_allow_line(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        outcome = await fixture.apply_settings({"permissions": {"ask": ["T"]}}).call("T")

    assert extract_refusal(outcome) == (
        "Permission to use T was not given: an ask rule wants a person to confirm it "
        f"(T in {tmp_path / 'settings.json'}:1); this client cannot be asked."
    )
