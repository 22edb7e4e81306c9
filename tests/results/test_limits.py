"""The limit of each tool, and the budget of a batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.results.limits import (
    MAX_BATCH_CHARS,
    BatchBudget,
    ResultLimit,
    ResultLimits,
    select_results_to_replace,
)
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
        (ResultLimits(), BASH, ResultLimit(30_000, True)),
        (ResultLimits(), GREP, ResultLimit(20_000, True)),
        (ResultLimits(), READ, ResultLimit(None, False)),
        (ResultLimits(), WIDE, ResultLimit(50_000, True)),
        (ResultLimits(), LOG, ResultLimit(50_000, True)),
        (ResultLimits(), DUMP, ResultLimit(400_000, False)),
        (ResultLimits(bash=128_000), BASH, ResultLimit(50_000, True)),
        (ResultLimits(bash=4_000), BASH, ResultLimit(4_000, True)),
        (ResultLimits(default=10_000), BASH, ResultLimit(10_000, True)),
        (ResultLimits(default=10_000), READ, ResultLimit(None, False)),
        (ResultLimits(default=10_000), LOG, ResultLimit(10_000, True)),
        (ResultLimits(default=10_000), DUMP, ResultLimit(10_000, True)),
        (ResultLimits(default=90_000), LOG, ResultLimit(90_000, False)),
        (ResultLimits(default=10_000, servers={"git": 70_000}), LOG, ResultLimit(70_000, False)),
        (ResultLimits(servers={"git": None}), LOG, ResultLimit(None, False)),
        (
            ResultLimits(servers={"git": 5_000}, tools={"mcp__git__log": 6_000}),
            LOG,
            ResultLimit(6_000, True),
        ),
        (ResultLimits(tools={"Read": 9_000}), READ, ResultLimit(9_000, True)),
        (ResultLimits(tools={"Bash": None}), BASH, ResultLimit(None, False)),
        (ResultLimits(tools={"git__log": 6_000}), LOG, ResultLimit(50_000, True)),
    ],
)
def test_settings_take_precedence_over_the_limit_of_the_tool(
    limits: ResultLimits, tool: RecordingTool, expected: ResultLimit
) -> None:
    assert limits.find_limit(tool) == expected


def test_a_failed_command_has_no_limit_because_bash_cuts_its_output() -> None:
    assert ResultLimits(bash=4_000).find_limit(BASH, failed=True) == ResultLimit(None, True)
    assert ResultLimits().find_limit(LOG, failed=True) == ResultLimit(50_000, True)


def test_a_result_that_exceeds_the_budget_is_not_reserved() -> None:
    budget = BatchBudget(100)

    assert budget.reserve("a", 60)
    assert not budget.reserve("b", 41)
    assert budget.reserve("c", 40)
    assert not budget.reserve("d", 1)


def test_a_second_reservation_of_a_call_returns_the_same_answer() -> None:
    budget = BatchBudget(100)
    first = [budget.reserve("a", 60), budget.reserve("b", 60)]

    again = [budget.reserve("a", 60), budget.reserve("b", 60), budget.reserve("b", 1)]

    assert first == [True, False]
    assert again == [True, False, False]
    assert budget.remaining == 40


@given(st.dictionaries(st.text(max_size=4), st.integers(0, 150_000), max_size=12))
def test_only_the_largest_results_of_a_batch_are_replaced_and_no_more_than_needed(
    sizes: dict[str, int],
) -> None:
    replaced = select_results_to_replace(sizes)

    left = {call: size for call, size in sizes.items() if call not in replaced}
    assert sum(left.values()) <= MAX_BATCH_CHARS
    if replaced:
        smallest = min(sizes[call] for call in replaced)
        assert all(size <= smallest for size in left.values())
        assert sum(left.values()) + smallest > MAX_BATCH_CHARS
