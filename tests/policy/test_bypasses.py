"""Known bypasses of rules in similar software, by mechanism."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import (
    LayerKind,
    RuleSettings,
    RuleText,
    Settings,
    SettingsReport,
)
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, on_file, policy, upstream

MODES = list(PermissionMode)
HOOK_ALLOWS = Vote(Tier.ALLOW, ALLOW, "the hook says so", Origin("hook.sh"))
HOOK_ASKS = Vote(Tier.HARD_ASK, ASK, "the hook says so", Origin("hook.sh"))


def evaluate_command(workspace: Path, rules: Rules, command: str) -> Effect:
    return policy(workspace, rules).evaluate(bash(command, workspace)).effect


def is_unprompted(workspace: Path, command: str) -> bool:
    return policy(workspace).evaluate(bash(command, workspace)).effect is ALLOW


# --- parsing ----------------------------------------------------------------------------------

HIDDEN_PARTS = {
    "line continuation": "ec\\\nho a; r\\\nm x",
    "backslash before a letter": "r\\m x",
    "backslash-escaped flag": "find . \\-exec rm {} +",
    "quotes inside a word": "r''m x",
    "ANSI-C quotes": "$'\\162\\155' x",
    "carriage return as separator": "echo a\rrm x",
    "carriage return and newline": "echo a\r\nrm x",
    "first line a comment": "# only listing files\nrm x",
    "comment with a quote": "# it's fine\nrm x",
    "after a dangling operator": "rm x &&",
    "in front of a dangling operator": "&& rm x",
    "a very long command": f"echo {'a' * 12_000}; rm x",
    "after an unfinished quote": "rm x; echo 'a",
    "heredoc with substitution": "cat <<E\n$(rm x)\nE",
    "after a heredoc": "cat <<'E'\na\nE\nrm x",
    "quoted # in an argument": "echo 'a # b'; rm x",
    "redirect first": ">/dev/null rm x",
    "redirect after !": "! rm x > /dev/null",
    "redirect in an && list": "true && rm x > /dev/null",
    "brace expansion": "{rm,x}",
    "no space around operators": "true;rm x",
    "tabs": "\trm\tx",
    "process substitution": "diff <(rm x) a",
    "nested substitution": 'echo "$(echo "$(rm x)")"',
    "function body": "f() { rm x; }; f",
    "case arm": "case a in b) rm x;; esac",
    "arithmetic": "echo $((a[$(rm x)]))",
    "assignment with substitution": "A=$(rm x)",
    "default of a variable": "echo ${A:-$(rm x)}",
    "array subscript": "a[$(rm x)]=1",
    "[[ ]] with subscript": "[[ -v a[$(rm x)] ]]",
    "coproc": "coproc rm x",
    "background": "rm x & true",
}


@pytest.mark.parametrize("command", HIDDEN_PARTS.values(), ids=HIDDEN_PARTS.keys())
def test_no_spelling_hides_a_denied_command(tmp_path: Path, command: str):
    denied = evaluate_command(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), command)
    asked = policy(tmp_path, Rules(ask=["Bash(rm:*)"]), PermissionMode.BYPASS_PERMISSIONS).evaluate(
        bash(command, tmp_path)
    )
    allowed = evaluate_command(
        tmp_path, Rules(allow=["Bash(echo:*)", "Bash(true)", "Bash(cat:*)"]), command
    )

    assert denied is DENY
    assert asked.effect is ASK
    assert allowed is not ALLOW


def test_a_wildcard_does_not_match_across_an_operator(tmp_path: Path):
    for command in ("git log; rm x", "git log && rm x", "git log | sh", "git log\nrm x"):
        assert (
            evaluate_command(tmp_path, Rules(allow=["Bash(git *)", "Bash(git log*)"]), command)
            is ASK
        )


@pytest.mark.parametrize(
    "command",
    [
        *("RANDOM=2+2", "OPTIND=1/0", "BASHPID=1", "BASH_ARGV0=x", "REPORTTIME='$(id)' ls"),
        *("=ls", "ls =(id)", "[[ a =~ $(id) ]]", "DIRSTACKSIZE='$(id)'", "(( a = 1 ))", "let a=1"),
    ],
)
def test_assignments_and_evaluating_forms_need_an_answer(tmp_path: Path, command: str):
    assert not is_unprompted(tmp_path, command)
    assert not is_unprompted(tmp_path, f"{command}; ls")


# --- assignments and wrappers -----------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *("FOO=bar rm x", 'TZ="$HOME" rm -rf build', "declare X=rm; $X -rf y", "A=1 B=2 rm x"),
        *(
            "export A=1; rm x",
            "readonly X=rm; $X y",
            "typeset X=rm && $X y",
            "A+=1 rm x",
            "a=(1) rm x",
        ),
    ],
)
def test_a_deny_applies_after_every_assignment(tmp_path: Path, command: str):
    assert evaluate_command(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), command) is DENY


@pytest.mark.parametrize(
    "variable",
    [
        *("LD_PRELOAD=x", "GIT_SSH_COMMAND=x", "PAGER=x", "BASH_ENV=x", "PATH=.", "GIT_PAGER=x"),
        *("PYTHONPATH=x", "LESSOPEN=x", "IFS=x", "RIPGREP_CONFIG_PATH=x", "GIT_CONFIG_COUNT=1"),
        *("TZ='$(id)'", "LANG=$(id)", "LC_ALL=`id`", "PS4=x", "PROMPT_COMMAND=x", "HOME=."),
    ],
)
def test_a_variable_before_a_harmless_command_needs_an_answer(tmp_path: Path, variable: str):
    assert not is_unprompted(tmp_path, f"{variable} ls")
    assert not is_unprompted(tmp_path, f"{variable}; ls")
    assert evaluate_command(tmp_path, Rules(allow=["Bash(ls:*)"]), f"{variable} ls") is ASK


@pytest.mark.parametrize(
    "wrapper",
    [
        *("env", "sudo", "watch", "ionice", "setsid", "nice -n 5", "timeout -s KILL 5", "xargs"),
        *("command", "busybox", "env -i", "sudo -u root", "nohup", "stdbuf -o0", "builtin", "exec"),
        *("timeout 5 nice sudo env A=1", "time", "doas", "flock f", "chroot /", "strace"),
    ],
)
def test_a_wrapper_neither_hides_a_denied_command_nor_allows_one(tmp_path: Path, wrapper: str):
    command = f"{wrapper} rm x"

    assert evaluate_command(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), command) is DENY
    program = wrapper.partition(" ")[0]
    assert evaluate_command(tmp_path, Rules(allow=[f"Bash({program}:*)"]), command) is not ALLOW
    assert not is_unprompted(tmp_path, f"{wrapper} rm x")


@pytest.mark.parametrize(
    "command", ["bash -c 'rm x'", "busybox sh -c 'rm x'", "ssh h 'rm x'", "eval 'rm x'", "sh -c rm"]
)
def test_a_deny_applies_to_a_script_in_a_string(tmp_path: Path, command: str):
    assert evaluate_command(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), command) is DENY


def test_a_substitution_does_not_run_under_an_allow_for_the_outer_command(tmp_path: Path):
    for command in ("ls $(whoami)", "ls `whoami`", 'ls "$(whoami)"', "ls <(whoami)"):
        assert evaluate_command(tmp_path, Rules(allow=["Bash(ls *)"]), command) is ASK
        assert not is_unprompted(tmp_path, f"{command} $(make)")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["cd a | rm x", "cd a && rm x | cat", "(cd a; rm x) | cat"])
def test_a_cd_in_a_pipe_does_not_weaken_a_deny(tmp_path: Path, command: str, mode: PermissionMode):
    configured = policy(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), mode)

    assert configured.evaluate(bash(command, tmp_path)).effect is DENY


def test_an_ask_rule_applies_to_a_compound_command_in_bypass_mode(tmp_path: Path):
    configured = policy(tmp_path, Rules(ask=["Bash(push:*)"]), PermissionMode.BYPASS_PERMISSIONS)

    for command in ("ls && push", "ls; (push x)", "echo $(push)"):
        assert configured.evaluate(bash(command, tmp_path)).effect is ASK


# --- precedence -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_no_hook_weakens_a_deny_or_skips_an_ask_rule(tmp_path: Path, mode: PermissionMode):
    rules = Rules(allow=["Bash"], ask=["Bash(asked)"], deny=["Bash(denied)"])
    configured = policy(tmp_path, rules, mode)

    for hooks in ([HOOK_ALLOWS], [HOOK_ASKS], [HOOK_ASKS, HOOK_ALLOWS]):
        assert configured.evaluate(bash("denied", tmp_path), hook_votes=hooks).effect is DENY
        quiet = mode is PermissionMode.DONT_ASK
        expected = DENY if quiet else ASK
        assert configured.evaluate(bash("asked", tmp_path), hook_votes=hooks).effect is expected


@pytest.mark.parametrize("lower", list(LayerKind))
@pytest.mark.parametrize("higher", list(LayerKind))
def test_no_layer_allows_what_another_asks_about_or_denies(
    tmp_path: Path, lower: LayerKind, higher: LayerKind
):
    def of(kind: LayerKind, effect: Effect) -> RuleText:
        return RuleText(effect, "Bash(x:*)", tmp_path / f"{kind.value}.json", 1, kind, tmp_path)

    for strict in (ASK, DENY):
        rules = (of(higher, ALLOW), of(lower, strict))
        configured = policy(tmp_path, settings=Settings(rules=RuleSettings(texts=rules)))
        assert configured.evaluate(bash("x y", tmp_path)).effect is strict


def test_changed_arguments_are_checked_again(tmp_path: Path):
    """A decision applies to the arguments that run, also after the `updatedInput` of a hook."""
    configured = policy(tmp_path, Rules(allow=["Bash(ls:*)"], deny=["Bash(rm:*)"]))

    assert configured.evaluate(bash("ls", tmp_path), hook_votes=[HOOK_ALLOWS]).effect is ALLOW
    assert configured.evaluate(bash("rm x", tmp_path), hook_votes=[HOOK_ALLOWS]).effect is DENY


# --- paths ------------------------------------------------------------------------------------


def test_a_new_file_below_a_linked_directory_is_checked_at_the_target_of_the_link(tmp_path: Path):
    workspace = tmp_path / "w"
    (workspace / "src").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (workspace / "src" / "link").symlink_to(tmp_path / "out")
    configured = policy(
        workspace, Rules(allow=[f"Edit(/{workspace}/**)"], deny=[f"Edit(/{tmp_path}/out/x)"])
    )

    assert configured.evaluate(on_file("Write", workspace / "src" / "link" / "new")).effect is ASK
    assert configured.evaluate(on_file("Write", workspace / "src" / "link" / "x")).effect is DENY


def test_a_directory_pattern_applies_here_in_allow_and_at_any_depth_in_deny(tmp_path: Path):
    nested, here = tmp_path / "vendor/src/a", tmp_path / "src/a"
    allowed = policy(tmp_path, Rules(allow=["Edit(src/**)"]))
    denied = policy(tmp_path, Rules(allow=["Edit"], deny=["Edit(src/**)"]))

    assert allowed.evaluate(on_file("Edit", here)).effect is ALLOW
    assert allowed.evaluate(on_file("Edit", nested)).effect is ASK
    assert denied.evaluate(on_file("Edit", here)).effect is DENY
    assert denied.evaluate(on_file("Edit", nested)).effect is DENY


def test_a_deny_with_a_trailing_slash_covers_the_directory(tmp_path: Path):
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    configured = policy(tmp_path, Rules(allow=["Read"], deny=["Read(~/.aws/)"]), home=home)

    assert configured.evaluate(on_file("Read", home / ".aws" / "credentials")).effect is DENY
    assert configured.evaluate(on_file("Read", home / ".aws")).effect is DENY
    assert configured.evaluate(bash("cat ~/.aws/credentials", tmp_path)).effect is DENY
    assert configured.build_hidden_paths(None)(home / ".aws" / "config")


def test_the_target_of_a_linked_settings_file_is_protected(tmp_path: Path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}", encoding="utf-8")
    link.symlink_to(real)
    rules = Rules(allow=["Edit", "Bash"]).texts()
    configured = policy(
        tmp_path,
        settings=Settings(rules=RuleSettings(texts=rules), report=SettingsReport(files=(link,))),
    )

    assert configured.evaluate(on_file("Edit", real)).effect is DENY
    assert configured.evaluate(bash("echo x > real.json", tmp_path)).effect is DENY


@pytest.mark.parametrize(
    "command",
    [
        *(
            "(echo x > locked)",
            "{ echo x > locked; }",
            "true && echo x >> locked",
            "! echo >locked",
        ),
        *("if true; then echo x > locked; fi", "echo $(echo x > locked)", "bash -c 'a > locked'"),
        *(
            "echo x >| locked",
            "echo x >&locked",
            "echo x &>>locked",
            "exec 3> locked",
            "a 2>locked",
        ),
        *(
            "cat <<E > locked\nx\nE",
            "for i in a; do echo; done > locked",
            "tee locked",
            "tee -a locked",
        ),
    ],
)
def test_a_deny_of_writing_covers_redirects_at_any_depth(tmp_path: Path, command: str):
    assert evaluate_command(tmp_path, Rules(allow=["Bash"], deny=["Edit(locked)"]), command) is DENY


# --- the read-only list -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        *("rg *", "rg x *", "sort *", "git diff *", "find *", "sed -n 1p *"),
        *("git -c core.pager=x log", "git --exec-path=x log", "git grep -O x", "git grep -Ovi x"),
        *(
            "git diff --ext-diff",
            "git log --output=f",
            "git -c alias.x=!id x",
            "git show --textconv",
        ),
        *("git --git-dir=x log", "git --work-tree=x status", "git --config-env=a=b log"),
        *("grep -f pats x", "sort -o f x", "tee f", "xxd -r a b", "tar -xf a --to-command=id"),
        *(
            "date -s 1",
            "date --set=1",
            "hostname x",
            "cat /dev/tcp/a/1",
            "file -m magic x",
            "file -C",
        ),
        *("docker -H tcp://x ps", "docker --context x ps", "docker run x", "kubectl apply -f x"),
        *(
            "tree -o f",
            "base64 -o f x",
            "less x",
            "man ls",
            "help x",
            "ps e",
            "pyright",
            "xargs cat",
        ),
        *("cat > f", "echo x > f", "ls >> f", "pwd 2> f", "LS -la", "Cat a", "history", "fc -e x"),
    ],
)
def test_no_flag_or_glob_makes_a_read_only_command_do_more_without_asking(
    tmp_path: Path, command: str
):
    assert not is_unprompted(tmp_path, command)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString", "__class__", "..", ""])
def test_a_server_tool_with_the_name_of_a_claude_code_tool_is_an_ordinary_tool(
    tmp_path: Path, name: str
):
    configured = policy(tmp_path, Rules(allow=["mcp__a__b"], deny=["mcp__c"]))

    assert configured.evaluate(upstream("a", name)).effect is ASK
    assert configured.evaluate(upstream("c", name)).effect is DENY
    assert policy(tmp_path, Rules(allow=["mcp__a"])).evaluate(upstream("a", name)).effect is ALLOW


def test_rules_of_a_built_in_do_not_apply_to_a_server_tool_of_that_name(tmp_path: Path):
    configured = policy(tmp_path, Rules(allow=["Bash", "Read"]))

    for tool in ("Bash", "Read", "tool_search"):
        assert configured.evaluate(upstream("evil", tool, exposed=f"evil__{tool}")).effect is ASK


def test_annotations_of_a_server_tool_allow_nothing(tmp_path: Path):
    claimed = replace(upstream("evil", "read"), read_only=True)

    for mode in PermissionMode:
        if mode is not PermissionMode.BYPASS_PERMISSIONS:
            configured = policy(tmp_path, Rules(allow=["mcp__known"]), mode)
            assert configured.evaluate(claimed).effect is not ALLOW


# --- over-blocking is a bug too ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        (Rules(allow=["Bash"], deny=["Read(./**/build/**)"]), "npm run build"),
        (Rules(allow=["Bash(npm run test)", "Bash(head:*)"]), "npm run test | head"),
        (Rules(allow=["Bash"], deny=["Read(**/test/**)"]), "npm test"),
        (Rules(allow=["Bash"], deny=["Bash(rm:*)"]), "echo 'rm -rf /' | cat"),
        (Rules(allow=["Bash"], deny=["Bash(git push:*)"]), "git commit -m 'git push later'"),
        (Rules(allow=["Bash"], deny=["Bash(sudo:*)"]), "grep -n sudo README.md"),
        (Rules(allow=["Bash"], deny=["Edit(src/**)"]), "cat src/a.py"),
        (Rules(allow=["Bash"], deny=["Read(.env)"]), "cat .env.example"),
        (Rules(allow=["Bash(git log:*)"]), "git log --oneline -n 5 > /dev/null 2>&1"),
        (Rules(allow=["Bash(npm:*)"]), "NODE_ENV=test npm run build"),
        (Rules(allow=["Bash(make:*)"]), "timeout 60 make -j4"),
    ],
)
def test_a_command_that_no_rule_matches_is_not_denied(tmp_path: Path, rules: Rules, command: str):
    assert evaluate_command(tmp_path, rules, command) is ALLOW
