"""Deferred tools through a real server: found, activated and called, in both eras."""

import sys
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from mcp_types import ElicitResult

from mcp_dispatch.model.json import Json, JsonObject
from tests.support.client import (
    BUILT_INS,
    ERAS,
    Era,
    Installation,
    RawServer,
    extract_raw_text,
    extract_text,
    start_raw_server,
)
from tests.support.demo_upstream import ALWAYS, DEMO, RAW, listed_bytes
from tests.support.http_server_process import start_http_server

FIRST = [*BUILT_INS, "call_tool", "tool_search"]
THROUGH_CALL_TOOL = 'Call them through call_tool: {"name": …, "arguments": {…}}.'
BY_NAME = "They are in your list of tools now: call them by their names."


@pytest.fixture
def deferring(installed: Installation) -> Installation:
    """The demo's tools behind the search, all of them allowed."""
    return installed.add_settings(ALWAYS).add_rules(allow=["mcp__demo"]).add_upstream("demo", *DEMO)


def names(listed: Any) -> list[str]:
    return [tool.name for tool in listed.tools]


@pytest.mark.parametrize("era", ERAS)
async def test_a_deferred_tool_is_found_and_called_in_every_way(
    deferring: Installation, era: Era
) -> None:
    async with deferring.open_client(era) as client:
        before = await client.list_tools()
        guessed = await client.call_tool("demo__roll_dice", {"sides": "six"})
        found = await client.call_tool("tool_search", {"query": "throw dice", "max_results": 1})
        after = await client.list_tools()
        enveloped = await client.call_tool(
            "call_tool", {"name": "demo__roll_dice", "arguments": {"sides": 2, "count": 3}}
        )
        own_name = await client.call_tool("demo__recall", {})
        rule_name = await client.call_tool("call_tool", {"name": "mcp__demo__recall"})
        wrong = await client.call_tool("demo__roll_dice", {"sides": "six"})

    assert names(before) == FIRST
    assert found.structured_content is not None
    assert [tool["name"] for tool in found.structured_content["tools"]] == ["demo__roll_dice"]
    assert found.structured_content["total"] == 4
    assert '"name": "demo__roll_dice", "parameters": {"type": "object"' in extract_text(found)
    # Since 2026-07-28 a list must not change because of a call.
    assert names(after) == (FIRST if era != "legacy" else [*FIRST, "demo__roll_dice"])
    assert enveloped.structured_content is not None
    assert len(enveloped.structured_content["rolls"]) == 3
    assert (
        extract_text(own_name) == extract_text(rule_name) == "No notes yet. Make one with remember."
    )
    hint = 'Its schema was not loaded yet: call tool_search with "select:demo__roll_dice" first.'
    assert hint in extract_text(guessed)
    assert hint not in extract_text(wrong)
    told = [(entry["tool"], entry.get("through")) for entry in deferring.read_journal()]
    assert told == [
        ("mcp__demo__roll_dice", None),
        ("tool_search", None),
        ("mcp__demo__roll_dice", "call_tool"),
        ("mcp__demo__recall", None),
        ("mcp__demo__recall", "call_tool"),
        ("mcp__demo__roll_dice", None),
    ]


async def activated(server: RawServer, query: str, lists: list[list[str]] | None = None) -> str:
    """Searches, and lists again when told to, as `lists` shall show; the text of the answer."""
    await server.call(query, "tool_search", query=query)
    while True:
        message = await server.receive()
        if message.get("method") == "notifications/tools/list_changed":
            await server.send({"jsonrpc": "2.0", "id": "again", "method": "tools/list"})
        elif message.get("id") == "again" and lists is not None:
            lists.append(tool_names(message))
        elif message.get("id") == query:
            return extract_raw_text(message)


def tool_names(message: JsonObject) -> list[str]:
    result = message["result"]
    assert isinstance(result, dict)
    tools = result["tools"]
    assert isinstance(tools, list)
    return [str(tool["name"]) for tool in tools if isinstance(tool, dict)]


