"""`mcpServers` files: valid entries, entries that are left out, and reported problems."""

import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.models import UpstreamSettings
from mcp_dispatch.upstream.config.load import (
    RawServerEntry,
    ServerConfigProblem,
    read_servers,
)
from mcp_dispatch.upstream.config.model import (
    RemoteEndpoint,
    ServerConfig,
    StdioEndpoint,
    ToolSelection,
)
from tests.support.server_files import load_servers


def write_config(folder: Path, servers: Any, name: str = "mcp.json") -> Path:
    file = folder / name
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


def list_problems(folder: Path, entry: Any, name: str = "s") -> list[tuple[str, str]]:
    _, problems = load_servers([write_config(folder, {name: entry})], {})
    return [(problem.key, problem.message) for problem in problems]


def test_a_plain_entry_becomes_a_server_with_the_defaults(tmp_path: Path) -> None:
    file = write_config(tmp_path, {"notes": {"command": "notes-server"}})

    servers, problems = load_servers([file], {})

    assert servers == (ServerConfig("notes", StdioEndpoint("notes-server")),)
    assert problems == ()


def test_every_supported_key_is_read(tmp_path: Path) -> None:
    tools = {"include": ["a*"], "exclude": ["ab"], "rename": {"ac": "z"}}
    entry = {
        "type": "stdio",
        "command": "run",
        "args": ["-x", "1"],
        "env": {"TOKEN": "t"},
        "timeout": 2500,
        "inheritEnv": ["SSH_AUTH_SOCK"],
        "sharing": "shared",
        "tools": tools,
        "prefix": "f",
        "alwaysLoad": True,
        "maxConcurrency": 2,
        "lazy": True,
        "disabled": True,
    }

    servers, problems = load_servers([write_config(tmp_path, {"full": entry})], {})

    assert problems == ()
    assert servers == (
        ServerConfig(
            name="full",
            endpoint=StdioEndpoint("run", ("-x", "1"), {"TOKEN": "t"}, ("SSH_AUTH_SOCK",)),
            timeout=2.5,
            sharing="shared",
            tools=ToolSelection(("a*",), ("ab",), {"ac": "z"}),
            prefix="f",
            always_load=True,
            max_concurrency=2,
            lazy=True,
            disabled=True,
        ),
    )


def test_every_key_of_a_remote_server_is_read(tmp_path: Path) -> None:
    entry = {
        "type": "streamable-http",
        "url": "https://${HOST}/mcp?key=${KEY:-none}",
        "headers": {"Authorization": "Bearer ${TOKEN}", "X-Team": "blue"},
        "headersHelper": "print-headers ${TOKEN}",
        "timeout": 2500,
        "connectTimeout": 5000,
        "idleTimeout": 0,
        "restart": False,
    }
    environ = {"HOST": "example.com", "TOKEN": "s3cret"}

    servers, problems = load_servers([write_config(tmp_path, {"far": entry})], environ)

    assert problems == ()
    assert servers == (
        ServerConfig(
            "far",
            RemoteEndpoint(
                "http",
                "https://example.com/mcp?key=none",
                {"Authorization": "Bearer s3cret", "X-Team": "blue"},
                # A line for the shell, which fills in variables itself.
                "print-headers ${TOKEN}",
            ),
            timeout=2.5,
            connect_timeout=5.0,
            idle_timeout=math.inf,
            restart=False,
        ),
    )
    assert "s3cret" not in repr(servers)
    assert "example.com" not in repr(servers)


@pytest.mark.parametrize(
    ("kind", "reach"), [("http", "http"), ("streamable-http", "http"), ("sse", "sse")]
)
def test_a_remote_server_has_a_shorter_idle_timeout(
    tmp_path: Path, kind: str, reach: Literal["http", "sse"]
) -> None:
    entry = {"type": kind, "url": "http://localhost:1/x"}

    servers, _ = load_servers(
        [write_config(tmp_path, {"far": entry, "near": {"command": "c"}})], {}
    )

    assert servers[0].endpoint == RemoteEndpoint(reach, "http://localhost:1/x")
    assert [server.idle_timeout for server in servers] == [300, 1800]


