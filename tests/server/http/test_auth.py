"""Access control over HTTP: token, Host, Origin, paths, and the responses to rejected requests."""

import http.client
import json
import os
import re
import signal
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.server.http.host_policy import HostPolicy, find_setting_problems
from tests.support.client import Installation
from tests.support.http_server_process import ACCEPT, initialize

SECRET = "correct-horse-battery"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


@dataclass(frozen=True)
class Server:
    port: int

    def ask(
        self,
        method: str = "POST",
        path: str = "/mcp",
        body: bytes | None = None,
        **headers: str | None,
    ) -> Answer:
        """Send one request on a new connection; a header that is None is omitted."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        sent = {"Authorization": f"Bearer {SECRET}", **ACCEPT, **named}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host="Host" in sent)
            for key, value in sent.items():
                if value is not None:
                    connection.putheader(key, value)
            payload = json.dumps(initialize()).encode() if body is None else body
            if method == "POST":
                connection.putheader("Content-Length", str(len(payload)))
            connection.endheaders(payload if method == "POST" else None)
            response = connection.getresponse()
            received = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, received, response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """Start one server for all tests of this module; none of them changes its state."""
    installed = Installation(tmp_path_factory.mktemp("auth"))
    installed.add_settings(
        {
            "dispatch": {
                "http": {
                    "allowedHosts": ["dispatch.internal", "strict.internal:8443"],
                    "allowedOrigins": ["https://app.example.com"],
                    "maxBodyBytes": 4096,
                }
            }
        }
    )
    environ = {**installed.environ, "MCP_DISPATCH_TOKEN": SECRET}
    with subprocess.Popen(
        [*installed.command, "--http", "127.0.0.1:0"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        try:
            assert child.stderr is not None
            match = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", child.stderr.readline())
            assert match is not None
            expected = "mcp-dispatch: clients need the token that is in MCP_DISPATCH_TOKEN\n"
            assert child.stderr.readline() == expected
            yield Server(int(match.group(1)))
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(20)


def test_the_right_token_is_accepted(server: Server) -> None:
    answer = server.ask()

    assert (answer.status, "mcp-session-id" in answer.headers) == (200, True)


@pytest.mark.parametrize(
    "presented",
    [
        f"Bearer {SECRET}x",
        f"Bearer {SECRET[:-1]}",
        f"Bearer  {SECRET}",
        "Bearer",
        "Bearer ",
        f"Basic {SECRET}",
        SECRET,
        f"Bearer {SECRET.upper()}",
        "Bearer \xff\xfe",
    ],
)
def test_any_other_credential_is_rejected(server: Server, presented: str) -> None:
    answer = server.ask(Authorization=presented)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == (
        'Bearer realm="mcp-dispatch", error="invalid_token"'
    )
    assert answer.error == "this is not the token of this server"


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "OPTIONS"])
def test_a_request_without_credentials_is_rejected_for_every_method(
    server: Server, method: str
) -> None:
    answer = server.ask(method, Authorization=None)

    assert (answer.status, answer.headers["www-authenticate"]) == (
        401,
        'Bearer realm="mcp-dispatch"',
    )


def test_the_scheme_may_be_spelt_in_any_case(server: Server) -> None:
    assert server.ask(Authorization=f"bEARER {SECRET}").status == 200


def test_the_token_is_checked_before_the_body(server: Server) -> None:
    answer = server.ask(Authorization=None, body=b"{no json" * 10_000)

    assert answer.status == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("localhost:9999", 200),
        ("LOCALHOST", 200),
        ("[::1]:80", 200),
        ("127.8.9.1", 200),
        ("dispatch.internal", 200),
        ("Dispatch.Internal:81", 200),
        ("strict.internal:8443", 200),
        ("strict.internal", 421),
        ("strict.internal:80", 421),
        ("evil.example", 421),
        ("evil.example:80", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example@localhost", 421),
        ("localhost:80@evil.example", 421),
        ("10.0.0.7", 421),
        ("0.0.0.0", 421),
        ("", 421),
    ],
)
def test_only_known_hosts_are_served(server: Server, host: str, status: int) -> None:
    answer = server.ask(Host=host)

    assert answer.status == status
    if status == 421:
        assert answer.error == "this Host is not served; see dispatch.http.allowedHosts"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://localhost", 200),
        ("http://127.0.0.1:3000", 200),
        ("https://[::1]:8443", 200),
        ("https://app.example.com", 200),
        ("HTTPS://APP.example.com", 200),
        ("https://app.example.com:444", 403),
        ("http://app.example.com", 403),
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://evil.example/http://localhost", 403),
        ("http://localhost@evil.example", 403),
        ("file://localhost", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_only_known_origins_are_served(server: Server, origin: str | None, status: int) -> None:
    answer = server.ask(Origin=origin)

    assert answer.status == status
    if status == 403:
        assert answer.error == "this Origin is not allowed; see dispatch.http.allowedOrigins"


def test_the_local_address_of_the_connection_is_an_allowed_host() -> None:
    names = HostPolicy.from_settings("0.0.0.0", [], [])

    assert names.allows_host("192.168.1.5:8123", local_address="192.168.1.5")
    assert names.allows_host("[fe80::1]:8123", local_address="fe80::1")
    assert not names.allows_host("192.168.1.6:8123", local_address="192.168.1.5")
    assert not names.allows_host(None, local_address="192.168.1.5")
    assert names.allows_origin("http://192.168.1.5:8123", local_address="192.168.1.5")


def test_entries_that_can_never_match_are_reported() -> None:
    hosts = ["fine", "fine:80", "http://no", "a b"]
    origins = ["https://fine", "http://fine:80/", "no", "https://no/path"]

    host, origin = "expected HOST or HOST:PORT", "expected SCHEME://HOST or SCHEME://HOST:PORT"
    assert find_setting_problems(hosts, origins) == [
        f"dispatch.http.allowedHosts: {host}, got 'http://no'",
        f"dispatch.http.allowedHosts: {host}, got 'a b'",
        f"dispatch.http.allowedOrigins: {origin}, got 'no'",
        f"dispatch.http.allowedOrigins: {origin}, got 'https://no/path'",
    ]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_needs_no_token(server: Server, method: str) -> None:
    answer = server.ask(method, "/healthz", Authorization=None, Host="any.example")

    assert answer.status == 200
    assert answer.body == (b'{"status":"ok"}' if method == "GET" else b"")
    assert set(answer.headers) == {"date", "content-length", "content-type"}


def test_health_rejects_other_methods(server: Server) -> None:
    answer = server.ask("POST", "/healthz")

    assert (answer.status, answer.headers["allow"], answer.body) == (405, "GET, HEAD", b"")


@pytest.mark.parametrize("path", ["/", "/mcp/more", "/MCP", "//mcp", "/healthz/", "/.well-known/x"])
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    answer = server.ask(path=path, Authorization=None)

    assert (answer.status, answer.error) == (404, "there is nothing here; MCP is at /mcp")


def test_the_path_may_end_with_a_slash(server: Server) -> None:
    assert server.ask(path="/mcp/").status == 200


def test_a_body_over_the_limit_is_refused(server: Server) -> None:
    answer = server.ask(body=b" " * 4097)

    assert (answer.status, answer.error) == (413, "the body of the request is over 4096 bytes")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{no json", -32700, "Parse error: not valid JSON: "),
        (b'{"a": "\xff"}', -32700, "Parse error: not valid UTF-8: "),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', -32700, "Parse error: "),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, "Invalid Request: id must be"),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, "Invalid Request: batches are"),
        (b"7", -32600, "Invalid Request: expected a JSON object"),
        (b"", -32700, "Parse error: not valid JSON: "),
    ],
)
def test_an_invalid_message_is_answered_with_a_jsonrpc_error(
    server: Server, body: bytes, code: int, message: str
) -> None:
    answer = server.ask(body=body)

    assert (answer.status, answer.error["code"]) == (400, code)
    assert answer.error["message"].startswith(message)


def test_an_unknown_session_is_not_found(server: Server) -> None:
    answer = server.ask(Mcp_Session_Id="0" * 32)

    assert answer.status == 404


def test_the_token_is_in_no_log(server: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    server.ask(Authorization=f"Bearer {SECRET}-wrong")

    state = tmp_path_factory.getbasetemp()
    files = [path for path in state.glob("auth*/state/**/*") if path.is_file()]
    assert files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_commands_do_not_see_the_token(tmp_path: Path) -> None:
    installed = Installation(tmp_path).add_rules(allow=["Bash"])
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call"}
    params = {"name": "Bash", "arguments": {"command": "env"}}
    lines = [
        initialize(),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {**call, "params": params},
    ]
    stdin = tmp_path / "stdin"
    stdin.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    with stdin.open("rb") as requests:
        done = subprocess.run(
            installed.command,
            stdin=requests,
            env={**installed.environ, "MCP_DISPATCH_TOKEN": SECRET, "SEEN": "yes"},
            capture_output=True,
            timeout=60,
            check=True,
        )

    assert b"SEEN=yes" in done.stdout
    assert SECRET.encode() not in done.stdout
    assert os.environ.get("MCP_DISPATCH_TOKEN") is None
