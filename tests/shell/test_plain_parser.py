"""The plain parser against tables, and against bash itself."""

import random
import shutil
from pathlib import Path

import pytest

from mcp_dispatch.shell.ast import (
    EXPANSION,
    GlobCharacter,
    Literal,
    PlainScript,
    UnparsedScript,
    Variable,
    Word,
)
from mcp_dispatch.shell.fallback_tokens import tokenize_unparsed
from mcp_dispatch.shell.plain_parser import parse_plain
from mcp_dispatch.shell.syntax import MAX_COMMAND_CHARS
from tests.support.shell_oracle import COUNT, SEED, compare_runs

E = EXPANSION


def list_shapes(text: str) -> list[list[str]]:
    reading = parse_plain(text)
    assert isinstance(reading, PlainScript), reading
    return [[word.shape for word in command.words] for command in reading.commands]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la", [["ls", "-la"]]),
        ("  ls\t-la  ", [["ls", "-la"]]),
        ("a; b & c && d || e | f |& g", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a\n\nb\n", [["a"], ["b"]]),
        ("a &&\n b", [["a"], ["b"]]),
        ("a;", [["a"]]),
        ("a &", [["a"]]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        ("r\\m x", [["rm", "x"]]),
        ("\"r\"'m' x", [["rm", "x"]]),
        ("echo ''", [["echo", ""]]),
        ('echo "a\nb"', [["echo", "a\nb"]]),
        ('echo "\\$x \\" \\\\ \\a"', [["echo", '$x " \\ \\a']]),
        ("echo $x ${y}z", [["echo", E, f"{E}z"]]),
        ('echo "$x"', [["echo", E]]),
        ('echo "foo$"', [["echo", "foo$"]]),
        ("ls *.py a?c [ab]", [["ls", f"{E}.py", f"a{E}c", f"{E}ab]"]]),
        ("ls ~ ~/x ~bob/y HEAD~1 a=~/z", [["ls", E, f"{E}/x", f"{E}/y", "HEAD~1", f"a={E}/z"]]),
        ("[ -f x ]", [["[", "-f", "x", "]"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("find . -exec rm {} \\;", [["find", ".", "-exec", "rm", "{}", ";"]]),
        ("a --b=c", [["a", "--b=c"]]),
        ("sort f -oOUT2>&1", [["sort", "f", "-oOUT2"]]),
        ("ls > f -la", [["ls", "-la"]]),
        ("ls 2>&1 -la", [["ls", "-la"]]),
        ("echo é", [["echo", "é"]]),
        ("ls ==\nrm x", [["ls", "=="], ["rm", "x"]]),
    ],
)
def test_plain_text_is_parsed_as_bash_parses_it(text: str, expected: list[list[str]]):
    assert list_shapes(text) == expected


def test_a_command_keeps_its_assignments_words_and_redirects_apart():
    reading = parse_plain("A=1 B=\"x $y\" cmd 'a b' *.c >out 2>>err <in 2>&1 &>all")

    assert isinstance(reading, PlainScript)
    (command,) = reading.commands
    assert [(one.name, one.value.shape) for one in command.assignments] == [
        ("A", "1"),
        ("B", f"x {E}"),
    ]
    assert command.words == (
        Word("cmd", (Literal("cmd"),)),
        Word("'a b'", (Literal("a b"),)),
        Word("*.c", (GlobCharacter("*"), Literal(".c"))),
    )
    assert [(one.operator, one.descriptor, one.target.value) for one in command.redirects] == [
        (">", "", "out"),
        (">>", "2", "err"),
        ("<", "", "in"),
        (">&", "2", "1"),
        ("&>", "", "all"),
    ]


def test_a_word_has_its_expansions_and_its_source_text():
    reading = parse_plain('"$a"${b}~')

    assert isinstance(reading, PlainScript)
    (word,) = reading.commands[0].words
    assert word.pieces == (
        Literal(""),
        Variable("a", "$a", True),
        Variable("b", "${b}", False),
        Literal("~"),
    )
    assert (word.value, word.shape, word.fixed) == ("$a${b}~", f"{E}{E}~", False)


NOT_PLAIN = [
    # Empty and invalid texts.
    *("", "  ", "\n", "; a", "a ;; b", "a &&", "a ||", "a |", "a & ; b", "| a", "a && && b"),
    *("echo 'a", 'echo "a', "echo a\\", "a >", "a > ; b", "a > > b"),
    # Lines that continue, control characters, carriage returns.
    *("r\\\nm x", '"r\\\nm"', "ls \\\r\nrm x", "ls \r# ; rm x", "a\x00b", "a\x0bb", "a\x0cb"),
    *("a\x1bb", "a\x7fb", "a\u00a0b", "a\u200bb", "a\u202eb", "a\u2028b", "a\ud800", "a \\é"),
    # Substitutions and expansions beyond a name.
    *("a $(b)", 'a "$(b)"', "a `b`", 'a "`b`"', "a <(b)", "a >(b)", "a $((1))", "a $[1]"),
    *("a ${b:-c}", "a ${b@P}", "a ${!b}", "a ${#b}", "a ${b[0]}", "a $1", "a $@", "a $?", "a $$"),
    *("a $'b'", 'a $"b"', "a $", "a \"$'b'\""),
    # Groups, reserved words, arrays, braces, comments, history, extended globs.
    *("(a)", "{ a; }", "{a; b;}", "((a))", "[[ a ]]", "! a", "! ! rm", "time rm", "coproc rm"),
    *("if a; then b; fi", "for x in a; do b; done", "while a; do b; done", "case a in b) c;; esac"),
    *(
        "function f",
        "f() { a; }",
        "select x in a",
        "until a; do b; done",
        "fi",
        "done",
        "then rm x",
    ),
    *("a=(b c)", "a[0]=b", "a[$(rm y)]=b c", "a {b,c}", "{rm,-rf,x}", "a b{1..3}", "a }", "# a"),
    *("a # b", "a !b", "a !!", "a +(b)", "a @(b|c)"),
    # Here-documents and redirects that bash parses differently.
    *("a <<E\nE", "a <<-E\nE", "a <<< b", "a <> b", "a >| b", "a >&b", "a >& b", "a 12>b"),
    *("a {fd}>b", "a 2>&1x", "a >&1-", "a &>|b", "cat <<< $\nrm x"),
]


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_everything_beyond_the_plain_subset_is_unparsed(text: str):
    assert isinstance(parse_plain(text), UnparsedScript)


def test_a_text_above_the_limit_is_unparsed_and_one_at_the_limit_is_parsed():
    assert isinstance(parse_plain("a" * MAX_COMMAND_CHARS), PlainScript)
    assert parse_plain("a" * (MAX_COMMAND_CHARS + 1)) == UnparsedScript(
        "the command is longer than 10,000 characters"
    )


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("for i in 1; do rm -rf x; done", ("do", "rm", "-rf", "x")),
        ("(rm x)", ("rm", "x")),
        ("time rm x", ("time", "rm", "x")),
        ("r\\\nm x", ("rm", "x")),
        ("ls \\\r\nrm x", ("rm", "x")),
        ("ls \r# ; rm x", ("rm", "x")),
        ("cat <<EOF\nit's\nEOF\nrm x", ("rm", "x")),
        ("cat <<EOF\n`rm x`\nEOF", ("rm", "x")),
        ("cat <<-EOF\n\t$(rm x)\n\tEOF", ("rm", "x")),
        ("echo \"${b:-'$(rm x)'}\"", ("rm", "x")),
        ('echo "$(case x in a) rm y ;; esac)"', ("rm", "y")),
        ('echo "$\'"; rm x; echo "\'" $(a)', ("rm", "x")),
        ("$'\\x72\\155' x", ("rm", "x")),
        ('$"rm" x', ("rm", "x")),
        ("${x:-rm} y", ("rm", "y")),
        ("{rm,-rf,x}", (E, "rm", "-rf", "x")),
        ("(git 2>f push)", ("git", "push")),
        ("git {fd}>f push", ("git", "push")),
        ("cat <<< a `` \nrm x", ("rm", "x")),
        ("echo `echo \\`rm x\\``", ("rm", "x")),
        ("cat <(rm x)", ("rm", "x")),
        ("2>&1\\\n#x; rm x", ("rm", "x")),
        ("! ! rm x", ("!", "!", "rm", "x")),
        ("bash -c 'rm x' (", ("bash", "-c", "rm x")),
    ],
)
def test_the_words_of_unparsed_text_are_found_in_every_spelling(text: str, run: tuple[str, ...]):
    assert isinstance(parse_plain(text), UnparsedScript)
    assert run in tokenize_unparsed(text)


def test_quoted_text_stays_one_word_if_quotes_are_reliable():
    assert tokenize_unparsed("if true; then echo 'do not rm this'; fi") == (
        ("if", "true"),
        ("then", "echo", "do not rm this"),
        ("fi",),
    )


@pytest.mark.parametrize("piece", ['"\\"', "'", "`", "$", "a,{", "1>", '"$(', "\\", "a'b"])
def test_long_hostile_text_is_tokenised_in_time_linear_in_its_length(piece: str):
    text = piece * (100_000 // len(piece))

    assert sum(len(token) for run in tokenize_unparsed(text) for token in run) < 10 * len(text)


FRAGMENTS = [
    *(
        "aa",
        "bb",
        "c1",
        "-d",
        "--e=f",
        "g=",
        "h+=",
        "1",
        "2",
        "12",
        "x",
        "in",
        "a.b",
        "é",
        "if",
        "time ",
    ),
    *(" ", " ", " ", " ", " ", "\t", "\n", ";", "&", "&&", "||", "|", "|&", ";;", "\\\n", "\r"),
    *(">", ">>", "<", "2>", "2>&1", "&>", ">&", "<>", ">|", "<<", "<<<", "> f", ">>g", "< aa"),
    *("'", '"', "'a b'", '"c d"', '"$x"', "''", '""', "\\", "\\ ", "\\'", '\\"', "\\$", "\\;"),
    *("$", "$x", "${x}", "$z", "$e", "${z}", "$(", "`", "~", "~/", "#", "!", "{", "}", "{}", "*"),
    *("{aa,bb}", "?", "[", "]", "(", ")", "=", "+", "%", "^", ",", ":", "@", "-", "/", "\x0b"),
]


def generate_plain_texts(count: int, seed: int) -> list[tuple[str, PlainScript]]:
    """Return random texts that the parser accepts, each with its parsed script."""
    rng = random.Random(seed)
    found: list[tuple[str, PlainScript]] = []
    while len(found) < count:
        text = "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 14)))
        reading = parse_plain(text)
        if isinstance(reading, PlainScript):
            found.append((text, reading))
    return found


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is the oracle")
def test_bash_runs_nothing_that_the_plain_parser_misses(
    tmp_path: Path,
):
    believed = generate_plain_texts(COUNT, SEED)

    started = compare_runs(believed, tmp_path)

    assert started > COUNT / 2, "the oracle saw too little to be believed"
