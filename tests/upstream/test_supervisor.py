"""Supervised servers start in parallel, are restarted, and never affect each other."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.backoff import Backoff
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.lifecycle import ServerState, Timing
from mcp_dispatch.upstream.listener import NullListener
from mcp_dispatch.upstream.supervisor import Supervisor
from tests.support.depth import choose_count
from tests.support.upstreams.raw import VENDOR_RESULT
from tests.support.upstreams.support import (
    HeldPause,
    call_tool,
    is_running,
    list_starts,
    raw_launch,
    raw_server,
    read_received,
    run_supervised,
    run_upstreams,
    skip_pause,
    wait_for_message,
    wait_for_state,
)

NOT_REPEATED = (
    "It is being restarted. The call was not repeated: check whether it took effect before you "
    "try again."
)


async def call(server: Supervisor, tool: str, **arguments: Any) -> JsonObject | ProtocolError:
    with anyio.fail_after(20):
        return await call_tool(server, tool, arguments)


async def read_failure(server: Supervisor, tool: str, **arguments: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        await call(server, tool, **arguments)
    return str(caught.value)


async def test_a_server_becomes_ready_and_answers(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        assert server.state is ServerState.CONNECTING

        result = await call(server, "vendor")

        assert result == VENDOR_RESULT
        assert (server.state, server.problem) == (ServerState.READY, None)
        assert "vendor" in [tool["name"] for tool in server.tools]


async def test_ten_servers_of_which_three_are_broken_leave_seven_ready(tmp_path: Path) -> None:
    good = [raw_server(f"good{number}") for number in range(7)]
    broken = [
        ServerConfig("absent", StdioEndpoint("/nonexistent/program")),
        raw_server("quitter", "--exit", "4"),
        raw_server("stranger", "--refuse-initialize", "-32603"),
    ]
    configs = [broken[0], *good, *broken[1:]]

    async with run_upstreams(tmp_path, *configs) as every:
        assert await every.wait_until_settled(20)

        states = {server.name: (server.state, server.problem) for server in every.servers}
        answers = [await call(server, "vendor") for server in every.servers[1:8]]
    assert states == {
        "absent": (
            ServerState.DOWN,
            "cannot be started: no such executable; install it, or correct the name or PATH",
        ),
        **{f"good{number}": (ServerState.READY, None) for number in range(7)},
        "quitter": (ServerState.DOWN, "exited with code 4"),
        "stranger": (ServerState.DOWN, "refused 'initialize': initialize is not for me (-32603)"),
    }
    assert answers == [VENDOR_RESULT] * 7


async def test_a_server_that_never_answers_does_not_delay_the_others(tmp_path: Path) -> None:
    async with run_upstreams(tmp_path, raw_server("mute", "--mute"), raw_server("good")) as every:
        mute, good = every.servers

        assert await call(good, "vendor") == VENDOR_RESULT
        assert not await every.wait_until_settled(0.01)
        assert mute.state is ServerState.CONNECTING


async def test_a_server_that_never_answers_is_down_after_its_deadline(tmp_path: Path) -> None:
    pause = HeldPause()
    config = raw_server("mute", "--mute", connect_timeout=0.2)

    async with run_supervised(tmp_path, config, pause=pause) as server:
        await wait_for_state(server, ServerState.DOWN)

        assert server.problem == "did not answer within 0.2 s"


async def test_a_start_fails_if_the_tool_list_is_never_answered(tmp_path: Path) -> None:
    pause = HeldPause()
    config = raw_server("mute", "--mute-list")

    async with run_supervised(tmp_path, config, list_timeout=0.2, pause=pause) as server:
        await wait_for_state(server, ServerState.DOWN)

        assert server.problem == "did not answer 'tools/list' within 0.2 s"


async def test_a_call_to_a_server_that_is_still_starting_waits_no_longer_than_the_deadline(
    tmp_path: Path,
) -> None:
    async with run_supervised(tmp_path, raw_server("mute", "--mute"), connect_wait=0.2) as server:
        message = await read_failure(server, "vendor")

    assert message == (
        "The server 'mute' is not available: it is still starting after 0.2 s. Try again later."
    )


@pytest.mark.parametrize(
    ("tool", "end"), [("crash", "exited with code 3"), ("die", "was killed by SIGKILL")]
)
async def test_a_server_that_dies_in_a_call_fails_it_once_and_is_restarted(
    tmp_path: Path, tool: str, end: str
) -> None:
    log = tmp_path / "log"

    async with run_supervised(
        tmp_path, raw_server("raw", "--log", str(log)), pause=skip_pause
    ) as server:
        message = await read_failure(server, tool)
        again = await call(server, "vendor")

        assert message == f"The server 'raw' {end} while it ran {tool!r}. {NOT_REPEATED}"
        assert again == VENDOR_RESULT
    assert [sent["name"] for sent in read_received(log, "tools/call")] == [tool, "vendor"]
    assert len(list_starts(log)) == 2


async def test_all_calls_in_flight_fail_when_the_server_is_killed_and_none_is_sent_again(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    messages: list[str] = []

    async with run_supervised(
        tmp_path, raw_server("raw", "--log", str(log)), pause=skip_pause
    ) as server:

        async def mute() -> None:
            messages.append(await read_failure(server, "mute"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(mute)
            await wait_for_message(log, "tools/call", 5)
            os.kill(list_starts(log)[0], signal.SIGKILL)
        assert await call(server, "vendor") == VENDOR_RESULT

    expected = f"The server 'raw' was killed by SIGKILL while it ran 'mute'. {NOT_REPEATED}"
    assert messages == [expected] * 5
    assert [sent["name"] for sent in read_received(log, "tools/call")] == ["mute"] * 5 + ["vendor"]


async def test_a_server_that_closes_its_output_and_lives_on_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async with run_supervised(
        tmp_path, raw_server("raw", "--log", str(log)), pause=skip_pause
    ) as server:
        message = await read_failure(server, "hang_up")
        again = await call(server, "vendor")

        assert (
            message == f"The server 'raw' closed its output while it ran 'hang_up'. {NOT_REPEATED}"
        )
        assert again == VENDOR_RESULT
        first, second = list_starts(log)
        assert (is_running(first), is_running(second)) == (False, True)


async def test_a_descendant_that_holds_the_pipes_does_not_hide_the_end_of_its_server(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"

    async with run_supervised(
        tmp_path, raw_server("raw", "--log", str(log)), pause=skip_pause
    ) as server:
        message = await read_failure(server, "crash_leaving_child")
        again = await call(server, "vendor")

        assert message == (
            "The server 'raw' exited with code 5 while it ran 'crash_leaving_child'. "
            + NOT_REPEATED
        )
        assert again == VENDOR_RESULT
        (descendant,) = [entry["child"] for entry in read_received(log) if "child" in entry]
        assert not is_running(descendant)


async def test_a_call_that_times_out_fails_and_the_server_keeps_running(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = raw_server("raw", "--log", str(log), timeout=0.2)

    async with run_supervised(tmp_path, config) as server:
        message = await read_failure(server, "mute")

        assert message == (
            "The server 'raw' did not answer 'mute' within 0.2 s and was told to stop; the call "
            'may have taken effect. A longer "timeout" (in milliseconds) can be set in its entry '
            'under "mcpServers".'
        )
        assert await call(server, "vendor") == VENDOR_RESULT
    assert len(list_starts(log)) == 1


async def test_restart_delays_grow_and_a_call_ends_the_current_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pause = HeldPause()
    backoff = Backoff(jitter=lambda: 0.0)
    config = raw_server("raw", "--exit", "1", "--log", str(log))

    async with run_supervised(tmp_path, config, pause=pause, backoff=backoff) as server:
        messages: set[str] = set()
        for _ in range(3):
            await wait_for_state(server, ServerState.DOWN)
            messages.add(await read_failure(server, "vendor"))
        await pause.wait_for_pauses(4)

        assert pause.requested == [0.5, 1.0, 2.0, 4.0]
        assert len(list_starts(log)) == 4
        assert messages == {
            "The server 'raw' is not available: it exited with code 1. Nothing was sent. "
            f"Its log is {tmp_path / 'logs' / 'raw.stderr.log'}."
        }


async def test_calls_that_wait_for_one_restart_share_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pause = HeldPause()
    config = raw_server("raw", "--exit", "1", "--log", str(log))

    async with run_supervised(tmp_path, config, pause=pause) as server:
        await wait_for_state(server, ServerState.DOWN)
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(read_failure, server, "vendor")
        await pause.wait_for_pauses(2)

        assert len(list_starts(log)) == 2


async def test_a_server_that_ran_long_enough_restarts_with_the_shortest_delay(
    tmp_path: Path,
) -> None:
    pause, now = HeldPause(), [0.0]
    timing: dict[str, Any] = {
        "pause": pause,
        "clock": lambda: now[0],
        "backoff": Backoff(jitter=lambda: 0.0),
    }

    async with run_supervised(tmp_path, raw_server(), **timing) as server:
        await read_failure(server, "crash")
        await read_failure(server, "crash")
        await call(server, "vendor")
        now[0] += 60
        await read_failure(server, "crash")
        await pause.wait_for_pauses(3)

        assert pause.requested == [0.5, 1.0, 0.5]


async def test_a_disabled_server_is_never_started(tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = raw_server("raw", "--log", str(log), disabled=True)

    async with run_upstreams(tmp_path, config) as every:
        assert await every.wait_until_settled(5)
        message = await read_failure(every.servers[0], "vendor")

        assert every.servers[0].state is ServerState.DISABLED
    assert message == (
        "The server 'raw' is not available: it is disabled; "
        'remove "disabled" from its entry under "mcpServers".'
    )
    assert list_starts(log) == []


async def test_a_changed_tool_list_is_read_again_and_reported(tmp_path: Path) -> None:
    changed = anyio.Event()

    class Listener(NullListener):
        def handle_tools_changed(self) -> None:
            changed.set()

    async with run_upstreams(tmp_path, raw_server(), listener=Listener()) as every:
        server = every.servers[0]
        await every.wait_until_settled(10)
        changed = anyio.Event()

        await call(server, "grow", name="grown")
        with anyio.fail_after(10):
            await changed.wait()

        assert server.tools[-1]["name"] == "grown"
        assert server.state is ServerState.READY


async def test_ten_thousand_list_changed_notifications_cause_one_list_per_interval(
    tmp_path: Path,
) -> None:
    pause, log = HeldPause(), tmp_path / "log"
    config = raw_server("raw", "--log", str(log))

    async with run_supervised(tmp_path, config, pause=pause) as server:
        await call(server, "grow", name="grown", times=10_000)
        await pause.wait_for_pauses(1)
        answer = await call(server, "vendor")

        assert answer == VENDOR_RESULT
        assert server.tools[-1]["name"] == "grown"
        # Once at the start and once for all of the notices, until the interval is over.
        assert len(read_received(log, "tools/list")) == 2
        assert pause.requested == [Timing().relist_interval]


async def test_the_tools_of_a_server_that_ended_stay_listed(tmp_path: Path) -> None:
    pause = HeldPause()

    async with run_supervised(tmp_path, raw_server(), pause=pause) as server:
        await call(server, "vendor")
        before = server.tools
        await read_failure(server, "crash")
        await wait_for_state(server, ServerState.DOWN)

        assert server.tools == before != ()


async def test_an_incomplete_list_leaves_the_server_usable_but_degraded(tmp_path: Path) -> None:
    async with run_supervised(
        tmp_path, raw_server("raw", "--loop-cursor", "--page", "2")
    ) as server:
        result = await call(server, "vendor")

        assert result == VENDOR_RESULT
        assert server.state is ServerState.DEGRADED
        assert server.problem == "gave the page cursor '0' twice"


async def test_a_flood_on_stderr_is_kept_in_two_files_of_bounded_size(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        result = await call(server, "flood_stderr", lines=40_000)

        assert result == {"content": [{"type": "text", "text": "flooded"}]}
    log = tmp_path / "logs" / "raw.stderr.log"
    older = tmp_path / "logs" / "raw.stderr.log.1"
    assert older.stat().st_size <= 1_000_000
    assert log.stat().st_size <= 1_000_000
    assert log.read_text(encoding="utf-8").splitlines()[-1] == f"{39_999:09d} " + "x" * 89
    assert log.stat().st_mode & 0o777 == 0o600


async def test_the_last_stderr_output_of_a_server_is_in_its_log(tmp_path: Path) -> None:
    pause = HeldPause()

    async with run_supervised(tmp_path, raw_server("raw", "--exit", "1"), pause=pause) as server:
        await pause.wait_for_pauses(1)

        assert server.state is ServerState.DOWN

    log = tmp_path / "logs" / "raw.stderr.log"
    assert log.read_text(encoding="utf-8") == "no licence found\n"


async def test_garbage_on_stdout_is_counted_and_logged(tmp_path: Path) -> None:
    async with run_supervised(tmp_path, raw_server()) as server:
        await call(server, "garbage")
        await call(server, "vendor")

        assert server.unexpected_output_count == 6
    log = (tmp_path / "logs" / "raw.stderr.log").read_bytes()
    assert log.startswith(b"[no message, undecodable] Listening on port 0!\n")


async def test_a_child_gets_the_baseline_environment_and_its_own_variables(tmp_path: Path) -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/h",
        "ANTHROPIC_API_KEY": "theirs",
        "NAMED": "n",
        "MCP_DISPATCH_X": "ours",
    }
    seen: dict[str, Any] = {}
    choices: list[Any] = [(), ("NAMED", "ABSENT"), True]

    for inherit in choices:
        config = ServerConfig("raw", raw_launch(inherit_env=inherit, env={"OWN": "o"}))
        async with run_upstreams(tmp_path, config, environ=environ) as every:
            result = await call(every.servers[0], "environment")
            assert isinstance(result, dict)
            seen[str(inherit)] = result["structuredContent"]

    for environment in seen.values():
        del environment["MCP_DISPATCH_RUN"]
        environment.pop("LC_CTYPE", None)
    base = {"PATH": "/bin", "HOME": "/h", "OWN": "o"}
    assert seen == {
        "()": base,
        "('NAMED', 'ABSENT')": {**base, "NAMED": "n"},
        "True": {**base, "NAMED": "n", "ANTHROPIC_API_KEY": "theirs"},
    }


async def test_no_process_is_left_even_by_a_server_that_ignores_signals(tmp_path: Path) -> None:
    log, stubborn = tmp_path / "log", tmp_path / "stubborn"
    configs = (
        raw_server("plain", "--log", str(log)),
        raw_server("stubborn", "--log", str(stubborn), "--ignore-eof", "--ignore-term"),
    )

    async with run_upstreams(tmp_path, *configs) as every:
        await every.wait_until_settled(10)
        pids = [*list_starts(log), *list_starts(stubborn)]

        assert [is_running(pid) for pid in pids] == [True, True]
    assert [is_running(pid) for pid in pids] == [False, False]


def count_descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def test_many_restarts_leave_no_process_and_no_descriptor(tmp_path: Path) -> None:
    log, restarts = tmp_path / "log", choose_count(quick=50, deep=1000)

    async with run_supervised(
        tmp_path, raw_server("raw", "--log", str(log)), pause=skip_pause
    ) as server:
        await read_failure(server, "crash")
        await wait_for_state(server, ServerState.READY)
        before = count_descriptors()
        for _ in range(restarts):
            await read_failure(server, "crash")
            await wait_for_state(server, ServerState.READY)

        assert count_descriptors() == before
        pids = list_starts(log)
        assert len(pids) == restarts + 2
        assert [pid for pid in pids if is_running(pid)] == pids[-1:]


async def test_a_shutdown_during_a_start_leaves_no_process(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async with run_upstreams(tmp_path, raw_server("raw", "--mute", "--log", str(log))):
        await wait_for_message(log, "initialize")

    assert [is_running(pid) for pid in list_starts(log)] == [False]
