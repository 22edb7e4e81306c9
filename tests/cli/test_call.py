"""`mcp-dispatch call`: one tool call from a shell through the whole pipeline."""

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


def test_the_result_of_a_built_in_tool_is_printed_to_stdout(installed: Installation) -> None:
    installed.write_file("notes.txt", "first\n")

    done = installed.run("call", "Read", '{"file_path": "notes.txt"}')

    assert (done.stdout, done.stderr, done.returncode) == ("     1\tfirst\n", "", 0)
    assert [entry.get("tool") for entry in installed.read_journal()] == ["Read"]


def test_an_upstream_tool_gets_arguments_from_stdin_and_its_whole_result_is_printed(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["mcp__demo"]).add_upstream("demo", *DEMO)

    done = installed.run("call", "demo__remember", "-", "--json", said='{"note": "bread"}')

    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout)["content"] == [
        {"type": "text", "text": "Noted. 1 note(s) so far."}
    ]


def test_without_a_terminal_the_call_is_refused_with_the_rule_that_would_allow_it(
    installed: Installation,
) -> None:
    refused = installed.run("call", "Bash", TOUCH)
    as_json = installed.run("call", "Bash", TOUCH, "--json")

    message = (
        "Permission to use Bash was not given: no rule covers this (permission mode default); "
        'there is no terminal to ask on. To allow it, add to "permissions" in settings.json: '
        '"allow": ["Bash(touch made:*)"].\n'
    )
    assert (refused.stdout, refused.stderr, refused.returncode) == ("", message, 1)
    assert (json.loads(as_json.stdout)["isError"], as_json.returncode) == (True, 1)
    assert not (installed.workspace / "made").exists()


def test_the_error_of_a_failed_tool_is_printed_to_stderr(installed: Installation) -> None:
    installed.add_rules(allow=["mcp__demo"]).add_upstream("demo", *DEMO)

    failed = installed.run("call", "mcp__demo__remember", '{"note": ""}')

    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "note" in failed.stderr


@pytest.mark.parametrize("arguments", ["[1]", "{", '"text"'])
def test_arguments_that_are_not_an_object_are_a_usage_error(
    arguments: str, installed: Installation
) -> None:
    done = installed.run("call", "Read", arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("mcp-dispatch: the arguments ")
    assert not installed.state.exists()


def test_a_process_that_the_server_started_cannot_run_call(installed: Installation) -> None:
    done = subprocess.run(
        installed.build_command("call", "Read", '{"file_path": "x"}'),
        env={**installed.environ, MARKER_VARIABLE: "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )

    assert done.returncode == 1
    assert "`call` is for a person" in done.stderr


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
async def test_in_a_terminal_the_user_is_asked_for_approval(
    typed: bytes, code: int, installed: Installation
) -> None:
    output, exit_code = await _run_in_terminal(installed, typed, "call", "Bash", TOUCH)

    assert b"Allow Bash?" in output
    assert b"command: touch made" in output
    assert b"Asked because: no rule covers this" in output
    assert exit_code == code
    assert (installed.workspace / "made").exists() == (code == 0)


async def test_control_characters_in_a_result_are_escaped_in_a_terminal(
    installed: Installation,
) -> None:
    installed.write_file("evil.txt", "\x1b[2Jgone")
    installed.add_rules(ask=["Read"])

    output, _ = await _run_in_terminal(
        installed, b"yes\n", "call", "Read", '{"file_path": "evil.txt"}'
    )

    assert b"\x1b" not in output
    assert b"\\x1b[2Jgone" in output


async def _run_in_terminal(
    installed: Installation, typed: bytes, *words: str
) -> tuple[bytes, int | None]:
    """Return the terminal output and the exit code."""
    controller, terminal_end = pty.openpty()
    with anyio.fail_after(60):
        async with await anyio.open_process(
            installed.build_command(words[0], *words[1:]),
            stdin=terminal_end,
            stdout=terminal_end,
            stderr=terminal_end,
            env=installed.environ,
        ) as child:
            os.close(terminal_end)
            output = b""
            while b"[y/N] " not in output:
                output += await _read_terminal(controller)
            os.write(controller, typed)
            while more := await _read_terminal(controller):
                output += more
            code = await child.wait()
    os.close(controller)
    return output, code


async def _read_terminal(terminal: int) -> bytes:
    await anyio.wait_readable(terminal)
    try:
        return os.read(terminal, 65536)
    except OSError:  # the process has closed its end
        return b""
