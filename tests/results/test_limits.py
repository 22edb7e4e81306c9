"""Which limit counts for which tool, and what a batch may deliver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.results.limits import BATCH_CHARS, Budget, Limit, Limits, to_replace
from tests.support.stand_ins import RecordingTool

BASH = RecordingTool("Bash", result_limit=30_000)
GREP = RecordingTool("Grep", result_limit=20_000)
READ = RecordingTool("Read", result_limit=None)
WIDE = RecordingTool("Wide", result_limit=80_000)
LOG = RecordingTool("git__log", server="git", rule="mcp__git__log", result_limit=50_000)
DUMP = RecordingTool("git__dump", server="git", rule="mcp__git__dump", result_limit=400_000)


@pytest.mark.parametrize(
    ("limits", "tool", "expected"),
    [
        (Limits(), BASH, Limit(30_000, True)),
        (Limits(), GREP, Limit(20_000, True)),
        (Limits(), READ, Limit(None, False)),
        (Limits(), WIDE, Limit(50_000, True)),
        (Limits(), LOG, Limit(50_000, True)),
        (Limits(), DUMP, Limit(400_000, False)),
        (Limits(bash=128_000), BASH, Limit(50_000, True)),
        (Limits(bash=4_000), BASH, Limit(4_000, True)),
        (Limits(every=10_000), BASH, Limit(10_000, True)),
        (Limits(every=10_000), READ, Limit(None, False)),
        (Limits(every=10_000), LOG, Limit(10_000, True)),
        (Limits(every=10_000), DUMP, Limit(10_000, True)),
        (Limits(every=90_000), LOG, Limit(90_000, False)),
        (Limits(every=10_000, servers={"git": 70_000}), LOG, Limit(70_000, False)),
        (Limits(servers={"git": None}), LOG, Limit(None, False)),
        (Limits(servers={"git": 5_000}, tools={"mcp__git__log": 6_000}), LOG, Limit(6_000, True)),
        (Limits(tools={"Read": 9_000}), READ, Limit(9_000, True)),
        (Limits(tools={"Bash": None}), BASH, Limit(None, False)),
        (Limits(tools={"git__log": 6_000}), LOG, Limit(50_000, True)),
    ],
)
def test_settings_come_first_then_the_tool_itself(
    limits: Limits, tool: RecordingTool, expected: Limit
) -> None:
    assert limits.of(tool) == expected


def test_a_failing_command_shows_its_head_and_tail_whatever_the_limit() -> None:
    assert Limits(bash=4_000).of(BASH, failed=True) == Limit(None, True)
    assert Limits().of(LOG, failed=True) == Limit(50_000, True)


def test_the_result_that_would_pass_the_budget_is_not_admitted() -> None:
    budget = Budget(100)

    assert budget.admits("a", 60)
    assert not budget.admits("b", 41)
    assert budget.admits("c", 40)
    assert not budget.admits("d", 1)


def test_what_was_decided_for_a_call_stays_decided() -> None:
    budget = Budget(100)
    first = [budget.admits("a", 60), budget.admits("b", 60)]

    again = [budget.admits("a", 60), budget.admits("b", 60), budget.admits("b", 1)]

    assert first == [True, False]
    assert again == [True, False, False]
    assert budget.left == 40


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 150_000), max_size=12))
def test_of_a_whole_batch_the_largest_go_and_no_more_than_needed(sizes: dict[str, int]) -> None:
    gone = to_replace(sizes)

    left = {call: size for call, size in sizes.items() if call not in gone}
    assert sum(left.values()) <= BATCH_CHARS
    if gone:
        smallest = min(sizes[call] for call in gone)
        assert all(size <= smallest for size in left.values())
        assert sum(left.values()) + smallest > BATCH_CHARS
