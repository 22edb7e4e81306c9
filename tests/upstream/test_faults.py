"""Servers that fail repeatedly, hang, or flood: the errors of calls, and what must never happen."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.backoff import CircuitBreaker, CircuitLimits
from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.lifecycle import ServerState, Timing
from mcp_dispatch.upstream.supervisor import Supervisor
from tests.support.upstreams.raw import VENDOR_RESULT
from tests.support.upstreams.support import (
    HeldPause,
    call_tool,
    is_running,
    list_starts,
    raw_server,
    read_received,
    run_supervised,
    run_upstreams,
    skip_pause,
    wait_for_message,
    wait_for_state,
)
from tests.support.upstreams.web import run_web_upstream


async def call(server: Supervisor, tool: str, **arguments: Any) -> JsonObject | ProtocolError:
    with anyio.fail_after(60):
        return await call_tool(server, tool, arguments)


async def read_failure(server: Supervisor, tool: str, **arguments: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        await call(server, tool, **arguments)
    return str(caught.value)


class Clock:
    """Stands where it is put."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_circuit_opens_after_the_maximum_of_failures() -> None:
    clock = Clock()
    circuit = CircuitBreaker(CircuitLimits(max_failures=3, retry_interval=10), clock)
    circuit.record_attempt()
    circuit.record_failure()

    seen: list[tuple[bool, bool]] = []
    for failures in range(1, 5):
        circuit.failures = failures
        seen.append((circuit.is_open, circuit.may_try))

    assert seen == [(False, True), (False, True), (True, False), (True, False)]


def test_an_open_circuit_allows_one_attempt_per_interval() -> None:
    clock = Clock()
    circuit = CircuitBreaker(CircuitLimits(max_failures=1, retry_interval=10), clock)
    circuit.failures = 1
    circuit.record_attempt()
    circuit.record_failure()

    before = circuit.may_try
    clock.now += 10
    due = circuit.may_try
    circuit.record_attempt()

    assert (before, due, circuit.may_try) == (False, True, False)


@pytest.mark.parametrize(
    ("seconds", "words"), [(3, "3 s"), (119, "119 s"), (180, "3 min"), (7200, "2 h")]
)
def test_a_circuit_describes_the_duration_of_the_outage(seconds: float, words: str) -> None:
    clock = Clock()
    circuit = CircuitBreaker(CircuitLimits(), clock)
    circuit.failures = 7
    circuit.record_failure()
    clock.now += seconds
    circuit.record_failure()

    assert circuit.describe_outage() == f"for {words}, after 7 failures in a row"


async def test_calls_to_a_server_that_keeps_failing_fail_at_once_and_start_nothing(
    tmp_path: Path,
) -> None:
    log, pause = tmp_path / "log", HeldPause()
    config = raw_server("raw", "--exit", "4", "--log", str(log))
    clock = Clock()

    async with run_supervised(tmp_path, config, pause=pause, clock=clock) as server:
        for attempts in range(1, 5):
            await pause.wait_for_pauses(attempts)
            await read_failure(server, "vendor")
        await pause.wait_for_pauses(5)
        clock.now += 5
        messages = [await read_failure(server, "vendor") for _ in range(100)]

        assert len(list_starts(log)) == 5
        clock.now += 5
        await read_failure(server, "vendor")
        assert len(list_starts(log)) == 6
    assert set(messages) == {
        "The server 'raw' is not available: it has been down for 5 s, after 5 failures in a row; "
        "the last time it exited with code 4. Nothing was sent. It is tried again from time to time."
    }


