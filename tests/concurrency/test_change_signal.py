"""`ChangeSignal`: every waiting task wakes, once per notification."""

import anyio
from anyio import wait_all_tasks_blocked

from mcp_dispatch.concurrency.change_signal import ChangeSignal


async def test_a_notification_wakes_every_task_that_waits() -> None:
    signal, woken = ChangeSignal(), list[str]()

    async def wait(name: str) -> None:
        await signal.wait()
        woken.append(name)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "first")
            tasks.start_soon(wait, "second")
            await wait_all_tasks_blocked()
            assert woken == []
            signal.notify()

    assert sorted(woken) == ["first", "second"]


async def test_a_task_that_waits_after_a_notification_waits_for_the_next_one() -> None:
    signal, woken = ChangeSignal(), list[str]()

    async def wait() -> None:
        await signal.wait()
        woken.append("woken")

    signal.notify()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await wait_all_tasks_blocked()
            assert woken == []
            signal.notify()

    assert woken == ["woken"]


async def test_wait_until_returns_only_once_its_condition_holds() -> None:
    signal, counts, returned = ChangeSignal(), list[int](), list[int]()

    async def wait() -> None:
        await signal.wait_until(lambda: len(counts) == 2)
        returned.append(len(counts))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            for count in (1, 2):
                await wait_all_tasks_blocked()
                assert returned == []
                counts.append(count)
                signal.notify()

    assert returned == [2]