async def test_a_client_that_follows_list_changed_has_the_tool_before_the_result(
    deferring: Installation,
) -> None:
    lists: list[list[str]] = []
    async with start_raw_server(deferring) as server:
        await server.handshake()
        with anyio.fail_after(60):
            before = await listed_bytes(server, "first")
            found = await activated(server, "select:demo__remember", lists)
            again = await activated(server, "select:demo__remember")
            after = await listed_bytes(server, "after")

    assert lists[-1] == [*FIRST, "demo__remember"]
    assert found.endswith(BY_NAME)
    assert again.endswith(BY_NAME)
    # Not one byte of what was listed before has moved.
    assert after.startswith(before[:-2] + b',{"name":"demo__remember"')


async def test_the_server_waits_once_for_a_client_that_ignores_list_changed_and_suggests_call_tool(
    deferring: Installation,
) -> None:
    async with start_raw_server(deferring) as server:
        await server.handshake()
        with anyio.fail_after(60):
            await listed_bytes(server, "list")
            answers: list[str] = []
            waits: list[float] = []
            for query in ("select:demo__remember", "select:demo__recall"):
                started = anyio.current_time()
                await server.call(query, "tool_search", query=query)
                answers.append(extract_raw_text(await server.answer(query)))
                waits.append(anyio.current_time() - started)
            await server.call("c", "call_tool", name="demo__remember", arguments={"note": "x"})
            noted = extract_raw_text(await server.answer("c"))

    assert [answer.endswith(THROUGH_CALL_TOOL) for answer in answers] == [True, True]
    assert waits[0] >= 0.45
    assert waits[1] < waits[0]
    assert noted == "Noted. 1 note(s) so far."


class Person:
    def __init__(self, decision: str) -> None:
        self._decision = decision
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"decision": self._decision})


@pytest.mark.parametrize("era", ERAS)
async def test_rules_hooks_and_questions_apply_to_the_call_inside_call_tool(
    installed: Installation, era: Era
) -> None:
    installed.add_upstream("demo", *DEMO).add_settings(ALWAYS)
    installed.add_rules(deny=["mcp__demo__recall", "Bash(rm:*)"], ask=["mcp__demo__remember"])
    hook = 'import json,sys; h=json.load(sys.stdin); open("told","a").write(h["tool_name"]+"\\n")'
    command = f"{sys.executable} -c '{hook}'"
    matched = {"matcher": "mcp__demo__.*", "hooks": [{"type": "command", "command": command}]}
    installed.add_settings({"hooks": {"PreToolUse": [matched]}})
    person = Person("allow once")

    def within(tool: str, **arguments: Json) -> tuple[str, dict[str, Any]]:
        return "call_tool", {"name": tool, "arguments": arguments}

    async with installed.open_client(era, elicitation_callback=person.answer) as client:
        found = await client.call_tool(
            "tool_search", {"query": "select:demo__recall,demo__remember"}
        )
        denied = await client.call_tool(*within("demo__recall"))
        removed = await client.call_tool(*within("Bash", command="rm x"))
        asked = await client.call_tool(*within("demo__remember", note="milk"))
        invalid = await client.call_tool(*within("demo__remember", note=""))
        nested = await client.call_tool(*within("call_tool", name="demo__remember"))
        torn = await client.call_tool("call_tool", {"name": "demo__remember", "arguments": "{}"})
        unknown = await client.call_tool(*within("demo__rember"))

    # What a bare deny takes away is not found either.
    assert found.structured_content is not None
    assert [tool["name"] for tool in found.structured_content["tools"]] == ["demo__remember"]
    assert "Permission to use mcp__demo__recall has been denied" in extract_text(denied)
    assert "Permission to use Bash has been denied" in extract_text(removed)
    assert extract_text(asked) == "Noted. 1 note(s) so far."
    assert [message.splitlines()[0] for message in person.asked] == ["Allow mcp__demo__remember?"]
    assert "the arguments of demo__remember have 1 problem" in extract_text(invalid)
    assert "call_tool cannot call itself" in extract_text(nested)
    assert "the arguments of call_tool have 1 problem" in extract_text(torn)
    assert "'demo__rember'; did you mean demo__remember" in extract_text(unknown)
    told = (installed.workspace / "told").read_text(encoding="utf-8").split()
    assert told == ["mcp__demo__recall", "mcp__demo__remember"]


