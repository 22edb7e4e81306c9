"""Parses more of bash than the plain subset: groups, control flow, substitutions, here-documents.

Syntax that bash may read differently raises `UnsupportedSyntax`.
"""

import re
from dataclasses import dataclass

from mcp_dispatch.shell.ast import (
    Form,
    Literal,
    Piece,
    Redirect,
    SimpleCommand,
    Substitution,
    Word,
)
from mcp_dispatch.shell.here_documents import HereDocumentParser
from mcp_dispatch.shell.syntax import (
    DIRECTORY_CHANGERS,
    JOINING_OPERATORS,
    WORD_END,
    UnsupportedSyntax,
    check_text,
)

MAX_NESTING = 12
"""The maximum depth of groups, bodies and substitutions."""

MAX_COMMANDS = 200
"""The maximum number of simple commands in one text."""

_CLOSING_WORD = re.compile(rf"(then|elif|else|fi|do|done|\}}){WORD_END}")
_OPENING_WORD = re.compile(rf"(if|while|until|for|\{{){WORD_END}")
_PREFIX = re.compile(r"(?:!|time(?:[ \t]+-p)?)[ \t]+(?=[^ \t\n;&|<>()-])")
_FOR_LOOP = re.compile(r"for[ \t]+([a-z][a-z0-9_]*)[ \t]+in(?=[ \t])")
_SUBSTITUTED_TEXT = re.compile(r"[A-Za-z0-9_./ |=:,-]+")


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """The commands of a text. `spellings` are commands and loops as written, for a second parser.

    A `cat` that only passes a here-document on has a spelling and is not among the commands.
    """

    commands: tuple[SimpleCommand, ...]
    form: Form
    loops: tuple[tuple[str, tuple[Word, ...]], ...]
    spellings: tuple[tuple[str, ...], ...]
    redirects: tuple[tuple[str, str, str], ...]


def parse_script(text: str) -> ParsedScript:
    """Parse a text. Raise `UnsupportedSyntax`."""
    check_text(text)
    parser = _ScriptParser(text)
    parser.parse()
    return ParsedScript(
        tuple(parser.simple_commands),
        parser.form,
        tuple(parser.loops),
        tuple(parser.spellings),
        tuple(parser.redirects),
    )


