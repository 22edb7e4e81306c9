"""The server process: behaviour on client errors and signals, and cleanup at the end."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import decode, encode
from tests.support.client import (
    Installation,
    RawServer,
    build_tools_call,
    extract_raw_text,
    start_raw_server,
)
from tests.support.paths import UPSTREAMS

INITIALIZE: JsonObject = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "file", "version": "1"},
    },
}
# One process ignores TERM, one has a session of its own.
LEAVE_PROCESSES = (
    "(trap '' TERM; sleep 613) & setsid sleep 613 & sleep 613 & echo ready > started; wait"
)


def working_here(installed: Installation) -> list[int]:
    """The processes that work in this test's folder, the server itself excepted."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            here = (entry / "cwd").readlink().is_relative_to(installed.folder)
            if here and b"mcp_dispatch\0serve" not in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


async def wait_until_gone(installed: Installation) -> None:
    with anyio.fail_after(15):
        for pid in working_here(installed):
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                await anyio.wait_readable(descriptor)
            finally:
                os.close(descriptor)
    assert working_here(installed) == []


async def find_running_bash(server: RawServer, installed: Installation) -> None:
    """A command that has started three processes and waits for them."""
    started = installed.workspace / "started"
    os.mkfifo(started)
    await server.call("bash", "Bash", command=LEAVE_PROCESSES)
    with anyio.fail_after(15):
        told = await to_thread.run_sync(started.read_text, abandon_on_cancel=True)
    assert told == "ready\n"
    assert len(working_here(installed)) > 3


def read_error_code(message: JsonObject) -> object:
    error = message.get("error")
    return error["code"] if isinstance(error, dict) else None


async def test_a_call_before_the_handshake_is_refused(installed: Installation) -> None:
    async with start_raw_server(installed) as server:
        await server.call(1, "Read", file_path="x")
        with anyio.fail_after(20):
            answer = await server.answer(1)

    assert "error" in answer


