"""The state that a scope keeps."""

from pathlib import Path

from mcp_dispatch.model.tools import DirectoryChanged, FileRead, FileSeen
from mcp_dispatch.pipeline.scope import Scope


def test_changes_of_context_are_applied() -> None:
    scope = Scope(Path("/w"), limit=10)
    seen = FileSeen(1, 2, "hash")

    scope.apply_changes([FileRead("/w/a", seen), DirectoryChanged(Path("/w/sub"))])

    assert (scope.find_seen_file("/w/a"), scope.cwd) == (seen, Path("/w/sub"))


def test_a_partial_read_does_not_replace_a_complete_read_of_the_same_content() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "hash"), FileSeen(1, 2, "hash", partial=True)

    scope.apply_changes([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.find_seen_file("/a") == whole


def test_a_partial_read_of_new_content_is_not_a_complete_read() -> None:
    scope = Scope(None, limit=10)
    whole, part = FileSeen(1, 2, "old"), FileSeen(3, 4, "new", partial=True)

    scope.apply_changes([FileRead("/a", whole), FileRead("/a", part)])

    assert scope.find_seen_file("/a") == part


def test_a_stored_result_is_readable_by_the_scope_it_was_delivered_to() -> None:
    mine, other = Scope(None, limit=10), Scope(None, limit=10)
    mine.mark_delivered("/state/results/x")

    assert (mine.is_delivered("/state/results/x"), other.is_delivered("/state/results/x")) == (
        True,
        False,
    )
