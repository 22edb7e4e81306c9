"""Start of the HTTP server: the address, the token, and the error messages for both."""

import os
import re
import socket
import stat
import subprocess
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from mcp_dispatch.model.errors import StartError
from mcp_dispatch.server.http.bind import ListenAddress, bind
from mcp_dispatch.server.http.token import find_token
from tests.support.client import Installation
from tests.support.http_server_process import start_http_server

SECRET = "correct-horse-battery"


def start(installed: Installation, *flags: str) -> str:
    """Start a server that must fail, and return its error output."""
    done = subprocess.run(
        [*installed.command, *flags],
        env=installed.environ,
        cwd=installed.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    return re.sub(r" \(log: \S+/logs/server-\d+\.log\)\n$", " LOG", done.stderr)


def write_private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--http", "127.0.0.1"),
            "--http: expected HOST:PORT such as 127.0.0.1:8123, or [::1]:8123, got '127.0.0.1'",
        ),
        (
            ("--http", "127.0.0.1:65536"),
            "--http: expected HOST:PORT such as 127.0.0.1:8123, or [::1]:8123, "
            "got '127.0.0.1:65536'",
        ),
        (
            ("--http", "203.0.113.7:0"),
            "cannot listen on 203.0.113.7:0: this machine has no such address",
        ),
        (
            ("--http", "no-such-host.invalid:0"),
            "cannot listen on no-such-host.invalid:0: no such host",
        ),
        (
            ("--http", "0.0.0.0:0", "--no-auth"),
            "--no-auth is for loopback addresses only, and 0.0.0.0:0 can be reached from "
            "elsewhere; leave the flag out and give clients the token",
        ),
        (("--no-auth",), "--no-auth has a meaning only with --http HOST:PORT"),
        (("--token-file", "x"), "--token-file has a meaning only with --http HOST:PORT"),
        (
            ("--http", "127.0.0.1:0", "--no-auth", "--token-file", "x"),
            "--no-auth and --token-file contradict each other; leave one out",
        ),
        (
            ("--http", "127.0.0.1:0", "--token-file", "/nowhere/token"),
            "cannot use the token file '/nowhere/token': No such file or directory",
        ),
    ],
)
def test_a_failed_start_prints_the_reason_in_one_line(
    installed: Installation, flags: tuple[str, ...], said: str
) -> None:
    assert start(installed, *flags) == f"mcp-dispatch: {said} LOG"


def test_a_port_in_use_is_reported(installed: Installation) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        said = start(installed, "--http", f"127.0.0.1:{port}")

    advice = "the port is in use; name another, or 0 to have one chosen"
    assert said == f"mcp-dispatch: cannot listen on 127.0.0.1:{port}: {advice} LOG"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may listen on any port")
def test_a_low_port_needs_rights() -> None:
    with pytest.raises(StartError) as raised:
        bind(ListenAddress.parse("127.0.0.1:81"))

    advice = "ports below 1024 need special rights; name a higher one"
    assert str(raised.value) == f"cannot listen on 127.0.0.1:81: {advice}"


