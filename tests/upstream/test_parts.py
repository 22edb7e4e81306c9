"""Backoff, stderr logs, pagination and progress."""

from pathlib import Path

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.backoff import Backoff
from mcp_dispatch.upstream.pagination import MAX_PAGES, MAX_TOOLS, Listing, read_pages
from mcp_dispatch.upstream.requests.progress import ProgressQueue
from mcp_dispatch.upstream.transports.process import StderrLog


def test_delays_double_to_the_maximum_and_never_overflow() -> None:
    backoff = Backoff(jitter=lambda: 0.0)

    waits = [backoff.compute_delay(failures) for failures in (1, 2, 3, 4, 5, 6, 7, 8, 10**9)]

    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_adds_up_to_half_and_stays_under_the_maximum() -> None:
    backoff = Backoff(jitter=lambda: 1.0)

    assert [backoff.compute_delay(failures) for failures in (1, 2, 7)] == [0.75, 1.5, 30]


def test_failures_are_counted_anew_after_a_stable_time() -> None:
    backoff = Backoff(stable_uptime=60)

    assert [backoff.count_failures(4, lived) for lived in (0, 59.9, 60)] == [5, 5, 1]


def test_a_log_keeps_its_newest_text_and_one_older_copy(tmp_path: Path) -> None:
    with StderrLog(tmp_path / "logs", "s", limit=10) as log:
        for text in (b"aaaaaa\n", b"bbbbbb\n", b"cccccc\n"):
            log.write(text)

    assert log.path.read_bytes() == b"cccccc\n"
    assert (tmp_path / "logs" / "s.stderr.log.1").read_bytes() == b"bbbbbb\n"


def test_a_text_over_the_limit_keeps_its_end(tmp_path: Path) -> None:
    with StderrLog(tmp_path, "s", limit=4) as log:
        log.write(b"123456789")

    assert log.path.read_bytes() == b"6789"


def test_two_processes_with_one_log_do_not_rotate_it_twice(tmp_path: Path) -> None:
    with StderrLog(tmp_path, "s", limit=10) as ours, StderrLog(tmp_path, "s", limit=10) as theirs:
        ours.write(b"aaaaaa\n")
        theirs.write(b"bbbbbb\n")
        ours.write(b"cccc\n")

    assert ours.path.read_bytes() == b"bbbbbb\ncccc\n"
    assert (tmp_path / "s.stderr.log.1").read_bytes() == b"aaaaaa\n"


def test_a_log_is_never_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "s.stderr.log").symlink_to(victim)

    try:
        with StderrLog(tmp_path, "s") as log:
            log.write(b"x")
    except OSError:
        pass

    assert victim.read_bytes() == b"precious"


async def read_listing(answer: JsonObject) -> Listing:
    async def page(_: JsonObject) -> JsonObject:
        return answer

    return await read_pages(page)


async def test_entries_that_are_no_objects_are_left_out_of_a_list() -> None:
    tools: list[Json] = [{"name": "a"}, 7, None, {"name": "b"}]

    assert await read_listing({"tools": tools}) == Listing(
        ({"name": "a"}, {"name": "b"}), "lists 2 tool(s) that are not objects"
    )


async def test_an_answer_without_a_list_is_an_empty_list_with_a_problem() -> None:
    assert await read_listing({}) == Listing((), "answered 'tools/list' without a list of tools")


async def test_a_list_is_cut_at_the_most_tools() -> None:
    tools: list[Json] = [{"name": str(number)} for number in range(MAX_TOOLS + 1)]

    listing = await read_listing({"tools": tools})

    assert (len(listing.entries), listing.problem) == (5000, "lists more than 5000 tools")


async def test_an_endless_list_ends() -> None:
    asked: list[JsonObject] = []

    async def page(params: JsonObject) -> JsonObject:
        asked.append(params)
        return {"tools": [], "nextCursor": str(len(asked))}

    listing = await read_pages(page)

    assert listing == Listing((), "lists its tools on more than 200 pages")
    assert len(asked) == MAX_PAGES


async def test_a_client_far_behind_gets_the_newest_progress() -> None:
    delivered: list[Json] = []

    async def deliver(progress: JsonObject) -> None:
        await anyio.lowlevel.checkpoint()
        delivered.append(progress["progress"])

    queue = ProgressQueue(deliver)
    for number in range(5000):
        queue.put({"progress": number})
    queue.finish()
    with anyio.fail_after(5):
        await queue.run()

    assert delivered == list(range(4000, 5000))
