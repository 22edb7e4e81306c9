"""Reads the plain subset of bash: words, quotes, lists, pipes, simple redirects, `$name`.

Whatever is not certainly read as bash reads it is `Unknown`.
"""

import re
import unicodedata

from mcp_dispatch.shell.ast import (
    Assignment,
    GlobCharacter,
    Literal,
    Piece,
    PlainScript,
    Redirect,
    SimpleCommand,
    UnparsedScript,
    Variable,
    Word,
)

MAX_COMMAND_CHARS = 10_000
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
JOINING_OPERATORS = frozenset({"&&", "||", "|", "|&"})


class UnsupportedSyntax(Exception):
    """The text left the plain subset."""


def parse_plain(text: str) -> PlainScript | UnparsedScript:
    """The commands of `text`, or why they cannot be told."""
    if len(text) > MAX_COMMAND_CHARS:
        return UnparsedScript(f"the command is longer than {MAX_COMMAND_CHARS:,} characters")
    try:
        refuse_odd_characters(text)
        commands = PlainParser(text).parse_commands()
    except UnsupportedSyntax as refused:
        return UnparsedScript(str(refused))
    return PlainScript(commands) if commands else UnparsedScript("there is no command")


def refuse_odd_characters(text: str) -> None:
    for character in text:
        if " " <= character <= "~" or character in "\n\t":
            continue
        if unicodedata.category(character)[0] in "CZ":
            raise UnsupportedSyntax(f"it contains the character U+{ord(character):04X}")


def _may_split_words(character: str) -> bool:
    """Some locales take the bytes 0x85 and 0xA0 for blanks, also inside a UTF-8 letter."""
    return any(byte in (0x85, 0xA0) for byte in character.encode())


