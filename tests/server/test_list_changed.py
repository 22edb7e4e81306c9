"""The tracker that waits for a client to list again after a list_changed notification."""

import anyio

from mcp_dispatch.server.list_changed import (
    RELIST_TIMEOUT_SECONDS,
    SETTLE_SECONDS,
    ListChangedTracker,
)


async def ignore_notice() -> None:
    """A notification that the client ignores."""


async def test_the_response_waits_for_a_client_that_lists_again() -> None:
    tracker = ListChangedTracker()
    tracker.record_list()
    order: list[str] = []
    notified = anyio.Event()

    async def notify() -> None:
        order.append("notified")
        notified.set()

    async def list_again() -> None:
        await notified.wait()
        order.append("listed")
        tracker.record_list()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again)
        with anyio.fail_after(30):
            assert await tracker.notify_and_wait(notify)
        order.append("answered")

    assert order == ["notified", "listed", "answered"]
    assert tracker.is_current


async def test_a_list_before_the_notification_does_not_count() -> None:
    tracker = ListChangedTracker()
    tracker.record_list()
    tracker.record_list()

    assert not await tracker.notify_and_wait(ignore_notice)


async def test_a_client_that_did_not_list_again_is_notified_but_not_waited_for_again() -> None:
    tracker = ListChangedTracker()
    tracker.record_list()
    notified: list[float] = []

    async def notify() -> None:
        notified.append(anyio.current_time())

    started = anyio.current_time()
    assert not await tracker.notify_and_wait(notify)
    waited = anyio.current_time() - started
    with anyio.fail_after(RELIST_TIMEOUT_SECONDS / 2):
        assert not await tracker.notify_and_wait(notify)

    assert len(notified) == 2
    assert waited >= RELIST_TIMEOUT_SECONDS * 0.9
    assert not tracker.is_current


async def test_a_client_that_never_listed_is_not_notified() -> None:
    async def notify() -> None:
        raise AssertionError("notified")

    assert not await ListChangedTracker().notify_and_wait(notify)


async def test_a_client_that_does_not_read_delays_the_response_for_a_bounded_time() -> None:
    tracker = ListChangedTracker()
    tracker.record_list()

    with anyio.fail_after(30):
        assert not await tracker.notify_and_wait(anyio.sleep_forever)


async def test_the_client_has_time_to_process_the_list() -> None:
    tracker = ListChangedTracker()
    tracker.record_list()

    async def notify() -> None:
        tracker.record_list()

    started = anyio.current_time()
    assert await tracker.notify_and_wait(notify)

    assert anyio.current_time() - started >= SETTLE_SECONDS * 0.9
