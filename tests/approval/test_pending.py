"""The desk: each question is answered once, stays for a while, and goes with its call."""

from dataclasses import replace

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcp_dispatch.approval.approver import (
    HEARTBEAT_SECONDS,
    Approver,
    AskFallback,
    approval_heartbeat,
)
from mcp_dispatch.approval.pending import ANSWER_WINDOW_SECONDS, MAX_DETACHED, PendingApprovals
from mcp_dispatch.model.approval import (
    ApprovalScope,
    Approved,
    AskDeferred,
    Declined,
    Question,
    RememberOptions,
)
from mcp_dispatch.model.json import JsonObject
from tests.approval.test_approver import QUESTION, forget
from tests.support.stand_ins import ScriptedCaller

KEYED_QUESTION = replace(QUESTION, key="this call", scope_id="scope")
OFFERED_QUESTION = replace(KEYED_QUESTION, options=RememberOptions(("Bash(npm test:*)",)))


def create_pending(now: list[float] | None = None) -> PendingApprovals:
    desk = PendingApprovals(clock=lambda: now[0]) if now else PendingApprovals()
    desk.reachable = True
    return desk


async def test_a_question_that_was_left_is_answered_for_the_same_call_once() -> None:
    desk = create_pending()
    desk.add_detached(KEYED_QUESTION, forget)

    assert await desk.answer(desk.unanswered[0].id, Approved()) is None

    assert desk.unanswered == []
    assert desk.pop_answer(replace(KEYED_QUESTION, key="another call")) is None
    assert desk.pop_answer(KEYED_QUESTION) == Approved()
    assert desk.pop_answer(KEYED_QUESTION) is None


async def test_of_two_answers_the_first_counts() -> None:
    desk = create_pending()
    desk.add_detached(KEYED_QUESTION, forget)
    id = desk.unanswered[0].id

    first = await desk.answer(id, Declined("no"))
    second = await desk.answer(id, Approved())

    assert (first, second) == (None, "the question has been answered already")
    assert desk.pop_answer(KEYED_QUESTION) == Declined("no")
    assert await desk.answer(id, Approved()) == (
        "the question is gone: it was answered, withdrawn or too old"
    )


async def test_a_question_is_gone_after_ten_minutes() -> None:
    now = [0.0]
    desk = create_pending(now)
    desk.add_detached(KEYED_QUESTION, forget)
    id = desk.unanswered[0].id
    now[0] = ANSWER_WINDOW_SECONDS + 1

    assert desk.unanswered == []
    assert await desk.answer(id, Approved()) is not None
    assert desk.pop_answer(KEYED_QUESTION) is None


async def test_an_answer_is_gone_after_ten_minutes_too() -> None:
    now = [0.0]
    desk = create_pending(now)
    desk.add_detached(KEYED_QUESTION, forget)
    await desk.answer(desk.unanswered[0].id, Approved())
    now[0] = ANSWER_WINDOW_SECONDS + 1

    assert desk.pop_answer(KEYED_QUESTION) is None


def test_the_same_call_made_again_asks_one_question_not_two() -> None:
    desk = create_pending()
    desk.add_detached(KEYED_QUESTION, forget)
    id = desk.unanswered[0].id

    desk.add_detached(KEYED_QUESTION, forget)

    assert [lying.id for lying in desk.unanswered] == [id]


def test_the_oldest_questions_make_room() -> None:
    desk = create_pending()
    for number in range(MAX_DETACHED + 3):
        desk.add_detached(replace(KEYED_QUESTION, key=str(number)), forget)

    assert [lying.question.key for lying in desk.unanswered] == [
        str(number) for number in range(3, MAX_DETACHED + 3)
    ]


def test_a_scope_that_ends_takes_its_questions_along() -> None:
    desk = create_pending()
    desk.add_detached(KEYED_QUESTION, forget)
    desk.add_detached(replace(KEYED_QUESTION, key="other", scope_id="other"), forget)

    desk.remove_scope("scope")

    assert [lying.question.scope_id for lying in desk.unanswered] == ["other"]


async def test_what_was_not_offered_is_no_answer() -> None:
    desk = create_pending()
    desk.add_detached(OFFERED_QUESTION, forget)
    id = desk.unanswered[0].id

    assert await desk.answer(id, Approved(ApprovalScope.ALWAYS)) == (
        "'always' is not offered for this question"
    )
    assert await desk.answer(id, Approved(ApprovalScope.SESSION)) is None


