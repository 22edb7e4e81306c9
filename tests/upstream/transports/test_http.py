"""Streamable HTTP in both protocol eras: requests, responses and failures."""

import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.backoff import CircuitLimits
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.lifecycle import ServerState
from mcp_dispatch.upstream.supervisor import Supervisor
from tests.support.upstreams.support import call_tool, run_supervised, skip_pause, wait_for_state
from tests.support.upstreams.web import Style, WebUpstream, run_web_upstream
from tests.support.upstreams.web_process import run_web_process

NOT_REPEATED = "The call was not repeated: check whether it took effect before you try again."
STYLES = pytest.mark.parametrize("style", ["json", "sse"])


@asynccontextmanager
async def run_chained(
    folder: Path, *, config: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[WebUpstream, Supervisor], None]:
    """A server over HTTP and its supervisor, once it is ready."""
    with anyio.fail_after(60):
        async with (
            run_web_upstream(**options) as web,
            run_supervised(folder, web.build_config(**(config or {})), pause=skip_pause) as server,
        ):
            await wait_for_state(server, ServerState.READY)
            yield web, server


async def call(server: Supervisor, tool: str, **arguments: Any) -> JsonObject | ProtocolError:
    with anyio.fail_after(30):
        return await call_tool(server, tool, arguments)


async def read_failure(server: Supervisor, tool: str, **arguments: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        await call(server, tool, **arguments)
    return str(caught.value)


def text(answer: JsonObject | ProtocolError) -> str:
    match answer:
        case {"content": [{"text": str() as said}]}:
            return said
        case _:
            pytest.fail(f"no text in {str(answer)[:200]}")


@STYLES
async def test_a_server_of_the_handshake_era_is_initialized_and_keeps_its_session(
    tmp_path: Path, style: str
) -> None:
    async with run_chained(tmp_path, style=style) as (web, server):
        await web.wait_for_verb("GET")

        assert text(await call(server, "echo", text="hello")) == "hello"

    (greeting,) = web.find_requests("initialize")
    (sent,) = web.find_requests("tools/call")
    assert "mcp-session-id" not in greeting.headers
    assert "mcp-protocol-version" not in greeting.headers
    assert sent.headers["mcp-session-id"] == "session-1"
    assert sent.headers["mcp-protocol-version"] == "2025-11-25"
    assert sent.headers["accept"] == "application/json, text/event-stream"
    assert [each.verb for each in web.asked][-1] == "DELETE"


@STYLES
async def test_a_server_without_a_handshake_gets_its_headers_with_every_request(
    tmp_path: Path, style: str
) -> None:
    async with run_chained(tmp_path, style=style, modern=True) as (web, server):
        assert text(await call(server, "echo", text="hello")) == "hello"

    (sent,) = web.find_requests("tools/call")
    named = {key: value for key, value in sent.headers.items() if key.startswith("mcp-")}
    assert named == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "echo",
    }
    meta = sent.message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert {each.verb for each in web.asked} == {"POST"}


async def test_marked_parameters_are_repeated_in_headers_and_badly_marked_tools_left_out(
    tmp_path: Path,
) -> None:
    def marked(name: str, kind: str = "string") -> JsonObject:
        return {"type": "object", "properties": {"text": {"type": kind, "x-mcp-header": name}}}

    async with run_web_upstream(modern=True) as web:
        web.tools = ["echo", "bad", "worse"]
        web.schemas = {
            "echo": marked("Region"),
            "bad": marked("two words"),
            "worse": marked("Price", "number"),
        }
        async with run_supervised(tmp_path, web.build_config(), pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DEGRADED)
            for word in ("eu", "zürich"):
                await call(server, "echo", text=word)

            assert [tool["name"] for tool in server.tools] == ["echo"]
            assert server.problem == (
                "marks parameters of 'bad', 'worse' for headers in a way that is not allowed; "
                "left out"
            )
    repeated = [each.headers["mcp-param-region"] for each in web.find_requests("tools/call")]
    assert repeated == ["eu", "=?base64?esO8cmljaA==?="]


