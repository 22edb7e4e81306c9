"""The approvals screen: the view drawn with rich, keys read, servers found and watched."""

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

from mcp_dispatch.approval.socket_client import Unreachable, line_to
from mcp_dispatch.approval.socket_protocol import Told, remove_stale, sockets_in
from mcp_dispatch.cli.approvals.tui_state import Answer, View, aged, details, hints, listed, place

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

# A sequence that we know, any other sequence whole, or one character.
_KEY: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)?|.", re.DOTALL)


def attend(run: Path) -> None:
    """Until the person leaves."""
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        with _keys_as_they_come(), Live(console=console, screen=True, auto_refresh=False) as live:
            anyio.run(Screen(run, console, live).run)
    except KeyboardInterrupt:
        pass


def keys_in(typed: str) -> list[str]:
    """The keys by name, or as they are; several may come at once, and one as several characters."""
    found = (match.group() for match in _KEY.finditer(typed))
    return [_SEQUENCES.get(key, key) for key in found]


class Screen:
    def __init__(self, run: Path, console: Console, live: Live) -> None:
        self._run = run
        self._console = console
        self._live = live
        self._view = View()
        self._asked: dict[Path, tuple[list[Told], float]] = {}
        self._troubles: dict[Path, str] = {}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._find, tasks)
            await self._read_keys()
            tasks.cancel_scope.cancel()

    async def _find(self, tasks: TaskGroup) -> None:
        """New servers are attached to as they start; ages are drawn anew."""
        watched: set[Path] = set()
        while True:
            remove_stale(self._run)
            for path in sockets_in(self._run):
                if path not in watched:
                    watched.add(path)
                    tasks.start_soon(self._watch, path)
            self._draw()
            await anyio.sleep(TICK_SECONDS)

    async def _watch(self, path: Path) -> None:
        try:
            async with line_to(path) as line:
                async for questions in line.watch():
                    self._asked[path] = (questions, time.monotonic())
                    self._draw()
        except Unreachable as reason:
            known = self._asked.pop(path, None) is not None
            if not known:
                self._troubles[path] = str(reason)
            self._draw()

    async def _read_keys(self) -> None:
        descriptor = sys.stdin.fileno()
        while True:
            await anyio.wait_readable(descriptor)
            typed = os.read(descriptor, 64).decode(errors="replace")
            if not typed:
                return
            for key in keys_in(typed):
                if self._view.reason is None and key in ("q", "Q", "\x04"):
                    return
                self._view, answer = self._view.press(key, time.monotonic())
                if answer is not None:
                    await self._send(answer)
            self._draw()

    async def _send(self, answer: Answer) -> None:
        now = time.monotonic()
        try:
            path = self._server(answer.question)
            async with line_to(path) as line:
                id, choice = answer.question.id, answer.choice
                problem = await line.answer(id, choice, answer.reason)
        except (Unreachable, LookupError) as reason:
            problem = f"The server cannot be reached: {reason}"
        self._view = self._view.answered(answer, problem, now)

    def _server(self, question: Told) -> Path:
        for path, (questions, _) in self._asked.items():
            if any((each.server, each.id) == (question.server, question.id) for each in questions):
                return path
        raise LookupError("it has ended")

    def _draw(self) -> None:
        now = time.monotonic()
        asked = [
            replace(each, age=each.age + now - seen)
            for questions, seen in self._asked.values()
            for each in questions
        ]
        troubles = tuple(dict.fromkeys(self._troubles.values()))
        view = self._view.showing(asked, len(self._asked), now)
        self._view = replace(view, troubles=troubles)
        self._live.update(drawn(self._view, self._console), refresh=True)


def drawn(view: View, console: Console) -> RenderableType:
    """The whole screen, exactly as large as the console."""
    width, height = console.size
    head = [_head(view, width), _rule(width), *_list(view, width), _rule(width)]
    foot = [_rule(width), _foot(view, width), Text(_fit(f" {hints(view)}", width), style="bold")]
    room = max(1, height - len(head) - len(foot))
    return Group(*head, *_body(view, console, width, room), *foot)


def _head(view: View, width: int) -> Text:
    waiting = len(view.questions)
    asks = "nothing is asked" if not waiting else f"{waiting} asked"
    servers = "no server" if not view.servers else f"{view.servers} server"
    right = f"{servers}{'s' if view.servers > 1 else ''} · {asks} "
    left = " mcp-dispatch approvals"
    gap = max(1, width - cell_len(left) - cell_len(right))
    return Text(_fit(f"{left}{' ' * gap}{right}", width), style="bold")


def _rule(width: int) -> Text:
    return Text("─" * width, style="dim")


def _list(view: View, width: int) -> list[Text]:
    start, shown = listed(view)
    if not shown:
        return [Text(_fit("   Questions appear here as servers ask them.", width), style="dim")]
    tools = min(24, max(cell_len(each.tool) for each in shown))
    places = min(16, max(cell_len(place(each)) for each in shown))
    lines: list[Text] = []
    for number, question in enumerate(shown, start + 1):
        chosen = question.id == view.selected
        state = "waits" if question.waits else "open"
        right = f"  {_fit(place(question), places)}  {state:>5} {aged(question.age):>5} "
        left = f" {'▸' if chosen else ' '} {number:<2} {_fit(question.tool, tools)}  "
        room = max(10, width - cell_len(left) - cell_len(right))
        text = _fit(f"{left}{_fit(question.gist, room)}{right}", width)
        lines.append(Text(text, style="reverse" if chosen else ""))
    return lines


def _body(view: View, console: Console, width: int, room: int) -> list[Text]:
    current = view.current
    if current is None:
        texts = [f"A server is left out: {each}" for each in view.troubles]
        lines = _wrapped(texts, console, width)
    else:
        title = f"{current.tool} in {current.workspace or 'no workspace'}, server {current.server}"
        lines = _wrapped([title, "", *details(current)], console, width)
    start = min(view.scroll, max(0, len(lines) - room))
    shown = lines[start : start + room]
    if start + room < len(lines):
        left = len(lines) - start - room + 1
        shown = [*shown[:-1], Text(f" ↓ {left} more lines: PgDn", style="bold yellow")]
    return [*shown, *(Text("") for _ in range(room - len(shown)))]


def _wrapped(texts: list[str], console: Console, width: int) -> list[Text]:
    lines: list[Text] = []
    for text in texts:
        indent = len(text) - len(text.lstrip(" "))
        wrapped = Text(text.lstrip(" ")).wrap(console, max(10, width - 2 - indent))
        lines += [Text(" " * (1 + indent)) + line for line in wrapped or [Text("")]]
    return lines


def _foot(view: View, width: int) -> Text:
    if view.reason is not None:
        start = " Why not, for the model (may be empty): "
        typed = view.reason[-max(1, width - cell_len(start) - 2) :]
        return Text(_fit(f"{start}{typed}▏", width), style="yellow")
    return Text(_fit(f" {view.notice}", width), style="yellow")


def _fit(text: str, width: int) -> str:
    """Exactly so wide; what is cut off leaves an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…"


@contextmanager
def _keys_as_they_come() -> Generator[None]:
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
