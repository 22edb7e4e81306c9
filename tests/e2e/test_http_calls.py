"""Every built-in and an upstream tool, called by a real MCP client over HTTP, in both eras."""

import os
import re
import sys
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from mcp import MCPError
from mcp_types import ElicitResult

from mcp_dispatch.model.json import Json
from tests.support.client import BUILT_INS, ERAS, Era, Installation, build_tools_call, extract_text
from tests.support.http_server_process import (
    HttpServerProcess,
    is_alive,
    modern,
    open_session,
    start_http_server,
    until_gone,
)

every_era = pytest.mark.parametrize("era", ERAS)
SLEEP = "echo $$ > started; sleep 613"


class Person:
    """Who answers the client's form."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self._answer = ElicitResult(action=action, content=content or None)
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self._answer


async def started_pid(installed: Installation) -> int:
    """The shell of `SLEEP`, once it runs; `started` is a FIFO made before."""
    with anyio.fail_after(15):
        told = await to_thread.run_sync(
            (installed.workspace / "started").read_text, abandon_on_cancel=True
        )
    return int(told)


@every_era
async def test_the_built_ins_are_listed_and_work(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Edit(./**)", "Bash(echo:*)"])
    path = installed.write_file("notes.txt", "one\ntwo\n")

    async with start_http_server(installed) as server, server.client(era) as client:
        listed = await client.list_tools()
        read = await client.call_tool("Read", {"file_path": "notes.txt"})
        edited = await client.call_tool(
            "Edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "2"}
        )
        written = await client.call_tool("Write", {"file_path": "new.txt", "content": "fresh\n"})
        ran = await client.call_tool("Bash", {"command": "echo hello"})

    assert [tool.name for tool in listed.tools] == [*BUILT_INS]
    assert extract_text(read) == "     1\tone\n     2\ttwo"
    assert "-two\n+2" in extract_text(edited)
    assert path.read_text(encoding="utf-8") == "one\n2\n"
    assert not written.is_error
    assert extract_text(ran) == "hello"
    outcomes = [(entry["tool"], entry["outcome"]) for entry in installed.read_journal()]
    assert outcomes == [(name, "completed") for name in ("Read", "Edit", "Write", "Bash")]


@every_era
async def test_a_call_without_a_decision_runs_after_approval(
    installed: Installation, era: Era
) -> None:
    yes, no = Person(decision="allow once"), Person("decline")

    async with start_http_server(installed) as server:
        async with server.client(era, elicitation_callback=yes.answer) as client:
            allowed = await client.call_tool("Bash", {"command": "touch asked"})
        async with server.client(era, elicitation_callback=no.answer) as client:
            declined = await client.call_tool("Bash", {"command": "touch declined"})

    assert not allowed.is_error, extract_text(allowed)
    assert declined.is_error
    assert (len(yes.asked), len(no.asked)) == (1, 1)
    assert "touch asked" in yes.asked[0]
    assert [path.name for path in installed.workspace.iterdir()] == ["asked"]


@every_era
async def test_progress_of_an_upstream_arrives_before_the_result(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["mcp__demo"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with start_http_server(installed) as server, server.client(era) as client:
        result = await client.call_tool("demo__count_slowly", {"to": 2}, progress_callback=note)

    assert extract_text(result) == "Counted to 2."
    assert seen == [(1, 2, "counted to 1"), (2, 2, "counted to 2")]


@every_era
async def test_cancelling_a_call_ends_its_processes(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")

    async with start_http_server(installed) as server, server.client(era) as client:
        pids: list[int] = []
        async with anyio.create_task_group() as calls:
            calls.start_soon(client.call_tool, "Bash", {"command": SLEEP})
            pids.append(await started_pid(installed))
            calls.cancel_scope.cancel()
        await until_gone(pids[0])
        after = await client.call_tool("Bash", {"command": "echo still here"})

    assert extract_text(after) == "still here"
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled", "completed"]


async def call_and_leave(server: HttpServerProcess, era: Era, installed: Installation) -> int:
    """A client whose connection breaks while its command runs; the pid of the command."""
    arguments: dict[str, Json] = {"command": SLEEP}
    pids: list[int] = []
    async with server.http() as http:
        if era == "legacy":
            session = await open_session(http, server.url)
            headers, body = session.headers, build_tools_call(1, "Bash", **arguments)
        else:
            headers, body = modern("tools/call", name="Bash", arguments=arguments)
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                await http.post(server.url, headers=headers, json=body)

            calls.start_soon(call)
            pids.append(await started_pid(installed))
            assert is_alive(pids[0])
            calls.cancel_scope.cancel()
    return pids[0]


@every_era
async def test_the_processes_of_a_call_end_when_its_client_disconnects(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")

    async with start_http_server(installed) as server:
        pid = await call_and_leave(server, era, installed)
        await until_gone(pid)

    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled"]


async def test_sessions_share_nothing_up_to_2025_11_25(installed: Installation) -> None:
    installed.add_rules(allow=["Edit(./**)", "Bash"])
    installed.write_file("a.txt", "mine")
    installed.write_file("sub/x", "")

    async with (
        start_http_server(installed) as server,
        server.client("legacy") as first,
        server.client("legacy") as second,
    ):
        await first.call_tool("Read", {"file_path": "a.txt"})
        await first.call_tool("Bash", {"command": "cd sub"})
        unread = await second.call_tool("Write", {"file_path": "a.txt", "content": "theirs"})
        listed = await second.call_tool("Bash", {"command": "ls"})

    assert "File has not been read yet" in extract_text(unread)
    assert extract_text(listed) == "a.txt\nsub"
    scopes = [entry["scope"] for entry in installed.read_journal()]
    assert scopes[0] == scopes[1]
    assert scopes[2] == scopes[3]
    assert scopes[0] != scopes[2]


async def test_clients_of_2026_07_28_share_the_state_of_their_principal(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    installed.write_file("a.txt", "mine")

    async with (
        start_http_server(installed) as server,
        server.client("2026-07-28") as first,
        server.client("2026-07-28") as second,
    ):
        await first.call_tool("Read", {"file_path": "a.txt"})
        written = await second.call_tool("Write", {"file_path": "a.txt", "content": "ours"})

    assert not written.is_error, extract_text(written)
    assert len({str(entry["scope"]) for entry in installed.read_journal()}) == 1


async def test_a_background_task_ends_with_its_session(installed: Installation) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")

    async with start_http_server(installed) as server:
        async with server.client("legacy") as client:
            await client.call_tool("Bash", {"command": SLEEP, "run_in_background": True})
            pid = await started_pid(installed)
            assert is_alive(pid)
        await until_gone(pid)


async def test_clients_of_both_eras_are_notified_of_a_changed_list(installed: Installation) -> None:
    settings = installed.config / "settings.json"
    settings.write_text("{}", encoding="utf-8")
    told = {era: anyio.Event() for era in ERAS}

    async def note(message: Any) -> None:
        if getattr(message, "method", None) == "notifications/tools/list_changed":
            told["legacy"].set()

    async with (
        start_http_server(installed) as server,
        server.client("legacy", message_handler=note) as legacy,
        server.client("2026-07-28") as newer,
        newer.listen(tools_list_changed=True) as changes,
    ):
        assert legacy.server_capabilities.tools is not None
        assert legacy.server_capabilities.tools.list_changed
        await legacy.list_tools()
        await newer.list_tools()

        settings.write_text('{"permissions": {"deny": ["Bash"]}}', encoding="utf-8")
        with anyio.fail_after(20):
            await told["legacy"].wait()
            await anext(aiter(changes))
        names = [tool.name for tool in (await legacy.list_tools()).tools]

    assert names == [name for name in BUILT_INS if name != "Bash"]


@every_era
async def test_an_unknown_resource_has_the_code_of_its_era(
    installed: Installation, era: Era
) -> None:
    async with start_http_server(installed) as server, server.client(era) as client:
        listed = await client.list_resources()
        with pytest.raises(MCPError) as raised:
            await client.read_resource("dispatch://nothing")

    assert listed.resources == []
    error = raised.value.error
    assert (error.code, error.message, error.data) == (
        -32002 if era == "legacy" else -32602,
        "Resource not found",
        {"uri": "dispatch://nothing"},
    )


async def test_the_roots_of_an_http_client_do_not_move_the_workspace(
    installed: Installation,
) -> None:
    elsewhere = installed.folder / "elsewhere"
    elsewhere.mkdir()
    installed.add_rules(allow=["Bash"])

    async def roots(context: Any) -> Any:
        raise AssertionError("the server must not ask")

    async with (
        start_http_server(installed) as server,
        server.client("legacy", list_roots_callback=roots) as c,
    ):
        result = await c.call_tool("Bash", {"command": "pwd"})

    assert extract_text(result) == str(installed.workspace)


async def test_the_id_of_a_session_cannot_be_guessed(installed: Installation) -> None:
    async with start_http_server(installed) as server, server.http() as http:
        ids = [(await open_session(http, server.url)).id for _ in range(16)]

    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)
    # No two share more than chance would have it: at most two of 32 places are the same in all.
    fixed = [place for place in zip(*ids, strict=True) if len({*place}) == 1]
    assert len({*ids}) == len(ids)
    assert len(fixed) <= 2


async def test_one_id_in_flight_twice_is_refused(installed: Installation) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")

    async with start_http_server(installed) as server, server.http() as http:
        session = await open_session(http, server.url)
        answers: list[httpx2.Response] = []

        async def call() -> None:
            answers.append(await session.post(build_tools_call(7, "Bash", command=SLEEP)))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await started_pid(installed)
            answers.append(await session.post(build_tools_call("7", "Bash", command="echo twice")))
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
            await session.post({**cancel, "params": {"requestId": 7}})

    second, first = answers
    assert (second.status_code, second.json()["error"]) == (
        400,
        {
            "code": -32600,
            "message": "Invalid Request: this id is already in flight; use a new one",
        },
    )
    assert first.status_code == 200
