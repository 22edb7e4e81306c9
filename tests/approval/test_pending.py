"""Pending approvals: each question is answered once, expires, and is removed with its call."""

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
from mcp_dispatch.approval.pending import MAX_DETACHED, PendingApprovals
from mcp_dispatch.model.approval import (
    ApprovalScope,
    Approved,
    AskDeferred,
    Declined,
    Question,
    RememberOptions,
)
from mcp_dispatch.model.client import PENDING_SECONDS
from mcp_dispatch.model.json import JsonObject
from tests.support.questions import KEYED_QUESTION, forget
from tests.support.stand_ins import ScriptedCaller

OFFERED_QUESTION = replace(KEYED_QUESTION, options=RememberOptions(("Bash(npm test:*)",)))


def create_pending(now: list[float] | None = None) -> PendingApprovals:
    pending = PendingApprovals(clock=lambda: now[0]) if now else PendingApprovals()
    pending.reachable = True
    return pending


async def test_the_answer_to_a_detached_question_is_used_once_by_the_same_call() -> None:
    pending = create_pending()
    pending.add_detached(KEYED_QUESTION, forget)

    assert await pending.answer(pending.unanswered[0].id, Approved()) is None

    assert pending.unanswered == []
    assert pending.pop_answer(replace(KEYED_QUESTION, key="another call")) is None
    assert pending.pop_answer(KEYED_QUESTION) == Approved()
    assert pending.pop_answer(KEYED_QUESTION) is None


async def test_of_two_answers_the_first_counts() -> None:
    pending = create_pending()
    pending.add_detached(KEYED_QUESTION, forget)
    id = pending.unanswered[0].id

    first = await pending.answer(id, Declined("no"))
    second = await pending.answer(id, Approved())

    assert (first, second) == (None, "the question has been answered already")
    assert pending.pop_answer(KEYED_QUESTION) == Declined("no")
    assert await pending.answer(id, Approved()) == (
        "the question is gone: it was answered, withdrawn or too old"
    )


async def test_a_detached_question_expires_after_ten_minutes() -> None:
    now = [0.0]
    pending = create_pending(now)
    pending.add_detached(KEYED_QUESTION, forget)
    id = pending.unanswered[0].id
    now[0] = PENDING_SECONDS + 1

    assert pending.unanswered == []
    assert await pending.answer(id, Approved()) is not None
    assert pending.pop_answer(KEYED_QUESTION) is None


async def test_the_answer_to_a_detached_question_expires_after_ten_minutes() -> None:
    now = [0.0]
    pending = create_pending(now)
    pending.add_detached(KEYED_QUESTION, forget)
    await pending.answer(pending.unanswered[0].id, Approved())
    now[0] = PENDING_SECONDS + 1

    assert pending.pop_answer(KEYED_QUESTION) is None


def test_the_same_call_made_again_asks_one_question_not_two() -> None:
    pending = create_pending()
    pending.add_detached(KEYED_QUESTION, forget)
    id = pending.unanswered[0].id

    pending.add_detached(KEYED_QUESTION, forget)

    assert [approval.id for approval in pending.unanswered] == [id]


def test_the_oldest_detached_questions_are_dropped_over_the_limit() -> None:
    pending = create_pending()
    for number in range(MAX_DETACHED + 3):
        pending.add_detached(replace(KEYED_QUESTION, key=str(number)), forget)

    assert [approval.question.key for approval in pending.unanswered] == [
        str(number) for number in range(3, MAX_DETACHED + 3)
    ]


def test_the_questions_of_a_scope_are_removed_with_it() -> None:
    pending = create_pending()
    pending.add_detached(KEYED_QUESTION, forget)
    pending.add_detached(replace(KEYED_QUESTION, key="other", scope_id="other"), forget)

    pending.remove_scope("scope")

    assert [approval.question.scope_id for approval in pending.unanswered] == ["other"]


async def test_an_answer_that_was_not_offered_is_rejected() -> None:
    pending = create_pending()
    pending.add_detached(OFFERED_QUESTION, forget)
    id = pending.unanswered[0].id

    assert await pending.answer(id, Approved(ApprovalScope.ALWAYS)) == (
        "'always' is not offered for this question"
    )
    assert await pending.answer(id, Approved(ApprovalScope.SESSION)) is None


