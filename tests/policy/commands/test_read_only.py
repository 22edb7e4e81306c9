"""Commands that only read permitted files need no answer."""

import os
from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import PermissionSettings, Settings, SettingsReport
from tests.support.policies import ALLOW, ASK, DENY, SETTINGS, Rules, bash, policy


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    place = tmp_path / "workspace"
    (place / "src").mkdir(parents=True)
    (place / "a").write_text("a", encoding="utf-8")
    (place / "src" / "b").write_text("b", encoding="utf-8")
    return place


def evaluate_command(
    workspace: Path,
    command: str,
    rules: Rules | None = None,
    mode: PermissionMode = PermissionMode.DEFAULT,
) -> Effect:
    configured = policy(workspace, rules, mode, home=workspace.parent / "home")
    return configured.evaluate(bash(command, workspace)).effect


def test_the_vote_names_what_allows_the_call(workspace: Path):
    decision = policy(workspace).evaluate(bash("ls -la | head -5", workspace))

    assert decision.effect is ALLOW
    assert decision.by.reason == "it only looks at what is inside"
    assert str(decision.by.origin) == "built-in read-only commands"


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "cat a", "cat ./src/../a", "cat src/b < a", "ls *.py", "cat *", "grep -R x", "pwd"),
        *("cd src && cat b", "cd src; cat b | wc -l", "find . -name a", "rg x src", "git status"),
        *("cat missing", "diff a /dev/null", "echo /etc/passwd", "dirname /etc/passwd", ""),
    ],
)
@pytest.mark.parametrize("mode", [*PermissionMode])
def test_reading_inside_needs_no_rule_in_any_mode(
    workspace: Path, command: str, mode: PermissionMode
):
    assert evaluate_command(workspace, command, mode=mode) is ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("cat /etc/passwd", "ls /", "ls ..", "cat ../x", "cat src/../../x", "find / -name x"),
        *("grep x ../y", "grep -r x /etc", "rg x ..", "cat < /etc/passwd", "cd .. && ls", "cd /"),
        *(
            "cd ../.. && cat x",
            "cd src && cat ../../x",
            "test -f /etc/x",
            "diff a /etc/x",
            "stat /",
        ),
        *("git diff -- /etc/x", "git log ../y", "git diff -O/etc/x", "ls ../*", "cat /etc/*"),
        *("ls; cat /etc/passwd", "cat a | cat - /etc/passwd", "du -sh /", "realpath ../x", "cd"),
    ],
)
def test_reading_outside_needs_an_answer(workspace: Path, command: str):
    assert evaluate_command(workspace, command) is ASK


def test_an_additional_directory_is_inside(workspace: Path):
    added = workspace.parent / "added"
    given = Settings(
        report=SettingsReport(files=(SETTINGS,)),
        permissions=PermissionSettings(additional_directories=(added,)),
    )

    configured = policy(workspace, settings=given)

    assert configured.evaluate(bash(f"cat {added}/x", workspace)).effect is ALLOW


def test_a_shell_outside_the_workspace_needs_an_answer_for_its_reads(workspace: Path):
    configured = policy(workspace)

    assert configured.evaluate(bash("ls", workspace.parent)).effect is ASK
    assert configured.evaluate(bash("cat a", workspace.parent)).effect is ASK
    assert configured.evaluate(bash("echo a", workspace.parent)).effect is ALLOW
    assert configured.evaluate(bash("ls", None)).effect is ASK


@pytest.mark.parametrize(
    "command",
    ["cat link", "cat l*", "cat ?ink", "grep -R x", "grep -R x .", "diff . src", "cat < link"],
)
def test_a_link_that_leads_outside_needs_an_answer(workspace: Path, command: str):
    (workspace / "link").symlink_to("/etc/passwd")

    assert evaluate_command(workspace, command) is ASK
    assert evaluate_command(workspace, "cat a") is ALLOW
    assert evaluate_command(workspace, "grep -r x") is ALLOW