async def test_a_confirmation_by_the_client_does_not_cover_a_call_inside_call_tool(
    installed: Installation,
) -> None:
    installed.add_settings(ALWAYS).add_upstream("demo", *DEMO).add_flags("--ask-fallback", "client")

    async with installed.open_client() as client:
        direct = await client.call_tool("demo__recall", {})
        enveloped = await client.call_tool("call_tool", {"name": "demo__recall"})

    assert not direct.is_error
    assert enveloped.is_error
    assert "--ask-fallback client does not cover a call through call_tool" in extract_text(
        enveloped
    )


async def test_denying_call_tool_disables_it_and_denying_tool_search_lists_all_tools(
    installed: Installation,
) -> None:
    installed.add_settings(ALWAYS).add_upstream("demo", *DEMO)
    installed.add_rules(allow=["mcp__demo"], deny=["call_tool", "tool_search"])

    async with installed.open_client() as client:
        listed = await client.list_tools()
        denied = await client.call_tool("call_tool", {"name": "demo__recall"})

    assert names(listed) == [
        *BUILT_INS,
        *("demo__count_slowly", "demo__recall", "demo__remember", "demo__roll_dice"),
    ]
    assert "Permission to use call_tool has been denied: a deny rule" in extract_text(denied)


async def list_until(server: RawServer, wanted: Sequence[str]) -> None:
    """Lists at every notice until the list ends with these."""
    with anyio.fail_after(30):
        for number in range(1_000):
            id = f"until {number}"
            await server.send({"jsonrpc": "2.0", "id": id, "method": "tools/list"})
            if tool_names(await server.answer(id)) == [*FIRST, *wanted]:
                return
            message: JsonObject = {}
            while message.get("method") != "notifications/tools/list_changed":
                message = await server.receive()


async def test_a_removed_or_renamed_tool_disappears_from_list_search_and_calls(
    installed: Installation,
) -> None:
    installed.add_settings(ALWAYS).add_rules(allow=["mcp__raw"])
    installed.add_upstream("raw", sys.executable, RAW, "--extra", "plough", "sow", "reap")

    async with start_raw_server(installed) as server:
        await server.handshake()
        with anyio.fail_after(60):
            await listed_bytes(server, "list")
            await activated(server, "select:raw__plough,raw__sow,raw__reap")
            await list_until(server, ["raw__plough", "raw__sow", "raw__reap"])

            await server.call("swap", "raw__swap", old="sow", new="seed")
            await server.answer("swap")
            await list_until(server, ["raw__plough", "raw__reap"])
            await server.call("gone", "call_tool", name="raw__sow")
            gone = extract_raw_text(await server.answer("gone"))
            selected = await activated(server, "select:raw__sow")
            renamed = await activated(server, "select:raw__seed")
            await list_until(server, ["raw__plough", "raw__reap", "raw__seed"])

            # Nobody says that this one has gone: the first call of it finds out.
            await server.call("quiet", "raw__swap", old="reap", quietly=True)
            await server.answer("quiet")
            await server.call("late", "raw__reap")
            late = await server.answer("late")
            await list_until(server, ["raw__plough", "raw__seed"])

    assert gone == (
        "<tool_use_error>'raw__sow' is gone: the server 'raw' does not offer it any more. List "
        "the tools again, or find another with tool_search.</tool_use_error>"
    )
    assert "No tool is named 'raw__sow'" in selected
    assert renamed.endswith(BY_NAME)
    assert late["error"] == {"code": -32602, "message": "Unknown tool"}


