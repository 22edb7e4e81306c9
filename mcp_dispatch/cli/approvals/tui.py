"""The approvals screen: draws with rich, reads keys, finds and watches servers."""

import os
import re
import sys
import termios
import time
import tty
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mcp_dispatch.approval.socket_client import ApprovalServerUnreachable, connect_to_server
from mcp_dispatch.approval.socket_protocol import (
    ApprovalMessage,
    list_sockets,
    remove_stale_sockets,
)
from mcp_dispatch.cli.approvals.tui_state import (
    ScreenAnswer,
    ScreenState,
    format_age,
    format_details,
    format_hints,
    format_workspace,
    select_listed,
)

TICK_SECONDS: Final = 1.0
_SEQUENCES: Final = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
}

# An escape sequence, or one character.
_KEY_PATTERN: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)?|.", re.DOTALL)


def run_screen(run_directory: Path) -> None:
    """Show the screen until the person quits."""
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        with _enable_cbreak(), Live(console=console, screen=True, auto_refresh=False) as live:
            anyio.run(ApprovalScreen(run_directory, console, live).run)
    except KeyboardInterrupt:
        pass


def split_keys(typed: str) -> list[str]:
    """Split input into keys: several may arrive at once, and one may have several characters."""
    keys = (match.group() for match in _KEY_PATTERN.finditer(typed))
    return [_SEQUENCES.get(key, key) for key in keys]


class ApprovalScreen:
    def __init__(self, run_directory: Path, console: Console, live: Live) -> None:
        self._run_directory = run_directory
        self._console = console
        self._live = live
        self._state = ScreenState()
        self._questions: dict[Path, tuple[list[ApprovalMessage], float]] = {}
        self._problems: dict[Path, str] = {}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_servers, tasks)
            await self._read_keys()
            tasks.cancel_scope.cancel()

    async def _watch_servers(self, tasks: TaskGroup) -> None:
        """Attach to servers as they start, and redraw the ages."""
        watched: set[Path] = set()
        while True:
            remove_stale_sockets(self._run_directory)
            for path in list_sockets(self._run_directory):
                if path not in watched:
                    watched.add(path)
                    tasks.start_soon(self._watch_server, path)
            self._draw()
            await anyio.sleep(TICK_SECONDS)

    async def _watch_server(self, path: Path) -> None:
        try:
            async with connect_to_server(path) as line:
                async for questions in line.watch():
                    self._questions[path] = (questions, time.monotonic())
                    self._draw()
        except ApprovalServerUnreachable as reason:
            known = self._questions.pop(path, None) is not None
            if not known:
                self._problems[path] = str(reason)
            self._draw()

    async def _read_keys(self) -> None:
        descriptor = sys.stdin.fileno()
        while True:
            await anyio.wait_readable(descriptor)
            typed = os.read(descriptor, 64).decode(errors="replace")
            if not typed:
                return
            for key in split_keys(typed):
                if self._state.reason is None and key in ("q", "Q", "\x04"):
                    return
                self._state, answer = self._state.press(key, time.monotonic())
                if answer is not None:
                    await self._send(answer)
            self._draw()

    async def _send(self, answer: ScreenAnswer) -> None:
        now = time.monotonic()
        try:
            path = self._find_server(answer.question)
            async with connect_to_server(path) as line:
                id, choice = answer.question.id, answer.choice
                problem = await line.answer(id, choice, answer.reason)
        except (ApprovalServerUnreachable, LookupError) as reason:
            problem = f"The server cannot be reached: {reason}"
        self._state = self._state.with_answer(answer, problem, now)

    def _find_server(self, question: ApprovalMessage) -> Path:
        for path, (questions, _) in self._questions.items():
            if any((each.server, each.id) == (question.server, question.id) for each in questions):
                return path
        raise LookupError("it has ended")

    def _draw(self) -> None:
        now = time.monotonic()
        asked = [
            replace(each, age=each.age + now - seen)
            for questions, seen in self._questions.values()
            for each in questions
        ]
        problems = tuple(dict.fromkeys(self._problems.values()))
        view = self._state.with_questions(asked, len(self._questions), now)
        self._state = replace(view, problems=problems)
        self._live.update(render_screen(self._state, self._console), refresh=True)


