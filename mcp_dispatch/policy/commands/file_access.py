"""Which files a plain shell text reads and writes, as far as its programs are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from mcp_dispatch.policy.commands.wrappers import inner, program
from mcp_dispatch.shell.ast import (
    EXPANSION,
    Literal,
    Plain,
    Redirect,
    SimpleCommand,
    Variable,
    Word,
)

READERS = frozenset(
    {
        *("cat", "head", "tail", "less", "more", "tac", "rev", "nl", "od", "xxd", "hexdump"),
        *("strings", "base64", "base32", "md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum"),
        *("b2sum", "sha224sum", "sha384sum", "shasum", "sum", "column", "expand", "unexpand"),
        *("sort", "uniq", "wc", "cut", "fold", "fmt", "paste", "join", "comm", "cmp", "diff"),
        *("file", "stat", "bat", "batcat", "zcat", "gzip", "gunzip", "bzip2", "xz", "source", "."),
        *(
            "tsort",
            "tar",
            "zip",
            "unzip",
            "cp",
            "mv",
            "ln",
            "install",
            "rsync",
            "scp",
            "dd",
            "split",
            "pr",
        ),
    }
)
PATTERN_READERS = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk", "jq", "yq"})
"""Their first operand is a pattern or a script, unless an option gives one."""

COPIERS = frozenset({"cp", "ln", "install", "rsync", "scp"})
"""They write to their last operand and read the others."""

WRITERS = frozenset(
    {
        *("rm", "rmdir", "mkdir", "touch", "tee", "mv", "chmod", "chown", "chgrp", "truncate"),
        *("shred", "unlink", "mkfifo", "mknod", "patch", "ed", "ex", "vi", "vim", "nano"),
    }
)
_PROGRAM_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--expression"})
_MOVES = frozenset({"cd", "pushd", "popd"})
_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(frozen=True, slots=True)
class Touch:
    """A path as a command names it. `directories` are where the command may run; None if unknown.

    `spelled` has an `EXPANSION` where only the shell knows.
    """

    spelled: str
    directories: tuple[Path, ...] | None

    @property
    def known(self) -> bool:
        anchored = self.spelled.startswith("/") or self.directories is not None
        return EXPANSION not in self.spelled and anchored


@dataclass(frozen=True, slots=True)
class Touches:
    """`redirects` are the writes that belong to no program; `named` is every argument.

    `places` has for each command the directories in which it may run; None where not known.
    """

    reads: tuple[Touch, ...]
    writes: tuple[Touch, ...]
    redirects: tuple[Touch, ...]
    named: tuple[Touch, ...]
    places: tuple[tuple[Path, ...] | None, ...]


def touches(plain: Plain, directory: Path | None, home: Path) -> Touches:
    """Follows `cd`: after it, a command may run in the old directory or in the new one."""
    survey = _Survey(directory, home)
    places: list[tuple[Path, ...] | None] = []
    for command in plain.commands:
        places.append(survey.directories)
        survey.command(command)
    for name, words in plain.loops:
        survey.loop(name, words, plain.commands)
    return Touches(
        tuple(survey.reads),
        tuple(survey.writes),
        tuple(survey.redirects),
        tuple(survey.named),
        tuple(places),
    )


def spelled(word: Word, home: Path) -> str:
    """The word with `~` and `$HOME` filled in."""
    return "".join(
        piece.text
        if isinstance(piece, Literal)
        else str(home)
        if isinstance(piece, Variable) and piece.name == "HOME"
        else EXPANSION
        for piece in word.pieces
    )


class _Survey:
    def __init__(self, directory: Path | None, home: Path) -> None:
        self.reads: list[Touch] = []
        self.writes: list[Touch] = []
        self.redirects: list[Touch] = []
        self.named: list[Touch] = []
        self._home = home
        self.directories = None if directory is None else (directory,)

    def command(self, command: SimpleCommand) -> None:
        for redirect in command.redirects:
            self.redirect(redirect)
        self.words(command.words)

    def loop(self, name: str, words: Sequence[Word], commands: Sequence[SimpleCommand]) -> None:
        """What the commands touch when the variable has become one of the words."""
        self.named.extend(map(self._touch, self._everything_named(words)))
        using = [one for one in commands if any(_uses(name, word) for word in _all_words(one))]
        for word in words:
            for command in using:
                self.command(_with(name, word, command))

    def redirect(self, redirect: Redirect) -> None:
        touch = self._touch(spelled(redirect.target, self._home))
        if touch.spelled in _HARMLESS or not (redirect.reads or redirect.writes):
            return
        self.named.append(touch)
        (self.reads if redirect.reads else self.redirects).append(touch)

    def words(self, words: tuple[Word, ...]) -> None:
        self.named.extend(map(self._touch, self._everything_named(words[1:])))
        name = program(words)
        if name in _MOVES:
            self._move(words)
        operands = [spelled(word, self._home) for word in _operands(words)]
        if name in PATTERN_READERS:
            self._pattern_reader(name, words, operands)
        elif name in COPIERS:
            self._copy(words, operands)
        else:
            if name in READERS:
                self.reads.extend(map(self._touch, operands))
            if name in WRITERS:
                self.writes.extend(map(self._touch, self._targets(name, operands)))
        if name == "dd":
            self._dd(words)
        found = inner(words)
        if found is not None and found.certain:
            self.words(words[found.starts[0] :])

    def _touch(self, text: str) -> Touch:
        return Touch(text, self.directories)

    def _everything_named(self, words: Sequence[Word]) -> Iterator[str]:
        for word in words:
            text = spelled(word, self._home)
            yield text
            _, equals, value = text.partition("=")
            if equals and value:
                yield value

    def _move(self, words: Sequence[Word]) -> None:
        targets = _operands(words)
        text = spelled(targets[0], self._home) if len(targets) == 1 else EXPANSION
        if program(words) != "cd" or EXPANSION in text or self.directories is None:
            self.directories = None
            return
        moved = tuple(directory / text for directory in self.directories)
        self.directories = tuple(dict.fromkeys((*self.directories, *moved)))

    def _pattern_reader(self, name: str, words: Sequence[Word], operands: list[str]) -> None:
        given = any(word.value.partition("=")[0] in _PROGRAM_OPTIONS for word in words)
        files = [self._touch(text) for text in (operands if given else operands[1:])]
        self.reads.extend(files)
        if name == "sed" and any(_edits_in_place(word.value) for word in words):
            self.writes.extend(files)

    def _copy(self, words: Sequence[Word], operands: list[str]) -> None:
        given = [
            word.value.partition("=")[2]
            for word in words
            if word.value.startswith("--target-directory=")
        ]
        self.reads.extend(map(self._touch, operands))
        target = given[:1] or operands[-1:]
        # With `-t DIR`, which we do not read apart, any operand may be the directory.
        targets = operands if any(word.value == "-t" for word in words) else target
        sources = operands if given else operands[:-1]
        for one in targets:
            self.writes.append(self._touch(one))
            self.writes.extend(self._touch(_into(one, source)) for source in sources)

    def _targets(self, name: str, operands: list[str]) -> list[str]:
        into = [_into(operands[-1], source) for source in operands[:-1]] if name == "mv" else []
        return [*operands, *into]

    def _dd(self, words: Sequence[Word]) -> None:
        for word in words[1:]:
            name, _, value = spelled(word, self._home).partition("=")
            if name in ("if", "of") and value:
                (self.reads if name == "if" else self.writes).append(self._touch(value))


def _all_words(command: SimpleCommand) -> tuple[Word, ...]:
    return (*command.words, *(redirect.target for redirect in command.redirects))


def _uses(name: str, word: Word) -> bool:
    return any(isinstance(piece, Variable) and piece.name == name for piece in word.pieces)


def _with(name: str, value: Word, command: SimpleCommand) -> SimpleCommand:
    """The command as it is when the variable has that value."""

    def filled(word: Word) -> Word:
        pieces = [
            value.pieces if isinstance(piece, Variable) and piece.name == name else (piece,)
            for piece in word.pieces
        ]
        return Word(word.raw, tuple(piece for some in pieces for piece in some))

    redirects = (replace(one, target=filled(one.target)) for one in command.redirects)
    return SimpleCommand((), tuple(map(filled, command.words)), tuple(redirects))


def _operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words[1:] if not word.value.startswith("-")]


def _into(directory: str, source: str) -> str:
    return f"{directory}/{PurePosixPath(source).name}"


def _edits_in_place(option: str) -> bool:
    if option.startswith("--"):
        return option.startswith("--i")
    return option.startswith("-") and "i" in option
