"""The catalogue on disk: what a server told last, before it is asked again."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.cache import Dossier, Known, Memory, PastChange
from mcp_dispatch.upstream.config.model import Launch, ServerConfig
from mcp_dispatch.upstream.definition_diff import Change
from mcp_dispatch.upstream.pagination import Listing

CONFIG = ServerConfig("git", Launch("git-server", env={"TOKEN": "s3cret"}), key="k1")


def tool(name: str, **more: Any) -> JsonObject:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def memory(folder: Path, at: float = 7.0) -> Memory:
    return Memory(folder, clock=lambda: at)


def dossier(folder: Path, told: list[Change] | None = None) -> Dossier:
    return Dossier(CONFIG, memory(folder), lambda _, changes: (told or []).extend(changes))


def test_what_was_learnt_is_known_to_the_next_process(tmp_path: Path) -> None:
    first = dossier(tmp_path)
    assert not first.seen

    first.learn(Listing((tool("b", x=[1, 1.0, None, 10**40], outputSchema={}), tool("a"))))
    first.judged(first.known.tools, {"a": "is odd"}, {"b": "is odder"})
    second = dossier(tmp_path)

    assert second.seen
    assert repr(second.known.tools) == repr(first.known.tools)
    assert list(second.known.verdicts) == [
        ("b", {"type": "object"}, None),
        ("a", {"type": "object"}, "is odd"),
    ]
    assert list(second.known.output_verdicts) == [("b", {}, "is odder")]


def test_a_server_without_tools_is_known_too(tmp_path: Path) -> None:
    dossier(tmp_path).learn(Listing())

    assert dossier(tmp_path).seen


def test_files_are_private_and_hold_no_secret(tmp_path: Path) -> None:
    dossier(tmp_path).learn(Listing((tool("a"),)))

    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "s3cret" not in file.read_text(encoding="utf-8")


def test_a_tool_that_changed_while_we_were_away_is_told_and_kept(tmp_path: Path) -> None:
    dossier(tmp_path).learn(Listing((tool("a", description="reads"), tool("b"))))
    told: list[Change] = [Change("", (), "")]

    later = dossier(tmp_path, told)
    later.learn(Listing((tool("a", description="writes"), tool("b"))))

    assert [change.tool for change in told[1:]] == ["a"]
    expected = PastChange("a", ('description: "reads" → "writes"',), 7.0)
    assert dossier(tmp_path).known.changes == (expected,)


def test_a_tool_that_goes_and_comes_back_as_another_is_noticed(tmp_path: Path) -> None:
    told: list[Change] = [Change("", (), "")]
    server = dossier(tmp_path, told)

    server.learn(Listing((tool("a", description="reads"),)))
    server.learn(Listing(()))
    again = dossier(tmp_path, told)
    again.learn(Listing((tool("a", description="writes"),)))

    assert [change.tool for change in told[1:]] == ["a"]


def test_each_process_notices_for_itself_what_another_has_noticed(tmp_path: Path) -> None:
    dossier(tmp_path).learn(Listing((tool("a", description="reads"),)))
    told: list[list[Change]] = [[Change("", (), "")], [Change("", (), "")]]
    processes = [dossier(tmp_path, each) for each in told]

    for process in processes:
        process.learn(Listing((tool("a", description="writes"),)))

    assert [len(each) for each in told] == [2, 2]


def test_an_incomplete_list_replaces_no_complete_one(tmp_path: Path) -> None:
    server = dossier(tmp_path)
    server.learn(Listing((tool("a"), tool("b"))))

    server.learn(Listing((tool("a"),), "gave a page cursor twice"))

    assert [each["name"] for each in dossier(tmp_path).known.tools] == ["a", "b"]


def test_why_a_server_is_down_is_kept_but_not_taken_for_a_list(tmp_path: Path) -> None:
    server = dossier(tmp_path)

    server.failed("exited with code 3")

    later = dossier(tmp_path)
    assert (later.seen, later.known.problem) == (False, "exited with code 3")
    later.learn(Listing((tool("a"),)))
    assert dossier(tmp_path).known.problem is None


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
def test_a_file_that_makes_no_sense_is_as_good_as_none_and_written_anew(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "k1.json"
    file.write_bytes(content)

    server = dossier(tmp_path)
    assert server.known == Known()
    server.learn(Listing((tool("a"),)))

    assert dossier(tmp_path).seen


def test_a_file_of_another_format_or_with_foreign_fields_is_not_used(tmp_path: Path) -> None:
    dossier(tmp_path).learn(Listing((tool("a"),)))
    file = tmp_path / "k1.json"
    good = json.loads(file.read_bytes())

    for change in ({"format": 2}, {"more": 1}, {"tools": [7]}, {"tools": [tool("a")] * 5001}):
        file.write_text(json.dumps({**good, **change}), encoding="utf-8")
        assert memory(tmp_path).recall("k1") is None


def test_another_version_of_ours_looks_at_the_schemas_again(tmp_path: Path) -> None:
    server = dossier(tmp_path)
    server.learn(Listing((tool("a"),)))
    server.judged(server.known.tools, {}, {})
    file = tmp_path / "k1.json"
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "by": "0.0.0"}), encoding="utf-8")

    assert list(dossier(tmp_path).known.verdicts) == []


def test_a_link_is_not_followed_and_a_full_disk_costs_only_the_catalogue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}", encoding="utf-8")
    folder = tmp_path / "catalogue"
    folder.mkdir()
    (folder / "k1.json").symlink_to(secret)

    server = dossier(folder)
    server.learn(Listing((tool("a"),)))

    assert secret.read_text(encoding="utf-8") == "{}"
    missing = dossier(tmp_path / "gone")
    missing.learn(Listing((tool("a"),)))
    assert missing.seen
    assert "the tools of git are not kept" in caplog.text


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_no_content_of_a_file_stops_anybody(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "k1.json").write_bytes(content)

    assert memory(folder).recall("k1") is None


def test_nothing_is_left_behind_by_writers(tmp_path: Path) -> None:
    for at in range(3):
        dossier(tmp_path).learn(Listing((tool("a", at=at),)))

    assert [path.name for path in tmp_path.iterdir()] == ["k1.json"]
