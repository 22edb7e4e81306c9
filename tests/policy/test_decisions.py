"""Decisions by tier: names, modes, protected paths, hooks and hidden tools."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.model.tools import ToolAsk
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import (
    Layer,
    LayerKind,
    PermissionSettings,
    RuleSettings,
    Settings,
    SettingsReport,
    load_settings,
)
from tests.support.paths import ROOT
from tests.support.policies import (
    ALLOW,
    ASK,
    DENY,
    SETTINGS,
    Rules,
    bash,
    on_file,
    policy,
    upstream,
)

CONFIGS = ROOT / "configs"
MODES = list(PermissionMode)
HOOK = Origin("hook.sh")


def build_vote(effect: Effect, tier: Tier | None = None) -> Vote:
    tiers = {ALLOW: Tier.ALLOW, ASK: Tier.HARD_ASK, DENY: Tier.DENY}
    return Vote(tier or tiers[effect], effect, "the hook says so", HOOK)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "subject", "allows", "denies"),
    [
        ("mcp__git", upstream("git", "log"), True, True),
        ("mcp__git", upstream("github", "log"), False, False),
        ("mcp__git", upstream("git-hub", "log"), False, False),
        ("mcp__git__*", upstream("git", "log"), True, True),
        ("mcp__git", upstream("git__evil", "log"), False, False),
        ("mcp__git__*", upstream("git__evil", "log"), False, False),
        ("mcp__git__*", upstream("github", "log"), False, False),
        ("mcp__git__log", upstream("git", "log"), True, True),
        ("mcp__git__log", upstream("git", "logs"), False, False),
        ("mcp__git__get_*", upstream("git", "get_x"), True, True),
        ("mcp__git__get_*", upstream("git", "put_x"), False, False),
        ("mcp__git__a__b", upstream("git", "a__b"), True, True),
        ("mcp__GIT", upstream("git", "log"), False, False),
        ("mcp__git__Log", upstream("git", "log"), False, False),
        ("bash", Subject("Bash", "Bash", None, {}, {}, None), False, False),
        ("mcp__git(*)", upstream("git", "log"), True, True),
        # An allow matches the rule name only; deny and ask also match the exposed name.
        ("git__log", upstream("git", "log"), False, True),
        ("short", upstream("git", "log", exposed="short"), False, True),
        ("mcp__x__y", upstream("git", "log", exposed="mcp__x__y"), False, True),
        ("git__log", upstream("git", "log", exposed="\uff47it__log"), False, True),
        # Wildcards in the name are only valid in deny and ask.
        ("mcp__*", upstream("git", "log"), False, True),
        ("*", upstream("git", "log"), False, True),
        ("mcp__g*", upstream("git", "log"), False, True),
        ("git__*", upstream("git", "log"), False, True),
        # A rule for a built-in tool does not match an upstream tool, and vice versa.
        ("Bash", upstream("git", "Bash"), False, False),
        ("mcp__git", on_file("Write", "/elsewhere/x"), False, False),
        ("Write", on_file("Write", "/elsewhere/x"), True, True),
        ("write", on_file("Write", "/elsewhere/x"), False, False),
        ("Write(*)", on_file("Write", "/elsewhere/x"), True, True),
        ("KillShell", Subject("TaskStop", "TaskStop", None, {}, {}, None), True, True),
        # Malformed: a deny covers the whole tool.
        ("mcp__git__log(what)", upstream("git", "log"), False, True),
        ("mcp__git__log(what)", upstream("git", "other"), False, False),
        ("WebFetch(a.b)", Subject("WebFetch", "WebFetch", None, {}, {}, None), False, True),
    ],
)
def test_a_rule_covers_the_tools_of_its_target(
    tmp_path: Path, text: str, subject: Subject, allows: bool, denies: bool
):
    allowed = policy(tmp_path, Rules(allow=[text])).evaluate(subject).effect
    denied = policy(tmp_path, Rules(deny=[text])).evaluate(subject).effect
    asked = policy(tmp_path, Rules(ask=[text])).collect_votes(subject)[0]

    harmless = subject.rule_name == "TaskStop"
    assert allowed is (ALLOW if allows or harmless else ASK)
    assert denied is (DENY if denies else ASK)
    assert (asked.tier is Tier.HARD_ASK) is denies


@pytest.mark.parametrize(
    ("text", "arguments", "denied"),
    [
        ("mcp__git__log(branch:main)", {"branch": "main"}, True),
        ("mcp__git__log( branch : ma* )", {"branch": "main"}, True),
        ("mcp__git__log(branch:main)", {"branch": "mainly"}, False),
        ("mcp__git__log(branch:main)", {}, False),
        ("mcp__git__log(branch:main)", {"a": {"branch": "main"}}, False),
        ("mcp__git__log(force:true)", {"force": True}, True),
        ("mcp__git__log(count:1)", {"count": 1}, True),
        ("mcp__git__log(list:a)", {"list": ["a"]}, False),
    ],
)
def test_a_parameter_rule_matches_the_arguments_that_the_client_sent(
    tmp_path: Path, text: str, arguments: dict[str, str], denied: bool
):
    subject = replace(upstream("git", "log"), literal_arguments=dict(arguments))

    assert policy(tmp_path, Rules(deny=[text])).evaluate(subject).effect is (
        DENY if denied else ASK
    )
    assert policy(tmp_path, Rules(allow=[text])).evaluate(subject).effect is ASK


@pytest.mark.parametrize(
    ("deny", "hidden"),
    [
        ("Bash", ["Bash"]),
        ("Bash(*)", ["Bash"]),
        ("mcp__git", ["git__log"]),
        ("mcp__git__log", ["git__log"]),
        ("git__log", ["git__log"]),
        ("*", ["Bash", "git__log", "github__log"]),
        ("Bash(ls)", []),
        ("Bash(", []),
    ],
)
def test_a_bare_deny_hides_the_tool_and_names_the_rule(
    tmp_path: Path, deny: str, hidden: list[str]
):
    configured = policy(tmp_path, Rules(allow=["Bash"], ask=["Bash"], deny=[deny]))
    tools = [bash("ls", None), upstream("git", "log"), upstream("github", "log")]

    votes = {
        tool.exposed_name: configured.find_tool_deny(tool.rule_name, tool.exposed_name, tool.server)
        for tool in tools
    }

    assert [name for name, one in votes.items() if one is not None] == hidden
    expected = Vote(Tier.DENY, DENY, "a deny rule forbids it", Origin(str(SETTINGS), 3, deny))
    assert all(one == expected for one in votes.values() if one is not None)


# --- modes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # default, acceptEdits, plan, dontAsk, bypassPermissions
        ("read inside", (ALLOW, ALLOW, ALLOW, ALLOW, ALLOW)),
        ("read outside", (ASK, ASK, ASK, DENY, ALLOW)),
        ("edit inside", (ASK, ALLOW, ASK, DENY, ALLOW)),
        ("edit outside", (ASK, ASK, ASK, DENY, ALLOW)),
        ("allowed edit", (ALLOW, ALLOW, ASK, ALLOW, ALLOW)),
        ("allowed read", (ALLOW, ALLOW, ALLOW, ALLOW, ALLOW)),
        ("allowed command", (ALLOW, ALLOW, ASK, ALLOW, ALLOW)),
        ("other command", (ASK, ASK, ASK, DENY, ALLOW)),
        ("asked command", (ASK, ASK, ASK, DENY, ASK)),
        ("denied command", (DENY, DENY, DENY, DENY, DENY)),
        ("protected edit", (ASK, ASK, ASK, DENY, ALLOW)),
        ("edit of ours", (DENY, DENY, DENY, DENY, DENY)),
        ("read of ours", (DENY, DENY, DENY, DENY, DENY)),
        ("critical removal", (ASK, ASK, ASK, DENY, ASK)),
        ("ourselves", (ASK, ASK, ASK, DENY, ASK)),
        ("upstream", (ASK, ASK, ASK, DENY, ALLOW)),
        ("allowed upstream", (ALLOW, ALLOW, ASK, ALLOW, ALLOW)),
        ("read-only upstream", (ALLOW, ALLOW, ALLOW, ALLOW, ALLOW)),
    ],
)
def test_each_mode_decides_as_documented(tmp_path: Path, case: str, expected: tuple[Effect, ...]):
    rules = Rules(
        allow=["Edit(src/**)", "Bash(ok:*)", "Bash(rm:*)", "Bash(mcp-dispatch:*)", "mcp__known"],
        ask=["Bash(asked)"],
        deny=["Bash(denied)"],
    )
    subjects = {
        "read inside": on_file("Read", tmp_path / "a"),
        "read outside": on_file("Read", "/elsewhere/a"),
        "edit inside": on_file("Edit", tmp_path / "a"),
        "edit outside": on_file("Edit", "/elsewhere/a"),
        "allowed edit": on_file("Write", tmp_path / "src/a"),
        "allowed read": on_file("Read", tmp_path / "src/a"),
        "allowed command": bash("ok 1", tmp_path),
        "other command": bash("other", tmp_path),
        "asked command": bash("ok; asked", tmp_path),
        "denied command": bash("ok; denied", tmp_path),
        "protected edit": on_file("Edit", tmp_path / "src/.git/config"),
        "edit of ours": on_file("Write", tmp_path / "src/.mcp-dispatch/settings.json"),
        "read of ours": on_file("Read", SETTINGS),
        "critical removal": bash("rm -rf /", tmp_path),
        "ourselves": bash("mcp-dispatch trust .", tmp_path),
        "upstream": upstream("other", "tool"),
        "allowed upstream": upstream("known", "tool"),
        "read-only upstream": replace(upstream("known", "tool"), read_only=True),
    }

    decided = tuple(policy(tmp_path, rules, mode).evaluate(subjects[case]).effect for mode in MODES)

    assert decided == expected


def test_deny_instead_of_prompting_turns_every_ask_into_a_deny(tmp_path: Path):
    rules = Rules(allow=["Bash(ok)"], ask=["Bash(asked)"]).texts()
    settings = Settings(
        rules=RuleSettings(texts=rules),
        permissions=PermissionSettings(deny_instead_of_prompting=True),
    )
    quiet = policy(tmp_path, settings=settings)

    decision = quiet.evaluate(bash("other", tmp_path))

    assert decision.effect is DENY
    assert decision.by.reason == ("no rule covers this (nobody is asked: denyInsteadOfPrompting)")
    assert quiet.evaluate(bash("asked", tmp_path)).effect is DENY
    assert quiet.evaluate(bash("ok", tmp_path)).effect is ALLOW
    assert quiet.evaluate(bash("ok", tmp_path), hook_votes=[build_vote(ASK)]).effect is DENY


def test_reads_and_writes_outside_can_be_blocked_for_every_rule_and_mode(tmp_path: Path):
    settings = Settings(
        rules=RuleSettings(texts=Rules(allow=["Read", "Edit", "Write", "Bash"]).texts()),
        permissions=PermissionSettings(
            additional_directories=(Path("/added"), Path("beside")),
            block_reads_outside=True,
            block_writes_outside=True,
        ),
    )
    blocked = policy(tmp_path, settings=settings, mode=PermissionMode.BYPASS_PERMISSIONS)

    def effect(subject: Subject) -> Effect:
        return blocked.evaluate(subject).effect

    assert effect(on_file("Read", "/elsewhere/a")) is DENY
    assert effect(on_file("Write", "/elsewhere/a")) is DENY
    assert effect(on_file("Read", "/added/a")) is ALLOW
    assert effect(on_file("Edit", tmp_path / "beside" / "a")) is ALLOW
    assert effect(on_file("Edit", tmp_path / ".claude" / "settings.json")) is DENY
    assert effect(replace(on_file("Read", "/state/results/x"), delivered=True)) is ALLOW
    assert effect(bash("cat /etc/passwd", tmp_path)) is ASK
    assert effect(bash("cat a", tmp_path)) is ALLOW


# --- tiers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "hook", "expected"),
    [
        (Rules(), ALLOW, ALLOW),
        (Rules(), ASK, ASK),
        (Rules(), DENY, DENY),
        (Rules(deny=["Bash(a)"]), ALLOW, DENY),
        (Rules(deny=["Bash(a)"]), ASK, DENY),
        (Rules(ask=["Bash(a)"]), ALLOW, ASK),
        (Rules(ask=["Bash(a)"]), DENY, DENY),
        (Rules(allow=["Bash(a)"]), ASK, ASK),
        (Rules(allow=["Bash(a)"]), DENY, DENY),
    ],
)
@pytest.mark.parametrize("tier", list(Tier))
def test_a_hook_vote_counts_by_its_effect_and_overrides_no_stricter_rule(
    tmp_path: Path, rules: Rules, hook: Effect, expected: Effect, tier: Tier
):
    decision = policy(tmp_path, rules).evaluate(
        bash("a", tmp_path), hook_votes=[build_vote(hook, tier)]
    )

    assert decision.effect is expected


def test_a_hook_allow_overrides_no_protected_path_and_no_critical_removal(tmp_path: Path):
    configured = policy(tmp_path)

    for subject in (on_file("Edit", tmp_path / ".git/config"), bash("rm -rf ~", tmp_path)):
        assert configured.evaluate(subject, hook_votes=[build_vote(ALLOW)]).effect is ASK


def test_the_ask_of_a_tool_yields_to_an_allow_and_applies_without_one(tmp_path: Path):
    ask = ToolAsk("the file has changed")
    silent, allowed = policy(tmp_path), policy(tmp_path, Rules(allow=["Edit"]))
    subject = on_file("Edit", tmp_path / "a")

    decision = silent.evaluate(subject, tool_ask=ask)

    assert decision.by == Vote(Tier.TOOL_ASK, ASK, "the file has changed", Origin("Edit"))
    assert not decision.undecided
    assert allowed.evaluate(subject, tool_ask=ask).effect is ALLOW
    quiet = policy(tmp_path, mode=PermissionMode.DONT_ASK)
    assert quiet.evaluate(subject, tool_ask=ask).effect is DENY


def test_an_undecided_call_is_a_soft_ask_with_the_line_that_would_allow_it(tmp_path: Path):
    decision = policy(tmp_path).evaluate(upstream("git", "log"))

    assert decision.undecided
    assert decision.votes == (
        Vote(
            Tier.UNDECIDED,
            ASK,
            "no rule covers this",
            Origin("permission mode default"),
        ),
    )


def test_a_delivered_result_in_our_state_directory_may_be_read(tmp_path: Path):
    result = on_file("Read", "/state/results/1.txt")

    assert policy(tmp_path).evaluate(result).effect is DENY
    assert policy(tmp_path).evaluate(replace(result, delivered=True)).effect is ALLOW
    written = replace(on_file("Write", "/state/results/1.txt"), delivered=True)
    assert policy(tmp_path).evaluate(written).effect is DENY


@pytest.mark.parametrize(
    ("subject", "rules", "uncovered"),
    [
        (upstream("a", "b"), Rules(), None),
        (bash("make", Path("/w")), Rules(), None),
        (on_file("Edit", "/w/a"), Rules(), None),
        (on_file("Edit", "/elsewhere/a"), Rules(), "a write outside the workspace"),
        (bash("make > /elsewhere/a", Path("/w")), Rules(), "a write outside the workspace"),
        (bash("make > $x", Path("/w")), Rules(), "a write outside the workspace"),
        (bash("touch /elsewhere/a", Path("/w")), Rules(), "a write outside the workspace"),
        (bash("((make))", Path("/w")), Rules(), "a shell command that is not fully understood"),
        (
            bash("bash -c '((make))'", Path("/w")),
            Rules(),
            "a shell command that is not fully understood",
        ),
        (
            bash("make", Path("/w")),
            Rules(ask=["Bash(make)"]),
            "a question that is asked for (Bash(make) in /config/settings.json:1)",
        ),
    ],
)
def test_the_clients_own_confirmation_does_not_cover_everything(
    subject: Subject, rules: Rules, uncovered: str | None
):
    configured = policy(Path("/w"), rules)

    assert (
        configured.explain_insufficient_confirmation(subject, configured.evaluate(subject))
        == uncovered
    )


# --- protected paths --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *(".git/config", ".git/hooks/pre-commit", "sub/.git/x", ".git", ".GIT/config", ".git./x"),
        *(".config/git/config", ".vscode/settings.json", ".idea/x", ".husky/pre-commit"),
        *(".cargo/config.toml", ".devcontainer/x", ".yarn/x", ".mvn/x", ".claude/settings.json"),
        *(".claude/agents/x", ".gitconfig", ".gitmodules", ".bashrc", ".zshrc", ".profile"),
        *(".envrc", ".npmrc", ".yarnrc.yml", "bunfig.toml", ".bazelrc", ".Bashrc"),
        *(".pre-commit-config.yaml", "lefthook.yml", "gradle-wrapper.properties"),
        *("deep/gradle-wrapper.properties", ".devcontainer.json", ".ripgreprc"),
        "pyrightconfig.json",
    ],
)
def test_a_write_to_a_protected_path_asks_whatever_allows_it(tmp_path: Path, path: str):
    allowed = policy(
        tmp_path, Rules(allow=["Edit", "Write", "Edit(./**)"]), PermissionMode.ACCEPT_EDITS
    )

    decision = allowed.evaluate(on_file("Write", tmp_path / path), hook_votes=[build_vote(ALLOW)])

    assert decision.effect is ASK
    assert decision.by.reason == "it writes a protected path"
    assert allowed.evaluate(on_file("Read", tmp_path / path)).effect is ALLOW
    bypass = policy(tmp_path, mode=PermissionMode.BYPASS_PERMISSIONS)
    assert bypass.evaluate(on_file("Write", tmp_path / path)).effect is ALLOW


@pytest.mark.parametrize("path", [".github/x", "git/x", ".claude/worktrees/a/b", "x.gitconfig"])
def test_a_path_similar_to_a_protected_one_is_not_protected(tmp_path: Path, path: str):
    allowed = policy(tmp_path, Rules(allow=["Edit"]))

    assert allowed.evaluate(on_file("Edit", tmp_path / path)).effect is ALLOW


@pytest.mark.parametrize(
    "path",
    [
        *(".mcp.json", "sub/.mcp.json", ".MCP.json", ".mcp-dispatch/settings.json", ".claude.json"),
        *(".mcp-dispatch", ".cursor/mcp.json", ".vscode/mcp.json", ".codex/config.toml"),
        *("claude_desktop_config.json", str(SETTINGS), "/config/workspaces/x.json", "/state/x"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_write_to_our_own_files_is_refused_in_every_mode(
    tmp_path: Path, path: str, mode: PermissionMode
):
    """CVE-2026-25725: the file is protected even if it does not exist."""
    configured = policy(tmp_path, Rules(allow=["Write", "Edit(//**)"]), mode)

    assert configured.evaluate(on_file("Write", tmp_path / path)).effect is DENY


def test_a_linked_settings_file_is_protected_under_both_names(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}", encoding="utf-8")
    link.symlink_to(real)
    configured = policy(
        tmp_path,
        settings=Settings(
            rules=RuleSettings(texts=Rules(allow=["Edit"]).texts()),
            report=SettingsReport(files=(link,)),
        ),
    )

    assert configured.evaluate(on_file("Edit", real)).effect is DENY
    assert configured.evaluate(on_file("Edit", link)).effect is DENY
    assert configured.evaluate(on_file("Read", real)).effect is ALLOW


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo x > .git/config", ASK),
        ("cp x .git/hooks/pre-commit", ASK),
        ("cp x .git/hooks", ASK),
        ("cp evil/.bashrc .", ASK),
        ("sed -i s/a/b/ .npmrc", ASK),
        ("echo x | tee -a .bashrc", ASK),
        ("cd .git && echo x > config", ASK),
        ("bash -c 'echo x > .git/config'", ASK),
        ("echo x > .mcp.json", DENY),
        ("cp evil .mcp.json", DENY),
        ("cp evil/.mcp.json .", DENY),
        ("mv evil/.mcp.json sub", DENY),
        ("mkdir .mcp-dispatch", DENY),
        ("cd .mcp-dispatch && echo x > settings.json", DENY),
        ("cat /config/settings.json", DENY),
        ("cp /config/settings.json x", DENY),
        ("python -c x /state/results/y", DENY),
        ("tool --file=/state/x", DENY),
        ("for f in /state/x; do cat $f; done", DENY),
        ("git add .mcp.json", ASK),
        ("cat .mcp.json", ALLOW),
        ("cat .git/config", ALLOW),
        ("git status", ALLOW),
    ],
)
def test_shell_commands_do_not_bypass_protected_paths(
    tmp_path: Path, command: str, expected: Effect
):
    """These include CVE-2026-25722 and CVE-2026-25723."""
    configured = policy(tmp_path, Rules(allow=["Bash"]))

    assert configured.evaluate(bash(command, tmp_path)).effect is expected


@pytest.mark.parametrize(
    "command",
    [
        *("rm -rf /", "rm -rf /*", "rm -rf /etc", "rm -rf /usr/", "rm -rf ~", "rm -rf ~/"),
        *("rm -rf ~/*", "rm -rf $HOME", 'rm -rf "$HOME"', 'rm -rf "$VAR"/*', "rm -rf $VAR/"),
        *("rm -rf .", "rm -rf ..", "rm -rf ./", "rm -rf ../..", "rmdir ..", "rm -r /added/*"),
        *("sudo rm -rf /", "/bin/rm -rf /", "bash -c 'rm -rf /'", "echo $(rm -rf /)", "(rm -rf ~)"),
        *("cat <(rm -rf /)", "echo `rm -rf /etc`", "a && rm -rf //", "rm -rf /etc/../"),
    ],
)
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS_PERMISSIONS])
def test_a_critical_removal_asks_in_every_mode(tmp_path: Path, command: str, mode: PermissionMode):
    settings = Settings(
        rules=RuleSettings(texts=Rules(allow=["Bash"]).texts()),
        permissions=PermissionSettings(additional_directories=(Path("/added"),)),
    )
    configured = policy(tmp_path, settings=settings, mode=mode)

    decision = configured.evaluate(bash(command, tmp_path), hook_votes=[build_vote(ALLOW)])

    assert decision.effect is ASK
    assert Origin("critical removals") in [one.origin for one in decision.votes]


@pytest.mark.parametrize("command", ["rm -rf build", "rm a/*", "rm -rf ./build/", "rm $FILE"])
def test_an_ordinary_removal_is_not_critical(tmp_path: Path, command: str):
    configured = policy(tmp_path, Rules(allow=["Bash"]))

    assert configured.evaluate(bash(command, tmp_path)).effect is ALLOW


@pytest.mark.parametrize(
    "command",
    [
        *("mcp-dispatch trust .", "/usr/bin/mcp-dispatch x", "python -m mcp_dispatch approvals"),
        *(
            "sudo mcp-dispatch x",
            "bash -c 'mcp-dispatch x'",
            "(mcp-dispatch x)",
            "a | mcp-dispatch x",
        ),
        *("uv run mcp-dispatch x", "env A=1 mcp-dispatch x", "python3 -mmcp_dispatch x"),
    ],
)
def test_a_model_cannot_approve_itself_through_the_shell(tmp_path: Path, command: str):
    configured = policy(tmp_path, Rules(allow=["Bash"]), PermissionMode.BYPASS_PERMISSIONS)

    assert (
        configured.evaluate(bash(command, tmp_path), hook_votes=[build_vote(ALLOW)]).effect is ASK
    )
    assert configured.evaluate(bash("cat mcp-dispatch.md", tmp_path)).effect is ALLOW


# --- reported problems ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (
            Rules(deny=["Write(src/**)"]),
            "warning permissions.deny: 'Write(src/**)': Write(path) never matches; "
            "write Edit(src/**) instead",
        ),
        (
            Rules(allow=["Grep(src/**)"]),
            "warning permissions.allow: 'Grep(src/**)': Grep(path) never matches; "
            "write Read(src/**) instead",
        ),
        (
            Rules(deny=["Bash(git status"]),
            "error permissions.deny: 'Bash(git status': expected Tool or Tool(specifier); "
            "it stands for every call of its tool",
        ),
        (
            Rules(allow=["Bash(git status"]),
            "warning permissions.allow: 'Bash(git status': expected Tool or Tool(specifier); "
            "it is ignored",
        ),
        (
            Rules(ask=["Bash()"]),
            "error permissions.ask: 'Bash()': the parentheses are empty; write Bash for every "
            "call; it stands for every call of its tool",
        ),
        (
            Rules(deny=["(x)"]),
            "error permissions.deny: '(x)': expected Tool or Tool(specifier); "
            "it names no tool and is ignored",
        ),
        (
            Rules(deny=["bash"]),
            "warning permissions.deny: 'bash': no built-in tool is named bash; names are "
            "case-sensitive, did you mean Bash?",
        ),
        (
            Rules(deny=["WebFetch(a.b)"]),
            "error permissions.deny: 'WebFetch(a.b)': expected WebFetch(domain:host); "
            "it stands for every call of its tool",
        ),
        (
            Rules(allow=["mcp__*"]),
            "warning permissions.allow: 'mcp__*': an allow rule must name the tool or the server "
            "in full, as in mcp__server__get_*; it is ignored",
        ),
        (
            Rules(allow=["Bash(a && *)"]),
            "warning permissions.allow: 'Bash(a && *)': an allow rule is about one simple command, "
            "without operators; it is ignored",
        ),
        (
            Rules(deny=["Read(!a)"]),
            "warning permissions.deny: 'Read(!a)': exceptions with '!' have no effect: "
            "a deny always wins",
        ),
        (
            Rules(allow=["Edit(../a/**)"]),
            "warning permissions.allow: 'Edit(../a/**)': a rule matches only under its directory; "
            "write //absolute/path instead",
        ),
    ],
)
def test_a_rule_that_is_wrong_or_never_matches_is_reported(
    tmp_path: Path, rules: Rules, problem: str
):
    (found,) = policy(tmp_path, rules).problems

    assert f"{found.severity.value} {found.key}: {found.message}" == problem
    assert (found.file, found.line) == (SETTINGS, 1)


def test_ordinary_rules_and_rules_for_claude_code_tools_are_not_reported(tmp_path: Path):
    rules = Rules(
        allow=["Bash(npm test:*)", "Read", "mcp__a", "Agent(x)", "WebSearch"],
        deny=["Read(.env)", "mcp__a__b", "other__tool", "Skill(x *)", "mcp__*"],
    )

    assert policy(tmp_path, rules).problems == ()


# --- the starter file -------------------------------------------------------------------------


@pytest.fixture
def starter(tmp_path: Path) -> Policy:
    """As in the README: the file is outside the workspace, which is `tmp_path / "w"`."""
    settings = load_settings([Layer(LayerKind.FLAG, CONFIGS / "starter.json")])
    assert settings.report.problems == ()
    workspace = tmp_path / "w"
    workspace.mkdir()
    own = [tmp_path / "config", tmp_path / "state"]
    built = Policy(settings, [workspace], own, settings.permissions.mode, home=tmp_path / "home")
    assert built.problems == ()
    return built


@pytest.mark.parametrize(
    ("tool", "path", "expected"),
    [
        ("Read", "w/a", ALLOW),
        ("Edit", "w/src/a.py", ALLOW),
        ("Write", "w/new/b.py", ALLOW),
        ("Edit", "beside/a", ASK),
        ("Read", "beside/a", ASK),
        ("Read", "w/.env", DENY),
        ("Read", "w/sub/.env.local", DENY),
        ("Write", "w/.env", DENY),
        ("Read", "w/certs/server.pem", DENY),
        ("Read", "w/id_rsa", DENY),
        ("Read", "w/id_rsa.pub", DENY),
        ("Read", "w/secrets/x/y", DENY),
        ("Read", "w/sub/secrets/x", DENY),
        ("Read", "home/.ssh/id", DENY),
        ("Read", "home/.aws/credentials", DENY),
        ("Edit", "w/.git/config", ASK),
        ("Edit", "w/.mcp.json", DENY),
    ],
)
def test_the_starter_file_allows_the_workspace_and_denies_secrets(
    tmp_path: Path, starter: Policy, tool: str, path: str, expected: Effect
):
    assert starter.evaluate(on_file(tool, tmp_path / path)).effect is expected


def test_the_starter_file_allows_one_server_and_asks_about_commands(
    tmp_path: Path, starter: Policy
):
    assert starter.evaluate(upstream("demo", "anything")).effect is ALLOW
    assert starter.evaluate(upstream("demos", "anything")).effect is ASK
    assert starter.evaluate(bash("make", tmp_path / "w")).effect is ASK
    assert starter.evaluate(bash("cat .env", tmp_path / "w")).effect is DENY


# --- imports ----------------------------------------------------------------------------------


def test_policy_and_settings_are_imported_without_the_protocol_and_without_pathspec():
    code = (
        "import sys, mcp_dispatch.policy.policy, mcp_dispatch.settings.settings; "
        "print([name for name in ('mcp', 'pathspec', 'jsonschema') if name in sys.modules])"
    )

    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=30
    )

    assert (run.stdout, run.returncode) == ("[]\n", 0)
