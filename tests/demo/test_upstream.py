"""The demo upstream server that ships with the package."""

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
async def open_demo(folder: Path) -> AsyncGenerator[ConnectionUnderTest, None]:
    with anyio.fail_after(20):
        async with open_connection(folder, DEMO) as session:
            await session.connection.negotiate(10)
            yield session


async def call_tool(
    session: ConnectionUnderTest, tool: str, **arguments: Any
) -> JsonObject | ProtocolError:
    return await session.call(tool, arguments, meta={}, progress=None, timeout=10)


def build_text_result(message: str) -> JsonObject:
    return {"content": [{"type": "text", "text": message}]}


async def test_the_demo_server_lists_four_tools_with_descriptions(tmp_path: Path) -> None:
    async with open_demo(tmp_path) as session:
        listing = await session.connection.list_tools(10)

    assert [tool["name"] for tool in listing.entries] == [
        "roll_dice",
        "remember",
        "recall",
        "count_slowly",
    ]
    assert all(tool["description"] for tool in listing.entries)


async def test_dice_rolls_are_between_one_and_the_number_of_sides(tmp_path: Path) -> None:
    async with open_demo(tmp_path) as session:
        result = await call_tool(session, "roll_dice", sides=6, count=50)

    match result:
        case {"structuredContent": {"rolls": list() as rolls, "total": total}}:
            assert len(rolls) == 50
            assert set(rolls) <= {1, 2, 3, 4, 5, 6}
            assert total == sum(roll for roll in rolls if isinstance(roll, int))
        case _:
            pytest.fail(f"no rolls in {result}")


async def test_notes_are_recalled_in_order(tmp_path: Path) -> None:
    async with open_demo(tmp_path) as session:
        before = await call_tool(session, "recall")
        await call_tool(session, "remember", note="milk")
        noted = await call_tool(session, "remember", note="bread")
        after = await call_tool(session, "recall")

    assert before == build_text_result("No notes yet. Make one with remember.")
    assert noted == build_text_result("Noted. 2 note(s) so far.")
    assert after == build_text_result("1. milk\n2. bread")


async def test_invalid_arguments_get_an_error_with_the_expected_range(tmp_path: Path) -> None:
    async with open_demo(tmp_path) as session:
        result = await call_tool(session, "roll_dice", sides=1)
        unknown = await call_tool(session, "fly")

    expected = "sides must be a whole number from 2 to 1000, got 1"
    assert result == {**build_text_result(expected), "isError": True}
    assert unknown == ProtocolError(-32602, "Unknown tool: fly")


async def test_slow_counting_reports_its_progress(tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    async def record_progress(progress: JsonObject) -> None:
        seen.append(progress)

    async with open_demo(tmp_path) as session:
        result = await session.call(
            "count_slowly", {"to": 2}, meta={}, progress=record_progress, timeout=10
        )

    assert result == build_text_result("Counted to 2.")
    assert seen == [
        {"progress": 1, "total": 2, "message": "counted to 1"},
        {"progress": 2, "total": 2, "message": "counted to 2"},
    ]


async def test_slow_counting_stops_when_it_is_cancelled(tmp_path: Path) -> None:
    started = anyio.Event()
    seen: list[JsonObject] = []

    async def record_progress(progress: JsonObject) -> None:
        seen.append(progress)
        started.set()

    async with open_demo(tmp_path) as session:

        async def count() -> None:
            await session.call(
                "count_slowly", {"to": 100}, meta={}, progress=record_progress, timeout=30
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            await started.wait()
            tasks.cancel_scope.cancel()
        again = await call_tool(session, "recall")

    assert len(seen) == 1
    assert again == build_text_result("No notes yet. Make one with remember.")


def test_the_demo_server_imports_only_the_standard_library() -> None:
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