async def test_no_spelling_of_a_denied_name_finds_activates_or_calls_it(
    deferring: Installation,
) -> None:
    deferring.add_rules(deny=["mcp__demo__recall"])
    spellings = ["demo__recall", "mcp__demo__recall", "DEMO__RECALL", "demo__rec\u0430ll", "recall"]
    queries = [f"select:{name}" for name in spellings] + ["recall the notes"]

    async with deferring.open_client() as client:
        await client.list_tools()
        found = [await client.call_tool("tool_search", {"query": query}) for query in queries]
        chosen = await client.call_tool(
            "tool_search", {"query": "select:demo__recall,demo__roll_dice"}
        )
        listed = await client.list_tools()
        first = await client.call_tool("demo__recall", {})
        second = await client.call_tool("demo__recall", {})
        enveloped = await client.call_tool("call_tool", {"name": "demo__recall"})

    for result in [*found, chosen]:
        assert '"name": "demo__recall"' not in extract_text(result)
    assert "demo__roll_dice" in names(listed)
    assert "demo__recall" not in names(listed)
    assert "Permission to use mcp__demo__recall has been denied" in extract_text(first)
    assert extract_text(first) == extract_text(second) == extract_text(enveloped)


async def test_two_sessions_activate_different_tools(installed: Installation) -> None:
    installed.add_settings(ALWAYS).add_upstream("demo", *DEMO)

    async with (
        start_http_server(installed) as server,
        server.client("legacy") as one,
        server.client("legacy") as other,
        server.client("2026-07-28") as modern,
    ):
        for client in (one, other, modern):
            await client.list_tools()
        await one.call_tool("tool_search", {"query": "select:demo__recall"})
        await other.call_tool("tool_search", {"query": "select:demo__roll_dice"})
        await modern.call_tool("tool_search", {"query": "select:demo__remember"})
        lists = [names(await client.list_tools()) for client in (one, other, modern)]

    assert lists == [[*FIRST, "demo__recall"], [*FIRST, "demo__roll_dice"], FIRST]


async def test_a_search_waits_for_a_server_that_connects_and_names_one_that_fails(
    installed: Installation,
) -> None:
    installed.add_settings(ALWAYS).add_upstream("demo", *DEMO)
    installed.add_upstream("broken", sys.executable, RAW, "--exit", "3")
    installed.add_upstream("mute", sys.executable, RAW, "--mute")

    async with installed.open_client() as client:
        instructions = client.instructions
        # Asked at once, before anything has come up.
        found = await client.call_tool("tool_search", {"query": "roll dice"})

    structured = found.structured_content
    assert structured is not None
    assert structured["tools"][0]["name"] == "demo__roll_dice"
    assert (structured["connecting"], structured["failed"]) == (["mute"], ["broken"])
    assert "Still connecting, not searched: mute." in extract_text(found)
    assert "Not available: broken " in extract_text(found)
    assert instructions is not None
    assert "are found with tool_search:\n" in instructions
    assert {"- demo", "- broken", "- mute"} <= set(instructions.splitlines())


@pytest.mark.parametrize("era", ERAS)
async def test_a_static_list_in_auto_mode_has_the_tools_and_the_search(
    installed: Installation, era: Era
) -> None:
    installed.add_upstream("demo", *DEMO)

    async with installed.open_client(era) as client:
        listed = await client.list_tools()
        found = await client.call_tool("tool_search", {"query": "roll dice"})
        again = await client.list_tools()

    loaded = ["demo__count_slowly", "demo__recall", "demo__remember", "demo__roll_dice"]
    assert names(listed) == names(again) == [*FIRST, *loaded]
    assert extract_text(found).endswith(BY_NAME)


async def test_mode_never_offers_neither_tool_search_nor_call_tool(installed: Installation) -> None:
    installed.add_settings({"dispatch": {"toolSearch": {"mode": "never", "maxTools": 0}}})
    installed.add_upstream("demo", *DEMO)

    async with installed.open_client() as client:
        listed = await client.list_tools()
        called = await client.call_tool("call_tool", {"name": "demo__recall"})

    assert "call_tool" not in names(listed)
    assert "tool_search" not in names(listed)
    assert "demo__recall" in names(listed)
    assert "No such tool available: 'call_tool'" in extract_text(called)
