"""The grammar of rules: parameters, unusual texts, and advice about misleading rules."""

from dataclasses import replace
from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import (
    HookSettings,
    Layer,
    LayerKind,
    RuleSettings,
    Settings,
    SettingsReport,
    load_settings,
)
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, on_file, policy, upstream


def build_subject(tool: str, arguments: JsonObject) -> Subject:
    server = tool.split("__")[1] if tool.startswith("mcp__") else None
    return Subject(tool, tool.removeprefix("mcp__"), server, arguments, arguments, None)


@pytest.mark.parametrize(
    ("deny", "tool", "arguments", "denied"),
    [
        ("Grep(pattern:secret*)", "Grep", {"pattern": "secrets", "path": "/w"}, True),
        ("Grep(pattern:secret)", "Grep", {"pattern": "other", "path": "/w"}, False),
        ("Grep(-i:true)", "Grep", {"pattern": "x", "-i": True, "path": "/w"}, True),
        ("Write(content:*BEGIN*)", "Write", {"file_path": "/w/a", "content": "x BEGIN y"}, True),
        ("Edit(replace_all:true)", "Edit", {"file_path": "/w/a", "replace_all": True}, True),
        ("Bash(timeout:5)", "Bash", {"command": "ls", "timeout": 5}, True),
        ("Bash(run_in_background:true)", "Bash", {"command": "ls"}, False),
        ("TaskStop(task_id:b1)", "TaskStop", {"task_id": "b1"}, True),
        ("WebFetch(prompt:*key*)", "WebFetch", {"url": "https://a.b", "prompt": "the key"}, True),
        # A rule for an upstream tool can name every field, also `path` and `url`.
        ("mcp__fs__read(path:/etc/*)", "mcp__fs__read", {"path": "/etc/passwd"}, True),
        ("mcp__fs__read(path:/etc/*)", "mcp__fs__read", {"path": "/home/x"}, False),
        ("mcp__fs(path:/etc/*)", "mcp__fs__write", {"path": "/etc/passwd"}, True),
        ("mcp__fs__*(path:/etc/*)", "mcp__fs__write", {"path": "/etc/passwd"}, True),
        ("mcp__*(command:rm *)", "mcp__sh__run", {"command": "rm x"}, True),
        ("*(force:true)", "mcp__sh__run", {"force": True}, True),
        ("*(force:true)", "mcp__sh__run", {"force": "True"}, False),
        ("mcp__fs__read(size:10)", "mcp__fs__read", {"size": 10}, True),
        ("mcp__fs__read(size:10)", "mcp__fs__read", {"size": "10"}, True),
        ("mcp__fs__read(path:)", "mcp__fs__read", {"path": ""}, True),
        ("mcp__fs__read(path:*)", "mcp__fs__read", {}, False),
        ("mcp__fs__read(path:*)", "mcp__fs__read", {"path": None}, False),
    ],
)
def test_a_parameter_rule_matches_one_field(
    deny: str, tool: str, arguments: JsonObject, denied: bool
):
    configured = policy(Path("/w"), Rules(deny=[deny], allow=[tool]))

    assert (configured.evaluate(build_subject(tool, arguments)).effect is DENY) is denied


def test_a_rule_for_a_program_with_the_name_of_a_field_matches_the_program(tmp_path: Path):
    configured = policy(tmp_path, Rules(deny=["Bash(timeout:*)", "Bash(command:*)"]))

    assert configured.evaluate(bash("timeout 5 ls", tmp_path)).effect is DENY
    assert configured.evaluate(bash("command ls", tmp_path)).effect is DENY