@pytest.mark.parametrize("command", ["cat .env", "cat < .env", "head -5 .env", "grep x .env"])
def test_a_read_deny_overrides_a_read_only_command(workspace: Path, command: str):
    assert evaluate_command(workspace, command, Rules(deny=["Read(.env)"])) is DENY
    assert evaluate_command(workspace, command, Rules(ask=["Read(.env)"])) is ASK


@pytest.mark.parametrize(
    "command",
    [
        "cat *",
        "cat .e*",
        "grep -r x",
        "grep -r x .",
        "rg x",
        "git diff",
        "git show HEAD",
        "grep x .*",
    ],
)
@pytest.mark.parametrize("rules", [Rules(deny=["Read(.env)"]), Rules(ask=["Read(.env)"])])
def test_a_command_that_would_show_a_denied_file_needs_an_answer(
    workspace: Path, command: str, rules: Rules
):
    assert evaluate_command(workspace, command, rules) is ALLOW

    (workspace / ".env").write_text("secret", encoding="utf-8")

    assert evaluate_command(workspace, command, rules) is ASK
    assert evaluate_command(workspace, "ls -la", rules) is ALLOW
    assert evaluate_command(workspace, "git status", rules) is ALLOW


def test_deny_and_ask_rules_for_commands_override_a_read_only_command(workspace: Path):
    assert evaluate_command(workspace, "ls | cat", Rules(deny=["Bash(cat:*)"])) is DENY
    assert evaluate_command(workspace, "ls | cat", Rules(ask=["Bash(cat:*)"])) is ASK


def create_git_repository(directory: Path, config: str) -> None:
    (directory / ".git" / "objects").mkdir(parents=True)
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (directory / ".git" / "config").write_text(config, encoding="utf-8")


@pytest.mark.parametrize(
    "command", ["git status", "git diff", "git log -1", "git show", "git branch"]
)
def test_git_needs_an_answer_if_the_repository_names_a_program(workspace: Path, command: str):
    create_git_repository(workspace, "[core]\nbare = false\n")
    assert evaluate_command(workspace, command) is ALLOW

    config = workspace / ".git" / "config"
    config.write_text("[core]\nfsmonitor = ./x\n", encoding="utf-8")

    assert evaluate_command(workspace, command) is ASK
    assert evaluate_command(workspace, command, Rules(allow=["Bash(git:*)"])) is ALLOW


def test_git_in_another_directory_needs_an_answer(workspace: Path):
    create_git_repository(workspace / "src", "[core]\nfsmonitor = ./x\n")

    assert evaluate_command(workspace, "cd src && git status") is ASK
    assert evaluate_command(workspace, "cd . && git status") is ALLOW
    assert evaluate_command(workspace, f"cd {workspace} && git status") is ALLOW
    assert evaluate_command(workspace, "cd missing; git status") is ASK


