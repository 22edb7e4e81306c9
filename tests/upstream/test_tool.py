"""Tools of upstream servers: names, raw definitions, results and failures."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    FileSeen,
    Interrupt,
    Sharing,
    Tool,
    ToolResult,
    build_error_result,
)
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.upstream.config.model import ServerConfig, ToolSelection
from mcp_dispatch.upstream.lifecycle import Timing
from mcp_dispatch.upstream.listener import NullListener
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import RejectedTool, UpstreamTool, build_server_tools
from mcp_dispatch.upstream.transports.open import LaunchContext
from tests.support.upstreams.raw import VENDOR_RESULT, VENDOR_TOOL
from tests.support.upstreams.support import raw_server, read_received, run_supervised, skip_pause


class NoScope:
    id = "scope"
    cwd: Path | None = None

    def find_seen_file(self, path: str) -> FileSeen | None:
        return None

    def is_delivered(self, path: str) -> bool:
        return False


def build_context(**more: Any) -> CallContext:
    return CallContext("call-1", NoScope(), **more)


def expose(server: ServerConfig, tool: str) -> str:
    return f"{server.name}__{tool}"


def list_offered(server: Supervisor, *tools: JsonObject) -> dict[str, UpstreamTool]:
    """The tools that would be offered if the server listed these."""
    server.tools = tools
    return {tool.tool: tool for tool in build_server_tools(server, expose).tools}


def build_definition(name: str, **more: Any) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


async def wait_until_ready(server: Supervisor) -> None:
    with anyio.fail_after(10):
        await server.first_attempt_done.wait()


async def test_a_definition_is_unchanged_except_for_its_name(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        await wait_until_ready(server)
        offer = build_server_tools(server, expose)

    assert (offer.rejected, offer.warnings) == ((), ())
    (vendor,) = [tool for tool in offer.tools if tool.tool == "vendor"]
    as_tool: Tool = vendor
    assert (as_tool.name, as_tool.rule_name, as_tool.server) == (
        "raw__vendor",
        "mcp__raw__vendor",
        "raw",
    )
    assert as_tool.interrupt is Interrupt.CANCEL
    assert as_tool.definition == {**VENDOR_TOOL, "name": "raw__vendor"}
    assert list(as_tool.definition) == list(VENDOR_TOOL)
    assert as_tool.validator.find_problems({"when": None}) == []
    assert len(as_tool.validator.find_problems({"when": 1})) == 1


async def test_a_result_passes_untouched(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        await wait_until_ready(server)
        vendor = list_offered(server, build_definition("vendor"))["vendor"]

        checked = await vendor.check({"a": 1}, build_context())
        result = await vendor.run(checked.arguments, build_context())

    assert checked == CheckResult({"a": 1})
    assert result == ToolResult(VENDOR_RESULT, VENDOR_RESULT, foreign=True)


async def test_a_protocol_error_passes_untouched(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        await wait_until_ready(server)
        fail = list_offered(server, build_definition("fail"))["fail"]

        result = await fail.run({"code": -5, "message": "m", "data": [None]}, build_context())

    assert result == ProtocolError(-5, "m", [None])


async def test_a_call_is_sent_with_the_servers_name_of_the_tool(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = raw_server("raw", "--log", str(log), tools=ToolSelection(rename={"echo": "mirror"}))

    async with run_supervised(tmp_path, config) as server:
        await wait_until_ready(server)
        echo = list_offered(server, build_definition("echo"))["echo"]

        await echo.run({}, build_context(meta={"progressToken": "theirs", "k": 2}))

    assert (echo.name, echo.rule_name) == ("raw__mirror", "mcp__raw__echo")
    assert read_received(log, "tools/call") == [
        {"name": "echo", "arguments": {}, "_meta": {"k": 2, "progressToken": 3}}
    ]


async def test_progress_is_requested_if_the_caller_wants_it(tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    async def note(progress: JsonObject) -> None:
        seen.append(progress)

    async with run_supervised(tmp_path, raw_server()) as server:
        await wait_until_ready(server)
        tool = list_offered(server, build_definition("progress"))["progress"]

        await tool.run({"steps": 2}, build_context(progress=note))

    assert seen == [{"progress": n, "total": 2, "x-unit": None} for n in (1, 2)]


async def test_a_server_that_dies_gives_an_error_result(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server(), pause=skip_pause) as server:
        await wait_until_ready(server)
        crash = list_offered(server, build_definition("crash"))["crash"]

        result = await crash.run({"code": 9}, build_context())

    assert result == build_error_result(
        "<tool_use_error>The server 'raw' exited with code 9 while it ran 'crash'. It is being "
        "restarted. The call was not repeated: check whether it took effect before you try "
        "again.</tool_use_error>"
    )


async def test_a_server_of_the_handshake_era_cannot_return_input_required(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        await wait_until_ready(server)
        odd = list_offered(server, build_definition("odd_result"))["odd_result"]

        result = await odd.run({"result": {"resultType": "input_required"}}, build_context())

    assert result == ProtocolError(-32603, "asks in the way of another protocol version")


async def test_unusable_tools_are_rejected_and_the_others_stay(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server("raw", "--odd-tools")) as server:
        await wait_until_ready(server)
        offer = build_server_tools(server, expose)

        assert server.problem == "lists 1 tool(s) that are not objects"
    held_back = offer.rejected
    assert "vendor" in [tool.tool for tool in offer.tools]
    assert [problem.tool for problem in held_back] == ["?", "hostile", "schemaless"]
    assert all(problem.message.startswith("its inputSchema ") for problem in held_back[1:])
    assert held_back[0] == RejectedTool("raw", "?", "the definition has no name")
    assert not {"hostile", "schemaless"} & {tool.tool for tool in offer.tools}


def build_idle_supervisor(tmp_path: Path, **more: Any) -> Supervisor:
    """A supervisor that is not running: enough where only definitions matter."""
    place = LaunchContext(ProcessGroup(), tmp_path, {}, tmp_path)
    return Supervisor(raw_server("raw", **more), place, Timing(), NullListener())


@pytest.mark.parametrize(
    ("more", "annotations", "expected"),
    [
        ({}, {"readOnlyHint": True}, Sharing.SHARED),
        ({}, {"readOnlyHint": False}, Sharing.EXCLUSIVE),
        ({}, {"readOnlyHint": "true"}, Sharing.EXCLUSIVE),
        ({}, {"readOnlyHint": 1}, Sharing.EXCLUSIVE),
        ({}, None, Sharing.EXCLUSIVE),
        ({}, {}, Sharing.EXCLUSIVE),
        ({"sharing": "server"}, {}, Sharing.SHARED),
        ({"sharing": "shared"}, {}, Sharing.SHARED),
    ],
)
def test_only_a_read_only_tool_or_a_shared_server_is_shared(
    tmp_path: Path, more: dict[str, Any], annotations: Any, expected: Sharing
) -> None:
    tool = list_offered(
        build_idle_supervisor(tmp_path, **more), build_definition("t", annotations=annotations)
    )["t"]

    assert tool.decide_sharing({}) is expected


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (None, 50_000),
        ({}, 50_000),
        ({"anthropic/maxResultSizeChars": 10}, 10),
        ({"anthropic/maxResultSizeChars": 400_000}, 400_000),
        ({"anthropic/maxResultSizeChars": 900_000}, 500_000),
        ({"anthropic/maxResultSizeChars": True}, 50_000),
        ({"anthropic/maxResultSizeChars": 0}, 50_000),
        ({"anthropic/maxResultSizeChars": "9"}, 50_000),
    ],
)
def test_the_limit_of_results_is_the_tools_own_within_bounds(
    tmp_path: Path, meta: Any, expected: int
) -> None:
    assert (
        list_offered(build_idle_supervisor(tmp_path), build_definition("t", _meta=meta))[
            "t"
        ].result_limit
        == expected
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.b/c", "mcp__raw__a_b_c"),
        ("_x__y", "mcp__raw___x__y"),
        ("prénom", "mcp__raw__pr_nom"),
        ("constructor", "mcp__raw__constructor"),
        ("__proto__", "mcp__raw____proto__"),
    ],
)
def test_a_rule_name_has_only_plain_characters(tmp_path: Path, name: str, expected: str) -> None:
    assert (
        list_offered(build_idle_supervisor(tmp_path), build_definition(name))[name].rule_name
        == expected
    )


def test_a_name_listed_twice_is_offered_once_and_always_the_same_one(tmp_path: Path) -> None:
    server = build_idle_supervisor(tmp_path)
    twice = (build_definition("t", title="first"), build_definition("t", title="second"))

    server.tools = twice
    offer = build_server_tools(server, expose)
    server.tools = twice[::-1]
    reversed_offer = build_server_tools(server, expose)

    assert len(offer.tools) == 1
    assert offer == reversed_offer
    message = "the name is listed 2 times; one of them is offered"
    assert offer.warnings == (RejectedTool("raw", "t", message),)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the definition has no name"),
        ("x" * 10_000, "its name has 10000 characters; at most 256 are taken"),
        ("a\nb", "its name has control or invisible characters"),
        ("a\0", "its name has control or invisible characters"),
        ("\x1b[31mred", "its name has control or invisible characters"),
        ("Re\u200bad", "its name has control or invisible characters"),
        ("a\u202eb", "its name has control or invisible characters"),
    ],
)
def test_an_unprintable_name_rejects_only_its_tool(tmp_path: Path, name: str, message: str) -> None:
    server = build_idle_supervisor(tmp_path)
    server.tools = (build_definition(name), build_definition("good"))

    offer = build_server_tools(server, expose)

    assert [tool.tool for tool in offer.tools] == ["good"]
    assert [problem.message for problem in offer.rejected] == [message]
    assert str(offer.rejected[0]).isprintable()
    assert len(str(offer.rejected[0])) < 500


def test_two_tools_that_rules_could_not_tell_apart_are_never_both_offered(tmp_path: Path) -> None:
    server = build_idle_supervisor(tmp_path)
    server.tools = (build_definition("a.b"), build_definition("a b"), build_definition("a_b"))

    offer = build_server_tools(server, expose)

    assert [tool.tool for tool in offer.tools] == ["a_b"]
    assert [str(problem) for problem in offer.rejected] == [
        f"raw: {name!r}: rules would take it for 'a_b': both are mcp__raw__a_b to them"
        for name in ("a b", "a.b")
    ]


def test_a_look_alike_name_gets_another_rule_name(tmp_path: Path) -> None:
    names = ("Read", "R\u0435ad", "\uff32ead", "cafe\u0301", "caf\u00e9")

    tools = list_offered(build_idle_supervisor(tmp_path), *map(build_definition, names))

    rule_names = {name: tool.rule_name for name, tool in tools.items()}
    assert rule_names["Read"] == "mcp__raw__Read"
    assert len({*rule_names.values()}) == len(rule_names)
    assert all(name.isascii() for name in rule_names.values())


@given(st.permutations(range(6)))
def test_the_order_in_which_a_server_lists_changes_nothing(order: list[int]) -> None:
    every = [
        build_definition(name, title=str(at))
        for at, name in enumerate(["a", "b", "a.b", "b", "é", ""])
    ]
    server = build_idle_supervisor(Path("/nowhere"))
    server.tools = tuple(every)
    expected = build_server_tools(server, expose)

    server.tools = tuple(every[at] for at in order)

    assert build_server_tools(server, expose) == expected


def test_a_schema_is_compiled_once_while_it_stays_the_same(tmp_path: Path) -> None:
    server = build_idle_supervisor(tmp_path)
    flag: JsonObject = {"type": "object", "properties": {"x": {"const": True}}}
    number: JsonObject = {"type": "object", "properties": {"x": {"const": 1}}}

    first = list_offered(server, {"name": "t", "inputSchema": flag})["t"].validator
    same = list_offered(server, {"name": "t", "inputSchema": flag}, build_definition("u"))[
        "t"
    ].validator
    other = list_offered(server, {"name": "t", "inputSchema": number})["t"].validator

    assert same is first
    assert first.find_problems({"x": True}) == other.find_problems({"x": 1}) == []
    assert len(other.find_problems({"x": True})) == 1


def test_tools_are_chosen_by_name_and_pattern(tmp_path: Path) -> None:
    choice = ToolSelection(include=("read_*", "list"), exclude=("read_secret",))
    names = ("read_file", "read_secret", "list", "list_all", "write")

    offered = list_offered(
        build_idle_supervisor(tmp_path, tools=choice), *map(build_definition, names)
    )

    assert list(offered) == ["list", "read_file"]
