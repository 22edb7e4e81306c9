"""Compares random scripts that both parsers accept with bash itself."""

import random
import shutil
from pathlib import Path

import pytest

from mcp_dispatch.shell.analyze import parse_shell_text
from mcp_dispatch.shell.ast import Form, PlainScript
from tests.support.shell_oracle import COUNT, SEED, compare_runs

NOISE = [
    *("aa", "bb", "c1", "-d", "--e=f", "g=", "h+=", "1", "2", "12", "in", "é", "do", "fi", "then"),
    *(" ", " ", " ", " ", "\t", "\n", ";", "&", "&&", "||", "|", "|&", ";;", "\\\n", "\r", "!"),
    *(">", ">>", "<", "2>", "2>&1", "&>", ">&", "<>", ">|", "<<", "<<<", "> f", ">>g", "< aa"),
    *("'", '"', "'a b'", '"c d"', '"$x"', "''", '""', "\\", "\\ ", "\\'", '\\"', "\\$", "\\;"),
    *("$", "$x", "${x}", "$z", "$e", "$(", "`", "~", "#", " # c", "{", "}", "{ ", "; }", "{}"),
    *("*", "?", "[", "]", "(", ")", "((", "))", "=", "==", "=~", "%", ",", ":", "@", "-", "/"),
    *("if ", "for x in ", "while ", "done", " time ", "! ", "case ", "esac", "function ", "[["),
    *("<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\n\tE\n", "$((", "<(", ">(", '"$(', ')"', '"`'),
]
ATOMS = [
    *("aa", "bb", "c1", "-d", "--e=f", "'a b'", '"c d"', '"$x"', "$x", "$z", "$e", "${x}", "*"),
    *("a\\ b", '"e\\"f"', "é", "''", "#", "a#b", "=", "1", "[", "]", "!", "~", "@", "a=b", "{}"),
]
JOINS = ["; ", " && ", " || ", " | ", " |& ", " & ", "\n", ";\n", " &&\n", " # c d\n", " >f; "]


class _TextGenerator:
    """Generates scripts of every supported form, and corrupts some of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def generate(self) -> str:
        text = self._generate_list(self._random.randint(0, 3))
        for _ in range(self._random.choice([0, 0, 0, 1, 1, 2])):
            at = self._random.randint(0, len(text))
            cut = at + self._random.choice([0, 0, 1])
            text = text[:at] + self._random.choice(NOISE) + text[cut:]
        return text

    def _generate_list(self, depth: int) -> str:
        parts = [self._generate_part(depth) for _ in range(self._random.randint(1, 3))]
        text = parts[0]
        for part in parts[1:]:
            text += self._random.choice(JOINS) + part
        return text

    def _generate_part(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.3:
            return self._generate_simple(depth)
        inner = self._generate_list(depth - 1)
        end = self._random.choice(["; ", "\n", " ; "])
        return self._random.choice(
            [
                f"({inner})",
                f"{{ {inner}{end}}}",
                f"{{ {inner}{end}}} > f",
                f"if {self._generate_list(depth - 1)}{end}then {inner}{end}fi",
                f"if {self._generate_simple(0)}{end}then {inner}{end}else {self._generate_simple(0)}{end}fi",
                f"for y in {self._generate_words(depth - 1)}; do {inner}{end}done",
                f"while aa {self._generate_words(0)}{end}do {inner}{end}done",
                f"until bb {self._generate_words(0)}{end}do {inner}{end}done",
                f"! {inner}",
                f"time {inner}",
            ]
        )

    def _generate_simple(self, depth: int) -> str:
        ending = self._random.choice(["", "", "", " > f", " 2>&1", " <<< 'h i'", " <aa", "<<E"])
        command = f"{self._random.choice(['aa', 'bb', 'A=1 aa', 'cat'])} {self._generate_words(depth - 1)}"
        if ending == "<<E":
            quote = self._random.choice(["", "'"])
            body = self._random.choice(["it's\n", "a $x `bb`\n", "", "a\n(b\n", "E \n\tE\n"])
            return f"{command} <<{quote}E{quote}\n{body}E\n{self._generate_simple(0)}"
        return command + ending

    def _generate_words(self, depth: int) -> str:
        return " ".join(self._generate_word(depth) for _ in range(self._random.randint(1, 3)))

    def _generate_word(self, depth: int) -> str:
        if depth < 0 or self._random.random() < 0.7:
            return self._random.choice(ATOMS)
        inner = self._generate_list(depth)
        return self._random.choice(
            [
                f"$({inner})",
                f'"$({inner})"',
                f'a"b$({inner})c"d',
                f"<({inner})",
                f"`{inner}`",
                f'"`{inner}`"',
                f"\"$(cat <<'E'\n{inner}\nE\n)\"",
            ]
        )


def generate_plain_texts(count: int, seed: int) -> list[tuple[str, PlainScript]]:
    texts = _TextGenerator(seed)
    found: list[tuple[str, PlainScript]] = []
    while len(found) < count:
        text = texts.generate()
        reading = parse_shell_text(text)
        if isinstance(reading, PlainScript) and reading.commands:
            found.append((text, reading))
    return found


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is the oracle")
def test_bash_runs_nothing_that_the_script_parser_misses(
    tmp_path: Path,
):
    # They start ten times as many processes as plain texts do, mostly in loops.
    believed = generate_plain_texts(COUNT // 2, SEED)

    started = compare_runs(believed, tmp_path)

    assert started > COUNT / 2, "the oracle saw too little to be believed"
    forms = {reading.form for _, reading in believed}
    assert forms == set(Form)
