"""What one scope remembers, and for how long."""

from pathlib import Path

import pytest

from mcp_dispatch.model.calls import AskedContext, PreHookResult, ToolCall
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import DirectoryChanged, FileRead, FileSeen
from mcp_dispatch.pipeline.scope import (
    MAX_PENDING_QUESTIONS,
    QUESTION_SECONDS,
    PendingQuestions,
    Scope,
)


def build_call(name: str = "Bash", **arguments: str) -> ToolCall:
    return ToolCall("id", "id", name, dict(arguments))


def test_an_open_ask_is_answered_once() -> None:
    asks = PendingQuestions()
    state = asks.add(build_call(command="ls"), AskedContext(PreHookResult(contexts=("noted",))))

    first = asks.pop(state, "Bash", {"command": "ls"})
    second = asks.pop(state, "Bash", {"command": "ls"})

    assert (first, second) == (AskedContext(PreHookResult(contexts=("noted",))), None)


def test_an_answer_for_other_arguments_counts_for_nothing() -> None:
    asks = PendingQuestions()
    state = asks.add(build_call(command="ls"), AskedContext(PreHookResult()))

    assert asks.pop(state, "Bash", {"command": "rm"}) is None
    assert len(asks) == 0


@pytest.mark.parametrize("other", [True, 1.0, "1", [1]])
def test_what_python_calls_equal_is_not_the_same_argument(other: Json) -> None:
    asks = PendingQuestions()
    state = asks.add(ToolCall("id", "id", "T", {"x": 1}), AskedContext(PreHookResult()))

    assert asks.pop(state, "T", {"x": other}) is None


def test_an_ask_expires() -> None:
    now = [0.0]
    asks = PendingQuestions(clock=lambda: now[0])
    state = asks.add(build_call(), AskedContext(PreHookResult()))

    now[0] = QUESTION_SECONDS + 1

    assert asks.pop(state, "Bash", {}) is None


def test_the_oldest_asks_make_room() -> None:
    asks = PendingQuestions()
    first = asks.add(build_call(), AskedContext(PreHookResult()))
    for _ in range(MAX_PENDING_QUESTIONS):
        asks.add(build_call(), AskedContext(PreHookResult()))

    assert len(asks) == MAX_PENDING_QUESTIONS
    assert asks.pop(first, "Bash", {}) is None


def test_changes_of_context_are_applied() -> None:
    scope = Scope(Path("/w"), limit=10)
    seen = FileSeen(1, 2, "hash")

    scope.apply_changes([FileRead("/w/a", seen), DirectoryChanged(Path("/w/sub"))])

    assert (scope.find_seen_file("/w/a"), scope.cwd) == (seen, Path("/w/sub"))


def test_a_partial_look_does_not_undo_a_whole_read_of_the_same_content() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "hash"), FileSeen(1, 2, "hash", partial=True)

    scope.apply_changes([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.find_seen_file("/a") == whole


def test_a_partial_look_at_new_content_is_not_a_read() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "old"), FileSeen(3, 4, "new", partial=True)

    scope.apply_changes([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.find_seen_file("/a") == part


def test_a_kept_result_is_readable_by_the_scope_it_was_delivered_to() -> None:
    mine, other = Scope(None, limit=10), Scope(None, limit=10)
    mine.mark_delivered("/state/results/x")

    assert (mine.is_delivered("/state/results/x"), other.is_delivered("/state/results/x")) == (
        True,
        False,
    )