def test_a_program_of_the_workspace_with_a_known_name_needs_an_answer(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    (workspace / "bin").mkdir()
    program = workspace / "bin" / "ls"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    monkeypatch.setenv("PATH", f"{workspace}/bin:/usr/bin:/bin")
    assert evaluate_command(workspace, "ls") is ALLOW

    program.chmod(0o755)

    assert evaluate_command(workspace, "ls") is ASK
    assert evaluate_command(workspace, "cat a") is ALLOW
    assert evaluate_command(workspace, "echo a") is ALLOW
    monkeypatch.setenv("PATH", ".:/usr/bin:/bin")
    assert evaluate_command(workspace, "cat a") is ASK


def test_a_variable_that_gives_a_program_other_options_needs_an_answer(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "x")

    assert evaluate_command(workspace, "rg x") is ASK
    assert evaluate_command(workspace, "grep x a") is ALLOW


@pytest.mark.parametrize(
    ("allow", "command", "expected"),
    [
        (["Bash(npm test:*)"], "npm test | head -5", ALLOW),
        (["Bash(npm test:*)"], "cd src && npm test 2>&1 | tail -5", ALLOW),
        (["Bash(npm test:*)"], "if [ -f a ]; then npm test; fi", ALLOW),
        (["Bash(npm test:*)"], "for x in a b; do npm test $x; done", ALLOW),
        (["Bash(npm test:*)"], "(cd src && npm test)", ALLOW),
        (["Bash(npm test:*)"], "npm test | tee x", ASK),
        (["Bash(npm test:*)"], "npm test | cat - /etc/passwd", ASK),
        (["Bash(npm test:*)"], "npm test $(cat a)", ASK),
        (["Bash(npm test:*)", "Bash(cat a)"], "npm test $(cat a)", ALLOW),
        (["Bash(npm test:*)"], "npm test `pwd`", ASK),
        (["Bash(npm test:*)"], "if npm test; then make; fi", ASK),
        (["Bash(ls *)"], "ls $(whoami)", ASK),
        (["Bash(git commit:*)"], "git commit -m \"$(cat <<'E'\nfix: (x)\nE\n)\"", ALLOW),
        (["Bash(git commit:*)"], 'git commit -m "$(make)"', ASK),
        (["Edit(out/**)"], "ls > out/x", ALLOW),
        (["Edit(out/**)"], "ls > other", ASK),
        (["Edit(out/**)"], "{ ls; pwd; } > out/x", ALLOW),
        (["Edit(out/**)"], "(make) > out/x", ASK),
    ],
)
def test_read_only_commands_and_rules_cover_a_line_together(
    workspace: Path, allow: list[str], command: str, expected: Effect
):
    assert evaluate_command(workspace, command, Rules(allow=allow)) is expected


@pytest.mark.parametrize(
    ("command", "mode", "expected"),
    [
        ("ls > out", PermissionMode.DEFAULT, ASK),
        ("ls > out", PermissionMode.ACCEPT_EDITS, ALLOW),
        ("echo x | sed 's/x/y/' > out", PermissionMode.ACCEPT_EDITS, ALLOW),
        ("ls > /elsewhere/out", PermissionMode.ACCEPT_EDITS, ASK),
        ("cd src && ls > ../../out", PermissionMode.ACCEPT_EDITS, ASK),
        ("cd $x && ls > out", PermissionMode.ACCEPT_EDITS, ASK),
        ("cd .claude && echo x > settings.json", PermissionMode.ACCEPT_EDITS, ASK),
        ("echo x > .git/config", PermissionMode.ACCEPT_EDITS, ASK),
        ("ls > out", PermissionMode.DONT_ASK, DENY),
        ("ls /", PermissionMode.DONT_ASK, DENY),
    ],
)
def test_a_redirect_of_a_read_only_command_is_checked_as_a_write(
    workspace: Path, command: str, mode: PermissionMode, expected: Effect
):
    assert evaluate_command(workspace, command, mode=mode) is expected


def test_in_plan_mode_a_read_only_command_writes_nothing_whatever_rules_allow(workspace: Path):
    rules = Rules(allow=["Edit(out)"])

    assert evaluate_command(workspace, "ls > out", rules) is ALLOW
    assert evaluate_command(workspace, "ls > out", rules, PermissionMode.PLAN) is ASK


@pytest.mark.parametrize("count", [199, 200, 201, 600])
def test_a_denied_command_is_found_below_at_and_above_every_limit(workspace: Path, count: int):
    text = "true;" * (count - 1) + "rm x"

    assert evaluate_command(workspace, text, Rules(deny=["Bash(rm:*)"])) is DENY
    assert evaluate_command(workspace, text) is ASK


def test_an_own_config_directory_in_the_workspace_is_never_searched(workspace: Path):
    """The settings directory of this server lies below the working directory."""
    configured = policy(Path("/"), home=workspace)

    assert configured.evaluate(bash("grep -r x /config", Path("/"))).effect is DENY
    assert configured.evaluate(bash("grep -r x .", Path("/"))).effect is ASK