async def test_a_server_without_sessions_is_called_without_a_session_header(tmp_path: Path) -> None:
    async with run_chained(tmp_path, sessions=False) as (web, server):
        assert text(await call(server, "echo", text="hello")) == "hello"

    assert not [each for each in web.asked if "mcp-session-id" in each.headers]


async def test_progress_arrives_in_order_before_the_result(tmp_path: Path) -> None:
    delivered: list[Any] = []

    async def record(progress: JsonObject) -> None:
        delivered.append(progress["progress"])

    async with run_chained(tmp_path) as (_, server):
        answer = await call_tool(server, "progress", {"steps": 50}, record)

        assert text(answer) == "done"
        assert delivered == list(range(50))


async def test_a_server_request_during_a_call_is_answered(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        assert text(await call(server, "ask")) == "answered"

    assert [each.message for each in web.asked if each.message.get("id") == "q1"] == [
        {"jsonrpc": "2.0", "id": "q1", "result": {}}
    ]


async def test_only_the_answer_to_a_request_is_taken_from_its_stream(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (_, server):
        assert await call(server, "garbage") == {"content": ["mine"]}
        assert text(await call(server, "echo", text="and on")) == "and on"
        assert server.unexpected_output_count == 5


# -- what goes wrong with one call


@pytest.mark.parametrize("tool", ["drop", "drop_in_the_middle", "cut_json"])
async def test_a_dropped_connection_fails_its_own_call_only(tmp_path: Path, tool: str) -> None:
    answers: list[str] = []
    messages: list[str] = []

    async with run_chained(tmp_path) as (web, server):

        async def quiet() -> None:
            answers.append(text(await call(server, "ask_later")))

        release = anyio.Event()

        async def ask_later(reply: Any, asked: Any) -> None:
            await release.wait()
            await web.send_text(reply, asked, "unharmed")

        web.tool_ask_later = ask_later  # pyright: ignore[reportAttributeAccessIssue]  one more tool
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(quiet)
            await web.wait_for_request("tools/call")
            messages.append(await read_failure(server, tool))
            release.set()

        assert server.state is ServerState.READY
    problem = "dropped the connection"
    assert messages == [f"The server 'web' {problem} while it ran {tool!r}. {NOT_REPEATED}"]
    assert answers == ["unharmed"]
    assert web.list_calls() == ["ask_later", tool]


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("status", {"status": 500}, "answered HTTP 500 (Internal Server Error)"),
        ("accepted", {}, "took the request and will not answer it"),
        ("page", {}, "answered with the content type 'text/html', which is none here"),
    ],
)
async def test_an_invalid_answer_fails_the_call(
    tmp_path: Path, tool: str, arguments: dict[str, Any], problem: str
) -> None:
    async with run_chained(tmp_path) as (web, server):
        message = await read_failure(server, tool, **arguments)

        assert message == f"The server 'web' {problem} while it ran {tool!r}. {NOT_REPEATED}"
        assert text(await call(server, "echo", text="and on")) == "and on"
    assert web.list_calls() == [tool, "echo"]


@pytest.mark.parametrize("status", [403, 405, 413, 429])
async def test_a_refused_call_reports_that_nothing_ran(tmp_path: Path, status: int) -> None:
    async with run_chained(tmp_path) as (web, server):
        message = await read_failure(server, "status", status=status)

    assert message.startswith(f"The server 'web' answered HTTP {status} (")
    assert message.endswith(". Nothing was run.")
    assert web.list_calls() == ["status"]


