"""The approvals screen: its content, its keys and its size."""

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
AFTER_DELAY = MIN_VIEW_SECONDS + 1


def build_view(*questions: ApprovalMessage) -> ScreenState:
    return ScreenState().with_questions(questions, server_count=1, now=0.0)


def press(
    view: ScreenState, *keys: str, now: float = AFTER_DELAY
) -> tuple[ScreenState, ScreenAnswer | None]:
    answer: ScreenAnswer | None = None
    for key in keys:
        view, answer = view.press(key, now)
    return view, answer


def render_lines(view: ScreenState, width: int = 80, height: int = 24) -> list[str]:
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
def test_keys_that_arrive_in_one_read_are_split(typed: str, keys: list[str]) -> None:
    """An unknown escape sequence is one unknown key; none of its letters is an answer."""
    assert split_keys(typed) == keys


@pytest.mark.parametrize(("key", "choice"), [("y", "once"), ("s", "session"), ("a", "always")])
def test_one_key_answers_the_selected_question(key: str, choice: str) -> None:
    _, answer = press(build_view(FIRST, SECOND), "down", key)

    assert answer == ScreenAnswer(SECOND, choice)


def test_a_denial_is_sent_after_a_reason_is_typed() -> None:
    view, early_answer = press(build_view(FIRST), "n", *"use maje", "backspace", "backspace", *"ke")
    typed = view.reason
    _, answer = press(view, "enter")
    back, cancelled_answer = press(view, "escape")

    assert (early_answer, typed) == (None, "use make")
    assert answer == ScreenAnswer(FIRST, "deny", "use make")
    assert (back.reason, cancelled_answer) == (None, None)


def test_answer_keys_are_letters_while_a_reason_is_typed() -> None:
    view, answer = press(build_view(FIRST), "n", "y", "q", "a")

    assert (view.reason, answer) == ("yqa", None)


def test_a_choice_that_is_not_offered_is_rejected() -> None:
    view, answer = press(build_view(replace(FIRST, choices=("once", "deny"))), "a")

    assert answer is None
    assert view.notice == '"always" is not offered for this call.'


def test_a_key_pressed_right_after_a_question_appears_does_not_answer_it() -> None:
    before = build_view(FIRST)
    after = before.with_questions([SECOND], server_count=1, now=100.0)

    unchanged, early_answer = press(after, "y", now=100.0 + MIN_VIEW_SECONDS / 2)
    _, answer = press(unchanged, "y", now=100.0 + AFTER_DELAY)

    assert after.notice == "The question was withdrawn or answered elsewhere."
    assert early_answer is None
    assert answer == ScreenAnswer(SECOND, "once")


def test_an_update_keeps_the_order_and_the_selection() -> None:
    view = build_view(FIRST, SECOND)
    third = replace(FIRST, id="cccccc", age=99.0)

    after = view.with_questions([third, replace(SECOND, age=50.0), FIRST], server_count=1, now=1.0)

    assert [each.id for each in after.questions] == ["aaaaaa", "bbbbbb", "cccccc"]
    assert after.selected == "aaaaaa"


def test_after_an_answer_the_next_question_is_selected_and_a_notice_reports_the_answer() -> None:
    view, answer = press(build_view(FIRST, SECOND), "y")
    assert answer is not None

    done = view.with_answer(answer, None, now=5.0)
    failed = view.with_answer(answer, "the question has been answered already", now=5.0)

    assert (done.selected, done.notice) == ("bbbbbb", "Allowed (once): Bash npm test")
    assert failed.notice == "the question has been answered already"


def test_the_screen_is_as_large_as_the_terminal() -> None:
    long = replace(FIRST, call=tuple(f"line {number}: {'x' * 200}" for number in range(50)))
    wide = replace(FIRST, summary="木" * 100, tool="木" * 50)
    many = [replace(FIRST, id=f"{number:06}") for number in range(MAX_LISTED + 5)]
    for view in (
        ScreenState(),
        build_view(FIRST),
        build_view(long),
        build_view(wide, SECOND),
        build_view(*many),
    ):
        for width, height in ((80, 24), (60, 18), (120, 40)):
            shown = render_lines(view, width, height)
            assert len(shown) == height
            assert all(Console(width=500).measure(line).maximum <= width for line in shown)


def test_the_screen_shows_everything_that_a_decision_needs() -> None:
    text = "\n".join(render_lines(build_view(FIRST, SECOND)))

    for part in (
        *("Bash in /home/ada/project, server 4711", "command: npm test", FIRST.reason),
        *("Session and always add: Bash(npm test:*)", "y once", "s session", "a always", "n deny"),
        *("mcp__github__create_iss", "waits  0:12", "open  0:03", "2 asked"),
    ):
        assert part in text


def test_a_long_call_can_be_read_to_its_end() -> None:
    view = build_view(replace(FIRST, call=tuple(f"line {number}" for number in range(40))))

    first = "\n".join(render_lines(view))
    last = "\n".join(render_lines(press(view, *["page-down"] * 20)[0]))

    assert "more lines: PgDn" in first
    assert "line 39" not in first
    assert "line 39" in last
    assert "more lines" not in last


async def test_the_screen_opens_in_a_terminal_and_restores_it_on_exit(
    tmp_path: Path,
) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "mcp_dispatch", "approvals", "--state-dir", str(tmp_path)]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    output = b""
    with anyio.fail_after(60):
        async with await anyio.open_process(
            command, stdin=terminal, stdout=terminal, stderr=terminal, env=environ
        ) as child:
            os.close(terminal)
            while b"nothing is asked" not in output:
                await anyio.wait_readable(controller)
                output += os.read(controller, 65536)
            os.write(controller, b"q")
            # Keep reading: the child cannot exit while its output is unread.
            while b"\x1b[?1049l" not in output:
                await anyio.wait_readable(controller)
                output += os.read(controller, 65536)
            code = await child.wait()
    os.close(controller)

    assert code == 0
    assert b"\x1b[?1049h" in output
    assert b"Questions appear here" in output