class _ScriptParser(HereDocumentParser):
    """Parses one text, or the text between one pair of backticks."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text)
        self.simple_commands: list[SimpleCommand] = []
        self.spellings: list[tuple[str, ...]] = []
        self.redirects: list[tuple[str, str, str]] = []
        self.form = Form.FLAT
        self.loops: list[tuple[str, tuple[Word, ...]]] = []
        self._depth = depth
        self._loop_depth = 0

    def parse(self) -> None:
        self._parse_list()
        if self.position < len(self.text) or self._pending:
            raise UnsupportedSyntax("a part of it closes what was not opened, or is not closed")

    def _parse_list(self) -> None:
        """Parse commands up to the end, a closing parenthesis or a closing word."""
        self._enter_level()
        operator, empty = "", True
        while self._skip_to_command() and not self._is_at_closing():
            self._parse_pipeline_part(piped=operator in ("|", "|&"))
            empty = False
            operator = self._parse_operator()
            if not operator and self.position < len(self.text) and not self._is_at_closing():
                raise UnsupportedSyntax("two commands stand next to each other")
        if operator in JOINING_OPERATORS or empty:
            raise UnsupportedSyntax(
                f"nothing follows {operator}" if operator else "a command is missing"
            )
        self._depth -= 1

    def _enter_level(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise UnsupportedSyntax(f"it nests more than {MAX_NESTING} levels")

    def _skip_to_command(self) -> bool:
        """Skip blanks, newlines and comments; return whether any text is left."""
        while self._skip(" \t"):
            if self._peek() == "#":
                self._skip_comment()
            elif self._peek() == "\n":
                self.position += 1
                self._read_here_documents()
            else:
                return True
        return False

    def _skip_comment(self) -> None:
        end = self.text.find("\n", self.position)
        comment = self.text[self.position : end if end >= 0 else len(self.text)]
        if "\\" in comment or self._pending or self._open_substitutions:
            raise UnsupportedSyntax("a comment stands where it may not end with its line")
        self.position += len(comment)

    def _is_at_closing(self) -> bool:
        return self._peek() == ")" or _CLOSING_WORD.match(self.text, self.position) is not None

    def _is_at_operator(self) -> bool:
        return self._peek() in (")", "#") or super()._is_at_operator()

    def _parse_operator(self) -> str:
        self._skip(" \t")
        if self._peek() == "#" and self.text[self.position - 1] in " \t":
            self._skip_comment()
        operator = super()._parse_operator()
        if operator == "\n":
            self._read_here_documents()
        return operator

    def _parse_pipeline_part(self, *, piped: bool) -> None:
        if prefix := _PREFIX.match(self.text, self.position):
            self.position = prefix.end()
            # After a pipe, `!` and `time` are not reserved words.
            if piped or _PREFIX.match(self.text, self.position):
                raise UnsupportedSyntax("it uses ! or time inside a pipeline or twice")
        if self._peek() == "(":
            self._parse_subshell()
        elif opening := _OPENING_WORD.match(self.text, self.position):
            self._parse_compound(opening.group(1))
        else:
            self._parse_simple_command()

    def _parse_simple_command(self) -> None:
        command = self._parse_command()
        self._add_command(command)
        assigned = (f"{redirect.name}={redirect.value.raw}" for redirect in command.assignments)
        spelling = (*assigned, *(word.raw for word in command.words))
        if spelling:
            self.spellings.append(spelling)
        if self._loop_depth and any(word.value in DIRECTORY_CHANGERS for word in command.words):
            raise UnsupportedSyntax("it changes directory in a loop")

    def _add_command(self, command: SimpleCommand) -> None:
        """Add a command after the commands that are substituted in it, which run first."""
        if len(self.simple_commands) >= MAX_COMMANDS:
            raise UnsupportedSyntax(f"it has more than {MAX_COMMANDS} commands")
        self.simple_commands.append(command)
        self.redirects.extend(
            (redirect.descriptor, redirect.operator, redirect.target.raw)
            for redirect in command.redirects
        )

    def _parse_subshell(self) -> None:
        if self.text.startswith("((", self.position):
            raise UnsupportedSyntax("it computes")
        self._upgrade_form(Form.COMPOUND)
        self.position += 1
        self._parse_list()
        self._expect(")")
        self._parse_group_redirects()

    def _parse_compound(self, word: str) -> None:
        match word:
            case "{":
                self._expect_word("{")
                self._parse_list()
                self._expect_word("}")
            case "if":
                self._upgrade_form(Form.COMPOUND)
                self._parse_if()
            case "for":
                self._upgrade_form(Form.COMPOUND)
                self._parse_for()
            case _:
                self._upgrade_form(Form.COMPOUND)
                self._expect_word(word)
                self._parse_loop_body()
        self._parse_group_redirects()

    def _parse_if(self) -> None:
        self._expect_word("if")
        self._parse_list()
        self._expect_word("then")
        self._parse_list()
        while self._peek_closing_word() == "elif":
            self._expect_word("elif")
            self._parse_list()
            self._expect_word("then")
            self._parse_list()
        if self._peek_closing_word() == "else":
            self._expect_word("else")
            self._parse_list()
        self._expect_word("fi")

    def _parse_for(self) -> None:
        loop = _FOR_LOOP.match(self.text, self.position)
        if loop is None or loop.group(1).endswith("_proxy"):
            raise UnsupportedSyntax("a loop is not of the form: for name in words")
        self.position = loop.end()
        words: list[Word] = []
        while self._skip(" \t") and self._peek() not in ";\n":
            words.append(self._parse_word())
        self.loops.append((loop.group(1), tuple(words)))
        self.spellings.append(("for", loop.group(1), *(word.raw for word in words)))
        if self._peek() == ";":
            self.position += 1
        self._skip_to_command()
        self._parse_loop_body(condition=False)

    def _parse_loop_body(self, *, condition: bool = True) -> None:
        self._loop_depth += 1
        if condition:
            self._parse_list()
        self._expect_word("do")
        self._parse_list()
        self._expect_word("done")
        self._loop_depth -= 1

    def _peek_closing_word(self) -> str:
        match = _CLOSING_WORD.match(self.text, self.position)
        return match.group(1) if match else ""

    def _expect_word(self, word: str) -> None:
        match = _CLOSING_WORD.match(self.text, self.position) or _OPENING_WORD.match(
            self.text, self.position
        )
        if match is None or match.group(1) != word:
            raise UnsupportedSyntax(f"the word {word} is missing")
        self.position = match.end()

    def _expect(self, character: str) -> None:
        if self._peek() != character or self._pending:
            raise UnsupportedSyntax(f"{character!r} is missing")
        self.position += 1

    def _parse_group_redirects(self) -> None:
        """Parse the redirects after a group; nothing else may follow it."""
        redirects: list[Redirect] = []
        while self._skip(" \t"):
            redirect = self._parse_redirect()
            if redirect is None:
                break
            redirects.append(redirect)
        if redirects:
            self._add_command(SimpleCommand((), (), tuple(redirects)))

    def _upgrade_form(self, form: Form) -> None:
        if self.form is not Form.SUBSTITUTING:
            self.form = form

    def _parse_word(self) -> Word:
        if self.text.startswith(("<(", ">("), self.position):
            return self._parse_process_substitution()
        word = super()._parse_word()
        if self.text.startswith(("<(", ">("), self.position):
            raise UnsupportedSyntax("a substitution is glued to a word")
        return word

    def _parse_pieces(self, start: int) -> list[Piece]:
        if self._peek() == "!" and self.position == start and self._is_word_end(1):
            self.position += 1
            return [Literal("!")]
        return super()._parse_pieces(start)

    def _is_word_end(self, offset: int) -> bool:
        return self.text[self.position + offset : self.position + offset + 1] in ("", *" \t\n;&|)")

    def _parse_process_substitution(self) -> Word:
        start = self.position
        self.position += 1
        self._parse_substitution()
        raw = self.text[start : self.position]
        if not self._is_word_end(0):
            raise UnsupportedSyntax("a word goes on after a substitution")
        return Word(raw, (Substitution(raw, quoted=False),))

    def _parse_dollar(self, *, quoted: bool) -> Piece:
        if not self.text.startswith("$(", self.position):
            return super()._parse_dollar(quoted=quoted)
        start, count, form = self.position, len(self.simple_commands), self.form
        self.position += 1
        self._parse_substitution()
        inner = self.simple_commands[count:]
        if quoted and len(inner) == 1 and _is_here_document_cat(inner[0]):
            # `"$(cat <<'EOF' …)"` is a way to write a text; it runs nothing else.
            del self.simple_commands[count:]
            self.form = form
            return Literal(self._last_document.rstrip("\n"))
        return Substitution(self.text[start : self.position], quoted)

    def _parse_substitution(self) -> None:
        if self._pending or self.text.startswith("((", self.position):
            raise UnsupportedSyntax("it computes, or substitutes beside a here-document")
        self.form = Form.SUBSTITUTING
        documents, commands = self._document_count, len(self.spellings)
        self._open_substitutions += 1
        self.position += 1
        self._parse_list()
        self._expect(")")
        self._open_substitutions -= 1
        # Bash 5.2 loses the operator between two commands after a here-document in a substitution.
        if self._document_count > documents and len(self.spellings) > commands + 1:
            raise UnsupportedSyntax(
                "a here-document stands beside other commands in a substitution"
            )

    def _parse_backtick(self, *, quoted: bool) -> Piece:
        start, end = self.position, self.text.find("`", self.position + 1)
        inner = self.text[start + 1 : end]
        if end < 0 or self._pending or _SUBSTITUTED_TEXT.fullmatch(inner) is None:
            raise UnsupportedSyntax("it substitutes a command that is not simple")
        parser = _ScriptParser(inner, self._depth)
        parser.parse()
        self.form = Form.SUBSTITUTING
        self.simple_commands += parser.simple_commands
        self.spellings += parser.spellings
        self.redirects += parser.redirects
        self.position = end + 1
        return Substitution(self.text[start : self.position], quoted)


def _is_here_document_cat(command: SimpleCommand) -> bool:
    """Return whether the command is `cat` with a here-document and nothing else."""
    return (
        [word.raw for word in command.words] == ["cat"]
        and not command.assignments
        and [redirect.operator for redirect in command.redirects] == ["<<"]
    )
