"""Whether a client lists again when it is told that its list has changed, and is waited for."""

import anyio

from mcp_dispatch.server.list_changed import RELIST_SECONDS, SETTLE_SECONDS, Relisting


async def ignored() -> None:
    """A notice that nobody reacts to."""


async def test_a_client_that_lists_again_is_waited_for() -> None:
    relisting = Relisting()
    relisting.listed()
    order: list[str] = []
    told = anyio.Event()

    async def notify() -> None:
        order.append("told")
        told.set()

    async def list_again() -> None:
        await told.wait()
        order.append("listed")
        relisting.listed()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(list_again)
        with anyio.fail_after(30):
            assert await relisting.notice(notify)
        order.append("answered")

    assert order == ["told", "listed", "answered"]
    assert relisting.follows


async def test_a_list_from_before_the_notice_does_not_count() -> None:
    relisting = Relisting()
    relisting.listed()
    relisting.listed()

    assert not await relisting.notice(ignored)


async def test_one_that_did_not_list_again_is_still_told_but_never_waited_for_again() -> None:
    relisting = Relisting()
    relisting.listed()
    told: list[float] = []

    async def notify() -> None:
        told.append(anyio.current_time())

    started = anyio.current_time()
    assert not await relisting.notice(notify)
    waited = anyio.current_time() - started
    with anyio.fail_after(RELIST_SECONDS / 2):
        assert not await relisting.notice(notify)

    assert len(told) == 2
    assert waited >= RELIST_SECONDS * 0.9
    assert not relisting.follows


async def test_one_that_never_listed_is_not_told() -> None:
    async def notify() -> None:
        raise AssertionError("told")

    assert not await Relisting().notice(notify)


async def test_a_client_that_does_not_read_does_not_hold_the_answer_for_ever() -> None:
    relisting = Relisting()
    relisting.listed()

    with anyio.fail_after(30):
        assert not await relisting.notice(anyio.sleep_forever)


async def test_the_client_has_a_moment_to_take_the_list_in() -> None:
    relisting = Relisting()
    relisting.listed()

    async def notify() -> None:
        relisting.listed()

    started = anyio.current_time()
    assert await relisting.notice(notify)

    assert anyio.current_time() - started >= SETTLE_SECONDS * 0.9