def test_an_empty_url_is_no_server_and_no_problem(tmp_path: Path) -> None:
    assert load_servers([write_config(tmp_path, {"s": {"type": "http", "url": ""}})], {}) == (
        (),
        (),
    )


def test_the_maximum_message_size_comes_from_the_settings(tmp_path: Path) -> None:
    file = write_config(tmp_path, {"s": {"command": "c"}})
    entries = {"s": RawServerEntry(file, {"command": "c"})}

    servers, _ = read_servers(
        entries, {}, UpstreamSettings.model_validate({"maxMessageBytes": 2**20})
    )

    assert servers[0].max_message == 2**20


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"Bad Name": "s3cret"}, "is not a name that a header can have"),
        ({"Mcp-Session-Id": "s3cret"}, "is set by the protocol itself"),
        ({"mcp-param-x": "s3cret"}, "is set by the protocol itself"),
        ({"X": "s3cret\r\nY: z"}, "has a character that a header cannot hold"),
        ({"X": "s3crét"}, "has a character that a header cannot hold"),
    ],
)
def test_an_invalid_header_is_left_out_and_reported_without_its_value(
    tmp_path: Path, headers: dict[str, str], problem: str
) -> None:
    entry = {"type": "http", "url": "https://x", "headers": headers}

    servers, problems = load_servers([write_config(tmp_path, {"s": entry})], {})

    (name,) = headers
    assert servers == (ServerConfig("s", RemoteEndpoint("http", "https://x"), idle_timeout=300),)
    assert [(each.key, each.message) for each in problems] == [
        (f"mcpServers.s.headers.{name}", f"{problem}; it is left out")
    ]


def test_an_unset_variable_in_a_url_is_not_a_host(tmp_path: Path) -> None:
    entry = {"type": "http", "url": "https://${GONE}/mcp"}

    assert list_problems(tmp_path, entry) == [
        (
            "mcpServers.s.url",
            "${GONE} is not set and has no default: the text is kept as it is",
        ),
        (
            "mcpServers.s.url",
            "expected an address that begins with https:// or http:// and names a host; "
            "the server is left out",
        ),
    ]


def test_the_whole_environment_is_inherited_only_when_asked_for(tmp_path: Path) -> None:
    entries = {"all": {"command": "c", "inheritEnv": True}, "none": {"command": "c"}}

    servers, _ = load_servers([write_config(tmp_path, entries)], {})

    assert servers == (
        ServerConfig("all", StdioEndpoint("c", inherit_env=True)),
        ServerConfig("none", StdioEndpoint("c")),
    )


def test_variables_are_expanded_once_as_plain_text(tmp_path: Path) -> None:
    entry = {
        "command": "${BIN:-python3}",
        "args": ["${HOME}/x", "${A}", "${HOME:-$(rm -rf /)}", "${NO:-$(rm -rf /)}", "${A%x}", "$A"],
        "env": {"KEY": "k-${KEY}"},
    }
    environ = {"HOME": "/home/me", "A": "${HOME}", "KEY": "secret"}

    servers, problems = load_servers([write_config(tmp_path, {"s": entry})], environ)

    expected = ("/home/me/x", "${HOME}", "/home/me", "$(rm -rf /)", "${A%x}", "$A")
    assert servers == (ServerConfig("s", StdioEndpoint("python3", expected, {"KEY": "k-secret"})),)
    assert problems == ()


def test_an_unset_variable_stays_as_written_and_is_reported(tmp_path: Path) -> None:
    file = write_config(tmp_path, {"s": {"command": "c", "env": {"KEY": "Bearer ${GONE}"}}})

    servers, problems = load_servers([file], {})

    assert servers == (ServerConfig("s", StdioEndpoint("c", env={"KEY": "Bearer ${GONE}"})),)
    message = "${GONE} is not set and has no default: the text is kept as it is"
    assert problems == (ServerConfigProblem(str(file), "mcpServers.s.env.KEY", message),)


