"""Several answers made one."""

from pathlib import Path

import pytest

from mcp_dispatch.hooks.actions import Command
from mcp_dispatch.hooks.config import Hook, Matched
from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.matcher import EveryTool
from mcp_dispatch.hooks.merge import Spoken, afterword, heeded, review
from mcp_dispatch.hooks.output import Failure, HookAnswer
from mcp_dispatch.model.calls import Afterword, Review, Rewrite
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote

FILE = Path("settings.json")


def hook(command: Command, event: Event = Event.PRE_TOOL_USE) -> Hook:
    return Hook(event, EveryTool(), command, FILE)


def before(*answers: HookAnswer) -> Review:
    return review(
        "Bash", [Spoken(hook(Command(f"h{at}")), answer) for at, answer in enumerate(answers)]
    )


def after(*answers: HookAnswer) -> Afterword:
    post = Event.POST_TOOL_USE
    return afterword(
        "Bash", [Spoken(hook(Command(f"h{at}"), post), answer) for at, answer in enumerate(answers)]
    )


def origin(command: str) -> Origin:
    return Origin("settings.json", rule=command)


def test_every_decision_is_a_vote_in_its_tier() -> None:
    merged = before(
        HookAnswer(Effect.ALLOW, "fine"),
        HookAnswer(),
        HookAnswer(Effect.ASK, "sure?"),
        HookAnswer(Effect.DENY, "never"),
    )

    assert merged == Review(
        votes=(
            Vote(Tier.ALLOW, Effect.ALLOW, "fine", origin("h0")),
            Vote(Tier.HARD_ASK, Effect.ASK, "sure?", origin("h2")),
            Vote(Tier.DENY, Effect.DENY, "never", origin("h3")),
        )
    )


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (Effect.ALLOW, "a hook allows it"),
        (Effect.ASK, "a hook wants a person to confirm it"),
        (Effect.DENY, "a hook blocked it and gave no reason"),
    ],
)
def test_a_decision_without_a_reason_gets_one(effect: Effect, reason: str) -> None:
    assert [vote.reason for vote in before(HookAnswer(effect)).votes] == [reason]


def test_contexts_accumulate_in_order_and_say_whose_they_are() -> None:
    merged = before(HookAnswer(context="one"), HookAnswer(), HookAnswer(context="two"))

    assert merged == Review(
        contexts=(
            "PreToolUse:Bash hook additional context: one",
            "PreToolUse:Bash hook additional context: two",
        )
    )


def test_the_last_rewrite_stands() -> None:
    merged = before(HookAnswer(rewrite={"a": 1}), HookAnswer(rewrite={"a": 2}), HookAnswer())

    assert merged == Review(rewrite=Rewrite({"a": 2}, "h1 in settings.json"))


def test_nothing_is_rewritten_for_a_call_that_is_denied() -> None:
    merged = before(HookAnswer(rewrite={"a": 1}), HookAnswer(Effect.DENY, "no"))

    assert merged.rewrite is None


def test_all_reasons_to_stop_are_kept() -> None:
    merged = before(HookAnswer(stopped="one"), HookAnswer(), HookAnswer(stopped="two"))

    assert merged == Review(stopped="one; two")


def test_an_error_is_no_decision() -> None:
    assert before(HookAnswer(failure=Failure("killed"))) == Review()


def test_after_the_call_a_block_is_told_to_the_model_before_the_contexts_that_follow() -> None:
    merged = after(
        HookAnswer(context="one"),
        HookAnswer(Effect.DENY, "wrong", context="two", stopped="enough"),
        HookAnswer(Effect.DENY),
    )

    assert merged == Afterword(
        (
            "PostToolUse:Bash hook additional context: one",
            'PostToolUse:Bash hook blocking error from command: "h1": wrong',
            "PostToolUse:Bash hook additional context: two",
            'PostToolUse:Bash hook blocking error from command: "h2": '
            "a hook blocked it and gave no reason",
        ),
        "enough",
    )


def test_a_hook_that_is_not_surely_meant_can_forbid_but_not_allow() -> None:
    unsure = Matched(hook(Command("x")), sure=False)
    note = "it may not be meant for this call; what it allows does not count"

    allowed = heeded(unsure, HookAnswer(Effect.ALLOW, "fine", rewrite={"a": 1}), "Bash")
    denied = heeded(unsure, HookAnswer(Effect.DENY, "no"), "Bash")

    assert allowed.answer == HookAnswer(rewrite={"a": 1}, notes=(note,))
    assert denied.answer == HookAnswer(Effect.DENY, "no")


@pytest.mark.parametrize("effect", list(Effect))
def test_a_background_hook_decides_nothing(effect: Effect) -> None:
    background = Matched(hook(Command("x", background=True, block_on_failure=True)), sure=True)
    answer = HookAnswer(effect, "r", "c", {"a": 1}, "stop", "m", Failure("f"))

    heard = heeded(background, answer, "Bash")

    assert heard.answer == HookAnswer(context="c", message="m", failure=Failure("f"))


@pytest.mark.parametrize(
    ("failure", "how"), [(Failure("f"), "failed"), (Failure("f", timed_out=True), "timed out")]
)
def test_a_failure_blocks_where_the_configuration_says_so(failure: Failure, how: str) -> None:
    guard = Matched(hook(Command("x", block_on_failure=True)), sure=True)

    heard = heeded(guard, HookAnswer(failure=failure), "Bash")

    reason = f'PreToolUse:Bash hook error: [x]: {how}; blocking because onFailure is "block"'
    assert heard.answer == HookAnswer(Effect.DENY, reason, failure=failure)
