"""Whether a client lists again when it is told that its list has changed, and is waited for."""

import anyio

from mcp_dispatch.server.list_changed import (
    RELIST_TIMEOUT_SECONDS,
    SETTLE_SECONDS,
    ListChangedTracker,
)


async def ignore_notice() -> None:
    """A notice that nobody reacts to."""


async def test_a_client_that_lists_again_is_waited_for() -> None:
    relisting = ListChangedTracker()
    relisting.record_list()
    order: list[str] = []
    told = anyio.Event()

    async def notify() -> None:
        order.append("told")
        told.set()

    async def list_again() -> None:
        await told.wait()
        order.append("listed")
        relisting.record_list()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again)
        with anyio.fail_after(30):
            assert await relisting.notify_and_wait(notify)
        order.append("answered")

    assert order == ["told", "listed", "answered"]
    assert relisting.is_current


async def test_a_list_from_before_the_notice_does_not_count() -> None:
    relisting = ListChangedTracker()
    relisting.record_list()
    relisting.record_list()

    assert not await relisting.notify_and_wait(ignore_notice)


async def test_one_that_did_not_list_again_is_still_told_but_never_waited_for_again() -> None:
    relisting = ListChangedTracker()
    relisting.record_list()
    told: list[float] = []

    async def notify() -> None:
        told.append(anyio.current_time())

    started = anyio.current_time()
    assert not await relisting.notify_and_wait(notify)
    waited = anyio.current_time() - started
    with anyio.fail_after(RELIST_TIMEOUT_SECONDS / 2):
        assert not await relisting.notify_and_wait(notify)

    assert len(told) == 2
    assert waited >= RELIST_TIMEOUT_SECONDS * 0.9
    assert not relisting.is_current


async def test_one_that_never_listed_is_not_told() -> None:
    async def notify() -> None:
        raise AssertionError("told")

    assert not await ListChangedTracker().notify_and_wait(notify)


async def test_a_client_that_does_not_read_does_not_hold_the_answer_for_ever() -> None:
    relisting = ListChangedTracker()
    relisting.record_list()

    with anyio.fail_after(30):
        assert not await relisting.notify_and_wait(anyio.sleep_forever)


async def test_the_client_has_a_moment_to_take_the_list_in() -> None:
    relisting = ListChangedTracker()
    relisting.record_list()

    async def notify() -> None:
        relisting.record_list()

    started = anyio.current_time()
    assert await relisting.notify_and_wait(notify)

    assert anyio.current_time() - started >= SETTLE_SECONDS * 0.9
