"""What the approvals screen shows, what a key does there, and that it fits its terminal."""

import os
import pty
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import anyio
import pytest
from rich.console import Console

from mcp_dispatch.approval.socket_protocol import ApprovalMessage
from mcp_dispatch.cli.approvals.tui import render_screen, split_keys
from mcp_dispatch.cli.approvals.tui_state import (
    MAX_LISTED,
    MIN_VIEW_SECONDS,
    ScreenAnswer,
    ScreenState,
)

ALL = ("once", "session", "always", "deny")
FIRST = ApprovalMessage(
    id="aaaaaa",
    tool="Bash",
    summary="npm test",
    call=("command: npm test",),
    reason="no rule covers this (permission mode default)",
    rules=("Bash(npm test:*)",),
    file="/home/ada/.config/mcp-dispatch/workspaces/0f3a.json",
    choices=ALL,
    is_call_waiting=True,
    age=12.0,
    server=4711,
    workspace="/home/ada/project",
)
SECOND = replace(
    FIRST, id="bbbbbb", tool="mcp__github__create_issue", age=3.0, is_call_waiting=False
)
CALM = MIN_VIEW_SECONDS + 1


def a_view(*questions: ApprovalMessage) -> ScreenState:
    return ScreenState().with_questions(questions, server_count=1, now=0.0)


def press(
    view: ScreenState, *keys: str, now: float = CALM
) -> tuple[ScreenState, ScreenAnswer | None]:
    answer: ScreenAnswer | None = None
    for key in keys:
        view, answer = view.press(key, now)
    return view, answer


def lines(view: ScreenState, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, file=StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(render_screen(view, console), end="")
    return capture.get().splitlines()


@pytest.mark.parametrize(
    ("typed", "keys"),
    [
        ("y", ["y"]),
        ("\x1b[B\x1b[B", ["down", "down"]),
        ("n\r", ["n", "enter"]),
        ("\x1b", ["escape"]),
        ("\x1b[6~q", ["page-down", "q"]),
        ("\x1b[1;5Ay", ["\x1b[1;5A", "y"]),
        ("é木\x7f", ["é", "木", "backspace"]),
    ],
)
def test_keys_that_come_together_are_told_apart(typed: str, keys: list[str]) -> None:
    """What is not understood is one unknown key, and none of its letters is an answer."""
    assert split_keys(typed) == keys


@pytest.mark.parametrize(("key", "choice"), [("y", "once"), ("s", "session"), ("a", "always")])
def test_one_key_answers_the_question_that_is_shown(key: str, choice: str) -> None:
    _, answer = press(a_view(FIRST, SECOND), "down", key)

    assert answer == ScreenAnswer(SECOND, choice)


def test_a_no_takes_a_reason_first() -> None:
    view, nothing = press(a_view(FIRST), "n", *"use maje", "backspace", "backspace", *"ke")
    typed = view.reason
    _, answer = press(view, "enter")
    back, still_nothing = press(view, "escape")

    assert (nothing, typed) == (None, "use make")
    assert answer == ScreenAnswer(FIRST, "deny", "use make")
    assert (back.reason, still_nothing) == (None, None)


def test_keys_that_answer_are_letters_while_a_reason_is_typed() -> None:
    view, answer = press(a_view(FIRST), "n", "y", "q", "a")

    assert (view.reason, answer) == ("yqa", None)


def test_what_is_not_offered_cannot_be_chosen() -> None:
    view, answer = press(a_view(replace(FIRST, choices=("once", "deny"))), "a")

    assert answer is None
    assert view.notice == '"always" is not offered for this call.'


def test_a_question_that_has_just_come_up_takes_no_answer_that_was_meant_for_another() -> None:
    before = a_view(FIRST)
    after = before.with_questions([SECOND], server_count=1, now=100.0)

    hasty, nothing = press(after, "y", now=100.0 + MIN_VIEW_SECONDS / 2)
    _, answer = press(hasty, "y", now=100.0 + CALM)

    assert after.notice == "The question was withdrawn or answered elsewhere."
    assert nothing is None
    assert answer == ScreenAnswer(SECOND, "once")


def test_nothing_moves_under_the_eyes_of_who_reads_it() -> None:
    view = a_view(FIRST, SECOND)
    third = replace(FIRST, id="cccccc", age=99.0)

    after = view.with_questions([third, replace(SECOND, age=50.0), FIRST], server_count=1, now=1.0)

    assert [each.id for each in after.questions] == ["aaaaaa", "bbbbbb", "cccccc"]
    assert after.selected == "aaaaaa"


def test_after_an_answer_the_next_question_is_shown_and_the_last_is_told() -> None:
    view, answer = press(a_view(FIRST, SECOND), "y")
    assert answer is not None

    done = view.with_answer(answer, None, now=5.0)
    failed = view.with_answer(answer, "the question has been answered already", now=5.0)

    assert (done.selected, done.notice) == ("bbbbbb", "Allowed (once): Bash npm test")
    assert failed.notice == "the question has been answered already"


def test_the_screen_is_as_large_as_the_terminal() -> None:
    long = replace(FIRST, call=tuple(f"line {number}: {'x' * 200}" for number in range(50)))
    wide = replace(FIRST, summary="木" * 100, tool="木" * 50)
    many = [replace(FIRST, id=f"{number:06}") for number in range(MAX_LISTED + 5)]
    for view in (ScreenState(), a_view(FIRST), a_view(long), a_view(wide, SECOND), a_view(*many)):
        for width, height in ((80, 24), (60, 18), (120, 40)):
            shown = lines(view, width, height)
            assert len(shown) == height
            assert all(Console(width=500).measure(line).maximum <= width for line in shown)


def test_the_screen_shows_all_that_the_decision_needs() -> None:
    text = "\n".join(lines(a_view(FIRST, SECOND)))

    for part in (
        *("Bash in /home/ada/project, server 4711", "command: npm test", FIRST.reason),
        *("Session and always add: Bash(npm test:*)", "y once", "s session", "a always", "n deny"),
        *("mcp__github__create_iss", "waits  0:12", "open  0:03", "2 asked"),
    ):
        assert part in text


def test_a_long_call_can_be_read_to_its_end() -> None:
    view = a_view(replace(FIRST, call=tuple(f"line {number}" for number in range(40))))

    first = "\n".join(lines(view))
    last = "\n".join(lines(press(view, *["page-down"] * 20)[0]))

    assert "more lines: PgDn" in first
    assert "line 39" not in first
    assert "line 39" in last
    assert "more lines" not in last


async def test_in_a_terminal_it_opens_shows_and_leaves_the_terminal_as_it_was(
    tmp_path: Path,
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mcp_dispatch", "approvals", "--state-dir", str(tmp_path)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    said = b""
    with anyio.fail_after(60):
        async with await anyio.open_process(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ
        ) as child:
            os.close(theirs)
            while b"nothing is asked" not in said:
                await anyio.wait_readable(ours)
                said += os.read(ours, 65536)
            os.write(ours, b"q")
            # Read on, or it waits for us before it ends.
            while b"\x1b[?1049l" not in said:
                await anyio.wait_readable(ours)
                said += os.read(ours, 65536)
            code = await child.wait()
    os.close(ours)

    assert code == 0
    assert b"\x1b[?1049h" in said
    assert b"Questions appear here" in said
