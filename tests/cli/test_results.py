"""`mcp-dispatch results list | show | prune`, as a person runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_dispatch.results.locks import lock_open_file
from mcp_dispatch.results.retention import Retention
from mcp_dispatch.results.store import ResultStore


class Desk:
    """A state directory with results in it, and the command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        (self.state / "results").mkdir(parents=True, mode=0o700)
        self.store = ResultStore(self.state / "results", Retention(days=1_000_000))

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [
                *(sys.executable, "-m", "mcp_dispatch", "results", *arguments),
                *("--state-dir", str(self.state)),
            ],
            capture_output=True,
            env={
                **os.environ,
                "MCP_DISPATCH_CONFIG_DIR": str(self.folder),
                "COLUMNS": "80",
                **environ,
            },
            timeout=60,
            check=False,
        )

    def keep(self, text: str | bytes, suffix: str = ".txt", used: float | None = None) -> Path:
        path = self.store.save(text, suffix).path
        if used is not None:
            os.utime(path, (used, used))
        return path


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_list_fits_eighty_columns_and_json_says_the_same(desk: Desk) -> None:
    old, new = desk.keep("x" * 5_000, used=1_000_000_000), desk.keep(b"\x89PNG", ".png")

    listed = desk.run("list")
    documents = json.loads(desk.run("list", "--json").stdout)

    lines = listed.stdout.decode().splitlines()
    assert listed.returncode == 0
    assert [line.split()[0] for line in lines[1:3]] == [new.stem, old.stem]
    assert "4.9KB" in lines[2]
    assert lines[3] == "2 results, 4.9KB"
    assert max(map(len, lines)) <= 80
    assert [each["path"] for each in documents] == [str(new), str(old)]
    assert [each["bytes"] for each in documents] == [4, 5_000]


def test_an_empty_list_says_so(desk: Desk) -> None:
    assert desk.run("list").stdout == b"No results are kept.\n"


def test_what_is_shown_cannot_fool_a_terminal(desk: Desk) -> None:
    text = "plain\ttab é\n\x1b]52;c;ZXZpbA==\x07 \x1b[2J \u202egnp.exe\r overwritten\x9b"
    path = desk.keep(text)

    shown = desk.run("show", path.stem[:8])
    raw = desk.run("show", path.stem, "--raw")

    told = shown.stdout.decode()
    assert told.startswith("plain\ttab é\n")
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b"} & set(told)
    assert "\\x1b]52;c;ZXZpbA==\\x07" in told
    assert "\\u{202e}gnp.exe\\x0d overwritten" in told
    assert raw.stdout.decode() == text


@pytest.mark.parametrize("id", ["nothing", "../x", "", "*", "/etc/passwd"])
def test_an_id_that_is_none_is_an_error_that_says_what_to_do(desk: Desk, id: str) -> None:
    desk.keep("a")

    done = desk.run("show", id)

    assert done.returncode == 1
    assert done.stdout == b""
    assert b"`mcp-dispatch results list` has them all" in done.stderr


def test_a_beginning_that_two_share_asks_for_more(desk: Desk) -> None:
    for number in range(40):
        desk.keep(str(number))

    done = desk.run("show", next(path.stem for path in desk.store.directory.iterdir())[:1])

    assert done.returncode == 1
    assert b"give more of the id" in done.stderr


def test_prune_removes_by_age_by_total_and_all(desk: Desk) -> None:
    old, young = desk.keep("old", used=1_000_000_000), desk.keep("young")
    held = desk.keep("held", used=1_000_000_000)
    descriptor = os.open(held, os.O_RDONLY)
    lock_open_file(descriptor)
    os.utime(held, (1, 1))

    by_age = desk.run("prune")
    os.close(descriptor)
    again = json.loads(desk.run("prune", "--json").stdout)
    by_total = desk.run("prune", "--max-bytes", "0")
    desk.keep("new")
    everything = desk.run("prune", "--all")

    assert by_age.stdout == b"Removed 1, 3 bytes.\nLeft 1 that are being read.\n"
    assert not old.exists()
    assert [each["path"] for each in again["removed"]] == [str(held)]
    assert by_total.stdout == b"Removed 1, 5 bytes.\n"
    assert not young.exists()
    assert everything.stdout == b"Removed 1, 3 bytes.\n"


def test_the_age_is_that_of_the_settings(desk: Desk) -> None:
    path = desk.keep("a", used=1_000_000_000)
    settings = desk.folder / "mine.json"
    settings.write_text(
        json.dumps({"dispatch": {"results": {"retentionDays": 36_500}}}), encoding="utf-8"
    )

    kept = desk.run("prune", "--settings", str(settings))
    gone = desk.run("prune", "--older-than", "0")

    assert kept.stdout == b"Removed 0, 0 bytes.\n"
    assert gone.stdout == b"Removed 1, 1 bytes.\n"
    assert not path.exists()


@pytest.mark.parametrize("command", [("show", "a"), ("prune", "--all")])
def test_a_command_of_a_model_neither_shows_nor_removes(
    desk: Desk, command: tuple[str, ...]
) -> None:
    path = desk.keep("a")

    done = desk.run(*command, MCP_DISPATCH_RUN="0" * 32)

    assert done.returncode == 1
    assert b"is for a person" in done.stderr
    assert path.exists()