@pytest.mark.parametrize(
    ("rules", "advice"),
    [
        (
            Rules(deny=["Bash(command:rm *)"]),
            "'Bash(command:rm *)': Bash(command:…) never matches; write Bash(rm *) instead",
        ),
        (
            Rules(deny=["Read(file_path:.env)"]),
            "'Read(file_path:.env)': Read(file_path:…) never matches; write Read(.env) instead",
        ),
        (
            Rules(ask=["Grep(path:src)"]),
            "'Grep(path:src)': Grep(path:…) never matches; write Read(src) instead",
        ),
        (
            Rules(deny=["Write( file_path : a )"]),
            "'Write( file_path : a )': Write(file_path:…) never matches; write Edit(a) instead",
        ),
        (
            Rules(deny=["WebFetch(url:https://a.b)"]),
            "'WebFetch(url:https://a.b)': WebFetch(url:…) never matches; write "
            "WebFetch(domain:host) instead",
        ),
        (
            Rules(allow=["mcp__a__b(c:d)"]),
            "'mcp__a__b(c:d)': Tool(parameter:value) is only for deny and ask; write mcp__a__b "
            "for every call; it is ignored",
        ),
        (
            Rules(deny=["TaskStop(task:1)"]),
            "'TaskStop(task:1)': TaskStop has no parameter task; it has task_id or shell_id",
        ),
        (
            Rules(deny=["bash(rm:*)"]),
            "'bash(rm:*)': no built-in tool is named bash; names are case-sensitive, did you mean "
            "Bash?",
        ),
        (
            Rules(deny=["Baash(rm x)"]),
            "'Baash(rm x)': no built-in tool is named Baash; names are case-sensitive, did you "
            "mean Bash?; it stands for every call of its tool",
        ),
        (
            Rules(deny=["mcp__my.server__x"]),
            "'mcp__my.server__x': mcp__my.server__x contains '.'; names of servers and tools have "
            "'_' in its place; write mcp__my_server__x",
        ),
        (
            Rules(deny=["Bash(a\0b)"]),
            "'Bash(a\\x00b)': the rule contains a NUL byte; it stands for every call of its tool",
        ),
        (
            Rules(allow=["Bash(* install)"]),
            "'Bash(* install)': a '*' in place of the program allows every program; name it in "
            "full",
        ),
        (
            Rules(allow=["Bash(git * main)"]),
            "'Bash(git * main)': a '*' before the subcommand allows every subcommand; name it in "
            "full",
        ),
        (
            Rules(allow=["Bash(sudo:*)"]),
            "'Bash(sudo:*)': sudo runs a program that the rule must name, as in "
            "Bash(sudo npm test:*)",
        ),
        (
            Rules(allow=["Bash(watch *)"]),
            "'Bash(watch *)': watch runs a program that the rule must name, as in "
            "Bash(watch npm test)",
        ),
        (
            Rules(deny=["Bash(git:* push)"]),
            "'Bash(git:* push)': ':*' is special only at the end; write ' *' elsewhere",
        ),
        (
            Rules(deny=[r"Read(C:\Users\me\.ssh)"]),
            r"'Read(C:\\Users\\me\\.ssh)': it looks like a path of Windows; write / between "
            "directories and // before the first",
        ),
        (
            Rules(deny=["Read(/etc/passwd)"]),
            "'Read(/etc/passwd)': it means /config/etc/passwd; write //etc/passwd for the "
            "absolute path",
        ),
        (
            Rules(deny=["Read(a[b)"]),
            "'Read(a[b)': the '[' is not closed, so it guards the path as it is spelled; write "
            r"\[ instead",
        ),
        (
            Rules(allow=["Read(a[b)"]),
            "'Read(a[b)': the '[' is not closed, so it allows nothing; write "
            r"\[ for the character",
        ),
        (Rules(deny=["Read(//)"]), "'Read(//)': write /** for everything in that directory"),
    ],
)
def test_a_misleading_rule_gets_advice(tmp_path: Path, rules: Rules, advice: str):
    (problem,) = policy(tmp_path, rules).problems

    assert problem.message == advice


@pytest.mark.parametrize(
    "rule",
    [
        *("Bash(npm run *)", "Bash(ls*)", "Bash(git log:*)", "Bash(find:*)", "Bash(make)"),
        *("Read(src/**)", "Edit(/src/**)", "Read(//etc/**)", "Read(~/notes/**)", r"Read(a\[b)"),
        *("Read(./a (1)/b)", "Edit(a[bc]d)", "mcp__a__get_*", "WebFetch(domain:a.b)", "KillShell"),
    ],
)
def test_an_ordinary_rule_gets_no_advice(tmp_path: Path, rule: str):
    assert policy(tmp_path, Rules(allow=[rule])).problems == ()


