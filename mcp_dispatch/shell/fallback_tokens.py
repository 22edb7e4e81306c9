"""The words of a shell text that is not understood, so that what it may run can still be denied.

Deliberately too much: text that bash would not run may be among them.
"""

import re

from mcp_dispatch.shell.ast import EXPANSION

_RUN = re.compile(r"[\w./=-]+")
_QUOTED = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_BLANKS = " \t\r\v\f\0"
_REDIRECT = re.compile(r"(?:[0-9]+|\{\w+\})?(?:&>>?|<<<|<<-?|<>|[<>]&|>\||>>|[<>])(?!\()")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9@*#?!$-])")
_PARAMETER = re.compile(r"\$\{[#!]?\w*[:#%/^,@+=?~*!-]*")
_CUT = re.compile(r"\$\(\(?|\$\[|[<>]\(|[;&|\n()`]+")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))"
)
# Where one of these occurs, a quote may not be a quote: in a comment, a here-document, `${…}`.
_QUOTES_UNSURE = re.compile(r"<<|#|`|\$[({'\"\[]|[<>]\(|\(\(|[\x00-\x08\x0b-\x1f\x7f]")

Tokens = tuple[tuple[str, ...], ...]


def tokens(text: str) -> Tokens:
    """Every run of words between two operators of `text`, dequoted and with lines joined.

    Text that only the shell can expand is an `EXPANSION`. Where quotes cannot be trusted the
    text is read a second time as if there were none.
    """
    joined = text.replace("\\\n", "")
    runs = [*_Scan(joined, quotes=True).runs()]
    if _QUOTES_UNSURE.search(text) or _unbalanced(joined):
        runs += _Scan(joined, quotes=False).runs()
        runs += _Scan(_ESCAPE.sub(_decoded, joined), quotes=False).runs() if "$'" in text else ()
    return tuple(dict.fromkeys(runs))


def _decoded(escape: re.Match[str]) -> str:
    hexadecimal = escape.group(1) or escape.group(2) or escape.group(3)
    code = int(hexadecimal, 16) if hexadecimal else int(escape.group(4), 8)
    return chr(code) if code < 0x110000 else ""


def _unbalanced(text: str) -> bool:
    """Whether a quote is opened and never closed."""
    quote = ""
    at = 0
    while at < len(text):
        character = text[at]
        at += 2 if character == "\\" and quote != "'" else 1
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
    return bool(quote)


class _Scan:
    """One reading of one text. `quotes` says whether quotes keep a word together."""

    def __init__(self, text: str, *, quotes: bool) -> None:
        self._text = text
        self._quotes = quotes
        self._at = 0
        self._word: list[str] = []
        self._begun = False
        self._run: list[str] = []
        self._runs: list[tuple[str, ...]] = []
        self._target = False
        self._has_braces = "{" in text

    def runs(self) -> list[tuple[str, ...]]:
        while self._at < len(self._text):
            self._step()
        self._end_run()
        return self._runs

    def _step(self) -> None:
        character = self._text[self._at]
        if run := _RUN.match(self._text, self._at):
            self._add(run.group(), run.end())
        elif character in _BLANKS:
            self._at += 1
            self._end_word()
        elif character in "'\"":
            self._quote()
        elif character == "\\":
            self._backslash()
        elif not (self._redirect() or self._cut() or self._expansion() or self._brace(character)):
            self._add(EXPANSION if character in "*?[" else character, self._at + 1)

    def _add(self, text: str, end: int) -> None:
        self._word.append(text)
        self._begun = True
        self._at = end

    def _quote(self) -> None:
        found = _QUOTED.match(self._text, self._at) if self._quotes else None
        if found is None:
            self._at += 1
            return
        inner = found.group()[1:-1]
        if found.group()[0] == '"':
            inner = re.sub(r"\\([$`\"\\])", r"\1", _VARIABLE.sub(EXPANSION, inner))
        self._add(inner, found.end())

    def _backslash(self) -> None:
        self._at += 1
        if self._quotes and self._at < len(self._text):
            self._add(self._text[self._at], self._at + 1)

    def _redirect(self) -> bool:
        """The operator goes, and its target stands in a run of its own."""
        found = _REDIRECT.match(self._text, self._at)
        if found is None:
            return False
        if "".join(self._word).isdigit():
            self._word, self._begun = [], False
        self._end_word()
        self._at = found.end()
        while self._at < len(self._text) and self._text[self._at] in _BLANKS:
            self._at += 1
        self._target = True
        return True

    def _cut(self) -> bool:
        found = _CUT.match(self._text, self._at)
        if found is None:
            return False
        if found.group()[0] in "$`<>" and self._begun:
            # What is substituted may belong to the word before it.
            self._runs.append((*self._run, "".join(self._word) + EXPANSION))
        self._at = found.end()
        self._end_run()
        return True

    def _expansion(self) -> bool:
        if found := _VARIABLE.match(self._text, self._at):
            self._add(EXPANSION, found.end())
        elif found := _PARAMETER.match(self._text, self._at):
            self._add(EXPANSION, found.end())
            self._end_run()
        elif self._text[self._at] == "$":
            self._at += 1
        else:
            return False
        return True

    def _brace(self, character: str) -> bool:
        """`{a,b}` becomes its parts; a part that grows together with something is unsure."""
        if character not in "{}" and not (character == "," and self._has_braces):
            return False
        after = self._text[self._at + 1 : self._at + 2]
        if character == "{" and after not in (" ", "\t", "\n"):
            self._word.append(EXPANSION)
            self._begun = True
        self._at += 1
        self._end_word()
        if character == "}" and after.isalnum():
            self._add(EXPANSION, self._at)
        return True

    def _end_word(self) -> None:
        if not self._begun:
            return
        word = "".join(self._word)
        if self._target:
            self._runs.append((word,))
            self._target = False
        else:
            self._run.append(word)
        self._word, self._begun = [], False

    def _end_run(self) -> None:
        self._end_word()
        self._target = False
        if self._run:
            self._runs.append(tuple(self._run))
        self._run = []
