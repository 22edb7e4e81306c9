"""The small upstream that ships with the package."""

import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from tests.support.upstreams.support import ConnectionUnderTest, open_connection

DEMO = ServerConfig("demo", StdioEndpoint(sys.executable, ("-m", "mcp_dispatch.demo.upstream")))


@asynccontextmanager
async def demo(folder: Path) -> AsyncGenerator[ConnectionUnderTest, None]:
    with anyio.fail_after(20):
        async with open_connection(folder, DEMO) as session:
            await session.connection.negotiate(10)
            yield session


async def call(
    session: ConnectionUnderTest, tool: str, **arguments: Any
) -> JsonObject | ProtocolError:
    return await session.call(tool, arguments, meta={}, progress=None, timeout=10)


def text(message: str) -> JsonObject:
    return {"content": [{"type": "text", "text": message}]}


async def test_it_lists_four_described_tools(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        listing = await session.connection.list_tools(10)

    assert [tool["name"] for tool in listing.entries] == [
        "roll_dice",
        "remember",
        "recall",
        "count_slowly",
    ]
    assert all(tool["description"] for tool in listing.entries)


async def test_dice_stay_within_their_sides(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        result = await call(session, "roll_dice", sides=6, count=50)

    match result:
        case {"structuredContent": {"rolls": list() as rolls, "total": total}}:
            assert len(rolls) == 50
            assert set(rolls) <= {1, 2, 3, 4, 5, 6}
            assert total == sum(roll for roll in rolls if isinstance(roll, int))
        case _:
            pytest.fail(f"no rolls in {result}")


async def test_notes_are_recalled_in_order(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        before = await call(session, "recall")
        await call(session, "remember", note="milk")
        noted = await call(session, "remember", note="bread")
        after = await call(session, "recall")

    assert before == text("No notes yet. Make one with remember.")
    assert noted == text("Noted. 2 note(s) so far.")
    assert after == text("1. milk\n2. bread")


async def test_bad_arguments_are_answered_with_what_is_expected(tmp_path: Path) -> None:
    async with demo(tmp_path) as session:
        result = await call(session, "roll_dice", sides=1)
        unknown = await call(session, "fly")

    expected = "sides must be a whole number from 2 to 1000, got 1"
    assert result == {**text(expected), "isError": True}
    assert unknown == ProtocolError(-32602, "Unknown tool: fly")


async def test_slow_counting_reports_its_progress(tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    async def note(progress: JsonObject) -> None:
        seen.append(progress)

    async with demo(tmp_path) as session:
        result = await session.call("count_slowly", {"to": 2}, meta={}, progress=note, timeout=10)

    assert result == text("Counted to 2.")
    assert seen == [
        {"progress": 1, "total": 2, "message": "counted to 1"},
        {"progress": 2, "total": 2, "message": "counted to 2"},
    ]


async def test_slow_counting_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    begun = anyio.Event()
    seen: list[JsonObject] = []

    async def note(progress: JsonObject) -> None:
        seen.append(progress)
        begun.set()

    async with demo(tmp_path) as session:

        async def count() -> None:
            await session.call("count_slowly", {"to": 100}, meta={}, progress=note, timeout=30)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await begun.wait()
            tasks.cancel_scope.cancel()
        again = await call(session, "recall")

    assert len(seen) == 1
    assert again == text("No notes yet. Make one with remember.")


def test_it_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, mcp_dispatch.demo.upstream; "
        "names = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names; "
        "print(sorted(name for name in names if not name.startswith('_')), "
        "sorted(name for name in sys.modules if name.startswith('mcp_dispatch')))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )

    assert result.stdout == (
        "['mcp_dispatch'] ['mcp_dispatch', 'mcp_dispatch.demo', 'mcp_dispatch.demo.upstream']\n"
    )
