"""What one scope remembers, and for how long."""

from pathlib import Path

import pytest

from mcp_dispatch.model.calls import Asked, Review, ToolCall
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import DirectoryChanged, FileRead, FileSeen
from mcp_dispatch.pipeline.scope import PARKED_AT_MOST, PARKED_SECONDS, OpenAsks, Scope


def a_call(name: str = "Bash", **arguments: str) -> ToolCall:
    return ToolCall("id", "id", name, dict(arguments))


def test_an_open_ask_is_answered_once() -> None:
    asks = OpenAsks()
    state = asks.park(a_call(command="ls"), Asked(Review(contexts=("noted",))))

    first = asks.take(state, "Bash", {"command": "ls"})
    second = asks.take(state, "Bash", {"command": "ls"})

    assert (first, second) == (Asked(Review(contexts=("noted",))), None)


def test_an_answer_for_other_arguments_counts_for_nothing() -> None:
    asks = OpenAsks()
    state = asks.park(a_call(command="ls"), Asked(Review()))

    assert asks.take(state, "Bash", {"command": "rm"}) is None
    assert len(asks) == 0


@pytest.mark.parametrize("other", [True, 1.0, "1", [1]])
def test_what_python_calls_equal_is_not_the_same_argument(other: Json) -> None:
    asks = OpenAsks()
    state = asks.park(ToolCall("id", "id", "T", {"x": 1}), Asked(Review()))

    assert asks.take(state, "T", {"x": other}) is None


def test_an_ask_expires() -> None:
    now = [0.0]
    asks = OpenAsks(clock=lambda: now[0])
    state = asks.park(a_call(), Asked(Review()))

    now[0] = PARKED_SECONDS + 1

    assert asks.take(state, "Bash", {}) is None


def test_the_oldest_asks_make_room() -> None:
    asks = OpenAsks()
    first = asks.park(a_call(), Asked(Review()))
    for _ in range(PARKED_AT_MOST):
        asks.park(a_call(), Asked(Review()))

    assert len(asks) == PARKED_AT_MOST
    assert asks.take(first, "Bash", {}) is None


def test_changes_of_context_are_applied() -> None:
    scope = Scope(Path("/w"), limit=10)
    seen = FileSeen(1, 2, "hash")

    scope.apply([FileRead("/w/a", seen), DirectoryChanged(Path("/w/sub"))])

    assert (scope.seen("/w/a"), scope.cwd) == (seen, Path("/w/sub"))


def test_a_partial_look_does_not_undo_a_whole_read_of_the_same_content() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "hash"), FileSeen(1, 2, "hash", partial=True)

    scope.apply([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.seen("/a") == whole


def test_a_partial_look_at_new_content_is_not_a_read() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "old"), FileSeen(3, 4, "new", partial=True)

    scope.apply([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.seen("/a") == part


def test_a_kept_result_is_readable_by_the_scope_it_was_delivered_to() -> None:
    mine, other = Scope(None, limit=10), Scope(None, limit=10)
    mine.deliver("/state/results/x")

    assert (mine.delivered("/state/results/x"), other.delivered("/state/results/x")) == (
        True,
        False,
    )
