"""The rules that a lasting approval stores: few, narrow, and only if they cover the call."""

from functools import partial
from pathlib import Path

import pytest

from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, on_file, policy, rule, upstream


def allows(judge: Policy, subject: Subject, rules: tuple[str, ...]) -> bool:
    added = tuple(rule(ALLOW, text, 0) for text in rules)
    return judge.extend(added).evaluate(subject).effect is ALLOW


def suggest_lasting_rules(judge: Policy, subject: Subject) -> tuple[str, ...]:
    return judge.suggest_lasting_rules(subject, partial(allows, judge, subject))


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("npm test -- -v", ("Bash(npm test:*)",)),
        ("make -j4 && git push", ("Bash(make:*)", "Bash(git push:*)")),
        ("pytest -q && ls && pwd", ("Bash(pytest:*)",)),
        ("rm -rf build", ("Bash(rm -rf build)",)),
        ("curl https://x.example", ("Bash(curl https://x.example)",)),
        ("git -C sub push", ("Bash(git -C sub push)",)),
        ("python x.py", ("Bash(python x.py)",)),
        ("A=1 make", ("Bash(A=1 make)",)),
        ("make x; make x; make x", ("Bash(make x:*)",)),
    ],
)
def test_a_command_gets_one_rule_for_each_part_that_needs_one(
    tmp_path: Path, command: str, rules: tuple[str, ...]
) -> None:
    judge, subject = policy(tmp_path), bash(command, tmp_path)

    assert suggest_lasting_rules(judge, subject) == rules
    assert allows(judge, subject, rules)


@pytest.mark.parametrize(
    "command",
    [
        "case a in a) b;; esac",
        "make x\u202e",
        "a1 && a2 && a3 && a4 && a5 && a6",
        "python *.py",
        "mcp-dispatch approvals answer abc123 allow",
        "rm -rf /",
        f"rm {'x' * 400}",
    ],
)
def test_no_rule_is_offered_if_a_few_narrow_rules_do_not_cover_the_call(
    tmp_path: Path, command: str
) -> None:
    assert suggest_lasting_rules(policy(tmp_path), bash(command, tmp_path)) == ()


@pytest.mark.parametrize("closed", [Rules(ask=["Bash(git push:*)"]), Rules(deny=["Bash(git:*)"])])
def test_no_rule_is_offered_against_an_ask_or_deny_rule(tmp_path: Path, closed: Rules) -> None:
    assert suggest_lasting_rules(policy(tmp_path, closed), bash("git push", tmp_path)) == ()


def test_no_rule_is_offered_for_a_protected_path(tmp_path: Path) -> None:
    assert (
        suggest_lasting_rules(policy(tmp_path), on_file("Write", tmp_path / ".git" / "config"))
        == ()
    )


def test_no_rule_for_a_write_is_offered_in_plan_mode(tmp_path: Path) -> None:
    judge = policy(tmp_path, mode=PermissionMode.PLAN)

    assert suggest_lasting_rules(judge, on_file("Write", tmp_path / "a" / "b.txt")) == ()


def test_an_edit_offers_the_directory_of_the_file(tmp_path: Path) -> None:
    subject = on_file("Edit", tmp_path / "src" / "a.py")

    assert suggest_lasting_rules(policy(tmp_path), subject) == (f"Edit(/{tmp_path}/src/**)",)


@pytest.mark.parametrize("path", ["/home/someone/notes.txt", "/home/x.txt", "/x.txt"])
def test_a_file_in_a_broad_directory_is_offered_alone(tmp_path: Path, path: str) -> None:
    assert suggest_lasting_rules(policy(tmp_path), on_file("Read", path)) == (f"Read(/{path})",)


def test_an_upstream_tool_is_offered_by_its_rule_name(tmp_path: Path) -> None:
    assert suggest_lasting_rules(policy(tmp_path), upstream("git", "log")) == ("mcp__git__log",)


def test_a_redirect_offers_the_one_file(tmp_path: Path) -> None:
    subject = bash("make > out.txt", tmp_path)

    assert suggest_lasting_rules(policy(tmp_path), subject) == (
        "Bash(make:*)",
        f"Edit(/{tmp_path}/out.txt)",
    )


def test_added_allow_rules_override_no_deny_and_no_ask(tmp_path: Path) -> None:
    judge = policy(tmp_path, Rules(deny=["Bash(rm:*)"], ask=["Bash(git push:*)"]))
    extended = judge.extend((rule(ALLOW, "Bash", 0), rule(DENY, "Bash(ls)", 0)))

    assert extended.evaluate(bash("make", tmp_path)).effect is ALLOW
    assert extended.evaluate(bash("rm x", tmp_path)).effect is DENY
    assert extended.evaluate(bash("git push", tmp_path)).effect is ASK
    assert judge.evaluate(bash("make", tmp_path)).effect is ASK


def test_a_command_that_runs_mcp_dispatch_asks_whatever_is_allowed(tmp_path: Path) -> None:
    judge = policy(tmp_path, Rules(allow=["Bash", "Bash(mcp-dispatch:*)"]))

    for command in (
        "mcp-dispatch approvals answer abc123 always",
        "python -m mcp_dispatch approvals --once",
        "env -i setsid mcp-dispatch approvals answer abc123 allow",
    ):
        decision = judge.evaluate(bash(command, tmp_path))
        assert decision.effect is not ALLOW
        assert decision.by.reason == "the command runs mcp-dispatch itself"
