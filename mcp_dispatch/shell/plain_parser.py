"""Reads the plain subset of bash: words, quotes, lists, pipes, simple redirects, `$name`.

Whatever is not certainly read as bash reads it is `Unknown`.
"""

import re
import unicodedata

from mcp_dispatch.shell.ast import (
    Assignment,
    Glob,
    Literal,
    Piece,
    Plain,
    Redirect,
    SimpleCommand,
    Unknown,
    Variable,
    Word,
)

LONGEST = 10_000
"""Characters over which a command is not read at all."""

RESERVED = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "function", "select", "time", "coproc", "{", "}", "!", "[[", "]]"),
    }
)

_METACHARACTERS = " \t\n;&|<>()"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$(?:({_NAME})|\{{({_NAME})\}})")
_RUN = re.compile(r"[A-Za-z0-9_@%+=:,./^\]-]+")
_QUOTED_RUN = re.compile(r'[^"`$\\]+')
_TILDE = re.compile(r"~[A-Za-z0-9_+.-]*")
_ASSIGNMENT = re.compile(rf"({_NAME})\+?=")
_SUBSCRIPT = re.compile(rf"{_NAME}\[")
_REDIRECT = re.compile(r"(?:([0-9]?)(>>|>|<)|()(&>>|&>))(?![<>(|&])")
_DUPLICATE = re.compile(r"([0-9]?)([<>]&)([0-9]|-)(?=[ \t\n;&|<>()]|$)")
_OPERATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")
JOINS = frozenset({"&&", "||", "|", "|&"})


class NotPlain(Exception):
    """The text left the plain subset."""


def read(text: str) -> Plain | Unknown:
    """The commands of `text`, or why they cannot be told."""
    if len(text) > LONGEST:
        return Unknown(f"the command is longer than {LONGEST:,} characters")
    try:
        refuse_odd_characters(text)
        commands = Reader(text).commands()
    except NotPlain as refused:
        return Unknown(str(refused))
    return Plain(commands) if commands else Unknown("there is no command")


def refuse_odd_characters(text: str) -> None:
    for character in text:
        if " " <= character <= "~" or character in "\n\t":
            continue
        if unicodedata.category(character)[0] in "CZ":
            raise NotPlain(f"it contains the character U+{ord(character):04X}")


def _breaks_words_somewhere(character: str) -> bool:
    """Some locales take the bytes 0x85 and 0xA0 for blanks, also inside a UTF-8 letter."""
    return any(byte in (0x85, 0xA0) for byte in character.encode())


