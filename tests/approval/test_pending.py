"""The desk: each question is answered once, stays for a while, and goes with its call."""

from dataclasses import replace

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcp_dispatch.approval.approver import HEARTBEAT, Approver, AskFallback, telling_that_we_wait
from mcp_dispatch.approval.pending import MOST_LEFT, OPEN_SECONDS, Desk
from mcp_dispatch.model.approval import Approved, Declined, Extent, LeftWithClient, Offer, Question
from mcp_dispatch.model.json import JsonObject
from tests.approval.test_approver import QUESTION, forget
from tests.support.stand_ins import ScriptedCaller

KEYED = replace(QUESTION, key="this call", scope="scope")
OFFERED = replace(KEYED, offer=Offer(("Bash(npm test:*)",)))


def a_desk(now: list[float] | None = None) -> Desk:
    desk = Desk(clock=lambda: now[0]) if now else Desk()
    desk.reachable = True
    return desk


async def test_a_question_that_was_left_is_answered_for_the_same_call_once() -> None:
    desk = a_desk()
    desk.leave(KEYED, forget)

    assert await desk.answer(desk.open[0].id, Approved()) is None

    assert desk.open == []
    assert desk.take(replace(KEYED, key="another call")) is None
    assert desk.take(KEYED) == Approved()
    assert desk.take(KEYED) is None


async def test_of_two_answers_the_first_counts() -> None:
    desk = a_desk()
    desk.leave(KEYED, forget)
    id = desk.open[0].id

    first = await desk.answer(id, Declined("no"))
    second = await desk.answer(id, Approved())

    assert (first, second) == (None, "the question has been answered already")
    assert desk.take(KEYED) == Declined("no")
    assert await desk.answer(id, Approved()) == (
        "the question is gone: it was answered, withdrawn or too old"
    )


async def test_a_question_is_gone_after_ten_minutes() -> None:
    now = [0.0]
    desk = a_desk(now)
    desk.leave(KEYED, forget)
    id = desk.open[0].id
    now[0] = OPEN_SECONDS + 1

    assert desk.open == []
    assert await desk.answer(id, Approved()) is not None
    assert desk.take(KEYED) is None


async def test_an_answer_is_gone_after_ten_minutes_too() -> None:
    now = [0.0]
    desk = a_desk(now)
    desk.leave(KEYED, forget)
    await desk.answer(desk.open[0].id, Approved())
    now[0] = OPEN_SECONDS + 1

    assert desk.take(KEYED) is None


def test_the_same_call_made_again_asks_one_question_not_two() -> None:
    desk = a_desk()
    desk.leave(KEYED, forget)
    id = desk.open[0].id

    desk.leave(KEYED, forget)

    assert [lying.id for lying in desk.open] == [id]


def test_the_oldest_questions_make_room() -> None:
    desk = a_desk()
    for number in range(MOST_LEFT + 3):
        desk.leave(replace(KEYED, key=str(number)), forget)

    assert [lying.question.key for lying in desk.open] == [
        str(number) for number in range(3, MOST_LEFT + 3)
    ]


def test_a_scope_that_ends_takes_its_questions_along() -> None:
    desk = a_desk()
    desk.leave(KEYED, forget)
    desk.leave(replace(KEYED, key="other", scope="other"), forget)

    desk.withdraw_scope("scope")

    assert [lying.question.scope for lying in desk.open] == ["other"]


async def test_what_was_not_offered_is_no_answer() -> None:
    desk = a_desk()
    desk.leave(OFFERED, forget)
    id = desk.open[0].id

    assert await desk.answer(id, Approved(Extent.ALWAYS)) == (
        "'always' is not offered for this question"
    )
    assert await desk.answer(id, Approved(Extent.SESSION)) is None


