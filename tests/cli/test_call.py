"""`mcp-dispatch call`: one tool, from a shell, through everything a client's call goes through."""

import json
import os
import pty
import subprocess

import anyio
import pytest

from mcp_dispatch.processes.kill_tree import MARKER_VARIABLE
from tests.support.client import Installation
from tests.support.demo_upstream import DEMO

TOUCH = json.dumps({"command": "touch made"})


def test_a_built_in_tool_answers_on_standard_output(installed: Installation) -> None:
    installed.file("notes.txt", "first\n")

    done = installed.run("call", "Read", '{"file_path": "notes.txt"}')

    assert (done.stdout, done.stderr, done.returncode) == ("     1\tfirst\n", "", 0)
    assert [entry.get("tool") for entry in installed.journal()] == ["Read"]


def test_the_tool_of_a_server_takes_arguments_from_standard_input_and_shows_its_result_whole(
    installed: Installation,
) -> None:
    installed.rules(allow=["mcp__demo"]).upstream("demo", *DEMO)

    done = installed.run("call", "demo__remember", "-", "--json", said='{"note": "bread"}')

    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout)["content"] == [
        {"type": "text", "text": "Noted. 1 note(s) so far."}
    ]


def test_where_nobody_can_be_asked_the_call_is_refused_with_the_line_that_allows_it(
    installed: Installation,
) -> None:
    refused = installed.run("call", "Bash", TOUCH)
    whole = installed.run("call", "Bash", TOUCH, "--json")

    told = (
        "Permission to use Bash was not given: no rule covers this (permission mode default); "
        'there is no terminal to ask on. To allow it, add to "permissions" in settings.json: '
        '"allow": ["Bash(touch made:*)"].\n'
    )
    assert (refused.stdout, refused.stderr, refused.returncode) == ("", told, 1)
    assert (json.loads(whole.stdout)["isError"], whole.returncode) == (True, 1)
    assert not (installed.workspace / "made").exists()


def test_a_tool_that_fails_is_told_on_standard_error(installed: Installation) -> None:
    installed.rules(allow=["mcp__demo"]).upstream("demo", *DEMO)

    failed = installed.run("call", "mcp__demo__remember", '{"note": ""}')

    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "note" in failed.stderr


@pytest.mark.parametrize("arguments", ["[1]", "{", '"text"'])
def test_arguments_that_are_no_object_are_bad_usage(
    arguments: str, installed: Installation
) -> None:
    done = installed.run("call", "Read", arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("mcp-dispatch: the arguments ")
    assert not installed.state.exists()


def test_what_the_server_has_started_cannot_call_for_itself(installed: Installation) -> None:
    done = subprocess.run(
        installed.command_for("call", "Read", '{"file_path": "x"}'),
        env={**installed.environ, MARKER_VARIABLE: "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )

    assert done.returncode == 1
    assert "`call` is for a person" in done.stderr


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
async def test_in_a_terminal_the_person_there_is_asked(
    typed: bytes, code: int, installed: Installation
) -> None:
    said, ended = await _in_a_terminal(installed, typed, "call", "Bash", TOUCH)

    assert b"Allow Bash?" in said
    assert b"command: touch made" in said
    assert b"Asked because: no rule covers this" in said
    assert ended == code
    assert (installed.workspace / "made").exists() == (code == 0)


async def test_in_a_terminal_no_file_can_move_the_cursor(installed: Installation) -> None:
    installed.file("evil.txt", "\x1b[2Jgone")
    installed.rules(ask=["Read"])

    said, _ = await _in_a_terminal(installed, b"yes\n", "call", "Read", '{"file_path": "evil.txt"}')

    assert b"\x1b" not in said
    assert b"\\x1b[2Jgone" in said


async def _in_a_terminal(
    installed: Installation, typed: bytes, *words: str
) -> tuple[bytes, int | None]:
    """What was shown, and the exit code."""
    ours, theirs = pty.openpty()
    with anyio.fail_after(60):
        async with await anyio.open_process(
            installed.command_for(words[0], *words[1:]),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=installed.environ,
        ) as child:
            os.close(theirs)
            shown = b""
            while b"[y/N] " not in shown:
                shown += await _some(ours)
            os.write(ours, typed)
            while more := await _some(ours):
                shown += more
            code = await child.wait()
    os.close(ours)
    return shown, code


async def _some(terminal: int) -> bytes:
    await anyio.wait_readable(terminal)
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody is on the other side any more
        return b""
