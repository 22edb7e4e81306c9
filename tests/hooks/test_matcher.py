"""Which tools a matcher stands for."""

import pytest

from mcp_dispatch.hooks.matcher import (
    AllMatcher,
    InvalidMatcher,
    MatchResult,
    NameMatcher,
    RegexMatcher,
    parse_matcher,
)

MEMORY = "mcp__memory__create_entities"


@pytest.mark.parametrize(
    ("matcher", "tool", "fit"),
    [
        ("", "Bash", MatchResult.YES),
        ("*", "Bash", MatchResult.YES),
        ("*", MEMORY, MatchResult.YES),
        ("Bash", "Bash", MatchResult.YES),
        ("Bash", "BashOutput", MatchResult.NO),
        ("Bash", "bash", MatchResult.NO),
        ("bash", "Bash", MatchResult.NO),
        ("Edit|Write", "Write", MatchResult.YES),
        ("Edit|Write", "Read", MatchResult.NO),
        ("Edit|Write", "NotebookEdit", MatchResult.NO),
        ("Edit, Write", "Write", MatchResult.YES),
        (" Edit | Write ", "Edit", MatchResult.YES),
        ("Edit|", "Edit", MatchResult.YES),
        ("Edit|", "", MatchResult.NO),
        ("mcp__memory", MEMORY, MatchResult.NO),
        (MEMORY, MEMORY, MatchResult.YES),
        ("mcp__my-server__tool", "mcp__my-server__tool", MatchResult.YES),
        ("mcp__memory__.*", MEMORY, MatchResult.YES),
        ("mcp__memory__.*", "mcp__other__tool", MatchResult.NO),
        ("mcp__.*__create", MEMORY, MatchResult.YES),
        ("Edit.*", "NotebookEdit", MatchResult.YES),
        ("^Edit.*", "NotebookEdit", MatchResult.NO),
        ("^(Edit|Write)$", "Edit", MatchResult.YES),
        ("^(Edit|Write)$", "MultiEdit", MatchResult.NO),
        ("edit.*", "Edit", MatchResult.NO),
        ("^(?!Read$)", "Read", MatchResult.NO),
        ("^(?!Read$)", "Bash", MatchResult.YES),
        (r"^mcp__\d+__", "mcp__7__tool", MatchResult.YES),
        # JavaScript's \d is ASCII, unlike Python's.
        (r"^mcp__\d+__", "mcp__٣__tool", MatchResult.NO),
        # JavaScript's $ is the very end, unlike Python's.
        ("^Bash$", "Bash\n", MatchResult.NO),
        ("Bash(ls *)", "Bash", MatchResult.NO),
        (".", "Bash\ud800", MatchResult.UNSURE),
    ],
)
def test_a_matcher_fits_as_in_claude_code(matcher: str, tool: str, fit: MatchResult) -> None:
    assert parse_matcher(matcher).match(tool) is fit


@pytest.mark.parametrize("matcher", ["Bash(", "[", "*.", "(a{1000}){1000}", "a\ud800.", " ", "|,"])
def test_a_matcher_that_cannot_be_read_may_be_for_any_tool(matcher: str) -> None:
    assert parse_matcher(matcher) == InvalidMatcher()
    assert parse_matcher(matcher).match("Read") is MatchResult.UNSURE


def test_the_kind_of_a_matcher_follows_from_its_characters() -> None:
    assert parse_matcher("") == AllMatcher()
    assert parse_matcher("A-b_1, C|D") == NameMatcher(frozenset({"A-b_1", "C", "D"}))
    assert isinstance(parse_matcher("A.b"), RegexMatcher)


# On a name like this a backtracking engine would not come back.
HOSTILE = "a" * 900 + "!"


@pytest.mark.parametrize("matcher", ["(a+)+$", "^(a|a)*$", "(.*)*x"])
def test_a_pattern_takes_linear_time(matcher: str) -> None:
    assert parse_matcher(matcher).match(HOSTILE) is MatchResult.NO


def test_a_pattern_with_a_back_reference_is_given_up_and_may_fit() -> None:
    assert parse_matcher(r"(a|a)*\1$").match(HOSTILE) is MatchResult.UNSURE


def test_a_pattern_is_not_tried_on_an_endless_name() -> None:
    assert parse_matcher("Read.").match("a" * 1001) is MatchResult.UNSURE
