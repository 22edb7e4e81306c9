"""Tests of which tools a hook matcher matches."""

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
    ("matcher", "tool", "expected"),
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
        # JavaScript's $ matches only at the end, unlike Python's.
        ("^Bash$", "Bash\n", MatchResult.NO),
        ("Bash(ls *)", "Bash", MatchResult.NO),
        (".", "Bash\ud800", MatchResult.UNSURE),
    ],
)
def test_a_matcher_matches_the_same_tools_as_in_claude_code(
    matcher: str, tool: str, expected: MatchResult
) -> None:
    assert parse_matcher(matcher).match(tool) is expected


@pytest.mark.parametrize("matcher", ["Bash(", "[", "*.", "(a{1000}){1000}", "a\ud800.", " ", "|,"])
def test_an_invalid_matcher_is_unsure_about_every_tool(matcher: str) -> None:
    assert parse_matcher(matcher) == InvalidMatcher()
    assert parse_matcher(matcher).match("Read") is MatchResult.UNSURE


def test_the_characters_of_a_matcher_determine_its_type() -> None:
    assert parse_matcher("") == AllMatcher()
    assert parse_matcher("A-b_1, C|D") == NameMatcher(frozenset({"A-b_1", "C", "D"}))
    assert isinstance(parse_matcher("A.b"), RegexMatcher)


# A backtracking engine needs exponential time for this name.
HOSTILE = "a" * 900 + "!"


@pytest.mark.parametrize("matcher", ["(a+)+$", "^(a|a)*$", "(.*)*x"])
def test_a_pattern_is_matched_in_linear_time(matcher: str) -> None:
    assert parse_matcher(matcher).match(HOSTILE) is MatchResult.NO


def test_a_pattern_with_a_back_reference_is_unsure() -> None:
    assert parse_matcher(r"(a|a)*\1$").match(HOSTILE) is MatchResult.UNSURE


def test_a_pattern_is_unsure_about_a_name_over_1000_characters() -> None:
    assert parse_matcher("Read.").match("a" * 1001) is MatchResult.UNSURE
