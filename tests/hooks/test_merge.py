"""Several answers made one."""

from pathlib import Path

import pytest

from mcp_dispatch.hooks.actions import HookCommand
from mcp_dispatch.hooks.config import Hook, MatchedHook
from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.matcher import AllMatcher
from mcp_dispatch.hooks.merge import HookReply, build_reply, merge_post_tool_use, merge_pre_tool_use
from mcp_dispatch.hooks.output import HookAnswer, HookChanges, HookFailure
from mcp_dispatch.model.calls import PostHookResult, PreHookResult, Rewrite
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote

FILE = Path("settings.json")


def hook(command: HookCommand, event: HookEventName = HookEventName.PRE_TOOL_USE) -> Hook:
    return Hook(event, AllMatcher(), command, FILE)


def before(*answers: HookAnswer) -> PreHookResult:
    return merge_pre_tool_use(
        "Bash",
        [HookReply(hook(HookCommand(f"h{at}")), answer) for at, answer in enumerate(answers)],
    )


def after(*answers: HookAnswer) -> PostHookResult:
    post = HookEventName.POST_TOOL_USE
    return merge_post_tool_use(
        "Bash",
        [HookReply(hook(HookCommand(f"h{at}"), post), answer) for at, answer in enumerate(answers)],
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

    assert merged == PreHookResult(
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

    assert merged == PreHookResult(
        contexts=(
            "PreToolUse:Bash hook additional context: one",
            "PreToolUse:Bash hook additional context: two",
        )
    )


def test_the_last_rewrite_stands() -> None:
    merged = before(
        HookAnswer(changes=HookChanges(rewrite={"a": 1})),
        HookAnswer(changes=HookChanges(rewrite={"a": 2})),
        HookAnswer(),
    )

    assert merged == PreHookResult(rewrite=Rewrite({"a": 2}, "h1 in settings.json"))


def test_nothing_is_rewritten_for_a_call_that_is_denied() -> None:
    merged = before(
        HookAnswer(changes=HookChanges(rewrite={"a": 1})), HookAnswer(Effect.DENY, "no")
    )

    assert merged.rewrite is None


def test_all_reasons_to_stop_are_kept() -> None:
    merged = before(
        HookAnswer(changes=HookChanges(stop_reason="one")),
        HookAnswer(),
        HookAnswer(changes=HookChanges(stop_reason="two")),
    )

    assert merged == PreHookResult(stopped="one; two")


def test_an_error_is_no_decision() -> None:
    assert before(HookAnswer(failure=HookFailure("killed"))) == PreHookResult()


def test_after_the_call_a_block_is_told_to_the_model_before_the_contexts_that_follow() -> None:
    merged = after(
        HookAnswer(context="one"),
        HookAnswer(Effect.DENY, "wrong", context="two", changes=HookChanges(stop_reason="enough")),
        HookAnswer(Effect.DENY),
    )

    assert merged == PostHookResult(
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
    unsure = MatchedHook(hook(HookCommand("x")), sure=False)
    note = "it may not be meant for this call; what it allows does not count"

    allowed = build_reply(
        unsure, HookAnswer(Effect.ALLOW, "fine", changes=HookChanges(rewrite={"a": 1})), "Bash"
    )
    denied = build_reply(unsure, HookAnswer(Effect.DENY, "no"), "Bash")

    assert allowed.answer == HookAnswer(notes=(note,), changes=HookChanges(rewrite={"a": 1}))
    assert denied.answer == HookAnswer(Effect.DENY, "no")


@pytest.mark.parametrize("effect", list(Effect))
def test_a_background_hook_decides_nothing(effect: Effect) -> None:
    background = MatchedHook(
        hook(HookCommand("x", background=True, block_on_failure=True)), sure=True
    )
    answer = HookAnswer(
        effect,
        "r",
        "c",
        message="m",
        failure=HookFailure("f"),
        changes=HookChanges(rewrite={"a": 1}, stop_reason="stop"),
    )

    heard = build_reply(background, answer, "Bash")

    assert heard.answer == HookAnswer(context="c", message="m", failure=HookFailure("f"))


@pytest.mark.parametrize(
    ("failure", "how"),
    [(HookFailure("f"), "failed"), (HookFailure("f", timed_out=True), "timed out")],
)
def test_a_failure_blocks_where_the_configuration_says_so(failure: HookFailure, how: str) -> None:
    guard = MatchedHook(hook(HookCommand("x", block_on_failure=True)), sure=True)

    heard = build_reply(guard, HookAnswer(failure=failure), "Bash")

    reason = f'PreToolUse:Bash hook error: [x]: {how}; blocking because onFailure is "block"'
    assert heard.answer == HookAnswer(Effect.DENY, reason, failure=failure)