def test_a_bad_entry_is_left_out_and_the_others_stay(tmp_path: Path) -> None:
    file = write_config(tmp_path, {"bad": {"args": []}, "good": {"command": "c"}})

    servers, problems = load_servers([file], {})

    assert servers == (ServerConfig("good", StdioEndpoint("c")),)
    assert [str(problem) for problem in problems] == [
        f"{file}: mcpServers.bad.command: expected the program to start, got nothing; "
        "the server is left out"
    ]


@pytest.mark.parametrize(
    ("entry", "key", "message"),
    [
        (7, "", "expected an object, got a number"),
        ({"url": "https://x"}, "", 'has a "url" but no "type"; add "type": "http"'),
        (
            {"type": "ws", "url": "wss://x"},
            ".type",
            "'ws' is not supported; the server is left out",
        ),
        (
            {"type": "http"},
            ".url",
            "expected an address, got nothing; the server is left out",
        ),
        (
            {"type": "http", "url": "file:///etc/passwd"},
            ".url",
            "expected an address that begins with https:// or http:// and names a host; "
            "the server is left out",
        ),
        (
            {"type": "sse", "url": "https://x", "headers": {"A": 1}},
            ".headers.A",
            "expected a text, got a number; the server is left out",
        ),
        (
            {"type": "pipe", "command": "c"},
            ".type",
            'expected "stdio", "http" or "sse", got \'pipe\'; the server is left out',
        ),
        (
            {"command": ""},
            ".command",
            "expected the program to start, got an empty text; the server is left out",
        ),
        (
            {"command": ["c"]},
            ".command",
            "expected the program to start, got a list; the server is left out",
        ),
        (
            {"command": "c", "args": "-x"},
            ".args",
            "expected a list of texts, got a text; the server is left out",
        ),
        (
            {"command": "c", "args": ["-x", 1]},
            ".args.1",
            "expected a text, got a number; the server is left out",
        ),
        (
            {"command": "c", "env": {"K": None}},
            ".env.K",
            "expected a text, got nothing; the server is left out",
        ),
        (
            {"command": "c", "sharing": "some"},
            ".sharing",
            'expected "exclusive", "server" or "shared", got \'some\'; the server is left out',
        ),
        (
            {"command": "c", "timeout": "5s"},
            ".timeout",
            "expected a whole number of milliseconds, got '5s'; the server is left out",
        ),
        (
            {"command": "c", "inheritEnv": "PATH"},
            ".inheritEnv",
            "expected true or a list of variable names, got a text; the server is left out",
        ),
        (
            {"command": "c", "prefix": "a b"},
            ".prefix",
            "expected at most 32 letters, digits, '-' and '_', got 'a b'; the server is left out",
        ),
        (
            {"command": "c", "maxConcurrency": 0},
            ".maxConcurrency",
            "expected a whole number over 0, got 0; the server is left out",
        ),
        (
            {"command": "c", "tools": {"only": []}},
            ".tools.only",
            'is not one of "include", "exclude" and "rename"; the server is left out',
        ),
        (
            {"command": "c", "tools": {"exclude": "a"}},
            ".tools.exclude",
            "expected a list of tool names, got a text; the server is left out",
        ),
    ],
)
def test_a_problem_names_the_key_and_the_expected_value(
    tmp_path: Path, entry: Any, key: str, message: str
) -> None:
    file = write_config(tmp_path, {"s": entry})

    servers, problems = load_servers([file], {})

    assert servers == ()
    assert problems == (ServerConfigProblem(str(file), f"mcpServers.s{key}", message),)