async def test_a_lasting_yes_to_a_call_that_is_over_is_set_down_and_leaves_nothing_to_use() -> None:
    desk, kept = create_pending(), list[Approved]()

    async def keep(yes: Approved) -> None:
        kept.append(yes)

    desk.add_detached(OFFERED_QUESTION, keep)
    await desk.answer(desk.unanswered[0].id, Approved(ApprovalScope.SESSION))

    assert kept == [Approved(ApprovalScope.SESSION)]
    assert desk.pop_answer(OFFERED_QUESTION) is None


async def test_a_call_that_is_cancelled_takes_its_question_along() -> None:
    desk, ids = create_pending(), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.wait_for_answer, KEYED_QUESTION, forget, 60)
        await wait_all_tasks_blocked()
        ids += [lying.id for lying in desk.unanswered]
        tasks.cancel_scope.cancel()

    assert desk.unanswered == []
    assert await desk.answer(ids[0], Approved()) is not None
    assert desk.pop_answer(KEYED_QUESTION) is None


async def test_a_question_that_nobody_answers_in_time_stays_under_its_number() -> None:
    desk, ids, replies = create_pending(), list[str](), list[object]()

    async def wait() -> None:
        replies.append(await desk.wait_for_answer(KEYED_QUESTION, forget, 0.05))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await wait_all_tasks_blocked()
        ids += [lying.id for lying in desk.unanswered]

    assert replies == [None]
    assert [lying.id for lying in desk.unanswered] == ids
    assert await desk.answer(ids[0], Approved()) is None
    assert desk.pop_answer(KEYED_QUESTION) == Approved()


async def ask(
    approver: Approver, question: Question = KEYED_QUESTION, **more: str | None
) -> object:
    caller = ScriptedCaller()
    uncovered = more.get("uncovered")
    return await approver.ask(question, caller, not_covered_by_client=uncovered, remember=forget)


async def test_an_attached_terminal_is_asked_when_the_client_cannot_be() -> None:
    desk = create_pending()
    desk.terminal_count = 1
    replies: list[object] = []

    async def one() -> None:
        replies.append(await ask(Approver(AskFallback.CLIENT, pending=desk)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await wait_all_tasks_blocked()
        await desk.answer(desk.unanswered[0].id, Declined("the user refused"))

    assert replies == [Declined("the user refused")]


@pytest.mark.parametrize("reply", [Declined("no"), Approved(), AskDeferred({})])
async def test_a_client_that_answers_is_the_only_one_asked(
    reply: Declined | Approved | AskDeferred,
) -> None:
    desk = create_pending()
    desk.terminal_count = 1
    caller = ScriptedCaller(reply=reply)

    said = await Approver(pending=desk).ask(
        KEYED_QUESTION, caller, not_covered_by_client=None, remember=forget
    )

    assert said == reply
    assert desk.unanswered == []


async def test_a_terminal_that_is_silent_denies_and_the_client_fallback_is_not_used() -> None:
    desk = create_pending()
    desk.terminal_count = 1

    reply = await ask(Approver(AskFallback.CLIENT, pending=desk, timeout=0.05))

    assert reply == Declined(
        "nobody answered the question within 0.05 seconds. The user can answer with "
        "`mcp-dispatch approvals` in a terminal within 10 minutes; make exactly the same call "
        'again after that. To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )


async def test_with_nobody_to_ask_the_question_stays_and_the_same_call_uses_the_answer() -> None:
    desk = create_pending()
    approver = Approver(pending=desk, command="mcp-dispatch approvals --state-dir /s")

    first = await ask(approver, replace(KEYED_QUESTION, allow_line=None))
    await desk.answer(desk.unanswered[0].id, Approved())
    second = await ask(approver)
    third = await ask(approver)

    assert first == Declined(
        "this client cannot be asked. The user can answer with "
        "`mcp-dispatch approvals --state-dir /s` in a terminal within 10 minutes; make exactly "
        "the same call again after that"
    )
    assert second == Approved()
    assert isinstance(third, Declined)


async def test_where_no_terminal_can_come_nobody_is_told_to_open_one() -> None:
    desk = PendingApprovals()

    reply = await ask(Approver(pending=desk))

    assert reply == Declined(
        "this client cannot be asked. "
        'To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )
    assert desk.unanswered == []


async def test_a_client_that_asked_for_progress_hears_that_its_call_waits() -> None:
    caller, heard = ScriptedCaller(), anyio.Event()

    async def note(params: JsonObject) -> None:
        await caller.progress(params)
        if len(caller.progressed) == 2:
            heard.set()

    with anyio.fail_after(30):
        async with approval_heartbeat(note, interval=0.01):
            await heard.wait()

    assert caller.progressed[:2] == [{"progress": 0, "message": "waiting for approval"}] * 2
    assert HEARTBEAT_SECONDS == 5