@pytest.mark.parametrize(
    ("deny", "path", "denied"),
    [
        ("Read(a (1)/b)", "a (1)/b", True),
        ("Read(a(b)", "a(b", True),
        ("Read(a)b)", "a)b", True),
        ("Read(a[b/c)", "a[b/c", True),
        ("Read(a[b/c)", "a[b/d", False),
        ("Read(x/a[b)", "y/a[b", False),
        ("Read(secrets/)", "secrets/a", True),
        ("Read(secrets/)", "x/secrets/a", True),
        ("Read(/w/secrets/)", "secrets/a", False),
        ("Read(.env)", "line\nbreak/.env", True),
        ("Read(line*)", "line\nbreak", True),
        ("Read(**/key)", "a\n/b\n/key", True),
    ],
)
def test_rules_apply_to_paths_with_special_characters(deny: str, path: str, denied: bool):
    configured = policy(Path("/w"), Rules(deny=[deny]))

    assert (configured.evaluate(on_file("Read", Path("/w") / path)).effect is DENY) is denied


def test_an_allow_covers_no_more_than_its_pattern(tmp_path: Path):
    configured = policy(tmp_path, Rules(allow=["Edit(a)", "Edit(*.py)"]))

    assert configured.evaluate(on_file("Edit", tmp_path / "a")).effect is ALLOW
    assert configured.evaluate(on_file("Edit", tmp_path / "a\n")).effect is ASK
    assert configured.evaluate(on_file("Edit", tmp_path / "b.py\n")).effect is ASK


@pytest.mark.parametrize(
    ("kind", "file", "anchor"),
    [
        (LayerKind.PROJECT, "w/.mcp-dispatch/settings.json", "w"),
        (LayerKind.LOCAL, "w/.mcp-dispatch/settings.local.json", "w"),
        (LayerKind.USER, "config/settings.json", "config"),
        (LayerKind.FLAG, "elsewhere/rules.json", "elsewhere"),
        (LayerKind.MANAGED, "etc/settings.json", "etc"),
        (LayerKind.CLAUDE_PROJECT, "w/.claude/settings.json", "w"),
        (LayerKind.CLAUDE_USER, "home/.claude/settings.json", "home/.claude"),
    ],
)
def test_a_leading_slash_means_the_directory_of_the_settings_layer(
    tmp_path: Path, kind: LayerKind, file: str, anchor: str
):
    written = tmp_path / file
    written.parent.mkdir(parents=True)
    written.write_text('{"permissions": {"deny": ["Read(/notes/**)"]}}', encoding="utf-8")
    read = load_settings([Layer(kind, written)])
    configured = Policy(read, [tmp_path / "w"], [], PermissionMode.DEFAULT, home=tmp_path / "home")

    anchors = ["w", "config", "elsewhere", "etc", "home", "home/.claude", "w/.claude"]
    denied = [
        place
        for place in anchors
        if configured.evaluate(on_file("Read", tmp_path / place / "notes" / "a")).effect is DENY
    ]

    assert denied == [anchor]


def test_a_rule_whose_server_name_differs_by_case_is_reported(tmp_path: Path):
    rules = Rules(deny=["mcp__GitHub", "mcp__my-files__write"], allow=["mcp__git", "mcp__other"])

    found = policy(tmp_path, rules).find_server_name_problems(["github", "my_files", "git"])

    assert [(each.line, each.message) for each in found] == [
        (3, "'mcp__GitHub': no server is named GitHub; did you mean github?"),
        (4, "'mcp__my-files__write': no server is named my-files; did you mean my_files?"),
    ]