async def test_a_redirect_within_the_origin_is_followed_with_the_same_request(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (web, server):
        answer = await call(server, "elsewhere", location="/mcp?again=1", status=308)

        assert text(answer) == "here"
    assert [each.path for each in web.find_requests("tools/call")] == ["/mcp", "/mcp?again=1"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"location": "https://example.com/mcp?secret", "status": 307},
            "points to another origin, https://example.com, which is not followed; "
            'correct its "url" if that is where it is now',
        ),
        (
            {"location": "file:///etc/passwd", "status": 307},
            "points to another origin, file://, which is not followed; "
            'correct its "url" if that is where it is now',
        ),
        (
            {"location": "/other", "status": 302},
            "answers with a redirect (302) that would turn the request into another; "
            'correct its "url"',
        ),
    ],
)
async def test_a_redirect_to_anything_else_is_not_followed(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    secret = {"Authorization": "Bearer s3cret"}
    async with run_chained(tmp_path, config={"headers": secret}) as (web, server):
        message = await read_failure(server, "elsewhere", **arguments)

    assert message == f"The server 'web' {problem}. Nothing was run."
    assert web.list_calls() == ["elsewhere"]


async def test_another_origin_never_receives_the_request_or_its_headers(
    tmp_path: Path,
) -> None:
    async with (
        run_web_upstream() as other,
        run_chained(tmp_path, config={"headers": {"Authorization": "Bearer s3cret"}}) as (
            _,
            server,
        ),
    ):
        message = await read_failure(server, "elsewhere", location=other.url, status=307)

        assert "points to another origin" in message
        assert other.asked == []


# -- bounds


async def test_a_server_that_sends_requests_and_reads_no_answers_is_disconnected(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (_, server):
        message = await read_failure(server, "nag")

    assert message.startswith(
        "The server 'web' keeps asking and does not take the answers while it ran 'nag'. "
    )


async def test_event_ids_that_no_header_can_hold_are_ignored(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        message = await read_failure(server, "odd_marks")

        assert text(await call(server, "echo", text="and on")) == "and on"
    assert (
        message
        == f"The server 'web' dropped the connection while it ran 'odd_marks'. {NOT_REPEATED}"
    )
    assert web.list_calls() == ["odd_marks", "echo"]


async def test_a_result_over_the_limit_fails_its_call_only(tmp_path: Path) -> None:
    limit = {"max_message": 3_000_000}
    tools = {"big": {"megabytes": 4}, "packed": {"megabytes": 40}, "endless_event": {}}

    async with run_chained(tmp_path, style="sse", config=limit) as (_, server):
        messages = [await read_failure(server, tool, **more) for tool, more in tools.items()]

        assert text(await call(server, "big", megabytes=2)) == "x" * 2_000_000
    problem = (
        "sent an answer of more than 3,000,000 bytes, the most that is taken "
        '("dispatch.upstreams.maxMessageBytes" in the settings)'
    )
    assert messages == [
        f"The server 'web' {problem} while it ran {tool!r}. {NOT_REPEATED}" for tool in tools
    ]


async def test_a_gzip_response_is_decompressed(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (_, server):
        assert await call(server, "packed", megabytes=1) == {"content": ["x" * 1_000_000]}


@STYLES
async def test_the_time_for_a_result_is_linear_in_its_size(tmp_path: Path, style: Style) -> None:
    with anyio.fail_after(120):
        async with run_web_process(style) as config, run_supervised(tmp_path, config) as server:
            await wait_for_state(server, ServerState.READY)

            async def cpu_seconds(megabytes: int) -> float:
                begun = time.process_time()
                answer = await call(server, "big", megabytes=megabytes)
                spent = time.process_time() - begun
                assert len(text(answer)) == megabytes * 1_000_000
                return spent

            await cpu_seconds(1)
            small = min([await cpu_seconds(3) for _ in range(3)])
            large = min([await cpu_seconds(24) for _ in range(2)])

    # Eight times the bytes; quadratic would be sixty-four.
    assert large / small < 16


async def test_a_call_times_out_even_if_the_server_keeps_sending_bytes(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path, config={"timeout": 0.3}) as (web, server):
        message = await read_failure(server, "trickle")

        assert message.startswith("The server 'web' did not answer 'trickle' within 0.3 s")
        assert text(await call(server, "echo", text="and on")) == "and on"
    (cancelled,) = web.find_requests("notifications/cancelled")
    (sent, _) = web.find_requests("tools/call")
    assert cancelled.message["params"]["requestId"] == sent.message["id"]


async def test_a_cancelled_call_of_the_modern_era_closes_its_stream_and_sends_nothing(
    tmp_path: Path,
) -> None:
    closed = anyio.Event()

    async with run_chained(tmp_path, modern=True) as (web, server):

        async def watch(reply: Any, asked: Any) -> None:
            try:
                await web.tool_trickle(reply, asked)
            finally:
                closed.set()

        web.tool_watch = watch  # pyright: ignore[reportAttributeAccessIssue]  one more tool
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, server, "watch")
            await web.wait_for_request("tools/call")
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            await closed.wait()

        assert text(await call(server, "echo", text="and on")) == "and on"
    assert web.find_requests("notifications/cancelled") == []


# -- sessions, restarts and the stream on which a server speaks unasked


async def test_a_lost_session_is_replaced_and_the_call_runs_once(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        web.forget_sessions()

        answers = [text(await call(server, "echo", text=word)) for word in ("one", "two")]

        assert answers == ["one", "two"]
        assert server.state is ServerState.READY
    sessions = [each.headers["mcp-session-id"] for each in web.find_requests("tools/call")]
    assert sessions == ["session-1", "session-2", "session-2"]
    assert len(web.find_requests("initialize")) == 2


async def test_many_concurrent_calls_after_a_lost_session_start_one_new_session(
    tmp_path: Path,
) -> None:
    answers: list[str] = []

    async with run_chained(tmp_path) as (web, server):
        web.forget_sessions()

        async def echo(number: int) -> None:
            answers.append(text(await call(server, "echo", text=str(number))))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(echo, number)

    assert sorted(answers, key=int) == [str(number) for number in range(20)]
    assert len(web.find_requests("initialize")) == 2
    ran = [
        each
        for each in web.find_requests("tools/call")
        if each.headers["mcp-session-id"] == "session-2"
    ]
    assert len(ran) == 20


async def test_a_server_that_loses_every_session_fails_the_call_after_one_retry(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (web, server):
        web.sessions = _Forgetful()

        message = await read_failure(server, "echo")

    assert message == "The server 'web' forgets every session at once. Nothing was run."
    assert len(web.find_requests("tools/call")) == 2


class _Forgetful(list[str]):
    def __contains__(self, _: object) -> bool:
        return False


async def test_the_tools_are_listed_again_after_a_new_session(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        web.tools.append("grown")
        web.forget_sessions()

        await call(server, "echo")
        with anyio.fail_after(30):
            while len(server.tools) < 2:
                await anyio.lowlevel.checkpoint()

        assert [tool["name"] for tool in server.tools] == ["echo", "grown"]


async def test_subscriptions_are_sent_again_to_a_new_session(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        await server.resources.watch(frozenset({"file:///notes"}))
        await web.wait_for_request("resources/subscribe")
        web.forget_sessions()

        await call(server, "echo")
        await web.wait_for_request("resources/subscribe", 2)

    sessions = [each.headers["mcp-session-id"] for each in web.find_requests("resources/subscribe")]
    assert sessions == ["session-1", "session-2"]


async def test_a_list_request_that_is_dropped_affects_nothing_else(tmp_path: Path) -> None:
    async with run_web_upstream() as web:
        web.drops = "resources/list"
        async with run_supervised(tmp_path, web.build_config(), pause=skip_pause) as server:
            await web.wait_for_request("resources/list")
            with anyio.fail_after(30):
                await server.resources.loaded.wait()

            assert text(await call(server, "echo", text="and on")) == "and on"
            assert server.state is ServerState.READY
    assert len(web.find_requests("initialize")) == 1


async def test_a_notification_stream_that_is_cut_is_reopened_and_the_lists_are_read_again(
    tmp_path: Path,
) -> None:
    async with run_web_upstream(modern=True) as web:
        web.listens = True
        async with run_supervised(tmp_path, web.build_config(), pause=skip_pause) as server:
            await web.wait_for_request("subscriptions/listen")
            await web.stop()
            web.tools.append("grown")
            await web.start()
            await web.wait_for_request("subscriptions/listen", 2)
            with anyio.fail_after(30):
                while len(server.tools) < 2:
                    await anyio.lowlevel.checkpoint()

            assert (server.state, server.problem) == (ServerState.READY, None)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_restarted_server_is_used_again_and_no_call_runs_twice(
    tmp_path: Path, modern: bool
) -> None:
    async with run_chained(tmp_path, modern=modern) as (web, server):
        assert text(await call(server, "echo", text="before")) == "before"
        await web.stop()
        await web.start()

        assert text(await call(server, "echo", text="after")) == "after"
    ran = [each.message["params"]["arguments"]["text"] for each in web.find_requests("tools/call")]
    assert ran == (["before", "after"] if modern else ["before", "after", "after"])
    sessions = {each.headers.get("mcp-session-id") for each in web.find_requests("tools/call")[-1:]}
    assert sessions == ({None} if modern else {"session-2"})


async def test_a_server_that_is_gone_is_down_and_comes_back_by_itself(tmp_path: Path) -> None:
    async with run_chained(tmp_path, modern=True) as (web, server):
        await web.stop()

        message = await read_failure(server, "echo")
        down = server.state
        await web.start()
        await wait_for_state(server, ServerState.READY)

        assert text(await call(server, "echo", text="back")) == "back"
    assert down in (ServerState.DOWN, ServerState.CONNECTING)
    origin = web.url.removesuffix("/mcp")
    assert f"it cannot be reached at {origin}: " in message
    assert "Nothing was sent." in message
    assert web.list_calls() == ["echo"]


async def test_a_call_in_flight_when_the_server_is_killed_fails_once(tmp_path: Path) -> None:
    messages: list[str] = []

    async with run_chained(tmp_path) as (web, server):

        async def mute() -> None:
            messages.append(await read_failure(server, "mute"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(mute)
            await web.wait_for_request("tools/call", 5)
            await web.stop()
        await web.start()
        await wait_for_state(server, ServerState.READY)
        assert text(await call(server, "echo", text="back")) == "back"

    expected = f"The server 'web' dropped the connection while it ran 'mute'. {NOT_REPEATED}"
    assert messages == [expected] * 5
    assert web.list_calls().count("mute") == 5


async def test_a_cut_answer_is_resumed_and_the_call_is_not_repeated(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (web, server):
        assert text(await call(server, "resumed")) == "whole"

    assert web.list_calls() == ["resumed"]
    assert "half-way" in [each.headers.get("last-event-id") for each in web.asked]


async def test_a_list_changed_notification_outside_a_request_is_handled(tmp_path: Path) -> None:
    async def speak(reply: Any, _: Any) -> None:
        web.tools.append("grown")
        await reply.open_events()
        await reply.send_event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await anyio.sleep_forever()

    async with run_web_upstream() as web:
        web.streams["GET"] = speak
        async with run_supervised(tmp_path, web.build_config(), pause=skip_pause) as server:
            with anyio.fail_after(30):
                while len(server.tools) < 2:
                    await anyio.lowlevel.checkpoint()

            assert [tool["name"] for tool in server.tools] == ["echo", "grown"]


# -- starting


async def test_a_mute_server_is_down_after_its_deadline(tmp_path: Path) -> None:
    async def mute(reply: Any, asked: Any) -> None:
        await anyio.sleep_forever()

    async with run_web_upstream() as web:
        web._initialize = mute  # pyright: ignore[reportPrivateUsage]  it answers nothing
        config = web.build_config(connect_timeout=0.2, restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem == "did not answer within 0.2 s"


async def test_a_server_that_sends_its_handshake_too_slowly_is_down_after_the_deadline(
    tmp_path: Path,
) -> None:
    async with run_web_upstream() as web:
        web._initialize = web.tool_trickle  # pyright: ignore[reportPrivateUsage]  a slow one
        config = web.build_config(connect_timeout=0.3, restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem == "did not answer within 0.3 s"


async def test_fifty_restarts_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = 0
    patient = {"pause": skip_pause, "circuit_limits": CircuitLimits(max_failures=10**9)}

    async with (
        run_web_upstream() as web,
        run_supervised(tmp_path, web.build_config(), **patient) as server,
    ):
        await wait_for_state(server, ServerState.READY)
        for round_ in range(51):
            if round_ == 1:
                before = len(list(Path("/proc/self/fd").iterdir()))
            await web.stop()
            assert "Nothing was sent" in await read_failure(server, "echo")
            await web.start()
            await wait_for_state(server, ServerState.READY)
            assert text(await call(server, "echo", text=str(round_))) == str(round_)

        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4
    assert web.list_calls() == ["echo"] * 51


async def test_a_server_without_post_is_reported_as_perhaps_older(tmp_path: Path) -> None:
    async def refuse(reply: Any, asked: Any) -> None:
        await reply.send_response(405)

    async with run_web_upstream() as web:
        web._initialize = refuse  # pyright: ignore[reportPrivateUsage]  it takes no greeting
        config = web.build_config(restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem == (
                'answered HTTP 405 (Method Not Allowed); if it is an older server, set "type": "sse"'
            )


async def test_an_unreachable_url_is_reported_without_its_path(tmp_path: Path) -> None:
    async with run_web_upstream() as web:
        config = web.build_config(restart=False)
        await web.stop()
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem is not None
            assert server.problem.startswith(f"cannot be reached at http://127.0.0.1:{web.port}: ")
            assert "/mcp" not in server.problem + repr(config)


# -- headers


def helper(folder: Path, *tokens: str) -> str:
    """Return a command that prints the next token on each run and records its environment."""
    script = folder / "helper.py"
    script.write_text(
        "import json, os, pathlib\n"
        f"tokens, count = {list(tokens)!r}, pathlib.Path({str(folder / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "name = os.environ['CLAUDE_CODE_MCP_SERVER_NAME']\n"
        "url = os.environ['CLAUDE_CODE_MCP_SERVER_URL']\n"
        "token = tokens[min(number, len(tokens) - 1)]\n"
        "print(json.dumps({'Authorization': token, 'X-Name': name, 'X-Url': url}))\n",
        encoding="utf-8",
    )
    return f"{sys.executable} -S -E {script}"


async def test_headers_are_sent_and_a_helper_overrides_them(tmp_path: Path) -> None:
    headers = {"authorization": "Bearer old", "X-Team": "blue"}
    config = {"headers": headers, "headers_helper": helper(tmp_path, "Bearer new")}

    async with run_chained(tmp_path, config=config) as (web, _):
        pass

    for asked in web.asked:
        assert asked.headers["authorization"] == "Bearer new"
        assert asked.headers["x-team"] == "blue"
        assert asked.headers["x-name"] == "web"
        assert asked.headers["x-url"] == web.url
    assert (tmp_path / "count").read_text(encoding="utf-8") == "x"


async def test_the_helper_runs_once_more_after_refused_credentials(tmp_path: Path) -> None:
    config = {"headers_helper": helper(tmp_path, "Bearer 1", "Bearer 2", "Bearer 3")}

    async with run_chained(tmp_path, config=config) as (web, server):
        web.credentials = "Bearer 2"
        assert text(await call(server, "echo", text="let in")) == "let in"
        web.credentials = "Bearer 9"
        message = await read_failure(server, "echo")

    assert message == (
        "The server 'web' answered HTTP 401 (Unauthorized): it wants other credentials; give them "
        'in "headers" or "headersHelper". Nothing was run.'
    )
    offered = [each.headers["authorization"] for each in web.find_requests("tools/call")]
    assert offered == ["Bearer 1", "Bearer 2", "Bearer 2", "Bearer 3"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("exit 3", "ended with code 3"),
        ("echo s3cret", "printed something other than a JSON object"),
        ("echo '[\"s3cret\"]'", "printed something other than a JSON object of texts"),
        ("echo '{\"A\": 1}'", "printed something other than a JSON object of texts"),
        (
            'echo \'{"A": "s3cret\\\\nB: c"}\'',
            "gave a header that has a character that a header cannot hold",
        ),
    ],
)
async def test_a_helper_that_fails_keeps_the_server_down_and_the_reason_is_reported(
    tmp_path: Path, line: str, problem: str
) -> None:
    async with run_web_upstream() as web:
        config = web.build_config(headers_helper=line, restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem == f"has a headersHelper that {problem}"
        assert web.asked == []


async def test_no_secret_is_ever_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = {"headers": {"Authorization": "Bearer s3cret"}}

    async with run_chained(tmp_path, config=secret) as (web, server):
        web.credentials = "Bearer other"
        said = [await read_failure(server, "echo"), repr(server.config)]
        web.credentials = None
        said += [await read_failure(server, tool) for tool in ("drop", "page", "cut_json")]
        await web.stop()
        said.append(await read_failure(server, "echo"))

    assert "s3cret" not in "".join(said) + caplog.text
    assert "/mcp" not in caplog.text
