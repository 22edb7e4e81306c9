"""The order in which calls are admitted, and which run side by side."""

from collections.abc import Callable

import anyio
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from mcp_dispatch.concurrency.admission import Admission, Slot
from mcp_dispatch.model.tools import Sharing

SHARED, EXCLUSIVE = Sharing.SHARED, Sharing.EXCLUSIVE


class AdmissionFixture:
    """Calls that start, are recorded while they run, and end when the test releases them."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.running: list[str] = []
        self._ends: dict[str, anyio.Event] = {}

    async def call(self, name: str, sharing: Sharing) -> None:
        self._ends[name] = anyio.Event()
        async with self.admission.acquire_slot(sharing):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)

    def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()


async def test_reads_run_together_and_a_write_alone_in_order_of_arrival() -> None:
    stage = AdmissionFixture(Admission())
    groups: list[list[str]] = []
    async with anyio.create_task_group() as tg:
        for name in ("r1", "r2", "W", "r3", "r4"):
            tg.start_soon(stage.call, name, EXCLUSIVE if name == "W" else SHARED)

        for ending in (("r1", "r2"), ("W",), ("r3", "r4")):
            await wait_all_tasks_blocked()
            groups.append(list(stage.running))
            stage.end(*ending)

    assert groups == [["r1", "r2"], ["W"], ["r3", "r4"]]


async def test_at_most_the_limit_of_shared_calls_run_at_once() -> None:
    stage = AdmissionFixture(Admission(limit=3))
    names = [f"r{n}" for n in range(5)]
    running: list[str] = []
    async with anyio.create_task_group() as tg:
        for name in names:
            tg.start_soon(stage.call, name, SHARED)

        await wait_all_tasks_blocked()
        running += stage.running
        stage.end(*names)

    assert running == ["r0", "r1", "r2"]


async def test_a_call_cancelled_while_it_queues_leaves_the_queue() -> None:
    stage = AdmissionFixture(Admission())
    running: list[str] = []
    async with anyio.create_task_group() as tg:
        tg.start_soon(stage.call, "r1", SHARED)
        await wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as inner:
                inner.start_soon(stage.call, "W", EXCLUSIVE)
                await wait_all_tasks_blocked()
                scope.cancel()
                await checkpoint()
        tg.start_soon(stage.call, "r2", SHARED)

        await wait_all_tasks_blocked()
        running += stage.running
        stage.end("r1", "r2")

    assert running == ["r1", "r2"]
    assert stage.admission.running == 0


async def test_a_call_cancelled_when_it_is_admitted_keeps_no_slot() -> None:
    admission = Admission()
    ran: list[str] = []

    async def queued(scope: anyio.CancelScope) -> None:
        with scope:
            async with admission.acquire_slot(EXCLUSIVE):
                await checkpoint()
                ran.append("cancelled")

    async with anyio.create_task_group() as tg:
        scope = anyio.CancelScope()
        async with admission.acquire_slot(EXCLUSIVE):
            tg.start_soon(queued, scope)
            await wait_all_tasks_blocked()
        scope.cancel()

    assert (ran, admission.running) == ([], 0)


async def test_a_call_that_is_already_cancelled_is_not_admitted() -> None:
    admission = Admission()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with admission.acquire_slot(EXCLUSIVE):
            raise AssertionError("a cancelled call was admitted")

    assert admission.running == 0


async def test_a_released_slot_lets_later_calls_run_and_queues_again_at_the_end() -> None:
    admission = Admission()
    order: list[str] = []
    answered = anyio.Event()

    async def asks() -> None:
        async with admission.acquire_slot(EXCLUSIVE) as slot:
            slot.release()
            await answered.wait()
            await slot.acquire()
            order.append("asked")

    async def plain(name: str, then: Callable[[], object]) -> None:
        async with admission.acquire_slot(EXCLUSIVE):
            order.append(name)
            then()

    async with anyio.create_task_group() as tg:
        tg.start_soon(asks)
        tg.start_soon(plain, "overtook", answered.set)
        tg.start_soon(plain, "next", lambda: None)

    assert order == ["overtook", "next", "asked"]
    assert admission.running == 0


async def test_a_rewrite_that_makes_a_call_exclusive_waits_for_the_running_calls() -> None:
    admission = Admission()
    stage = AdmissionFixture(admission)
    became = anyio.Event()
    early: list[bool] = []

    async def rewritten() -> None:
        async with admission.acquire_slot(SHARED) as slot:
            await slot.change_sharing(EXCLUSIVE)
            became.set()

    async with anyio.create_task_group() as tg:
        tg.start_soon(stage.call, "r1", SHARED)
        await wait_all_tasks_blocked()
        tg.start_soon(rewritten)
        await wait_all_tasks_blocked()
        early.append(became.is_set())
        stage.end("r1")

    assert (early, became.is_set()) == ([False], True)
    assert admission.running == 0


async def test_ten_thousand_queued_calls_all_run() -> None:
    admission = Admission()
    ran = 0

    async def one() -> None:
        nonlocal ran
        async with admission.acquire_slot(EXCLUSIVE if ran % 7 == 0 else SHARED):
            ran += 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tg:
            for _ in range(10_000):
                tg.start_soon(one)

    assert (ran, admission.running, admission.waiting) == (10_000, 0, 0)


async def test_a_slot_is_returned_once_however_often_it_is_released() -> None:
    admission = Admission()
    async with admission.acquire_slot(SHARED) as slot:
        assert isinstance(slot, Slot)
        slot.release()
        slot.release()

    assert admission.running == 0
