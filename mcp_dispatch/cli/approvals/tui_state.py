"""The state of the approvals screen and the effect of keys, without terminal and sockets."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mcp_dispatch.approval.socket_protocol import ApprovalMessage

CHOICE_KEYS: Final = {"y": "once", "s": "session", "a": "always", "n": "deny"}
MIN_VIEW_SECONDS: Final = 0.6
"""A key is ignored this long after a question appears: it was meant for another question."""

MAX_LISTED: Final = 6


@dataclass(frozen=True, slots=True)
class ScreenAnswer:
    """The answer of the person to one question."""

    question: ApprovalMessage
    choice: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ScreenState:
    """`selected` is the id of the question shown in full, `selected_at` when it was selected
    automatically; `reason` is the text being typed, or None.
    """

    questions: tuple[ApprovalMessage, ...] = ()
    selected: str | None = None
    selected_at: float = 0.0
    scroll: int = 0
    reason: str | None = None
    notice: str = ""
    server_count: int = 0
    problems: tuple[str, ...] = field(default=())

    @property
    def current(self) -> ApprovalMessage | None:
        return next((each for each in self.questions if each.id == self.selected), None)

    def with_questions(
        self, questions: Sequence[ApprovalMessage], server_count: int, now: float
    ) -> "ScreenState":
        """Return the state with the current questions. The selection stays if its question exists."""
        view = replace(self, questions=self._sort_questions(questions), server_count=server_count)
        if view.current is not None:
            return view
        gone = view.selected is not None
        return replace(
            view,
            selected=self._pick_neighbour(view.questions),
            selected_at=now,
            scroll=0,
            reason=None,
            notice="The question was withdrawn or answered elsewhere." if gone else view.notice,
        )

    def _sort_questions(self, questions: Sequence[ApprovalMessage]) -> tuple[ApprovalMessage, ...]:
        """Keep the order of known questions and append new ones, so that nothing moves."""
        known = {each.id: at for at, each in enumerate(self.questions)}
        last = len(known)
        return tuple(sorted(questions, key=lambda each: (known.get(each.id, last), -each.age)))

    def _pick_neighbour(self, remaining: Sequence[ApprovalMessage]) -> str | None:
        """Return the id to select after the selected question is gone."""
        ids = [each.id for each in self.questions]
        at = ids.index(self.selected) if self.selected in ids else 0
        return remaining[min(at, len(remaining) - 1)].id if remaining else None

    def press(self, key: str, now: float) -> "tuple[ScreenState, ScreenAnswer | None]":
        """Return the state after a key, and the answer if the key gives one."""
        if self.reason is not None:
            return self._handle_typing(key)
        if key in ("up", "k", "down", "j"):
            return self._move(-1 if key in ("up", "k") else 1), None
        if key in ("page-up", "page-down"):
            step = -5 if key == "page-up" else 5
            return replace(self, scroll=max(0, self.scroll + step)), None
        current, choice = self.current, CHOICE_KEYS.get(key)
        if current is None or choice is None:
            return self, None
        if now - self.selected_at < MIN_VIEW_SECONDS:
            return replace(self, notice="This has just come up: look, then press again."), None
        if choice not in current.choices:
            return replace(self, notice=f'"{choice}" is not offered for this call.'), None
        if choice == "deny":
            return replace(self, reason="", notice=""), None
        return replace(self, notice=""), ScreenAnswer(current, choice)

    def with_answer(self, answer: ScreenAnswer, problem: str | None, now: float) -> "ScreenState":
        result = "Denied" if answer.choice == "deny" else f"Allowed ({answer.choice})"
        notice = problem or f"{result}: {answer.question.tool} {answer.question.summary}"
        left = [each for each in self.questions if each.id != answer.question.id]
        return replace(self.with_questions(left, self.server_count, now), notice=notice)

    def _move(self, step: int) -> "ScreenState":
        ids = [each.id for each in self.questions]
        if self.selected not in ids:
            return self
        at = min(max(ids.index(self.selected) + step, 0), len(ids) - 1)
        return replace(self, selected=ids[at], scroll=0, selected_at=0.0, notice="")

    def _handle_typing(self, key: str) -> "tuple[ScreenState, ScreenAnswer | None]":
        current, reason = self.current, self.reason or ""
        if key == "escape" or current is None:
            return replace(self, reason=None), None
        if key == "enter":
            return replace(self, reason=None), ScreenAnswer(current, "deny", reason)
        if key == "backspace":
            return replace(self, reason=reason[:-1]), None
        return (
            replace(self, reason=reason + key) if key.isprintable() and len(key) == 1 else self
        ), None


def select_listed(state: ScreenState) -> tuple[int, tuple[ApprovalMessage, ...]]:
    """Return the start and the part of the list around the selected question."""
    ids = [each.id for each in state.questions]
    at = ids.index(state.selected) if state.selected in ids else 0
    start = max(0, min(at - MAX_LISTED // 2, len(ids) - MAX_LISTED))
    return start, state.questions[start : start + MAX_LISTED]


def format_details(question: ApprovalMessage) -> list[str]:
    """Return the details of one question as paragraphs, which may be wider than the screen."""
    rules = ", ".join(question.rules)
    lines = [*question.call, "", f"Asked because: {question.reason}"]
    if question.rules:
        lines.append(f"{'Session and always add' if question.file else 'Session adds'}: {rules}")
    if question.file:
        lines.append(f"Always writes it to {question.file}")
    if not question.is_call_waiting:
        lines.append("The call was refused meanwhile; made again, it uses your answer.")
    return lines


def format_hints(state: ScreenState) -> str:
    if state.reason is not None:
        return "enter: deny · esc: back"
    current = state.current
    if current is None:
        return "q quit"
    words = {"once": "once", "session": "session", "always": "always", "deny": "deny"}
    offered = [
        f"{key} {words[choice]}" for key, choice in CHOICE_KEYS.items() if choice in current.choices
    ]
    more = ["↑↓ choose"] if len(state.questions) > 1 else []
    return " · ".join([*offered, *more, "PgUp/PgDn scroll", "q quit"])


def format_age(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def format_workspace(question: ApprovalMessage) -> str:
    return Path(question.workspace).name if question.workspace else "-"
