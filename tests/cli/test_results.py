"""`mcp-dispatch results list | show | prune`, run as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_dispatch.results.locks import lock_open_file
from mcp_dispatch.results.retention import Retention
from mcp_dispatch.results.store import ResultStore


class ResultsSetup:
    """A state directory with stored results, and the command that manages them."""

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

    def save(self, text: str | bytes, suffix: str = ".txt", used: float | None = None) -> Path:
        path = self.store.save(text, suffix).path
        if used is not None:
            os.utime(path, (used, used))
        return path


@pytest.fixture
def setup(tmp_path: Path) -> ResultsSetup:
    return ResultsSetup(tmp_path)


def test_the_list_fits_80_columns_and_json_lists_the_same_results(setup: ResultsSetup) -> None:
    old, new = setup.save("x" * 5_000, used=1_000_000_000), setup.save(b"\x89PNG", ".png")

    listed = setup.run("list")
    documents = json.loads(setup.run("list", "--json").stdout)

    lines = listed.stdout.decode().splitlines()
    assert listed.returncode == 0
    assert [line.split()[0] for line in lines[1:3]] == [new.stem, old.stem]
    assert "4.9KB" in lines[2]
    assert lines[3] == "2 results, 4.9KB"
    assert max(map(len, lines)) <= 80
    assert [each["path"] for each in documents] == [str(new), str(old)]
    assert [each["bytes"] for each in documents] == [4, 5_000]


def test_an_empty_list_prints_a_message(setup: ResultsSetup) -> None:
    assert setup.run("list").stdout == b"No results are kept.\n"


def test_show_escapes_control_characters_unless_raw(setup: ResultsSetup) -> None:
    text = "plain\ttab é\n\x1b]52;c;ZXZpbA==\x07 \x1b[2J \u202egnp.exe\r overwritten\x9b"
    path = setup.save(text)

    shown = setup.run("show", path.stem[:8])
    raw = setup.run("show", path.stem, "--raw")

    escaped = shown.stdout.decode()
    assert escaped.startswith("plain\ttab é\n")
    assert not {"\x1b", "\x07", "\r", "\u202e", "\x9b"} & set(escaped)
    assert "\\x1b]52;c;ZXZpbA==\\x07" in escaped
    assert "\\u{202e}gnp.exe\\x0d overwritten" in escaped
    assert raw.stdout.decode() == text


@pytest.mark.parametrize("id", ["nothing", "../x", "", "*", "/etc/passwd"])
def test_an_unknown_id_is_an_error_with_advice(setup: ResultsSetup, id: str) -> None:
    setup.save("a")

    done = setup.run("show", id)

    assert done.returncode == 1
    assert done.stdout == b""
    assert b"`mcp-dispatch results list` has them all" in done.stderr


def test_an_ambiguous_prefix_of_an_id_is_an_error(setup: ResultsSetup) -> None:
    for number in range(40):
        setup.save(str(number))

    done = setup.run("show", next(path.stem for path in setup.store.directory.iterdir())[:1])

    assert done.returncode == 1
    assert b"give more of the id" in done.stderr


def test_prune_removes_by_age_by_total_and_all(setup: ResultsSetup) -> None:
    old, young = setup.save("old", used=1_000_000_000), setup.save("young")
    locked = setup.save("held", used=1_000_000_000)
    descriptor = os.open(locked, os.O_RDONLY)
    lock_open_file(descriptor)
    os.utime(locked, (1, 1))

    by_age = setup.run("prune")
    os.close(descriptor)
    again = json.loads(setup.run("prune", "--json").stdout)
    by_total = setup.run("prune", "--max-bytes", "0")
    setup.save("new")
    everything = setup.run("prune", "--all")

    assert by_age.stdout == b"Removed 1, 3 bytes.\nLeft 1 that are being read.\n"
    assert not old.exists()
    assert [each["path"] for each in again["removed"]] == [str(locked)]
    assert by_total.stdout == b"Removed 1, 5 bytes.\n"
    assert not young.exists()
    assert everything.stdout == b"Removed 1, 3 bytes.\n"


def test_prune_uses_the_retention_of_the_settings(setup: ResultsSetup) -> None:
    path = setup.save("a", used=1_000_000_000)
    settings = setup.folder / "mine.json"
    settings.write_text(
        json.dumps({"dispatch": {"results": {"retentionDays": 36_500}}}), encoding="utf-8"
    )

    kept = setup.run("prune", "--settings", str(settings))
    gone = setup.run("prune", "--older-than", "0")

    assert kept.stdout == b"Removed 0, 0 bytes.\n"
    assert gone.stdout == b"Removed 1, 1 bytes.\n"
    assert not path.exists()


@pytest.mark.parametrize("command", [("show", "a"), ("prune", "--all")])
def test_a_process_that_the_server_started_can_neither_show_nor_prune(
    setup: ResultsSetup, command: tuple[str, ...]
) -> None:
    path = setup.save("a")

    done = setup.run(*command, MCP_DISPATCH_RUN="0" * 32)

    assert done.returncode == 1
    assert b"is for a person" in done.stderr
    assert path.exists()