@pytest.mark.parametrize(
    ("extra", "key", "message"),
    [
        ({"oauth": {}}, "oauth", "is not supported yet and has no effect"),
        ({"cwd": "/"}, "cwd", "is not a key of a stdio server and has no effect"),
        (
            {"timeout": 10},
            "timeout",
            "expected at least 1000 milliseconds, got 10: the default is used",
        ),
        ({"args": [" x"]}, "args.0", "begins or ends with white space, which is kept"),
    ],
)
def test_a_key_without_effect_is_reported_and_the_server_kept(
    tmp_path: Path, extra: dict[str, Any], key: str, message: str
) -> None:
    file = write_config(tmp_path, {"s": {"command": "c", **extra}})

    servers, problems = load_servers([file], {})

    assert [server.name for server in servers] == ["s"]
    assert problems == (ServerConfigProblem(str(file), f"mcpServers.s.{key}", message),)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("my server", "my_server"),
        ("a__b", "a_b"),
        ("_a", "a"),
        ("a_", "a"),
        ("__proto__", "proto"),
        ("ünï", "n"),
        ("\u0430bc", "bc"),
        ("../../etc", "etc"),
        ("", "server"),
        ("a\n", "a"),
    ],
)
def test_an_ambiguous_name_is_refused_with_a_better_one(
    tmp_path: Path, name: str, better: str
) -> None:
    problems = list_problems(tmp_path, {"command": "c"}, name)

    assert problems == [
        (
            f"mcpServers.{name}",
            "expected a name of letters, digits, '-' and '_', without '__' and without '_' at "
            f"either end, got {name!r}; rename the server, for example to {better!r}",
        )
    ]


@pytest.mark.parametrize("name", ["a", "constructor", "git-2", "a_b", "A9", "-"])
def test_an_ordinary_name_is_accepted(tmp_path: Path, name: str) -> None:
    assert list_problems(tmp_path, {"command": "c"}, name) == []


def test_a_later_file_replaces_an_entry_as_a_whole_and_keeps_its_position(tmp_path: Path) -> None:
    first = write_config(tmp_path, {"a": {"command": "1", "args": ["x"]}, "b": {"command": "1"}})
    second = write_config(tmp_path, {"c": {"command": "2"}, "a": {"command": "2"}}, "second.json")

    servers, problems = load_servers([first, second], {})

    assert servers == (
        ServerConfig("a", StdioEndpoint("2")),
        ServerConfig("b", StdioEndpoint("1")),
        ServerConfig("c", StdioEndpoint("2")),
    )
    message = f"replaces the entry of the same name in {first}"
    assert problems == (ServerConfigProblem(str(second), "mcpServers.a", message),)


def test_a_bad_entry_of_a_later_file_does_not_bring_the_earlier_one_back(tmp_path: Path) -> None:
    first = write_config(tmp_path, {"a": {"command": "1"}})
    second = write_config(tmp_path, {"a": {"command": 2}}, "second.json")

    servers, problems = load_servers([first, second], {})

    assert servers == ()
    assert [problem.key for problem in problems] == ["mcpServers.a", "mcpServers.a.command"]


def test_no_value_that_may_be_a_secret_is_ever_shown(tmp_path: Path) -> None:
    entry = {
        "command": ["s3cret"],
        "args": [["s3cret"]],
        "env": {"K": ["s3cret"]},
        "tools": "s3cret",
    }
    good = {"command": "c", "args": ["--token=s3cret"], "env": {"K": " s3cret"}}
    file = write_config(tmp_path, {"bad": entry, "good": good})

    servers, problems = load_servers([file], {})

    assert len(problems) == 5
    assert "s3cret" not in "".join(map(str, problems)) + repr(servers)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes"),
        ("[]", "mcpServers: expected an object of servers, got nothing"),
        ('{"mcpServers": []}', "mcpServers: expected an object of servers, got a list"),
    ],
)
def test_a_file_without_servers_stops_the_start(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        load_servers([file], {})

    assert str(caught.value).startswith(f"{file}: {expected}")


def test_a_missing_file_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "gone.json"

    with pytest.raises(ConfigError) as caught:
        load_servers([file], {})

    assert str(caught.value) == f"{file}: cannot be read: No such file or directory"
