"""The cache of tool lists on disk."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.cache import CachedServer, CatalogueCache, PastChange, ServerSnapshot
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.definition_diff import DefinitionChange
from mcp_dispatch.upstream.listener import NullListener
from mcp_dispatch.upstream.pagination import Listing

CONFIG = ServerConfig("git", StdioEndpoint("git-server", env={"TOKEN": "s3cret"}), key="k1")


def tool(name: str, **more: Any) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def build_cache(folder: Path, at: float = 7.0) -> CatalogueCache:
    return CatalogueCache(folder, clock=lambda: at)


def build_cached_server(
    folder: Path, reported: list[DefinitionChange] | None = None
) -> CachedServer:
    class Listener(NullListener):
        def handle_definitions_changed(
            self, server: str, changes: tuple[DefinitionChange, ...]
        ) -> None:
            (reported if reported is not None else []).extend(changes)

    return CachedServer(CONFIG, build_cache(folder), Listener())


def test_a_snapshot_is_loaded_by_the_next_process(tmp_path: Path) -> None:
    first = build_cached_server(tmp_path)
    assert not first.has_listing

    first.record_listing(Listing((tool("b", x=[1, 1.0, None, 10**40], outputSchema={}), tool("a"))))
    first.record_schema_problems(first.snapshot.tools, {"a": "is odd"}, {"b": "is odder"})
    second = build_cached_server(tmp_path)

    assert second.has_listing
    assert repr(second.snapshot.tools) == repr(first.snapshot.tools)
    assert list(second.snapshot.verdicts) == [
        ("b", {"type": "object"}, None),
        ("a", {"type": "object"}, "is odd"),
    ]
    assert list(second.snapshot.output_verdicts) == [("b", {}, "is odder")]


def test_a_server_without_tools_is_cached_too(tmp_path: Path) -> None:
    build_cached_server(tmp_path).record_listing(Listing())

    assert build_cached_server(tmp_path).has_listing


def test_files_are_private_and_hold_no_secret(tmp_path: Path) -> None:
    build_cached_server(tmp_path).record_listing(Listing((tool("a"),)))

    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in file.read_text(encoding="utf-8")


def test_a_tool_that_changed_between_two_runs_is_reported_and_recorded(tmp_path: Path) -> None:
    build_cached_server(tmp_path).record_listing(
        Listing((tool("a", description="reads"), tool("b")))
    )
    reported: list[DefinitionChange] = [DefinitionChange("", (), "")]

    later = build_cached_server(tmp_path, reported)
    later.record_listing(Listing((tool("a", description="writes"), tool("b"))))

    assert [change.tool for change in reported[1:]] == ["a"]
    expected = PastChange("a", ('description: "reads" → "writes"',), 7.0)
    assert build_cached_server(tmp_path).snapshot.changes == (expected,)


def test_a_tool_that_is_removed_and_returns_changed_is_reported(tmp_path: Path) -> None:
    reported: list[DefinitionChange] = [DefinitionChange("", (), "")]
    server = build_cached_server(tmp_path, reported)

    server.record_listing(Listing((tool("a", description="reads"),)))
    server.record_listing(Listing(()))
    again = build_cached_server(tmp_path, reported)
    again.record_listing(Listing((tool("a", description="writes"),)))

    assert [change.tool for change in reported[1:]] == ["a"]


def test_each_process_reports_a_change_even_if_another_has_reported_it(tmp_path: Path) -> None:
    build_cached_server(tmp_path).record_listing(Listing((tool("a", description="reads"),)))
    reported: list[list[DefinitionChange]] = [
        [DefinitionChange("", (), "")],
        [DefinitionChange("", (), "")],
    ]
    processes = [build_cached_server(tmp_path, each) for each in reported]

    for process in processes:
        process.record_listing(Listing((tool("a", description="writes"),)))

    assert [len(each) for each in reported] == [2, 2]


def test_an_incomplete_list_replaces_no_complete_one(tmp_path: Path) -> None:
    server = build_cached_server(tmp_path)
    server.record_listing(Listing((tool("a"), tool("b"))))

    server.record_listing(Listing((tool("a"),), "gave a page cursor twice"))

    assert [each["name"] for each in build_cached_server(tmp_path).snapshot.tools] == ["a", "b"]


def test_the_reason_of_a_failure_is_cached_but_is_not_a_tool_list(tmp_path: Path) -> None:
    server = build_cached_server(tmp_path)

    server.record_failure("exited with code 3")

    later = build_cached_server(tmp_path)
    assert (later.has_listing, later.snapshot.problem) == (False, "exited with code 3")
    later.record_listing(Listing((tool("a"),)))
    assert build_cached_server(tmp_path).snapshot.problem is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 1}',
        b"[" * 100_000,
        json.dumps({"format": 2, "by": "x"}).encode(),
    ],
)
def test_an_invalid_file_is_ignored_and_written_again(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "k1.json"
    file.write_bytes(content)

    server = build_cached_server(tmp_path)
    assert server.snapshot == ServerSnapshot()
    server.record_listing(Listing((tool("a"),)))

    assert build_cached_server(tmp_path).has_listing


def test_a_file_of_another_format_or_with_foreign_fields_is_not_used(tmp_path: Path) -> None:
    build_cached_server(tmp_path).record_listing(Listing((tool("a"),)))
    file = tmp_path / "k1.json"
    good = json.loads(file.read_bytes())

    for change in ({"format": 2}, {"more": 1}, {"tools": [7]}, {"tools": [tool("a")] * 5001}):
        file.write_text(json.dumps({**good, **change}), encoding="utf-8")
        assert build_cache(tmp_path).load("k1") is None


def test_another_version_checks_the_schemas_again(tmp_path: Path) -> None:
    server = build_cached_server(tmp_path)
    server.record_listing(Listing((tool("a"),)))
    server.record_schema_problems(server.snapshot.tools, {}, {})
    file = tmp_path / "k1.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "by": "0.0.0"}), encoding="utf-8")

    assert list(build_cached_server(tmp_path).snapshot.verdicts) == []


def test_a_link_is_not_followed_and_a_full_disk_costs_only_the_cache(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}", encoding="utf-8")
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "k1.json").symlink_to(secret)

    server = build_cached_server(folder)
    server.record_listing(Listing((tool("a"),)))

    assert secret.read_text(encoding="utf-8") == "{}"
    missing = build_cached_server(tmp_path / "gone")
    missing.record_listing(Listing((tool("a"),)))
    assert missing.has_listing
    assert "the tools of git are not kept" in caplog.text


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_no_file_content_raises_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "k1.json").write_bytes(content)

    assert build_cache(folder).load("k1") is None


def test_writers_leave_no_temporary_files(tmp_path: Path) -> None:
    for at in range(3):
        build_cached_server(tmp_path).record_listing(Listing((tool("a", at=at),)))

    assert [path.name for path in tmp_path.iterdir()] == ["k1.json"]