def test_a_rule_whose_tool_name_differs_by_case_is_reported(tmp_path: Path):
    rules = Rules(
        deny=["mcp__git__Push", "mcp__git__push", "mcp__git__Get_*", "mcp__git__gone", "mcp__git"],
        ask=["mcp__other__PUSH"],
    )

    found = policy(tmp_path, rules).find_tool_name_problems({"git": {"push", "get_x", "get_a"}})

    hint = "names are case-sensitive, did you mean"
    assert [(each.line, each.message) for each in found] == [
        (2, f"'mcp__git__Push': git has no tool Push; {hint} push?"),
        (4, f"'mcp__git__Get_*': git has no tool Get_*; {hint} get_a?"),
    ]


def test_wildcards_in_tool_names_are_strict_in_allow_and_wide_in_deny(tmp_path: Path):
    cases = {"mcp__git__get_*": True, "mcp__*__get_x": False, "mcp__g*": False, "git__get_*": False}

    for text, allows in cases.items():
        subject = upstream("git", "get_x")
        allowed = policy(tmp_path, Rules(allow=[text])).evaluate(subject).effect
        denied = policy(tmp_path, Rules(deny=[text])).evaluate(subject).effect
        assert (allowed, denied) == (ALLOW if allows else ASK, DENY)


@pytest.mark.parametrize(
    ("command", "accepted"),
    [
        *[(f"{text}", True) for text in ("mkdir a", "mkdir -p a/b", "touch a", "rm a", "rm -rf a")],
        *[(f"{text}", True) for text in ("rmdir a", "mv a b", "cp a b", "sed -i s/a/b/g c")],
        *[(f"{text}", True) for text in ("cd a && rm b", "LANG=C rm a", "timeout 5 rm a")],
        *[(f"{text}", True) for text in ("mkdir a; touch a/b", "sed -i '3d' c")],
        *[(f"{text}", False) for text in ("rm ../a", "rm /etc/hosts", "touch ~/a", "cp a /tmp/b")],
        *[
            (f"{text}", False)
            for text in ("rm $x", "rm *", "cp -r a b", "mv -t /etc a", "rm a | b")
        ],
        *[(f"{text}", False) for text in ("sed -i 's/a/b/e' c", "sed -i 'w x' c", "sed -n 1w c")],
        *[
            (f"{text}", False)
            for text in ("LD_PRELOAD=x rm a", "rm a; make", "sudo rm a", "/x/rm a")
        ],
        *[(f"{text}", False) for text in ("cd .. && rm a", "rm $(x)", "rm -rf .", "touch .git/x")],
    ],
)
def test_accept_edits_allows_a_few_editing_commands(tmp_path: Path, command: str, accepted: bool):
    """CVE-2026-25723: in this mode a pipe into sed wrote files without permission."""
    (tmp_path / "a").mkdir()
    mode = PermissionMode.ACCEPT_EDITS

    decided = policy(tmp_path, mode=mode).evaluate(bash(command, tmp_path)).effect

    assert decided is (ALLOW if accepted else ASK)
    assert policy(tmp_path).evaluate(bash(command, tmp_path)).effect is ASK


def test_hook_scripts_and_settings_that_do_not_exist_yet_are_protected(tmp_path: Path):
    """CVE-2026-25725: a settings file was created with hooks in it."""
    found = Settings(
        report=SettingsReport(files=(tmp_path / "absent.json",)),
        hooks=HookSettings(scripts=(tmp_path / "guard.sh",)),
    )
    configured = Policy(
        replace(found, rules=RuleSettings(Rules(allow=["Edit", "Write", "Bash"]).texts())),
        [tmp_path],
        [],
        PermissionMode.BYPASS_PERMISSIONS,
        home=tmp_path / "home",
        protected_files=[tmp_path / "extra.json"],
    )

    def effect(subject: Subject) -> Effect:
        return configured.evaluate(subject).effect

    for name in ("absent.json", "guard.sh", "extra.json"):
        assert effect(on_file("Write", tmp_path / name)) is DENY
        assert effect(bash(f"echo x > {name}", tmp_path)) is DENY
        assert effect(on_file("Read", tmp_path / name)) is ALLOW
    assert effect(on_file("Write", tmp_path / "guard.shx")) is ALLOW
