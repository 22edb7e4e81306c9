"""The stdio streams in a process: files, devices, terminals, closed descriptors, memory."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from mcp_dispatch.model.json import Json
from mcp_dispatch.wire.codec import encode
from tests.support.paths import ROOT
from tests.support.toy_client import call

SERVER = [sys.executable, "-m", "tests.support.toy_stdio_server"]
SECONDS = 30


def _build_requests(count: int) -> bytes:
    return b"".join(encode(call(id, "echo", {"id": id})) + b"\n" for id in range(count))


def _parse_ids(output: bytes) -> list[Json]:
    return sorted(json.loads(line)["id"] for line in output.splitlines())


@contextmanager
def _start_server(
    stdin: int | IO[bytes] = subprocess.PIPE, stdout: int | IO[bytes] = subprocess.PIPE
) -> Generator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SERVER, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait(SECONDS)


def _send(process: subprocess.Popen[bytes], *lines: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()


def _read_answer(process: subprocess.Popen[bytes]) -> dict[str, Json]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_requests_from_a_file_are_all_answered_before_the_end(tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    requests.write_bytes(_build_requests(300).rstrip(b"\n"))

    with (
        requests.open("rb") as stdin,
        answers.open("wb") as stdout,
        _start_server(stdin, stdout) as server,
    ):
        _, complaints = server.communicate(timeout=SECONDS)

    assert (server.returncode, complaints) == (0, b"")
    assert _parse_ids(answers.read_bytes()) == list(range(300))


def test_an_empty_input_ends_the_server_at_once() -> None:
    with _start_server(subprocess.DEVNULL) as server:
        output, complaints = server.communicate(timeout=SECONDS)

    assert (server.returncode, output, complaints) == (0, b"", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_streams_closed_from_the_start_end_the_server_without_an_error(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *SERVER]

    done = subprocess.run(
        command,
        input=_build_requests(3),
        capture_output=True,
        timeout=SECONDS,
        cwd=ROOT,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_requests_typed_on_a_terminal_are_answered_until_end_of_file_is_typed() -> None:
    master, terminal = pty.openpty()

    with os.fdopen(master, "wb", buffering=0) as keyboard, _start_server(terminal) as server:
        os.close(terminal)
        keyboard.write(_build_requests(1))
        answer = _read_answer(server)
        keyboard.write(b"\x04")
        server.wait(SECONDS)

    assert answer["id"] == 0
    assert server.returncode == 0


def test_stray_prints_go_to_stderr_and_stray_reads_are_empty() -> None:
    with _start_server() as server:
        _send(server, encode(call(1, "stray")))
        answer = _read_answer(server)
        output, complaints = server.communicate(timeout=SECONDS)

    content: Json = [{"type": "text", "text": "''"}]
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"content": content}}
    assert (server.returncode, output, complaints) == (0, b"", b"a stray print\n")


def test_a_client_that_stops_reading_for_good_ends_the_server_though_it_still_writes() -> None:
    with _start_server() as server:
        _send(server, encode(call(1, "wait")))
        assert server.stdout is not None
        server.stdout.close()
        _send(server, encode(call(2, "echo")))
        server.wait(SECONDS)

    assert server.returncode == 0


def test_a_client_that_disappears_ends_the_server() -> None:
    with _start_server() as server:
        _send(server, encode(call(1, "wait")), encode(call(2, "big", {"size": 1_000_000})))
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdout.close()
        server.stdin.close()
        server.wait(SECONDS)

    assert server.returncode == 0


def _measure_memory_mb(process: subprocess.Popen[bytes]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_client_that_does_not_read_costs_bounded_memory() -> None:
    with _start_server() as server:
        _send(server, encode(call("first", "echo")))
        assert _read_answer(server)["id"] == "first"
        before = _measure_memory_mb(server)
        _send(server, *[encode(call(id, "big", {"size": 1_000_000})) for id in range(200)])
        _send(server, encode(call("last", "stray")))
        assert server.stderr is not None
        # It prints on the other pipe, when every call before it has had its chance to run.
        assert server.stderr.readline() == b"a stray print\n"
        grown = _measure_memory_mb(server) - before
        answers = [_read_answer(server) for _ in range(201)]

    assert grown < 60
    assert sorted(str(answer["id"]) for answer in answers) == sorted(
        ["last", *(str(id) for id in range(200))]
    )
