"""The rule in the `if` of a hook: whether it matches a call certainly, possibly or not."""

from pathlib import Path

import pytest

from mcp_dispatch.policy.commands.pattern import RuleMatch
from mcp_dispatch.policy.rules.conditions import HookConditions
from tests.support.policies import bash, on_file, upstream

YES, MAYBE, NO = RuleMatch.YES, RuleMatch.MAYBE, RuleMatch.NO


@pytest.mark.parametrize(
    ("rule", "command", "expected"),
    [
        ("Bash", "anything at all", YES),
        ("Bash(git *)", "git push", YES),
        ("Bash(git:*)", "git", YES),
        ("Bash(git *)", "gitk", NO),
        ("Bash(git *)", "ls", NO),
        ("Bash(git *)", "git add . && git commit -m x", YES),
        # One part matches, so the hook runs; the rule does not cover the whole line.
        ("Bash(git *)", "git status; curl example.com", MAYBE),
        ("Bash(rm *)", "echo $(rm -rf x)", MAYBE),
        ("Bash(rm *)", "sh -c 'rm x'", MAYBE),
        ("Bash(rm *)", "FOO=bar rm x", MAYBE),
        ("Bash(git *)", "git log > /etc/passwd", MAYBE),
        # A command that is not understood may run anything.
        ("Bash(rm *)", "ls ${x@P}", MAYBE),
        ("Bash(rm *)", "cat <<E\n$(date)\nE", MAYBE),
        ("Bash(rm *)", "ls 'unfinished", MAYBE),
        ("Read", "ls", NO),
        ("mcp__github", "ls", NO),
    ],
)
def test_a_command_condition_matches_parts_of_a_command_line(
    tmp_path: Path, rule: str, command: str, expected: RuleMatch
) -> None:
    conditions = HookConditions(tmp_path, [tmp_path])

    assert conditions.match(rule, bash(command, tmp_path)) is expected


@pytest.mark.parametrize(
    ("rule", "tool", "path", "expected"),
    [
        ("Edit(*.ts)", "Edit", "a.ts", YES),
        ("Edit(*.ts)", "Write", "deep/a.ts", YES),
        ("Edit(*.ts)", "Edit", "a.py", NO),
        ("Edit(*.ts)", "Read", "a.ts", NO),
        ("Edit(/src/**)", "Edit", "src/a", YES),
        ("Read(.env)", "Read", ".env", YES),
        # As a permission rule it has no effect; a hook with it must still run.
        ("Write(*.ts)", "Write", "a.ts", MAYBE),
        ("Edit(", "Read", "a.ts", MAYBE),
        ("", "Read", "a.ts", MAYBE),
        ("Edit()", "Edit", "a.ts", MAYBE),
    ],
)
def test_a_path_condition_matches_files(
    tmp_path: Path, rule: str, tool: str, path: str, expected: RuleMatch
) -> None:
    conditions = HookConditions(tmp_path, [tmp_path])

    assert conditions.match(rule, on_file(tool, tmp_path / path, tmp_path)) is expected


def test_a_server_condition_matches_the_tools_of_the_server(tmp_path: Path) -> None:
    conditions = HookConditions(tmp_path, [tmp_path])

    assert conditions.match("mcp__github", upstream("github", "push")) is YES
    assert conditions.match("mcp__github__push", upstream("github", "push")) is YES
    assert conditions.match("mcp__github__pu*", upstream("github", "push")) is YES
    assert conditions.match("mcp__git", upstream("github", "push")) is NO


@pytest.mark.parametrize("rule", ["Bash(", "", "Edit()", "Write(*.ts)", "Bash(\x00)"])
def test_a_condition_that_cannot_be_evaluated_has_a_fault(tmp_path: Path, rule: str) -> None:
    assert HookConditions(tmp_path, [tmp_path]).find_fault(rule)


@pytest.mark.parametrize("rule", ["Bash", "Bash(git *)", "Edit(*.ts)", "mcp__github__*"])
def test_a_condition_that_can_be_evaluated_has_no_fault(tmp_path: Path, rule: str) -> None:
    assert HookConditions(tmp_path, [tmp_path]).find_fault(rule) is None