def render_screen(state: ScreenState, console: Console) -> RenderableType:
    """Render the whole screen in exactly the size of the console."""
    width, height = console.size
    head = [
        _render_header(state, width),
        _render_rule(width),
        *_render_list(state, width),
        _render_rule(width),
    ]
    foot = [
        _render_rule(width),
        _render_footer(state, width),
        Text(_fit(f" {format_hints(state)}", width), style="bold"),
    ]
    room = max(1, height - len(head) - len(foot))
    return Group(*head, *_render_body(state, console, width, room), *foot)


def _render_header(state: ScreenState, width: int) -> Text:
    waiting = len(state.questions)
    asks = "nothing is asked" if not waiting else f"{waiting} asked"
    servers = "no server" if not state.server_count else f"{state.server_count} server"
    right = f"{servers}{'s' if state.server_count > 1 else ''} · {asks} "
    left = " mcp-dispatch approvals"
    gap = max(1, width - cell_len(left) - cell_len(right))
    return Text(_fit(f"{left}{' ' * gap}{right}", width), style="bold")


def _render_rule(width: int) -> Text:
    return Text("─" * width, style="dim")


def _render_list(view: ScreenState, width: int) -> list[Text]:
    start, shown = select_listed(view)
    if not shown:
        return [Text(_fit("   Questions appear here as servers ask them.", width), style="dim")]
    tools = min(24, max(cell_len(each.tool) for each in shown))
    places = min(16, max(cell_len(format_workspace(each)) for each in shown))
    lines: list[Text] = []
    for number, question in enumerate(shown, start + 1):
        chosen = question.id == view.selected
        state = "waits" if question.is_call_waiting else "open"
        right = f"  {_fit(format_workspace(question), places)}  {state:>5} {format_age(question.age):>5} "
        left = f" {'▸' if chosen else ' '} {number:<2} {_fit(question.tool, tools)}  "
        room = max(10, width - cell_len(left) - cell_len(right))
        text = _fit(f"{left}{_fit(question.summary, room)}{right}", width)
        lines.append(Text(text, style="reverse" if chosen else ""))
    return lines


def _render_body(state: ScreenState, console: Console, width: int, height: int) -> list[Text]:
    current = state.current
    if current is None:
        texts = [f"A server is left out: {each}" for each in state.problems]
        lines = _wrap(texts, console, width)
    else:
        title = f"{current.tool} in {current.workspace or 'no workspace'}, server {current.server}"
        lines = _wrap([title, "", *format_details(current)], console, width)
    start = min(state.scroll, max(0, len(lines) - height))
    shown = lines[start : start + height]
    if start + height < len(lines):
        left = len(lines) - start - height + 1
        shown = [*shown[:-1], Text(f" ↓ {left} more lines: PgDn", style="bold yellow")]
    return [*shown, *(Text("") for _ in range(height - len(shown)))]


def _wrap(texts: list[str], console: Console, width: int) -> list[Text]:
    lines: list[Text] = []
    for text in texts:
        indent = len(text) - len(text.lstrip(" "))
        wrapped = Text(text.lstrip(" ")).wrap(console, max(10, width - 2 - indent))
        lines += [Text(" " * (1 + indent)) + line for line in wrapped or [Text("")]]
    return lines


def _render_footer(state: ScreenState, width: int) -> Text:
    if state.reason is not None:
        start = " Why not, for the model (may be empty): "
        typed = state.reason[-max(1, width - cell_len(start) - 2) :]
        return Text(_fit(f"{start}{typed}▏", width), style="yellow")
    return Text(_fit(f" {state.notice}", width), style="yellow")


def _fit(text: str, width: int) -> str:
    """Pad or cut to exactly `width` cells; a cut text ends with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


@contextmanager
def _enable_cbreak() -> Generator[None]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