class PlainParser:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def parse_commands(self) -> tuple[SimpleCommand, ...]:
        found: list[SimpleCommand] = []
        operator = ""
        while self._skip_blanks_and_newlines():
            found.append(self._parse_command())
            operator = self._parse_operator()
        if operator in JOINING_OPERATORS:
            raise UnsupportedSyntax(f"nothing follows the last {operator}")
        return tuple(found)

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _skip(self, characters: str) -> bool:
        """Whether anything is left after them."""
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1
        return self.position < len(self.text)

    def _skip_blanks_and_newlines(self) -> bool:
        return self._skip(" \t\n")

    def _parse_operator(self) -> str:
        found = _OPERATOR.match(self.text, self.position)
        if found is None:
            return ""
        self.position = found.end()
        return found.group()

    def _parse_command(self) -> SimpleCommand:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self._skip(" \t") and not self._is_at_operator():
            redirect = self._parse_redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            word = self._parse_word()
            assignment = None if words else self._parse_assignment(word)
            if assignment is None:
                words.append(word)
            else:
                assignments.append(assignment)
        if not (assignments or words or redirects):
            raise UnsupportedSyntax("a command is missing")
        if words and words[0].value in RESERVED:
            raise UnsupportedSyntax(f"it uses the reserved word {words[0].value}")
        return SimpleCommand(tuple(assignments), tuple(words), tuple(redirects))

    def _is_at_operator(self) -> bool:
        return self._peek() in ";|\n" or (
            self._peek() == "&" and not self.text.startswith("&>", self.position)
        )

    def _parse_redirect(self) -> Redirect | None:
        duplicate = _DUPLICATE.match(self.text, self.position)
        if duplicate is not None:
            self.position = duplicate.end()
            descriptor, operator, target = duplicate.groups()
            return Redirect(operator, descriptor, Word(target, (Literal(target),)))
        found = _REDIRECT.match(self.text, self.position)
        if found is None:
            return None
        self.position = found.end()
        self._skip(" \t")
        return Redirect(found.group(2) or found.group(4), found.group(1) or "", self._parse_word())

    def _parse_assignment(self, word: Word) -> Assignment | None:
        if _SUBSCRIPT.match(word.raw):
            raise UnsupportedSyntax("it may assign to an array")
        found = _ASSIGNMENT.match(word.raw)
        if found is None:
            return None
        # The name and the equals sign are unquoted, so they are the start of the first piece.
        first = word.pieces[0]
        assert isinstance(first, Literal)
        rest = (Literal(first.text[found.end() :]), *word.pieces[1:])
        return Assignment(found.group(1), Word(word.raw[found.end() :], rest))

    def _parse_word(self) -> Word:
        start = self.position
        pieces: list[Piece] = []
        while self.position < len(self.text) and self._peek() not in _METACHARACTERS:
            pieces.extend(self._parse_pieces(start))
        raw = self.text[start : self.position]
        if not raw:
            raise UnsupportedSyntax(f"it uses {self._peek()!r} where a word should stand")
        if self._peek() in ("<", ">") and raw.isdigit():
            raise UnsupportedSyntax(f"it redirects the descriptor {raw}")
        if raw == "[":
            return Word(raw, (Literal(raw),))
        return Word(raw, _join_literals(pieces))

    def _parse_pieces(self, start: int) -> list[Piece]:
        run = _RUN.match(self.text, self.position)
        if run is not None:
            self.position = run.end()
            return [Literal(run.group())]
        match self._peek():
            case "'":
                return [self._parse_single_quotes()]
            case '"':
                return self._parse_double_quotes()
            case "\\":
                return [self._parse_escape()]
            case "$":
                return [self._parse_dollar(quoted=False)]
            case "`":
                return [self._parse_backtick(quoted=False)]
            case "~":
                return [self._parse_tilde(start)]
            case "*" | "?" | "[" as glob:
                self.position += 1
                return [GlobCharacter(glob)]
            case "{" if self.text.startswith("{}", self.position):
                self.position += 2
                return [Literal("{}")]
            case "#" if self.position > start:
                self.position += 1
                return [Literal("#")]
            case character if character > "~" and not _may_split_words(character):
                self.position += 1
                return [Literal(character)]
            case character:
                raise UnsupportedSyntax(f"it uses {character!r} unquoted")

    def _parse_single_quotes(self) -> Literal:
        end = self.text.find("'", self.position + 1)
        if end < 0:
            raise UnsupportedSyntax("a quote is not closed")
        inner = self.text[self.position + 1 : end]
        self.position = end + 1
        return Literal(inner)

    def _parse_double_quotes(self) -> list[Piece]:
        self.position += 1
        pieces: list[Piece] = [Literal("")]
        while self._peek() != '"':
            pieces.append(self._parse_double_quoted_piece())
        self.position += 1
        return pieces

    def _parse_double_quoted_piece(self) -> Piece:
        run = _QUOTED_RUN.match(self.text, self.position)
        if run is not None:
            self.position = run.end()
            return Literal(run.group())
        match self._peek():
            case "":
                raise UnsupportedSyntax("a quote is not closed")
            case "`":
                return self._parse_backtick(quoted=True)
            case "$" if self.text[self.position + 1 : self.position + 2] not in ('"', " "):
                return self._parse_dollar(quoted=True)
            case "\\" if self.text[self.position + 1 : self.position + 2] in ("$", "`", '"', "\\"):
                self.position += 2
                return Literal(self.text[self.position - 1])
            case "\\" if self.text[self.position + 1 : self.position + 2] in ("\n", ""):
                raise UnsupportedSyntax("a line is continued with a backslash")
            case character:
                self.position += 1
                return Literal(character)

    def _parse_escape(self) -> Literal:
        character = self.text[self.position + 1 : self.position + 2]
        if not " " <= character <= "~":
            raise UnsupportedSyntax(
                "a backslash stands before the end of a line or an odd character"
            )
        self.position += 2
        return Literal(character)

    def _parse_backtick(self, *, quoted: bool) -> Piece:
        """Not of the plain subset; nor is any dollar but that of a variable."""
        raise UnsupportedSyntax("it substitutes a command")

    def _parse_dollar(self, *, quoted: bool) -> Piece:
        return self._parse_variable(quoted=quoted)

    def _parse_variable(self, *, quoted: bool) -> Variable:
        found = _VARIABLE.match(self.text, self.position)
        if found is None:
            raise UnsupportedSyntax(f"it expands {self.text[self.position : self.position + 2]}…")
        self.position = found.end()
        return Variable(found.group(1) or found.group(2), found.group(), quoted)

    def _parse_tilde(self, start: int) -> Piece:
        """A tilde expands at the start of a word, and after `=` or `:` in what looks assigned."""
        if self.position > start and self.text[self.position - 1] not in "=:":
            self.position += 1
            return Literal("~")
        found = _TILDE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        return Variable("HOME" if found.group() == "~" else found.group(), found.group(), False)


def _join_literals(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Neighbouring literals made one, the first kept even where it is empty."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Literal) and isinstance(last, Literal):
            joined[-1] = Literal(last.text + piece.text)
        else:
            joined.append(piece)
    return tuple(joined)
