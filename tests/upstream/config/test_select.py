"""Which servers run: every file that can name one, in order, and what keeps one from it."""

from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.settings.merge import Restrictions
from mcp_dispatch.settings.models import DispatchSettings, ServerMatch
from mcp_dispatch.settings.settings import Kept, LayerKind, Settings
from mcp_dispatch.upstream.config.model import CALL_SECONDS, Launch, ServerConfig
from mcp_dispatch.upstream.config.select import Chosen, ServerFile, choose_servers

ROOT = Path("/srv/project")


def entry(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, **more}


def settings(*layers: tuple[LayerKind, dict[str, Any]], **more: Any) -> Settings:
    kept = [
        Kept(
            servers,
            Path(f"/{kind.value}/{'.mcp.json' if kind is LayerKind.PROJECT else 's.json'}"),
            kind,
        )
        for kind, servers in layers
    ]
    return Settings(mcp_servers=tuple(kept), **more)


def match(**meant: Any) -> ServerMatch:
    return ServerMatch.model_validate(meant)


def chosen(found: Settings, *files: dict[str, Any], **environ: str) -> Chosen:
    given = [ServerFile(Path(f"/flag-{at}.json"), each) for at, each in enumerate(files)]
    return choose_servers(given, found, ROOT, environ)


def commands(found: Chosen) -> dict[str, str]:
    return {
        each.name: each.reach.command for each in found.servers if isinstance(each.reach, Launch)
    }


def test_a_higher_file_replaces_an_entry_whole_and_comes_first() -> None:
    found = settings(
        (LayerKind.MANAGED, {"m": entry("managed")}),
        (LayerKind.LOCAL, {"b": entry("local")}),
        (LayerKind.PROJECT, {"b": entry("project", args=["x"]), "p": entry("project")}),
        (LayerKind.USER, {"u": entry("user"), "p": entry("user"), "m": entry("user")}),
    )

    servers = chosen(found, {"f": entry("one"), "m": entry("one")}, {"f": entry("two")})

    assert commands(servers) == {
        "m": "managed",
        "f": "two",
        "b": "local",
        "p": "project",
        "u": "user",
    }
    assert list(commands(servers)) == ["m", "f", "b", "p", "u"]
    assert [str(problem) for problem in servers.problems] == [
        "/managed/s.json: mcpServers.m: replaces the entry of the same name in /flag-0.json",
        "/flag-1.json: mcpServers.f: replaces the entry of the same name in /flag-0.json",
        "/local/s.json: mcpServers.b: replaces the entry of the same name in /project/.mcp.json",
        "/project/.mcp.json: mcpServers.p: replaces the entry of the same name in /user/s.json",
        "/managed/s.json: mcpServers.m: replaces the entry of the same name in /user/s.json",
    ]


def test_a_bad_entry_of_a_higher_file_does_not_bring_the_lower_one_back() -> None:
    found = settings(
        (LayerKind.LOCAL, {"a": {"command": 7}}), (LayerKind.USER, {"a": entry("user")})
    )

    assert chosen(found).servers == ()


def test_what_an_entry_does_not_say_is_as_the_defaults_have_it() -> None:
    upstreams = {"timeout": 5000, "sharing": "server", "maxConcurrency": 2, "inheritEnv": ["A"]}
    dispatch = DispatchSettings.model_validate({"upstreams": upstreams})
    own = entry("c", timeout=9000, sharing="exclusive", inheritEnv=[], lazy=True)
    found = settings((LayerKind.USER, {"plain": entry("c"), "own": own}), dispatch=dispatch)

    assert chosen(found).servers == (
        ServerConfig(
            "plain", Launch("c", inherit_env=("A",)), 5.0, sharing="server", max_concurrency=2
        ),
        ServerConfig("own", Launch("c"), 9.0, max_concurrency=2, lazy=True),
    )
    assert chosen(settings((LayerKind.USER, {"a": entry("c")}))).servers[0].timeout == CALL_SECONDS


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Restrictions(disabled=frozenset({"web", "here"})), ["web", "sql"]),
        (Restrictions(denied=(match(serverName="sql"),)), ["web", "here"]),
        (Restrictions(denied=(match(serverUrl="https://*.example/*"),)), ["sql", "here"]),
        (Restrictions(denied=(match(serverCommand=["run", "db"]),)), ["web", "here"]),
        (Restrictions(denied=(match(serverCommand=["run", "${DB}"]),)), ["web", "here"]),
        (Restrictions(allowed=()), []),
        (Restrictions(allowed=(match(serverName="sql"),)), ["sql"]),
        (
            # A command that is not listed cannot hide behind a name that is.
            Restrictions(allowed=(match(serverName="here"), match(serverCommand=["run", "db"]))),
            ["sql"],
        ),
        (
            Restrictions(allowed=(match(serverName="web"),), denied=(match(serverName="web"),)),
            [],
        ),
    ],
)
def test_a_server_that_a_list_closes_is_not_started_and_that_is_said(
    limits: Restrictions, kept: list[str]
) -> None:
    user = {
        "web": {"type": "http", "url": "https://api.example/mcp"},
        "sql": entry("run", args=["${DB}"]),
    }
    found = settings(
        (LayerKind.PROJECT, {"here": entry("./here")}),
        (LayerKind.USER, user),
        restrictions=limits,
    )

    said = {problem.key for problem in _problems(chosen(found, DB="db"))}

    assert said >= {f"mcpServers.{name}" for name in ("web", "sql", "here") if name not in kept}
    assert not said & {f"mcpServers.{name}" for name in kept}


def _problems(found: Chosen) -> list[Any]:
    return [each for each in found.problems if "not started" in str(each)]


def test_the_key_of_a_server_is_that_of_what_is_started_and_holds_no_value_of_a_variable() -> None:
    def key(servers: dict[str, Any], kind: LayerKind = LayerKind.USER, **environ: str) -> str:
        return chosen(settings((kind, servers)), **environ).servers[0].key

    plain = key({"a": entry("c", args=["${TOKEN}"])}, TOKEN="one")

    assert key({"a": entry("c", args=["${TOKEN}"], timeout=9000, prefix="x")}, TOKEN="two") == plain
    assert key({"a": entry("c", args=["other"])}) != plain
    assert key({"b": entry("c", args=["${TOKEN}"])}) != plain
    assert key({"a": entry("c", args=["${TOKEN}"])}, LayerKind.PROJECT) != plain