class Reader:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def commands(self) -> tuple[SimpleCommand, ...]:
        found: list[SimpleCommand] = []
        operator = ""
        while self._skip_blanks_and_newlines():
            found.append(self._command())
            operator = self._operator()
        if operator in JOINS:
            raise NotPlain(f"nothing follows the last {operator}")
        return tuple(found)

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, characters: str) -> bool:
        """Whether anything is left after them."""
        while self.at < len(self.text) and self.text[self.at] in characters:
            self.at += 1
        return self.at < len(self.text)

    def _skip_blanks_and_newlines(self) -> bool:
        return self._skip(" \t\n")

    def _operator(self) -> str:
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def _command(self) -> SimpleCommand:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self._skip(" \t") and not self._at_operator():
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self._word()
            assignment = None if words else self._assignment(word)
            if assignment is None:
                words.append(word)
            else:
                assignments.append(assignment)
        if not (assignments or words or redirects):
            raise NotPlain("a command is missing")
        if words and words[0].value in RESERVED:
            raise NotPlain(f"it uses the reserved word {words[0].value}")
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirects))

    def _at_operator(self) -> bool:
        return self._peek() in ";|\n" or (
            self._peek() == "&" and not self.text.startswith("&>", self.at)
        )

    def _redirect(self) -> Redirect | None:
        duplicate = _DUPLICATE.match(self.text, self.at)
        if duplicate is not None:
            self.at = duplicate.end()
            descriptor, operator, target = duplicate.groups()
            return Redirect(operator, descriptor, Word(target, (Literal(target),)))
        found = _REDIRECT.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        self._skip(" \t")
        return Redirect(found.group(2) or found.group(4), found.group(1) or "", self._word())

    def _assignment(self, word: Word) -> Assignment | None:
        if _SUBSCRIPT.match(word.raw):
            raise NotPlain("it may assign to an array")
        found = _ASSIGNMENT.match(word.raw)
        if found is None:
            return None
        # The name and the equals sign are unquoted, so they are the start of the first piece.
        first = word.pieces[0]
        assert isinstance(first, Literal)
        rest = (Literal(first.text[found.end() :]), *word.pieces[1:])
        return Assignment(found.group(1), Word(word.raw[found.end() :], rest))

    def _word(self) -> Word:
        start = self.at
        pieces: list[Piece] = []
        while self.at < len(self.text) and self._peek() not in _METACHARACTERS:
            pieces.extend(self._pieces(start))
        raw = self.text[start : self.at]
        if not raw:
            raise NotPlain(f"it uses {self._peek()!r} where a word should stand")
        if self._peek() in ("<", ">") and raw.isdigit():
            raise NotPlain(f"it redirects the descriptor {raw}")
        if raw == "[":
            return Word(raw, (Literal(raw),))
        return Word(raw, _joined(pieces))

    def _pieces(self, start: int) -> list[Piece]:
        run = _RUN.match(self.text, self.at)
        if run is not None:
            self.at = run.end()
            return [Literal(run.group())]
        match self._peek():
            case "'":
                return [self._single_quoted()]
            case '"':
                return self._double_quoted()
            case "\\":
                return [self._escaped()]
            case "$":
                return [self._dollar(quoted=False)]
            case "`":
                return [self._backtick(quoted=False)]
            case "~":
                return [self._tilde(start)]
            case "*" | "?" | "[" as glob:
                self.at += 1
                return [Glob(glob)]
            case "{" if self.text.startswith("{}", self.at):
                self.at += 2
                return [Literal("{}")]
            case "#" if self.at > start:
                self.at += 1
                return [Literal("#")]
            case character if character > "~" and not _breaks_words_somewhere(character):
                self.at += 1
                return [Literal(character)]
            case character:
                raise NotPlain(f"it uses {character!r} unquoted")

    def _single_quoted(self) -> Literal:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise NotPlain("a quote is not closed")
        inner = self.text[self.at + 1 : end]
        self.at = end + 1
        return Literal(inner)

    def _double_quoted(self) -> list[Piece]:
        self.at += 1
        pieces: list[Piece] = [Literal("")]
        while self._peek() != '"':
            pieces.append(self._double_quoted_piece())
        self.at += 1
        return pieces

    def _double_quoted_piece(self) -> Piece:
        run = _QUOTED_RUN.match(self.text, self.at)
        if run is not None:
            self.at = run.end()
            return Literal(run.group())
        match self._peek():
            case "":
                raise NotPlain("a quote is not closed")
            case "`":
                return self._backtick(quoted=True)
            case "$" if self.text[self.at + 1 : self.at + 2] not in ('"', " "):
                return self._dollar(quoted=True)
            case "\\" if self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\"):
                self.at += 2
                return Literal(self.text[self.at - 1])
            case "\\" if self.text[self.at + 1 : self.at + 2] in ("\n", ""):
                raise NotPlain("a line is continued with a backslash")
            case character:
                self.at += 1
                return Literal(character)

    def _escaped(self) -> Literal:
        character = self.text[self.at + 1 : self.at + 2]
        if not " " <= character <= "~":
            raise NotPlain("a backslash stands before the end of a line or an odd character")
        self.at += 2
        return Literal(character)

    def _backtick(self, *, quoted: bool) -> Piece:
        """Not of the plain subset; nor is any dollar but that of a variable."""
        raise NotPlain("it substitutes a command")

    def _dollar(self, *, quoted: bool) -> Piece:
        return self._variable(quoted=quoted)

    def _variable(self, *, quoted: bool) -> Variable:
        found = _VARIABLE.match(self.text, self.at)
        if found is None:
            raise NotPlain(f"it expands {self.text[self.at : self.at + 2]}…")
        self.at = found.end()
        return Variable(found.group(1) or found.group(2), found.group(), quoted)

    def _tilde(self, start: int) -> Piece:
        """A tilde expands at the start of a word, and after `=` or `:` in what looks assigned."""
        if self.at > start and self.text[self.at - 1] not in "=:":
            self.at += 1
            return Literal("~")
        found = _TILDE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return Variable("HOME" if found.group() == "~" else found.group(), found.group(), False)


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Neighbouring literals made one, the first kept even where it is empty."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Literal) and isinstance(last, Literal):
            joined[-1] = Literal(last.text + piece.text)
        else:
            joined.append(piece)
    return tuple(joined)