async def test_a_server_that_is_not_to_be_restarted_is_started_by_the_next_call(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    config = raw_server("raw", "--log", str(log), restart=False)

    async with run_supervised(tmp_path, config, pause=skip_pause) as server:
        message = await read_failure(server, "crash")
        await anyio.wait_all_tasks_blocked()
        before = (server.state, len(list_starts(log)))
        again = await call(server, "vendor")

        assert again == VENDOR_RESULT
    assert before == (ServerState.DOWN, 1)
    assert len(list_starts(log)) == 2
    assert "The next call restarts it." in message


async def test_a_call_without_progress_times_out_and_is_cancelled_at_the_server(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    config = raw_server("raw", "--log", str(log), idle_timeout=0.2)

    async with run_supervised(tmp_path, config) as server:
        message = await read_failure(server, "mute")
        await wait_for_message(log, "notifications/cancelled")

        assert await call(server, "vendor") == VENDOR_RESULT
    assert message == (
        "The server 'raw' reported no progress of 'mute' for 0.2 s and was told to stop; the call "
        'may have taken effect. A longer "idleTimeout" (in milliseconds) can be set in its entry '
        'under "mcpServers".'
    )


async def test_progress_extends_a_call_but_not_beyond_its_timeout(tmp_path: Path) -> None:
    config = raw_server("raw", timeout=1.0, idle_timeout=0.5)

    async with run_supervised(tmp_path, config) as server:
        message = await read_failure(server, "progress_forever")

    assert message.startswith("The server 'raw' did not answer 'progress_forever' within 1 s")


async def test_a_server_that_stops_reading_blocks_its_own_calls_only(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async with run_upstreams(tmp_path, raw_server("stalled"), raw_server("good")) as every:
        stalled, good = every.servers
        await wait_for_state(good, ServerState.READY)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(stalled, "stall", fifo=str(fifo)))
            tasks.start_soon(lambda: call(stalled, "echo", text="x" * 20_000_000))
            await anyio.wait_all_tasks_blocked()

            assert await call(good, "vendor") == VENDOR_RESULT
            await anyio.to_thread.run_sync(fifo.write_bytes, b"go on")


async def test_a_thousand_calls_with_cancellations_and_crashes_get_one_answer_each(
    tmp_path: Path,
) -> None:
    """Nobody gets an answer to another's call, and no call reaches a server twice."""
    logs = [tmp_path / f"log{number}" for number in range(4)]
    configs = [raw_server(f"s{at}", "--log", str(log)) for at, log in enumerate(logs)]
    outcomes: dict[str, list[str]] = {}

    async with (
        run_web_upstream() as web,
        run_upstreams(
            tmp_path,
            *configs,
            web.build_config(),
            timing=Timing(pause=skip_pause, circuit_limits=CircuitLimits(99)),
        ) as every,
    ):
        for server in every.servers:
            await wait_for_state(server, ServerState.READY)

        async def echo(server: Supervisor, nonce: str) -> None:
            answers = outcomes.setdefault(nonce, [])
            try:
                answer = await call_tool(server, "echo", {"text": nonce})
                answers.append("mine" if f"'{nonce}'" in str(answer) else f"another's: {answer}")
            except CallFailed:
                answers.append("failed")

        async with anyio.create_task_group() as tasks:
            for number in range(1000):
                server = every.servers[number % 5]
                tasks.start_soon(echo, server, f"n{number}")
                if number % 100 == 50:
                    await anyio.wait_all_tasks_blocked()
                    with suppress(ProcessLookupError):  # it may be between two lives
                        os.kill(list_starts(logs[number // 100 % 4])[-1], 9)
                if number % 100 == 75:
                    with anyio.move_on_after(0.001):
                        await echo(server, f"cancelled{number}")

    finished = {nonce: answers for nonce, answers in outcomes.items() if nonce.startswith("n")}
    assert len(finished) == 1000
    assert {len(answers) for answers in finished.values()} == {1}
    assert {answers[0] for answers in finished.values()} <= {"mine", "failed"}
    sent = [each["arguments"]["text"] for log in logs for each in read_received(log, "tools/call")]
    sent += [
        each.message["params"]["arguments"]["text"] for each in web.find_requests("tools/call")
    ]
    assert len(sent) == len(set(sent))
    assert sum(answers == ["mine"] for answers in finished.values()) > 500


async def test_twenty_servers_of_which_five_are_broken_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    def log(name: str) -> Path:
        return tmp_path / f"{name}.log"

    names = [f"good{number}" for number in range(14)]
    good = [raw_server(name, "--log", str(log(name))) for name in names]
    broken = [
        ServerConfig("absent", StdioEndpoint("/nonexistent/program")),
        raw_server("quitter", "--exit", "4"),
        raw_server("mute", "--mute"),
        raw_server("stranger", "--refuse-initialize", "-32603"),
        ServerConfig("nowhere", RemoteEndpoint("http", "http://127.0.0.1:9/mcp")),
    ]
    answers: list[tuple[str, Any]] = []

    async with (
        run_web_upstream() as web,
        run_upstreams(
            tmp_path, *broken, *good, web.build_config(), timing=Timing(pause=skip_pause)
        ) as every,
    ):
        usable = every.servers[5:]
        for server in usable:
            await wait_for_state(server, ServerState.READY)

        async def echo(server: Supervisor, nonce: str) -> None:
            arguments: JsonObject = {"text": nonce}
            answer = await call_tool(server, "echo", arguments)
            answers.append((nonce, answer))

        async with anyio.create_task_group() as tasks:
            for number in range(300):
                server = usable[number % len(usable)]
                tasks.start_soon(echo, server, f"{server.name}-{number}")
        states = {server.name: server.state for server in every.servers}
        os.kill(list_starts(log("good0"))[0], 9)
        await wait_for_state(every.servers[5], ServerState.DOWN, ServerState.CONNECTING)
        await wait_for_state(every.servers[5], ServerState.READY)

    assert len(answers) == 300
    assert all(nonce in str(answer) for nonce, answer in answers)
    for name in names:
        ran = [sent["arguments"]["text"] for sent in read_received(log(name), "tools/call")]
        assert sorted(ran) == sorted(nonce for nonce, _ in answers if nonce.startswith(f"{name}-"))
    assert web.list_calls() == ["echo"] * len(
        [nonce for nonce, _ in answers if nonce.startswith("web")]
    )
    assert {states[name] for name in names} == {ServerState.READY}
    assert not [pid for name in names for pid in list_starts(log(name)) if is_running(pid)]
