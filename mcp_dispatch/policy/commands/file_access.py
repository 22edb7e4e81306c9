"""The files that a plain script reads and writes, as far as its programs are known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from mcp_dispatch.policy.commands.wrappers import find_wrapped_command, get_program_name
from mcp_dispatch.shell.ast import (
    EXPANSION,
    Literal,
    PlainScript,
    Redirect,
    SimpleCommand,
    Variable,
    Word,
)
from mcp_dispatch.shell.syntax import DIRECTORY_CHANGERS

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
"""Programs whose first operand is a pattern or a script, unless an option contains it."""

COPIERS = frozenset({"cp", "ln", "install", "rsync", "scp"})
"""Programs that write to their last operand and read the others."""

WRITERS = frozenset(
    {
        *("rm", "rmdir", "mkdir", "touch", "tee", "mv", "chmod", "chown", "chgrp", "truncate"),
        *("shred", "unlink", "mkfifo", "mknod", "patch", "ed", "ex", "vi", "vim", "nano"),
    }
)
_SCRIPT_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--expression"})
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


@dataclass(frozen=True, slots=True)
class FileAccess:
    """A path as a command names it; an `EXPANSION` replaces text that only the shell can expand.

    `directories` are those in which the command may run; None if they are unknown.
    """

    path: str
    directories: tuple[Path, ...] | None

    @property
    def known(self) -> bool:
        anchored = self.path.startswith("/") or self.directories is not None
        return EXPANSION not in self.path and anchored


@dataclass(frozen=True, slots=True)
class FileAccesses:
    """`redirects` are the files that redirects write; `mentions` are all arguments.

    `command_directories` has the possible directories of each command; None if they are unknown.
    """

    reads: tuple[FileAccess, ...]
    writes: tuple[FileAccess, ...]
    redirects: tuple[FileAccess, ...]
    mentions: tuple[FileAccess, ...]
    command_directories: tuple[tuple[Path, ...] | None, ...]


def collect_file_accesses(script: PlainScript, directory: Path | None, home: Path) -> FileAccesses:
    """Collect the accesses. After `cd`, a command may run in the old or in the new directory."""
    collector = _AccessCollector(directory, home)
    directories: list[tuple[Path, ...] | None] = []
    for command in script.commands:
        directories.append(collector.directories)
        collector.add_command(command)
    for name, words in script.loops:
        collector.add_loop(name, words, script.commands)
    return FileAccesses(
        reads=tuple(collector.reads),
        writes=tuple(collector.writes),
        redirects=tuple(collector.redirects),
        mentions=tuple(collector.mentions),
        command_directories=tuple(directories),
    )


def expand_home(word: Word, home: Path) -> str:
    """Return the word with `~` and `$HOME` replaced by the home directory."""
    return "".join(
        piece.text
        if isinstance(piece, Literal)
        else str(home)
        if isinstance(piece, Variable) and piece.name == "HOME"
        else EXPANSION
        for piece in word.pieces
    )


class _AccessCollector:
    def __init__(self, directory: Path | None, home: Path) -> None:
        self.reads: list[FileAccess] = []
        self.writes: list[FileAccess] = []
        self.redirects: list[FileAccess] = []
        self.mentions: list[FileAccess] = []
        self._home = home
        self.directories = None if directory is None else (directory,)

    def add_command(self, command: SimpleCommand) -> None:
        for redirect in command.redirects:
            self.add_redirect(redirect)
        self.add_words(command.words)

    def add_loop(self, name: str, words: Sequence[Word], commands: Sequence[SimpleCommand]) -> None:
        """Add the accesses of the commands with each word as the value of the loop variable."""
        self.mentions.extend(map(self._to_access, self._iter_mentions(words)))
        using_variable = [
            one for one in commands if any(_has_variable(name, word) for word in _list_words(one))
        ]
        for word in words:
            for command in using_variable:
                self.add_command(_substitute_variable(name, word, command))

    def add_redirect(self, redirect: Redirect) -> None:
        access = self._to_access(expand_home(redirect.target, self._home))
        if access.path in _HARMLESS_TARGETS or not (redirect.reads or redirect.writes):
            return
        self.mentions.append(access)
        (self.reads if redirect.reads else self.redirects).append(access)

    def add_words(self, words: tuple[Word, ...]) -> None:
        self.mentions.extend(map(self._to_access, self._iter_mentions(words[1:])))
        name = get_program_name(words)
        if name in DIRECTORY_CHANGERS:
            self._change_directory(words)
        operands = [expand_home(word, self._home) for word in _select_operands(words)]
        if name in PATTERN_READERS:
            self._add_pattern_reader(name, words, operands)
        elif name in COPIERS:
            self._add_copy(words, operands)
        else:
            if name in READERS:
                self.reads.extend(map(self._to_access, operands))
            if name in WRITERS:
                self.writes.extend(map(self._to_access, self._list_targets(name, operands)))
        if name == "dd":
            self._add_dd(words)
        wrapped = find_wrapped_command(words)
        if wrapped is not None and wrapped.certain:
            self.add_words(words[wrapped.starts[0] :])

    def _to_access(self, text: str) -> FileAccess:
        return FileAccess(text, self.directories)

    def _iter_mentions(self, words: Sequence[Word]) -> Iterator[str]:
        for word in words:
            text = expand_home(word, self._home)
            yield text
            _, equals, value = text.partition("=")
            if equals and value:
                yield value

    def _change_directory(self, words: Sequence[Word]) -> None:
        targets = _select_operands(words)
        text = expand_home(targets[0], self._home) if len(targets) == 1 else EXPANSION
        if get_program_name(words) != "cd" or EXPANSION in text or self.directories is None:
            self.directories = None
            return
        new_directories = tuple(directory / text for directory in self.directories)
        self.directories = tuple(dict.fromkeys((*self.directories, *new_directories)))

    def _add_pattern_reader(self, name: str, words: Sequence[Word], operands: list[str]) -> None:
        has_script_option = any(word.value.partition("=")[0] in _SCRIPT_OPTIONS for word in words)
        files = [
            self._to_access(text) for text in (operands if has_script_option else operands[1:])
        ]
        self.reads.extend(files)
        if name == "sed" and any(_is_in_place_option(word.value) for word in words):
            self.writes.extend(files)

    def _add_copy(self, words: Sequence[Word], operands: list[str]) -> None:
        target_options = [
            word.value.partition("=")[2]
            for word in words
            if word.value.startswith("--target-directory=")
        ]
        self.reads.extend(map(self._to_access, operands))
        target = target_options[:1] or operands[-1:]
        # With `-t DIR`, which is not parsed, any operand may be the directory.
        targets = operands if any(word.value == "-t" for word in words) else target
        sources = operands if target_options else operands[:-1]
        for target_path in targets:
            self.writes.append(self._to_access(target_path))
            self.writes.extend(
                self._to_access(_join_basename(target_path, source)) for source in sources
            )

    def _list_targets(self, name: str, operands: list[str]) -> list[str]:
        into = (
            [_join_basename(operands[-1], source) for source in operands[:-1]]
            if name == "mv"
            else []
        )
        return [*operands, *into]

    def _add_dd(self, words: Sequence[Word]) -> None:
        for word in words[1:]:
            name, _, value = expand_home(word, self._home).partition("=")
            if name in ("if", "of") and value:
                (self.reads if name == "if" else self.writes).append(self._to_access(value))


def _list_words(command: SimpleCommand) -> tuple[Word, ...]:
    return (*command.words, *(redirect.target for redirect in command.redirects))


def _has_variable(name: str, word: Word) -> bool:
    return any(isinstance(piece, Variable) and piece.name == name for piece in word.pieces)


def _substitute_variable(name: str, value: Word, command: SimpleCommand) -> SimpleCommand:
    """Return the command with the variable replaced by the value."""

    def substitute(word: Word) -> Word:
        pieces = [
            value.pieces if isinstance(piece, Variable) and piece.name == name else (piece,)
            for piece in word.pieces
        ]
        return Word(word.raw, tuple(piece for some in pieces for piece in some))

    redirects = (
        replace(redirect, target=substitute(redirect.target)) for redirect in command.redirects
    )
    return SimpleCommand((), tuple(map(substitute, command.words)), tuple(redirects))


def _select_operands(words: Sequence[Word]) -> list[Word]:
    return [word for word in words[1:] if not word.value.startswith("-")]


def _join_basename(directory: str, source: str) -> str:
    return f"{directory}/{PurePosixPath(source).name}"


def _is_in_place_option(option: str) -> bool:
    if option.startswith("--"):
        return option.startswith("--i")
    return option.startswith("-") and "i" in option