async def test_invalid_json_and_invalid_utf_8_are_answered_and_the_next_call_works(
    installed: Installation,
) -> None:
    installed.write_file("a", "text")
    async with start_raw_server(installed) as server:
        await server.handshake()
        await server.send(b"{not json", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')
        await server.send(b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b"[1]", b'{"id":true}')
        await server.call(2, "Read", file_path="a")
        with anyio.fail_after(20):
            answers = [await server.receive() for _ in range(6)]

    assert [read_error_code(answer) for answer in answers] == [
        -32700,
        -32700,
        -32600,
        -32600,
        -32600,
        None,
    ]
    assert extract_raw_text(answers[-1]) == "     1\ttext"


async def test_requests_from_a_file_are_all_answered(installed: Installation) -> None:
    installed.write_file("a", "text")
    requests = installed.folder / "requests.jsonl"
    lines = [
        encode(INITIALIZE),
        encode({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        *(encode(build_tools_call(n, "Read", file_path="a")) for n in range(1, 4)),
    ]
    requests.write_bytes(b"\n".join(lines))

    with requests.open("rb") as stdin:
        done = await anyio.run_process(
            installed.command, stdin=stdin, env=installed.environ, cwd=installed.workspace
        )

    answers = [decode(line) for line in done.stdout.splitlines()]
    assert {str(answer["id"]) for answer in answers if isinstance(answer, dict)} == set("0123")
    assert len(answers) == 4
    assert done.stderr == b""


async def test_a_client_that_stops_reading_costs_bounded_memory(installed: Installation) -> None:
    installed.add_rules(allow=["mcp__raw"])
    upstream = str(UPSTREAMS / "raw.py")
    installed.add_upstream("raw", sys.executable, upstream)
    megabyte = "x" * 1_000_000

    async with start_raw_server(installed) as server:
        await server.handshake()
        for number in range(100):
            await server.call(number, "raw__echo", text=megabyte)
        await server.call("last", "Read", file_path="nothing")
        status = Path(f"/proc/{server.child.pid}/status").read_text(encoding="utf-8")
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        with anyio.fail_after(60):
            answered = {str((await server.receive())["id"]) for _ in range(101)}

    assert peak is not None
    assert int(peak.group(1)) < 500_000, peak.group(0)
    assert answered == {*map(str, range(100)), "last"}


async def test_a_client_that_disappears_ends_the_server_and_all_it_started(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["Bash"])
    async with start_raw_server(installed) as server:
        await server.handshake()
        await find_running_bash(server, installed)

        await server.stdin.aclose()
        await server.stdout.aclose()
        with anyio.fail_after(20):
            code = await server.child.wait()

    assert code == 0
    await wait_until_gone(installed)


async def test_a_write_that_has_begun_is_whole_when_the_client_disappears(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    content = "0123456789" * 2_000_000
    async with start_raw_server(installed) as server:
        await server.handshake()
        await server.call(1, "Write", file_path="big", content=content)
        await server.stdin.aclose()
        with anyio.fail_after(30):
            await server.child.wait()

    left = sorted(path.name for path in installed.workspace.iterdir())
    assert left in ([], ["big"])
    if left:
        assert (installed.workspace / "big").stat().st_size == len(content)


async def test_a_server_that_is_killed_leaves_no_process_behind(installed: Installation) -> None:
    installed.add_rules(allow=["Bash", "mcp__demo"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")
    async with start_raw_server(installed) as server:
        await server.handshake()
        await find_running_bash(server, installed)

        server.child.kill()
        with anyio.fail_after(20):
            await server.child.wait()
        await wait_until_gone(installed)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_shuts_the_server_down_in_order(
    installed: Installation, number: signal.Signals
) -> None:
    installed.add_rules(allow=["Bash"])
    async with start_raw_server(installed) as server:
        await server.handshake()
        await find_running_bash(server, installed)

        server.child.send_signal(number)
        with anyio.fail_after(20):
            code = await server.child.wait()

    assert code == 128 + number
    await wait_until_gone(installed)
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled"]
    log = next((installed.state / "logs").glob("server-*.log")).read_text(encoding="utf-8")
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--settings", "nowhere.json"], "nowhere.json"),
        (["--mcp-config", "nowhere.json"], "nowhere.json"),
        (["--workspace", "/nowhere/at/all"], "--workspace /nowhere/at/all: not a directory"),
    ],
)
def test_a_problem_at_the_start_is_one_line_with_the_path_of_the_log(
    installed: Installation, flags: list[str], problem: str
) -> None:
    done = subprocess.run(
        [*installed.command, *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=installed.environ,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("mcp-dispatch: ")
    assert problem in done.stderr
    log = re.search(r"\(log: (.+)\)", done.stderr)
    assert log is not None
    assert Path(log.group(1)).is_file()


def test_a_state_directory_that_cannot_be_created_is_reported_in_one_line(
    installed: Installation,
) -> None:
    blocked = installed.folder / "file"
    blocked.write_text("", encoding="utf-8")

    done = subprocess.run(
        [*installed.command, "--state-dir", str(blocked / "state")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=installed.environ,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("mcp-dispatch: cannot use the state directory ")
    assert done.stderr.count("\n") == 1


def cpu_seconds(pid: int) -> float:
    """What the process has used: other programs on the machine do not lengthen it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure_seconds(server: RawServer, id: int, megabytes: int) -> float:
    text = "x" * (megabytes * 1_000_000)
    begun = cpu_seconds(server.child.pid)
    await server.call(id, "raw__echo", text=text)
    with anyio.fail_after(120):
        answer = await server.answer(id)
    assert "result" in answer
    return cpu_seconds(server.child.pid) - begun


async def test_a_call_with_fifty_megabytes_takes_linear_time(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["mcp__raw"])
    upstream = str(UPSTREAMS / "raw.py")
    installed.add_upstream("raw", sys.executable, upstream)

    async with start_raw_server(installed) as server:
        await server.handshake()
        await measure_seconds(server, 1, 1)
        small = min([await measure_seconds(server, n, 10) for n in (2, 3)])
        large = min([await measure_seconds(server, n, 50) for n in (4, 5)])

    # Linear is a factor of 5; quadratic would be 25.
    assert large / max(small, 0.05) < 15


async def test_a_restart_of_an_upstream_harms_neither_the_server_nor_other_tools(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["mcp__raw"])
    upstream = str(UPSTREAMS / "raw.py")
    installed.add_upstream("raw", sys.executable, upstream)
    installed.write_file("a", "text")

    async with start_raw_server(installed) as server:
        await server.handshake()
        with anyio.fail_after(40):
            await server.call(1, "raw__crash")
            crashed = await server.answer(1)
            await server.call(2, "Read", file_path="a")
            read = await server.answer(2)
            await server.call(3, "raw__vendor")
            again = await server.answer(3)

    assert "'raw' exited with code 3" in extract_raw_text(crashed)
    assert "not repeated" in extract_raw_text(crashed)
    assert extract_raw_text(read) == "     1\ttext"
    assert "result" in again


async def test_a_rule_that_differs_from_a_tool_only_in_case_is_reported_with_the_first_list(
    installed: Installation,
) -> None:
    installed.add_rules(deny=["mcp__demo__Recall", "mcp__demo__remember"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")
    listing: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    initialized: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = b"".join(encode(each) + b"\n" for each in (INITIALIZE, initialized, listing))
    stdin = installed.write_file("stdin", lines)

    with stdin.open("rb") as requests:
        done = await anyio.run_process(
            installed.command, stdin=requests, env=installed.environ, cwd=installed.workspace
        )

    said = done.stderr.decode()
    assert said.count("'mcp__demo__Recall': demo has no tool Recall; ") == 1
    assert "did you mean recall?" in said
    assert "has no tool remember" not in said
    assert b'"demo__recall"' in done.stdout


async def test_a_rule_that_differs_from_a_server_only_in_case_is_reported_at_the_start(
    installed: Installation,
) -> None:
    installed.add_rules(deny=["mcp__Demo"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")

    done = await anyio.run_process(
        installed.command, input=b"", env=installed.environ, cwd=installed.workspace
    )

    assert "mcp__Demo" in done.stderr.decode()
    assert "demo" in done.stderr.decode()
