"""Tests of how the answers of several hooks are merged."""

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


def build_hook(command: HookCommand, event: HookEventName = HookEventName.PRE_TOOL_USE) -> Hook:
    return Hook(event, AllMatcher(), command, FILE)


def merge_pre_answers(*answers: HookAnswer) -> PreHookResult:
    return merge_pre_tool_use(
        "Bash",
        [
            HookReply(build_hook(HookCommand(f"h{index}")), answer)
            for index, answer in enumerate(answers)
        ],
    )


def merge_post_answers(*answers: HookAnswer) -> PostHookResult:
    post = HookEventName.POST_TOOL_USE
    return merge_post_tool_use(
        "Bash",
        [
            HookReply(build_hook(HookCommand(f"h{index}"), post), answer)
            for index, answer in enumerate(answers)
        ],
    )


def build_origin(command: str) -> Origin:
    return Origin("settings.json", rule=command)


def test_every_decision_becomes_a_vote_in_its_tier() -> None:
    merged = merge_pre_answers(
        HookAnswer(Effect.ALLOW, "fine"),
        HookAnswer(),
        HookAnswer(Effect.ASK, "sure?"),
        HookAnswer(Effect.DENY, "never"),
    )

    assert merged == PreHookResult(
        votes=(
            Vote(Tier.ALLOW, Effect.ALLOW, "fine", build_origin("h0")),
            Vote(Tier.HARD_ASK, Effect.ASK, "sure?", build_origin("h2")),
            Vote(Tier.DENY, Effect.DENY, "never", build_origin("h3")),
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
def test_a_decision_without_a_reason_gets_a_default_reason(effect: Effect, reason: str) -> None:
    assert [vote.reason for vote in merge_pre_answers(HookAnswer(effect)).votes] == [reason]


def test_contexts_accumulate_in_order_with_their_event_and_tool() -> None:
    merged = merge_pre_answers(HookAnswer(context="one"), HookAnswer(), HookAnswer(context="two"))

    assert merged == PreHookResult(
        contexts=(
            "PreToolUse:Bash hook additional context: one",
            "PreToolUse:Bash hook additional context: two",
        )
    )


def test_the_last_rewrite_wins() -> None:
    merged = merge_pre_answers(
        HookAnswer(changes=HookChanges(rewrite={"a": 1})),
        HookAnswer(changes=HookChanges(rewrite={"a": 2})),
        HookAnswer(),
    )

    assert merged == PreHookResult(rewrite=Rewrite({"a": 2}, "h1 in settings.json"))


def test_a_deny_drops_the_rewrite() -> None:
    merged = merge_pre_answers(
        HookAnswer(changes=HookChanges(rewrite={"a": 1})), HookAnswer(Effect.DENY, "no")
    )

    assert merged.rewrite is None


def test_all_stop_reasons_are_joined() -> None:
    merged = merge_pre_answers(
        HookAnswer(changes=HookChanges(stop_reason="one")),
        HookAnswer(),
        HookAnswer(changes=HookChanges(stop_reason="two")),
    )

    assert merged == PreHookResult(stopped="one; two")


def test_a_failure_is_not_a_decision() -> None:
    assert merge_pre_answers(HookAnswer(failure=HookFailure("killed"))) == PreHookResult()


def test_the_block_of_a_post_hook_precedes_its_context() -> None:
    merged = merge_post_answers(
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


def test_a_hook_with_an_unsure_match_can_deny_but_not_allow() -> None:
    unsure = MatchedHook(build_hook(HookCommand("x")), sure=False)
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
        build_hook(HookCommand("x", background=True, block_on_failure=True)), sure=True
    )
    answer = HookAnswer(
        effect,
        "r",
        "c",
        message="m",
        failure=HookFailure("f"),
        changes=HookChanges(rewrite={"a": 1}, stop_reason="stop"),
    )

    reply = build_reply(background, answer, "Bash")

    assert reply.answer == HookAnswer(context="c", message="m", failure=HookFailure("f"))


@pytest.mark.parametrize(
    ("failure", "description"),
    [(HookFailure("f"), "failed"), (HookFailure("f", timed_out=True), "timed out")],
)
def test_a_failure_blocks_if_on_failure_is_block(failure: HookFailure, description: str) -> None:
    guard = MatchedHook(build_hook(HookCommand("x", block_on_failure=True)), sure=True)

    reply = build_reply(guard, HookAnswer(failure=failure), "Bash")

    reason = (
        f'PreToolUse:Bash hook error: [x]: {description}; blocking because onFailure is "block"'
    )
    assert reply.answer == HookAnswer(Effect.DENY, reason, failure=failure)