async def test_a_lasting_approval_of_an_ended_call_is_saved_and_its_answer_is_not_kept() -> None:
    pending, kept = create_pending(), list[Approved]()

    async def keep(yes: Approved) -> None:
        kept.append(yes)

    pending.add_detached(OFFERED_QUESTION, keep)
    await pending.answer(pending.unanswered[0].id, Approved(ApprovalScope.SESSION))

    assert kept == [Approved(ApprovalScope.SESSION)]
    assert pending.pop_answer(OFFERED_QUESTION) is None


async def test_cancelling_a_call_removes_its_question() -> None:
    pending, ids = create_pending(), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pending.wait_for_answer, KEYED_QUESTION, forget, 60)
        await wait_all_tasks_blocked()
        ids += [approval.id for approval in pending.unanswered]
        tasks.cancel_scope.cancel()

    assert pending.unanswered == []
    assert await pending.answer(ids[0], Approved()) is not None
    assert pending.pop_answer(KEYED_QUESTION) is None


async def test_a_question_without_an_answer_in_time_stays_under_its_id() -> None:
    pending, ids, replies = create_pending(), list[str](), list[object]()

    async def wait() -> None:
        replies.append(await pending.wait_for_answer(KEYED_QUESTION, forget, 0.05))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await wait_all_tasks_blocked()
        ids += [approval.id for approval in pending.unanswered]

    assert replies == [None]
    assert [approval.id for approval in pending.unanswered] == ids
    assert await pending.answer(ids[0], Approved()) is None
    assert pending.pop_answer(KEYED_QUESTION) == Approved()


async def ask(
    approver: Approver, question: Question = KEYED_QUESTION, **more: str | None
) -> object:
    caller = ScriptedCaller()
    uncovered = more.get("uncovered")
    return await approver.ask(question, caller, not_covered_by_client=uncovered, remember=forget)


async def test_an_attached_terminal_is_asked_when_the_client_cannot_be_asked() -> None:
    pending = create_pending()
    pending.terminal_count = 1
    replies: list[object] = []

    async def one() -> None:
        replies.append(await ask(Approver(AskFallback.CLIENT, pending=pending)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await wait_all_tasks_blocked()
        await pending.answer(pending.unanswered[0].id, Declined("the user refused"))

    assert replies == [Declined("the user refused")]


@pytest.mark.parametrize("reply", [Declined("no"), Approved(), AskDeferred({})])
async def test_no_terminal_is_asked_when_the_client_answers(
    reply: Declined | Approved | AskDeferred,
) -> None:
    pending = create_pending()
    pending.terminal_count = 1
    caller = ScriptedCaller(reply=reply)

    said = await Approver(pending=pending).ask(
        KEYED_QUESTION, caller, not_covered_by_client=None, remember=forget
    )

    assert said == reply
    assert pending.unanswered == []


async def test_an_attached_terminal_without_an_answer_denies_despite_the_client_fallback() -> None:
    pending = create_pending()
    pending.terminal_count = 1

    reply = await ask(Approver(AskFallback.CLIENT, pending=pending, timeout=0.05))

    assert reply == Declined(
        "nobody answered the question within 0.05 seconds. The user can answer with "
        "`mcp-dispatch approvals` in a terminal within 10 minutes; make exactly the same call "
        'again after that. To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )


async def test_when_nobody_can_be_asked_the_question_is_detached_and_the_same_call_uses_its_answer() -> (
    None
):
    pending = create_pending()
    approver = Approver(pending=pending, command="mcp-dispatch approvals --state-dir /s")

    first = await ask(approver, replace(KEYED_QUESTION, allow_line=None))
    await pending.answer(pending.unanswered[0].id, Approved())
    second = await ask(approver)
    third = await ask(approver)

    assert first == Declined(
        "this client cannot be asked. The user can answer with "
        "`mcp-dispatch approvals --state-dir /s` in a terminal within 10 minutes; make exactly "
        "the same call again after that"
    )
    assert second == Approved()
    assert isinstance(third, Declined)


async def test_without_a_socket_the_message_does_not_suggest_a_terminal() -> None:
    pending = PendingApprovals()

    reply = await ask(Approver(pending=pending))

    assert reply == Declined(
        "this client cannot be asked. "
        'To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )
    assert pending.unanswered == []


async def test_a_client_with_a_progress_token_is_notified_that_its_call_waits() -> None:
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