async def test_a_lasting_yes_to_a_call_that_is_over_is_set_down_and_leaves_nothing_to_use() -> None:
    desk, kept = a_desk(), list[Approved]()

    async def keep(yes: Approved) -> None:
        kept.append(yes)

    desk.leave(OFFERED, keep)
    await desk.answer(desk.open[0].id, Approved(Extent.SESSION))

    assert kept == [Approved(Extent.SESSION)]
    assert desk.take(OFFERED) is None


async def test_a_call_that_is_cancelled_takes_its_question_along() -> None:
    desk, ids = a_desk(), list[str]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.wait, KEYED, forget, 60)
        await wait_all_tasks_blocked()
        ids += [lying.id for lying in desk.open]
        tasks.cancel_scope.cancel()

    assert desk.open == []
    assert await desk.answer(ids[0], Approved()) is not None
    assert desk.take(KEYED) is None


async def test_a_question_that_nobody_answers_in_time_stays_under_its_number() -> None:
    desk, ids, replies = a_desk(), list[str](), list[object]()

    async def wait() -> None:
        replies.append(await desk.wait(KEYED, forget, 0.05))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await wait_all_tasks_blocked()
        ids += [lying.id for lying in desk.open]

    assert replies == [None]
    assert [lying.id for lying in desk.open] == ids
    assert await desk.answer(ids[0], Approved()) is None
    assert desk.take(KEYED) == Approved()


async def ask(approver: Approver, question: Question = KEYED, **more: str | None) -> object:
    caller = ScriptedCaller()
    uncovered = more.get("uncovered")
    return await approver.ask(question, caller, uncovered=uncovered, remember=forget)


async def test_an_attached_terminal_is_asked_when_the_client_cannot_be() -> None:
    desk = a_desk()
    desk.terminals = 1
    replies: list[object] = []

    async def one() -> None:
        replies.append(await ask(Approver(AskFallback.CLIENT, desk=desk)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await wait_all_tasks_blocked()
        await desk.answer(desk.open[0].id, Declined("the user refused"))

    assert replies == [Declined("the user refused")]


@pytest.mark.parametrize("reply", [Declined("no"), Approved(), LeftWithClient({})])
async def test_a_client_that_answers_is_the_only_one_asked(
    reply: Declined | Approved | LeftWithClient,
) -> None:
    desk = a_desk()
    desk.terminals = 1
    caller = ScriptedCaller(reply=reply)

    said = await Approver(desk=desk).ask(KEYED, caller, uncovered=None, remember=forget)

    assert said == reply
    assert desk.open == []


async def test_a_terminal_that_is_silent_denies_and_the_client_fallback_is_not_used() -> None:
    desk = a_desk()
    desk.terminals = 1

    reply = await ask(Approver(AskFallback.CLIENT, desk=desk, timeout=0.05))

    assert reply == Declined(
        "nobody answered the question within 0.05 seconds. The user can answer with "
        "`mcp-dispatch approvals` in a terminal within 10 minutes; make exactly the same call "
        'again after that. To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )


async def test_with_nobody_to_ask_the_question_stays_and_the_same_call_uses_the_answer() -> None:
    desk = a_desk()
    approver = Approver(desk=desk, command="mcp-dispatch approvals --state-dir /s")

    first = await ask(approver, replace(KEYED, allow_line=None))
    await desk.answer(desk.open[0].id, Approved())
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
    desk = Desk()

    reply = await ask(Approver(desk=desk))

    assert reply == Declined(
        "this client cannot be asked. "
        'To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )
    assert desk.open == []


async def test_a_client_that_asked_for_progress_hears_that_its_call_waits() -> None:
    caller, heard = ScriptedCaller(), anyio.Event()

    async def note(params: JsonObject) -> None:
        await caller.progress(params)
        if len(caller.progressed) == 2:
            heard.set()

    with anyio.fail_after(30):
        async with telling_that_we_wait(note, every=0.01):
            await heard.wait()

    assert caller.progressed[:2] == [{"progress": 0, "message": "waiting for approval"}] * 2
    assert HEARTBEAT == 5
