"""Scripts on which both parsers agree, and which commands only read."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcp_dispatch.shell.analyze import ReadOnlyStatus, analyze_script, parse_shell_text
from mcp_dispatch.shell.arguments import ReadSpec
from mcp_dispatch.shell.ast import EXPANSION, Form, PlainScript, UnparsedScript
from mcp_dispatch.shell.fallback_tokens import tokenize_unparsed
from mcp_dispatch.shell.script_parser import MAX_COMMANDS, MAX_NESTING
from mcp_dispatch.shell.syntax import MAX_COMMAND_CHARS
from tests.support.depth import choose_count

E = EXPANSION


def list_commands(text: str) -> list[list[str]]:
    reading = parse_shell_text(text)
    assert isinstance(reading, PlainScript), reading
    return [[word.shape for word in command.words] for command in reading.commands]


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("a b | c && d; e & f", Form.FLAT, [["a", "b"], ["c"], ["d"], ["e"], ["f"]]),
        ("{ a; b; }", Form.FLAT, [["a"], ["b"]]),
        ("! a b", Form.FLAT, [["a", "b"]]),
        ("time a", Form.FLAT, [["a"]]),
        ("time -p a", Form.FLAT, [["a"]]),
        ("# first\na # second\nb", Form.FLAT, [["a"], ["b"]]),
        ("find . ! -name x", Form.FLAT, [["find", ".", "!", "-name", "x"]]),
        ("cat <<< 'a b'", Form.FLAT, [["cat"]]),
        ("cat <<E\nit's (here)\nE\nb", Form.FLAT, [["cat"], ["b"]]),
        ("cat <<'E'\n$(rm x) `rm y` \\\nE\nb", Form.FLAT, [["cat"], ["b"]]),
        ("cat <<-E | b\n\tx\n\tE\nc", Form.FLAT, [["cat"], ["b"], ["c"]]),
        ("(a)", Form.COMPOUND, [["a"]]),
        ("a && (b; (c)) || d", Form.COMPOUND, [["a"], ["b"], ["c"], ["d"]]),
        ("if a; then b; elif c; then d; else e; fi", Form.COMPOUND, [*map(list, "abcde")]),
        ("for x in 1 2; do a $x; done", Form.COMPOUND, [["a", E]]),
        ("while a; do b; done", Form.COMPOUND, [["a"], ["b"]]),
        ("until a\ndo\n  b\ndone", Form.COMPOUND, [["a"], ["b"]]),
        ("a $(b c) d", Form.SUBSTITUTING, [["b", "c"], ["a", E, "d"]]),
        ('a "x $(b)"', Form.SUBSTITUTING, [["b"], ["a", f"x {E}"]]),
        ("a `b c`", Form.SUBSTITUTING, [["b", "c"], ["a", E]]),
        ("a <(b) <(c)", Form.SUBSTITUTING, [["b"], ["c"], ["a", E, E]]),
        ("a $(b $(c))", Form.SUBSTITUTING, [["c"], ["b", E], ["a", E]]),
    ],
)
def test_the_commands_of_every_depth_are_found(text: str, form: Form, expected: list[list[str]]):
    assert list_commands(text) == expected
    reading = parse_shell_text(text)
    assert isinstance(reading, PlainScript)
    assert reading.form is form


def test_a_quoted_here_document_of_cat_is_a_text_and_not_a_command():
    text = "git commit -m \"$(cat <<'EOF'\nfix: it's (done)\n\nMore.\nEOF\n)\""

    assert list_commands(text) == [["git", "commit", "-m", "fix: it's (done)\n\nMore."]]


def test_a_here_document_beside_other_commands_in_a_substitution_is_unparsed():
    assert isinstance(parse_shell_text("a $(cat <<'E'\nx\nE\nb; c)"), UnparsedScript)


def test_the_redirect_of_a_group_is_a_command_without_words():
    reading = parse_shell_text("{ a; b > f; } >> g 2>&1")

    assert isinstance(reading, PlainScript)
    assert [
        [(one.operator, one.target.value) for one in command.redirects]
        for command in reading.commands
    ] == [[], [(">", "f")], [(">>", "g"), (">&", "1")]]


NOT_UNDERSTOOD = [
    # Bash rejects them or runs a part of them.
    *("{ls; rm x;}", "echo a;;b", "ls ;; pwd", "fi", "done", "then rm x", "ls\\\r\n; rm x"),
    *("(a", "a)", "{ a; ", "if a; then b", "for x in a; do b", "a; )", "( )", "{ }", "a &&"),
    *("if a; b; fi", "for x in a; b; done", "while a; done", "(a) b", "{ a; } b", "! ! a"),
    # Valid, and not supported by the parser.
    *("cat <<A <<B\nA\nB", "cat <<EOF; cmd\nEOF", 'cat <<EO"F"\nEOF', "a <> f", "{rm,-rf,x}"),
    *("case a in b) c;; esac", "case a in b) c;;& esac", "for x do a; done", "((a)); b", "[[ a ]]"),
    *("for ((i=0;i<1;i++)); do a; done", "select x in a; do b; done", "coproc a", "f() { a; }"),
    *("function f { a; }", "a $((1+1))", "$((ls); rm x)", "cat <<''\n\n", "cat <<E\nx", "a | ! b"),
    *("for PATH in x; do a; done", "for http_proxy in x; do a; done", "cat <<E\n$x\nE"),
    *("cat <<E\n`a`\nE", "cat <<E\na\\\nb\nE", "a ${b:-c}", "a ${b@P}", "echo `a \\`b\\``"),
    *(
        "for x in a; do cd ..; done",
        "while a; do pushd b; done",
        "for x in a; do builtin 'cd' ..; done",
        "a ]<(b)",
        "a $(b # c\n)",
    ),
    *("a # b \\\nc", "a > f -b", "a 2>&1 -b", "a \"`b 'c'`\""),
]


@pytest.mark.parametrize("text", NOT_UNDERSTOOD)
def test_ambiguous_text_is_unparsed(text: str):
    assert isinstance(parse_shell_text(text), UnparsedScript)
    assert analyze_script(text).status is ReadOnlyStatus.UNKNOWN


HIDING = [
    # The grammar finds none of these commands and reports no error.
    *("ls ==\nrm x", "ls =~\nrm x", "cat <<EOF\n`rm x`\nEOF", "cat <<-EOF\n\t$(rm x)\n\tEOF"),
    *("echo \"${b:-'$(rm x)'}\"", "echo `echo \\`rm x\\``", "r\\\nm x", "ls \\\r\nrm x"),
    *("ls \r# ; rm x", "2>&1\\\n#x; rm x", "cat <<< $\nrm x", "cat <<< a `` \nrm x"),
    *('cat <<< a"b"\\; rm x', "! ! rm x", "time rm x", "coproc rm x", "! rm x"),
    *("test -v 'x[$(rm y)]'", "printf -v 'x[$(rm y)]' a", "read 'x[$(rm y)]'", "trap 'rm x' EXIT"),
    *("eval 'rm x'", "unset 'x[$(rm y)]'", "let 'x[$(rm y)]'", "[[ -n $(rm x) ]]", "echo $(rm x)"),
    *("(ls; rm x)", "if true; then rm x; fi", "ls & rm x", "ls\nrm x", "{ ls; rm x; }"),
]


@pytest.mark.parametrize("text", HIDING)
def test_no_text_hides_the_command_it_runs(text: str):
    analysis = analyze_script(text)

    assert analysis.status is not ReadOnlyStatus.READ_ONLY
    if isinstance(analysis.script, PlainScript):
        values = [word.value for one in analysis.script.commands for word in one.words]
        assert any("rm" in value for value in values)
    else:
        assert any("rm" in token for run in tokenize_unparsed(text) for token in run)


@pytest.mark.parametrize(
    "text", ["sort f -oOUT2>&1", "ls > f -la", "cat <<'E' arg\nE", "ls }  ]]", "ls \\ -la"]
)
def test_no_argument_is_hidden(text: str):
    assert analyze_script(text).status is not ReadOnlyStatus.READ_ONLY


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("true\n" * (MAX_COMMANDS - 1) + "true", "true\n" * MAX_COMMANDS + "true"),
        (
            "{ " * (MAX_NESTING - 1) + "true" + "; }" * (MAX_NESTING - 1),
            "{ " * MAX_NESTING + "true" + "; }" * MAX_NESTING,
        ),
        ("echo " + "a" * (MAX_COMMAND_CHARS - 5), "echo " + "a" * (MAX_COMMAND_CHARS - 4)),
    ],
)
def test_limits_fail_closed(text: str, over: str):
    assert analyze_script(text).status is ReadOnlyStatus.READ_ONLY
    assert analyze_script(over).status is ReadOnlyStatus.UNKNOWN


def test_a_tree_as_deep_as_the_text_is_long_is_visited():
    assert analyze_script("(" * 4_000 + "ls" + ")" * 4_000).status is ReadOnlyStatus.UNKNOWN


READ_ONLY = [
    *("", "  ", "ls", "ls -la src", "cat a b", "cat < a", "echo '--- x ---'", "pwd", "cd src"),
    *("ls *.py", "cat src/*.py", "head -5 a", "head -n 5 a", "tail -f log", "wc -l a", "grep x *"),
    *("grep -rn 'a b' src", "grep -A3 -e x a", "rg -n -C 3 TODO", "rg --files", "fd -e py x"),
    *("find . -name '*.py' -not -path './x/*'", "find . -mtime -7", "find . \\( -name a \\)"),
    *("sed -n 1,5p a", "sed -n '/x/p' a", "sed 's/a/b/g' a", "sed 's/\\.py$//'", "sed -n '$p' a"),
    *("sort -u", "sort -k2 -t,", "uniq -c a", "cut -d: -f1 a", "tr a-z A-Z", "diff -u a b"),
    *("ls | grep x | sort | uniq -c", "ls && pwd; true", "LANG=C ls", "time ls", "! ls"),
    *("{ ls; pwd; }", "ls 2>/dev/null", "ls > /dev/null 2>&1", "cat <<< 'x'", "cat <<E\nx\nE"),
    *("date", "date +%F", "date -u +%F", "which git", "command -v git", "type ls", "test -f a"),
    *("[ -d src ]", "[ ! -e a ]", "[ 1 -lt 2 ]", "printf '%s\\n' a", "seq 1 5", "expr 1 + 2"),
    *("ps aux", "ps -ef", "df -h", "du -sh .", "file a", "stat a", "uname -a", "id -u", "env"),
    *("git status", "git status -sb", "git log --oneline -10", "git diff HEAD~1", "git show HEAD"),
    *(
        "git --no-pager log",
        "git branch -a",
        "git remote -v",
        "git stash list",
        "git config --list",
    ),
    *("git rev-parse --abbrev-ref HEAD", "git ls-files", "git blame a", "git tag -l 'v*'"),
    *("git log --format='%h %s'", "git diff --stat main..dev -- src", "git --version"),
    *("jq . a", "jq -r '.a[] | select(.b == \"c d\") | .e' a", "systemctl status x", "ip addr"),
    *("docker ps -a", "kubectl get pods -n x -o wide", "# look\nls"),
]


@pytest.mark.parametrize("text", READ_ONLY)
def test_read_only_commands_are_recognised(text: str):
    assert analyze_script(text).status is ReadOnlyStatus.READ_ONLY


NOT_READ_ONLY = [
    # Other programs, other spellings of a program, interpreters, pagers, the network.
    *("rm a", "LS", "/bin/ls", "./ls", "'ls'", "l\\s", "$X", "l*", "python -c pass", "node -v"),
    *("awk 1 a", "perl -e 1", "bash -c ls", "sh -c ls", "xargs cat", "less a", "more a", "man ls"),
    *("curl x", "wget x", "ping x", "dig x", "ssh x", "git fetch", "git pull", "git ls-remote"),
    *("env ls", "sudo ls", "nohup ls", "timeout 5 ls", "exec ls", "builtin ls", "command ls"),
    # Options that write, run or read a list, also by the rules of another version.
    *(
        "sort -o a",
        "sort a -oOUT",
        "sort --compress-program=x",
        "sort --files0-from=a",
        "sort -T x",
    ),
    *(
        "rg --pre=sh x",
        "rg --pre sh x",
        "rg -z x",
        "rg --hostname-bin x y",
        "rg -f a",
        "rg -- -z a",
    ),
    *(
        "find . -exec a",
        "find . -delete",
        "find . \\-delete",
        "find . -fprint a",
        "find . -name -delete",
    ),
    *(
        "find -L .",
        "find . -ok a",
        "find . -files0-from a",
        "find *",
        "find $x",
        "fd -x a",
        "fd -l",
    ),
    *(
        "sed -i s/a/b/ a",
        "sed 's/a/b/w f' a",
        "sed 's/a/b/e' a",
        "sed w a",
        "sed -e p a",
        "sed -f a b",
    ),
    *(
        "sed 'e id' a",
        "sed -n '1w f' a",
        "sed 's/[/]w f/x/' a",
        "sed --in-place p a",
        "sed 'r a' b",
    ),
    *(
        "grep -f a b",
        "uniq a b",
        "tree -o a",
        "tree -R",
        "date -s x",
        "date 010100002030",
        "date -f a",
    ),
    *(
        "hostname x",
        "file -m a b",
        "file -C",
        "file -f a",
        "file *",
        "strings @a",
        "strings *",
        "xxd -r a",
        "xxd a b",
        "base64 -o a b",
    ),
    *(
        "ps e",
        "ps auxe",
        "ss -K",
        "tee a",
        "diff -l a b",
        "wc --files0-from=a",
        "cat --x a",
        "tail --x",
    ),
    *("printf -v x a", "printf '%n' x", "test -v x", "[ -v x ]", "test a -o b", "[ x -eq 1 ]"),
    *("read x", "unset x", "let x=1", "trap x EXIT", "eval ls", "export A=1", "A=1", "alias x=y"),
    # Expansions and ambiguous words.
    *("echo $HOME", 'echo "$x"', "ls ~", "ls ~/x", "echo file~", "echo =ls", "echo a$x", "ls $x"),
    *(
        'echo "a\\"b"',
        "echo 'a'\"'\"'b'",
        "echo 'a'b'c'",
        "rg x *",
        "sort *",
        "git diff *",
        "ls [ab]",
    ),
    *("ls **", "cat -- -x", "grep -- -x a", "head -n", "cut -d", "ls --sort -la"),
    # Assignments and redirects.
    *(
        "FOO=1 ls",
        "PATH=x ls",
        "LANG=$x ls",
        "LD_PRELOAD=x ls",
        "TZ='a b' ls",
        "GIT_PAGER=x git log",
    ),
    *("ls > f", "ls >> f", "ls 2> f", "ls &> f", "cat < $x", "cat <<< $x", "{ ls; } > f", "> f"),
    # Control flow and subshells are parsed and not allowed by themselves.
    *("(ls)", "if true; then ls; fi", "while true; do ls; done", "for x in a; do ls; done"),
    *("ls $(pwd)", "ls `pwd`", "cat <(ls)"),
    # Git options that write, run, leave the repository, or are abbreviated.
    *("git", "git add a", "git branch x", "git branch -d x", "git branch --list x", "git tag v1"),
    *("git -C x status", "git -c a.b=c log", "git -p log", "git --git-dir=x log", "git --bare log"),
    *(
        "git diff --ext-diff",
        "git show --textconv",
        "git log --output=f",
        "git grep -O x",
        "git log --show-sig",
    ),
    *(
        "git log --format=%G?",
        "git log --pretty='%GG'",
        "git cat-file --filters a",
        "git stash",
        "git log --help",
    ),
    *(
        "git config a.b c",
        "git config --unset a",
        "git config -e",
        "git remote add a b",
        "git remote show a",
    ),
    *("git reflog expire", "git worktree add a", "git diff --outp=f", "git log --stat=1 --oneli"),
    *(
        "jq env",
        "jq '$ENV'",
        "jq -n 'input'",
        "jq -f a b",
        "jq 'import \"a\" as x; .'",
        "jq -L a .",
    ),
    *("systemctl stop x", "systemctl -H a status x", "ip addr add x", "ip a a x", "ip -b f addr"),
    *("docker rm a", "docker -H x ps", "docker run a", "kubectl get secrets", "kubectl delete a"),
    *("kubectl get -f x", "kubectl get a -o go-template-file=x", "kubectl --server=x get a"),
]


@pytest.mark.parametrize("text", NOT_READ_ONLY)
def test_commands_that_may_do_more_than_read_are_not_read_only(text: str):
    assert analyze_script(text).status is not ReadOnlyStatus.READ_ONLY


@pytest.mark.parametrize(
    ("text", "look"),
    [
        ("cat a b", ReadSpec(("a", "b"))),
        ("cat < a", ReadSpec(("a",))),
        ("ls", ReadSpec(reads_cwd=True)),
        ("ls *.py", ReadSpec((), ("*.py",), reads_cwd=True)),
        ("grep x a", ReadSpec(("a",))),
        ("grep -e x a", ReadSpec(("a",))),
        ("grep -r x", ReadSpec(reads_cwd=True, reads_unnamed_files=True)),
        ("grep -R x src", ReadSpec(("src",), reads_unnamed_files=True, follows_links=True)),
        ("find src -newer a", ReadSpec(("src", "a"), reads_cwd=True)),
        ("test -f /etc/x", ReadSpec(("/etc/x",))),
        (
            "git diff -Oorder -- a",
            ReadSpec(
                ("order", "a"), reads_cwd=True, reads_unnamed_files=True, uses_repository=True
            ),
        ),
        (
            "rg x",
            ReadSpec(
                reads_cwd=True, reads_unnamed_files=True, unsafe_variables=("RIPGREP_CONFIG_PATH",)
            ),
        ),
        ("echo a", ReadSpec()),
    ],
)
def test_a_read_spec_names_the_files_that_are_read(text: str, look: ReadSpec):
    assert analyze_script(text).read_specs == (look,)


AROUND = [
    *("sudo {}", "xyz {}", "env {}", "nohup {}", "FOO=bar {}", "PATH=. {}", "{} > out", "{}; make"),
    *("make && {}", "{} | make", "{} &\nmake", "({})", "if {}; then true; fi", "$({})", "`{}`"),
    *(
        "echo $({})",
        "while {}; do true; done",
        "{} $x",
        "{} `x`",
        "eval {}",
        "coproc {}",
        "[[ {} ]]",
    ),
    *(
        "f() {{ {}; }}",
        "{} <<E\n$x\nE",
        "{} \\\n",
        "{}\r",
        "{} ;; true",
        "{} &&",
        "! ! {}",
        "((1)); {}",
    ),
    *("exec {}", "./{}", "{} >| f", "{} <> f", "{} >&f", "{} ${{x:-y}}", "{}\x0b", "{}\u00a0x"),
]


@settings(deadline=None, max_examples=choose_count(quick=100, deep=5000))
@given(st.sampled_from([one for one in READ_ONLY if one.strip()]), st.sampled_from(AROUND))
def test_a_read_only_command_wrapped_in_anything_unknown_is_no_longer_read_only(
    command: str, around: str
):
    # A comment does not become an argument of `env`, which alone only prints.
    assume(around != "env {}" or not command.startswith("#"))

    assert analyze_script(around.format(command)).status is not ReadOnlyStatus.READ_ONLY


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_text_makes_the_analysis_fail(text: str):
    analyze_script(text)