def test_localhost_is_an_ipv4_address_and_has_a_port_chosen() -> None:
    bound = bind(ListenAddress.parse("localhost:0"))
    with bound.socket:
        assert bound.is_loopback
        assert bound.url == f"http://127.0.0.1:{bound.address.port}/mcp"
        assert bound.address.port > 0


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620])
def test_a_token_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    file = write_private(tmp_path / "to ken", SECRET, mode)

    with pytest.raises(StartError) as raised:
        find_token(file, {}, tmp_path)

    assert str(raised.value) == (
        f"cannot use the token file '{file}': others can open it (mode {mode:04o}); "
        f"make it private with: chmod 600 '{file}'"
    )


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_private_token_file_is_read_without_the_white_space_around(
    tmp_path: Path, mode: int
) -> None:
    token = find_token(write_private(tmp_path / "token", f"\n {SECRET}\r\n", mode), {}, tmp_path)

    assert (token.secret, token.file) == (SECRET, tmp_path / "token")
    assert SECRET not in repr(token)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("short\n", "is too short: expected at least 16 characters, got 5"),
        ("", "is too short: expected at least 16 characters, got 0"),
        (
            "two words of a token",
            "must be one line of at most 4096 ASCII characters without spaces",
        ),
        ("ünüsual-characters-here", "must be one line of at most 4096 ASCII characters without "
         "spaces"),
        ("x" * 5000, "must be one line of at most 4096 ASCII characters without spaces"),
    ],
)  # fmt: skip
def test_a_token_with_bad_characters_or_length_is_rejected(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = write_private(tmp_path / "token", text)

    with pytest.raises(StartError) as in_file:
        find_token(file, {}, tmp_path)
    with pytest.raises(StartError) as in_variable:
        find_token(None, {"MCP_DISPATCH_TOKEN": text}, tmp_path)

    assert str(in_file.value) == f"the token in {file} {problem}"
    assert str(in_variable.value) == f"the token in MCP_DISPATCH_TOKEN {problem}"


def test_a_token_file_must_be_a_file(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)

    for path in (fifo, tmp_path):
        with pytest.raises(StartError) as raised:
            find_token(path, {}, tmp_path)
        assert str(raised.value) == f"cannot use the token file '{path}': it is not a regular file"


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_state_directory(
    tmp_path: Path,
) -> None:
    file = write_private(tmp_path / "token", SECRET)
    variable = {"MCP_DISPATCH_TOKEN": "from-the-environment"}

    assert find_token(file, variable, tmp_path).secret == SECRET
    assert find_token(None, variable, tmp_path).secret == "from-the-environment"
    assert [path.name for path in tmp_path.iterdir()] == ["token"]


def test_a_token_is_generated_once_in_a_private_file(tmp_path: Path) -> None:
    first = find_token(None, {}, tmp_path)
    second = find_token(None, {}, tmp_path)

    assert first == second
    assert len(first.secret) == 43
    assert first.file == tmp_path / "http-token"
    assert stat.S_IMODE((tmp_path / "http-token").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["http-token"]


async def test_servers_that_start_at_once_use_the_same_new_token(tmp_path: Path) -> None:
    secrets: set[str] = set()

    async def find() -> None:
        token = await to_thread.run_sync(lambda: find_token(None, {}, tmp_path))
        secrets.add(token.secret)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(find)

    assert len(secrets) == 1


async def test_the_path_of_the_token_is_printed_and_the_token_is_reused(
    installed: Installation,
) -> None:
    async with start_http_server(installed) as server:
        first = server.token
        place = installed.state.resolve() / "http-token"
        assert server.said[1] == (
            f"mcp-dispatch: clients need the token in {place}; show it with: cat {place}"
        )
        assert first is not None
        assert not any(first in line for line in server.said)
        async with server.client("2026-07-28") as client:
            await client.list_tools()

    async with start_http_server(installed) as server:
        assert server.token == first


async def test_a_server_for_other_machines_prints_a_warning_and_needs_the_token(
    installed: Installation,
) -> None:
    async with start_http_server(installed, http="0.0.0.0:0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        async with server.http() as http:
            answer = await http.post(url, headers={"Authorization": "Bearer none"})
        server.child.terminate()
        await server.end()
        last_words = await server.last_words()

    assert answer.status_code == 401
    assert last_words == (
        "mcp-dispatch: warning: the traffic is not encrypted, and whoever reads it learns the "
        "token; use it behind a TLS proxy or through an SSH tunnel\n"
    )


async def test_without_a_token_every_request_on_this_machine_is_accepted(
    installed: Installation,
) -> None:
    async with start_http_server(installed, "--no-auth", http="[::1]:0") as server:
        assert server.said[1] == (
            "mcp-dispatch: no token is needed (--no-auth): every program on this machine may "
            "call these tools"
        )
        assert server.url.startswith("http://[::1]:")
        async with server.client("legacy") as client:
            assert (await client.list_tools()).tools
        assert not (installed.state / "http-token").exists()
