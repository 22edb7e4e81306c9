"""Parses the plain subset of bash: words, quotes, lists, pipes, simple redirects, `$name`.

Text that bash may read differently is an `UnparsedScript`.
"""

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
from mcp_dispatch.shell.syntax import (
    ASSIGNMENT,
    DOUBLE_QUOTED_TEXT,
    DUPLICATE,
    JOINING_OPERATORS,
    METACHARACTERS,
    OPERATOR,
    REDIRECT,
    RESERVED,
    SUBSCRIPT,
    TILDE,
    UNQUOTED_TEXT,
    VARIABLE,
    UnsupportedSyntax,
    check_text,
    may_split_words,
)


def parse_plain(text: str) -> PlainScript | UnparsedScript:
    """Return the commands of `text`, or the reason why they cannot be parsed."""
    try:
        check_text(text)
        commands = PlainParser(text).parse_commands()
    except UnsupportedSyntax as error:
        return UnparsedScript(str(error))
    return PlainScript(commands) if commands else UnparsedScript("there is no command")


class PlainParser:
    """Parses one text in one pass; `position` is the index of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def parse_commands(self) -> tuple[SimpleCommand, ...]:
        commands: list[SimpleCommand] = []
        operator = ""
        while self._skip(" \t\n"):
            commands.append(self._parse_command())
            operator = self._parse_operator()
        if operator in JOINING_OPERATORS:
            raise UnsupportedSyntax(f"nothing follows the last {operator}")
        return tuple(commands)

    def _peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def _skip(self, characters: str) -> bool:
        """Skip these characters; return whether any text is left."""
        while self.position < len(self.text) and self.text[self.position] in characters:
            self.position += 1
        return self.position < len(self.text)

    def _parse_operator(self) -> str:
        match = OPERATOR.match(self.text, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match.group()

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
        duplicate = DUPLICATE.match(self.text, self.position)
        if duplicate is not None:
            self.position = duplicate.end()
            descriptor, operator, target = duplicate.groups()
            return Redirect(operator, descriptor, Word(target, (Literal(target),)))
        match = REDIRECT.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        self._skip(" \t")
        return Redirect(match.group(2) or match.group(4), match.group(1) or "", self._parse_word())

    def _parse_assignment(self, word: Word) -> Assignment | None:
        if SUBSCRIPT.match(word.raw):
            raise UnsupportedSyntax("it may assign to an array")
        match = ASSIGNMENT.match(word.raw)
        if match is None:
            return None
        # The name and the equals sign are unquoted, so they are the start of the first piece.
        first = word.pieces[0]
        assert isinstance(first, Literal)
        rest = (Literal(first.text[match.end() :]), *word.pieces[1:])
        return Assignment(match.group(1), Word(word.raw[match.end() :], rest))

    def _parse_word(self) -> Word:
        start = self.position
        pieces: list[Piece] = []
        while self.position < len(self.text) and self._peek() not in METACHARACTERS:
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
        text = UNQUOTED_TEXT.match(self.text, self.position)
        if text is not None:
            self.position = text.end()
            return [Literal(text.group())]
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
            case character if character > "~" and not may_split_words(character):
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
        text = DOUBLE_QUOTED_TEXT.match(self.text, self.position)
        if text is not None:
            self.position = text.end()
            return Literal(text.group())
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
        """Refuse a substitution, which is not part of the plain subset."""
        raise UnsupportedSyntax("it substitutes a command")

    def _parse_dollar(self, *, quoted: bool) -> Piece:
        match = VARIABLE.match(self.text, self.position)
        if match is None:
            raise UnsupportedSyntax(f"it expands {self.text[self.position : self.position + 2]}…")
        self.position = match.end()
        return Variable(match.group(1) or match.group(2), match.group(), quoted)

    def _parse_tilde(self, start: int) -> Piece:
        """Expand a tilde at the start of a word, and after `=` or `:` as in an assignment."""
        if self.position > start and self.text[self.position - 1] not in "=:":
            self.position += 1
            return Literal("~")
        match = TILDE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return Variable("HOME" if match.group() == "~" else match.group(), match.group(), False)


def _join_literals(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Join neighbouring literals; the first literal stays even if it is empty."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Literal) and isinstance(last, Literal):
            joined[-1] = Literal(last.text + piece.text)
        else:
            joined.append(piece)
    return tuple(joined)
