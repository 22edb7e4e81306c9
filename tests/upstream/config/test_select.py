"""Which servers run: precedence of the configuration files, and restrictions."""

from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.settings.groups import Restrictions
from mcp_dispatch.settings.models import DispatchSettings, ServerMatch
from mcp_dispatch.settings.settings import LayerKind, RawSection, ServerSettings, Settings
from mcp_dispatch.upstream.config.model import CALL_SECONDS, ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.config.select import SelectedServers, ServerFile, select_servers

ROOT = Path("/srv/project")


def build_entry(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, **more}


def build_settings(
    *layers: tuple[LayerKind, dict[str, Any]],
    restrictions: Restrictions | None = None,
    dispatch: DispatchSettings | None = None,
) -> Settings:
    kept = [
        RawSection(
            servers,
            Path(f"/{kind.value}/{'.mcp.json' if kind is LayerKind.PROJECT else 's.json'}"),
            kind,
        )
        for kind, servers in layers
    ]
    return Settings(
        servers=ServerSettings(tuple(kept), restrictions or Restrictions()),
        dispatch=dispatch or DispatchSettings(),
    )


def build_match(**meant: Any) -> ServerMatch:
    return ServerMatch.model_validate(meant)


def select(found: Settings, *files: dict[str, Any], **environ: str) -> SelectedServers:
    given = [ServerFile(Path(f"/flag-{at}.json"), each) for at, each in enumerate(files)]
    return select_servers(given, found, ROOT, environ)


def list_commands(found: SelectedServers) -> dict[str, str]:
    return {
        each.name: each.endpoint.command
        for each in found.servers
        if isinstance(each.endpoint, StdioEndpoint)
    }


def test_an_entry_of_a_higher_file_replaces_a_lower_one_as_a_whole_and_comes_first() -> None:
    found = build_settings(
        (LayerKind.MANAGED, {"m": build_entry("managed")}),
        (LayerKind.LOCAL, {"b": build_entry("local")}),
        (LayerKind.PROJECT, {"b": build_entry("project", args=["x"]), "p": build_entry("project")}),
        (
            LayerKind.USER,
            {"u": build_entry("user"), "p": build_entry("user"), "m": build_entry("user")},
        ),
    )

    servers = select(
        found, {"f": build_entry("one"), "m": build_entry("one")}, {"f": build_entry("two")}
    )

    assert list_commands(servers) == {
        "m": "managed",
        "f": "two",
        "b": "local",
        "p": "project",
        "u": "user",
    }
    assert list(list_commands(servers)) == ["m", "f", "b", "p", "u"]
    assert [str(problem) for problem in servers.problems] == [
        "/managed/s.json: mcpServers.m: replaces the entry of the same name in /flag-0.json",
        "/flag-1.json: mcpServers.f: replaces the entry of the same name in /flag-0.json",
        "/local/s.json: mcpServers.b: replaces the entry of the same name in /project/.mcp.json",
        "/project/.mcp.json: mcpServers.p: replaces the entry of the same name in /user/s.json",
        "/managed/s.json: mcpServers.m: replaces the entry of the same name in /user/s.json",
    ]


def test_a_bad_entry_of_a_higher_file_does_not_bring_the_lower_one_back() -> None:
    found = build_settings(
        (LayerKind.LOCAL, {"a": {"command": 7}}), (LayerKind.USER, {"a": build_entry("user")})
    )

    assert select(found).servers == ()


def test_keys_that_an_entry_leaves_out_come_from_the_defaults() -> None:
    upstreams = {"timeout": 5000, "sharing": "server", "maxConcurrency": 2, "inheritEnv": ["A"]}
    dispatch = DispatchSettings.model_validate({"upstreams": upstreams})
    own = build_entry("c", timeout=9000, sharing="exclusive", inheritEnv=[], lazy=True)
    found = build_settings(
        (LayerKind.USER, {"plain": build_entry("c"), "own": own}), dispatch=dispatch
    )

    assert select(found).servers == (
        ServerConfig(
            "plain",
            StdioEndpoint("c", inherit_env=("A",)),
            5.0,
            sharing="server",
            max_concurrency=2,
        ),
        ServerConfig("own", StdioEndpoint("c"), 9.0, max_concurrency=2, lazy=True),
    )
    assert (
        select(build_settings((LayerKind.USER, {"a": build_entry("c")}))).servers[0].timeout
        == CALL_SECONDS
    )


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (Restrictions(disabled=frozenset({"web", "here"})), ["web", "sql"]),
        (Restrictions(denied=(build_match(serverName="sql"),)), ["web", "here"]),
        (Restrictions(denied=(build_match(serverUrl="https://*.example/*"),)), ["sql", "here"]),
        (Restrictions(denied=(build_match(serverCommand=["run", "db"]),)), ["web", "here"]),
        (Restrictions(denied=(build_match(serverCommand=["run", "${DB}"]),)), ["web", "here"]),
        (Restrictions(allowed=()), []),
        (Restrictions(allowed=(build_match(serverName="sql"),)), ["sql"]),
        (
            # A command that is not listed cannot hide behind a name that is.
            Restrictions(
                allowed=(build_match(serverName="here"), build_match(serverCommand=["run", "db"]))
            ),
            ["sql"],
        ),
        (
            Restrictions(
                allowed=(build_match(serverName="web"),), denied=(build_match(serverName="web"),)
            ),
            [],
        ),
    ],
)
def test_a_server_that_a_list_forbids_is_not_started_and_reported(
    limits: Restrictions, kept: list[str]
) -> None:
    user = {
        "web": {"type": "http", "url": "https://api.example/mcp"},
        "sql": build_entry("run", args=["${DB}"]),
    }
    found = build_settings(
        (LayerKind.PROJECT, {"here": build_entry("./here")}),
        (LayerKind.USER, user),
        restrictions=limits,
    )

    said = {problem.key for problem in _list_problems(select(found, DB="db"))}

    assert said >= {f"mcpServers.{name}" for name in ("web", "sql", "here") if name not in kept}
    assert not said & {f"mcpServers.{name}" for name in kept}


def _list_problems(found: SelectedServers) -> list[Any]:
    return [each for each in found.problems if "not started" in str(each)]


def test_the_key_of_a_server_identifies_its_endpoint_and_contains_no_variable_value() -> None:
    def key(servers: dict[str, Any], kind: LayerKind = LayerKind.USER, **environ: str) -> str:
        return select(build_settings((kind, servers)), **environ).servers[0].key

    plain = key({"a": build_entry("c", args=["${TOKEN}"])}, TOKEN="one")

    assert (
        key({"a": build_entry("c", args=["${TOKEN}"], timeout=9000, prefix="x")}, TOKEN="two")
        == plain
    )
    assert key({"a": build_entry("c", args=["other"])}) != plain
    assert key({"b": build_entry("c", args=["${TOKEN}"])}) != plain
    assert key({"a": build_entry("c", args=["${TOKEN}"])}, LayerKind.PROJECT) != plain
