"""Which tools a matcher stands for."""

import pytest

from mcp_dispatch.hooks.matcher import (
    EveryTool,
    Fit,
    NamedTools,
    Pattern,
    Unreadable,
    read_matcher,
)

MEMORY = "mcp__memory__create_entities"


@pytest.mark.parametrize(
    ("matcher", "tool", "fit"),
    [
        ("", "Bash", Fit.YES),
        ("*", "Bash", Fit.YES),
        ("*", MEMORY, Fit.YES),
        ("Bash", "Bash", Fit.YES),
        ("Bash", "BashOutput", Fit.NO),
        ("Bash", "bash", Fit.NO),
        ("bash", "Bash", Fit.NO),
        ("Edit|Write", "Write", Fit.YES),
        ("Edit|Write", "Read", Fit.NO),
        ("Edit|Write", "NotebookEdit", Fit.NO),
        ("Edit, Write", "Write", Fit.YES),
        (" Edit | Write ", "Edit", Fit.YES),
        ("Edit|", "Edit", Fit.YES),
        ("Edit|", "", Fit.NO),
        ("mcp__memory", MEMORY, Fit.NO),
        (MEMORY, MEMORY, Fit.YES),
        ("mcp__my-server__tool", "mcp__my-server__tool", Fit.YES),
        ("mcp__memory__.*", MEMORY, Fit.YES),
        ("mcp__memory__.*", "mcp__other__tool", Fit.NO),
        ("mcp__.*__create", MEMORY, Fit.YES),
        ("Edit.*", "NotebookEdit", Fit.YES),
        ("^Edit.*", "NotebookEdit", Fit.NO),
        ("^(Edit|Write)$", "Edit", Fit.YES),
        ("^(Edit|Write)$", "MultiEdit", Fit.NO),
        ("edit.*", "Edit", Fit.NO),
        ("^(?!Read$)", "Read", Fit.NO),
        ("^(?!Read$)", "Bash", Fit.YES),
        (r"^mcp__\d+__", "mcp__7__tool", Fit.YES),
        # JavaScript's \d is ASCII, unlike Python's.
        (r"^mcp__\d+__", "mcp__٣__tool", Fit.NO),
        # JavaScript's $ is the very end, unlike Python's.
        ("^Bash$", "Bash\n", Fit.NO),
        ("Bash(ls *)", "Bash", Fit.NO),
        (".", "Bash\ud800", Fit.UNSURE),
    ],
)
def test_a_matcher_fits_as_in_claude_code(matcher: str, tool: str, fit: Fit) -> None:
    assert read_matcher(matcher).fits(tool) is fit


@pytest.mark.parametrize("matcher", ["Bash(", "[", "*.", "(a{1000}){1000}", "a\ud800.", " ", "|,"])
def test_a_matcher_that_cannot_be_read_may_be_for_any_tool(matcher: str) -> None:
    assert read_matcher(matcher) == Unreadable()
    assert read_matcher(matcher).fits("Read") is Fit.UNSURE


def test_the_kind_of_a_matcher_follows_from_its_characters() -> None:
    assert read_matcher("") == EveryTool()
    assert read_matcher("A-b_1, C|D") == NamedTools(frozenset({"A-b_1", "C", "D"}))
    assert isinstance(read_matcher("A.b"), Pattern)


# On a name like this a backtracking engine would not come back.
HOSTILE = "a" * 900 + "!"


@pytest.mark.parametrize("matcher", ["(a+)+$", "^(a|a)*$", "(.*)*x"])
def test_a_pattern_takes_linear_time(matcher: str) -> None:
    assert read_matcher(matcher).fits(HOSTILE) is Fit.NO


def test_a_pattern_with_a_back_reference_is_given_up_and_may_fit() -> None:
    assert read_matcher(r"(a|a)*\1$").fits(HOSTILE) is Fit.UNSURE


def test_a_pattern_is_not_tried_on_an_endless_name() -> None:
    assert read_matcher("Read.").fits("a" * 1001) is Fit.UNSURE
