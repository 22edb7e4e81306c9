"""Reads more of bash than the plain subset: groups, control flow, substitutions, here-documents.

Whatever is not certainly read as bash reads it leaves with `NotPlain`.
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
from mcp_dispatch.shell.here_documents import HereReader
from mcp_dispatch.shell.plain_parser import JOINS, LONGEST, NotPlain, refuse_odd_characters

DEEPEST = 12
"""How many groups, bodies and substitutions are read inside each other."""

MOST = 200
"""How many simple commands are read in one text."""

_END = r"(?=[ \t\n;&|<>()]|$)"
_CLOSING = re.compile(rf"(then|elif|else|fi|do|done|\}}){_END}")
_OPENING = re.compile(rf"(if|while|until|for|\{{){_END}")
_PREFIX = re.compile(r"(?:!|time(?:[ \t]+-p)?)[ \t]+(?=[^ \t\n;&|<>()-])")
_LOOP = re.compile(r"for[ \t]+([a-z][a-z0-9_]*)[ \t]+in(?=[ \t])")
_SUBSTITUTED_TEXT = re.compile(r"[A-Za-z0-9_./ |=:,-]+")
_MOVES = frozenset({"cd", "pushd", "popd"})


@dataclass(frozen=True, slots=True)
class Script:
    """What a text runs. `spellings` are the commands and loops as written, for a second reader.

    A command that only hands a here-document on has a spelling and is not among the commands.
    """

    commands: tuple[SimpleCommand, ...]
    form: Form
    loops: tuple[tuple[str, tuple[Word, ...]], ...]
    spellings: tuple[tuple[str, ...], ...]
    redirects: tuple[tuple[str, str, str], ...]


def read_script(text: str) -> Script:
    """Raises `NotPlain`."""
    if len(text) > LONGEST:
        raise NotPlain(f"the command is longer than {LONGEST:,} characters")
    refuse_odd_characters(text)
    reader = _ScriptReader(text)
    reader.script()
    return Script(
        tuple(reader.found),
        reader.form,
        tuple(reader.loops),
        tuple(reader.spellings),
        tuple(reader.redirects),
    )


class _ScriptReader(HereReader):
    """One pass over one text, or over one pair of backticks in it."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text)
        self.found: list[SimpleCommand] = []
        self.spellings: list[tuple[str, ...]] = []
        self.redirects: list[tuple[str, str, str]] = []
        self.form = Form.FLAT
        self.loops: list[tuple[str, tuple[Word, ...]]] = []
        self._depth = depth
        self._loops = 0

    def script(self) -> None:
        self._list()
        if self.at < len(self.text) or self._awaited:
            raise NotPlain("a part of it closes what was not opened, or is not closed")

    def _list(self) -> None:
        """Commands, up to the end, a closing parenthesis or a closing word."""
        self._deepen()
        operator, empty = "", True
        while self._skip_to_command() and not self._at_closing():
            self._pipeline_part(piped=operator in ("|", "|&"))
            empty = False
            operator = self._operator()
            if not operator and self.at < len(self.text) and not self._at_closing():
                raise NotPlain("two commands stand next to each other")
        if operator in JOINS or empty:
            raise NotPlain(f"nothing follows {operator}" if operator else "a command is missing")
        self._depth -= 1

    def _deepen(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise NotPlain(f"it nests more than {DEEPEST} levels")

    def _skip_to_command(self) -> bool:
        """Passes blanks, newlines and comments; whether anything is left."""
        while self._skip(" \t"):
            if self._peek() == "#":
                self._comment()
            elif self._peek() == "\n":
                self.at += 1
                self._here_documents()
            else:
                return True
        return False

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        comment = self.text[self.at : end if end >= 0 else len(self.text)]
        if "\\" in comment or self._awaited or self._substitutions:
            raise NotPlain("a comment stands where it may not end with its line")
        self.at += len(comment)

    def _at_closing(self) -> bool:
        return self._peek() == ")" or _CLOSING.match(self.text, self.at) is not None

    def _at_operator(self) -> bool:
        return self._peek() in (")", "#") or super()._at_operator()

    def _operator(self) -> str:
        self._skip(" \t")
        if self._peek() == "#" and self.text[self.at - 1] in " \t":
            self._comment()
        operator = super()._operator()
        if operator == "\n":
            self._here_documents()
        return operator

    def _pipeline_part(self, *, piped: bool) -> None:
        if prefix := _PREFIX.match(self.text, self.at):
            self.at = prefix.end()
            # Further down a pipeline they are not reserved words.
            if piped or _PREFIX.match(self.text, self.at):
                raise NotPlain("it uses ! or time inside a pipeline or twice")
        if self._peek() == "(":
            self._subshell()
        elif opening := _OPENING.match(self.text, self.at):
            self._compound(opening.group(1))
        else:
            self._simple()

    def _simple(self) -> None:
        command = self._command()
        self._keep(command)
        assigned = (f"{one.name}={one.value.raw}" for one in command.assignments)
        spelling = (*assigned, *(word.raw for word in command.words))
        if spelling:
            self.spellings.append(spelling)
        if self._loops and any(word.value in _MOVES for word in command.words):
            raise NotPlain("it changes directory in a loop")

    def _keep(self, command: SimpleCommand) -> None:
        """Before it stand the commands that were substituted in it: they run first."""
        if len(self.found) >= MOST:
            raise NotPlain(f"it has more than {MOST} commands")
        self.found.append(command)
        self.redirects.extend(
            (one.descriptor, one.operator, one.target.raw) for one in command.redirects
        )

    def _subshell(self) -> None:
        if self.text.startswith("((", self.at):
            raise NotPlain("it computes")
        self._at_least(Form.COMPOUND)
        self.at += 1
        self._list()
        self._expect(")")
        self._redirected()

    def _compound(self, word: str) -> None:
        match word:
            case "{":
                self._word_of_grammar("{")
                self._list()
                self._word_of_grammar("}")
            case "if":
                self._at_least(Form.COMPOUND)
                self._if()
            case "for":
                self._at_least(Form.COMPOUND)
                self._for()
            case _:
                self._at_least(Form.COMPOUND)
                self._word_of_grammar(word)
                self._looped()
        self._redirected()

    def _if(self) -> None:
        self._word_of_grammar("if")
        self._list()
        self._word_of_grammar("then")
        self._list()
        while self._next_closing() == "elif":
            self._word_of_grammar("elif")
            self._list()
            self._word_of_grammar("then")
            self._list()
        if self._next_closing() == "else":
            self._word_of_grammar("else")
            self._list()
        self._word_of_grammar("fi")

    def _for(self) -> None:
        loop = _LOOP.match(self.text, self.at)
        if loop is None or loop.group(1).endswith("_proxy"):
            raise NotPlain("a loop is not of the form: for name in words")
        self.at = loop.end()
        words: list[Word] = []
        while self._skip(" \t") and self._peek() not in ";\n":
            words.append(self._word())
        self.loops.append((loop.group(1), tuple(words)))
        self.spellings.append(("for", loop.group(1), *(word.raw for word in words)))
        if self._peek() == ";":
            self.at += 1
        self._skip_to_command()
        self._looped(condition=False)

    def _looped(self, *, condition: bool = True) -> None:
        self._loops += 1
        if condition:
            self._list()
        self._word_of_grammar("do")
        self._list()
        self._word_of_grammar("done")
        self._loops -= 1

    def _next_closing(self) -> str:
        found = _CLOSING.match(self.text, self.at)
        return found.group(1) if found else ""

    def _word_of_grammar(self, word: str) -> None:
        found = _CLOSING.match(self.text, self.at) or _OPENING.match(self.text, self.at)
        if found is None or found.group(1) != word:
            raise NotPlain(f"the word {word} is missing")
        self.at = found.end()

    def _expect(self, character: str) -> None:
        if self._peek() != character or self._awaited:
            raise NotPlain(f"{character!r} is missing")
        self.at += 1

    def _redirected(self) -> None:
        """What follows a group: redirects, and nothing else."""
        redirects: list[Redirect] = []
        while self._skip(" \t"):
            redirect = self._redirect()
            if redirect is None:
                break
            redirects.append(redirect)
        if redirects:
            self._keep(SimpleCommand((), (), tuple(redirects)))

    def _at_least(self, form: Form) -> None:
        if self.form is not Form.SUBSTITUTING:
            self.form = form

    def _word(self) -> Word:
        if self.text.startswith(("<(", ">("), self.at):
            return self._process_substitution()
        word = super()._word()
        if self.text.startswith(("<(", ">("), self.at):
            raise NotPlain("a substitution is glued to a word")
        return word

    def _pieces(self, start: int) -> list[Piece]:
        if self._peek() == "!" and self.at == start and self._ends_after(1):
            self.at += 1
            return [Literal("!")]
        return super()._pieces(start)

    def _ends_after(self, length: int) -> bool:
        return self.text[self.at + length : self.at + length + 1] in ("", *" \t\n;&|)")

    def _process_substitution(self) -> Word:
        start = self.at
        self.at += 1
        self._substituted()
        raw = self.text[start : self.at]
        if not self._ends_after(0):
            raise NotPlain("a word goes on after a substitution")
        return Word(raw, (Substitution(raw, quoted=False),))

    def _dollar(self, *, quoted: bool) -> Piece:
        if not self.text.startswith("$(", self.at):
            return super()._dollar(quoted=quoted)
        start, count, form = self.at, len(self.found), self.form
        self.at += 1
        self._substituted()
        inner = self.found[count:]
        if quoted and len(inner) == 1 and _hands_on(inner[0]):
            # `"$(cat <<'EOF' …)"` is a way to write a text, not to run something.
            del self.found[count:]
            self.form = form
            return Literal(self._here_text.rstrip("\n"))
        return Substitution(self.text[start : self.at], quoted)

    def _substituted(self) -> None:
        if self._awaited or self.text.startswith("((", self.at):
            raise NotPlain("it computes, or substitutes beside a here-document")
        self.form = Form.SUBSTITUTING
        documents, commands = self._documents, len(self.spellings)
        self._substitutions += 1
        self.at += 1
        self._list()
        self._expect(")")
        self._substitutions -= 1
        # Bash 5.2 loses the operator between two commands after a here-document in here.
        if self._documents > documents and len(self.spellings) > commands + 1:
            raise NotPlain("a here-document stands beside other commands in a substitution")

    def _backtick(self, *, quoted: bool) -> Piece:
        start, end = self.at, self.text.find("`", self.at + 1)
        inner = self.text[start + 1 : end]
        if end < 0 or self._awaited or _SUBSTITUTED_TEXT.fullmatch(inner) is None:
            raise NotPlain("it substitutes a command that is not simple")
        reader = _ScriptReader(inner, self._depth)
        reader.script()
        self.form = Form.SUBSTITUTING
        self.found += reader.found
        self.spellings += reader.spellings
        self.redirects += reader.redirects
        self.at = end + 1
        return Substitution(self.text[start : self.at], quoted)


def _hands_on(command: SimpleCommand) -> bool:
    """Whether it is `cat` with a here-document and nothing else."""
    return (
        [word.raw for word in command.words] == ["cat"]
        and not command.assignments
        and [redirect.operator for redirect in command.redirects] == ["<<"]
    )
