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
_OPERATOR = re.compile(r"\$\(\(?|\$\[|[<>]\(|[;&|\n()`]+")
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3}))"
)
# Where one of these occurs, a quote may not be a quote: in a comment, a here-document, `${…}`.
_QUOTES_UNSURE = re.compile(r"<<|#|`|\$[({'\"\[]|[<>]\(|\(\(|[\x00-\x08\x0b-\x1f\x7f]")

TokenRuns = tuple[tuple[str, ...], ...]


def tokenize_unparsed(text: str) -> TokenRuns:
    """Every run of words between two operators of `text`, dequoted and with lines joined.

    Text that only the shell can expand is an `EXPANSION`. Where quotes cannot be trusted the
    text is read a second time as if there were none.
    """
    joined = text.replace("\\\n", "")
    runs = [*_Scanner(joined, honor_quotes=True).scan()]
    if _QUOTES_UNSURE.search(text) or _has_open_quote(joined):
        runs += _Scanner(joined, honor_quotes=False).scan()
        runs += (
            _Scanner(_ESCAPE.sub(_decode_escape, joined), honor_quotes=False).scan()
            if "$'" in text
            else ()
        )
    return tuple(dict.fromkeys(runs))


def _decode_escape(escape: re.Match[str]) -> str:
    hexadecimal = escape.group(1) or escape.group(2) or escape.group(3)
    code = int(hexadecimal, 16) if hexadecimal else int(escape.group(4), 8)
    return chr(code) if code < 0x110000 else ""


def _has_open_quote(text: str) -> bool:
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


class _Scanner:
    """One reading of one text. `quotes` says whether quotes keep a word together."""

    def __init__(self, text: str, *, honor_quotes: bool) -> None:
        self._text = text
        self._honor_quotes = honor_quotes
        self._position = 0
        self._word: list[str] = []
        self._in_word = False
        self._run: list[str] = []
        self._runs: list[tuple[str, ...]] = []
        self._in_redirect_target = False
        self._has_braces = "{" in text

    def scan(self) -> list[tuple[str, ...]]:
        while self._position < len(self._text):
            self._scan_next()
        self._end_run()
        return self._runs

    def _scan_next(self) -> None:
        character = self._text[self._position]
        if run := _RUN.match(self._text, self._position):
            self._append(run.group(), run.end())
        elif character in _BLANKS:
            self._position += 1
            self._end_word()
        elif character in "'\"":
            self._scan_quote()
        elif character == "\\":
            self._scan_backslash()
        elif not (
            self._scan_redirect()
            or self._scan_operator()
            or self._scan_expansion()
            or self._scan_brace(character)
        ):
            self._append(EXPANSION if character in "*?[" else character, self._position + 1)

    def _append(self, text: str, end: int) -> None:
        self._word.append(text)
        self._in_word = True
        self._position = end

    def _scan_quote(self) -> None:
        found = _QUOTED.match(self._text, self._position) if self._honor_quotes else None
        if found is None:
            self._position += 1
            return
        inner = found.group()[1:-1]
        if found.group()[0] == '"':
            inner = re.sub(r"\\([$`\"\\])", r"\1", _VARIABLE.sub(EXPANSION, inner))
        self._append(inner, found.end())

    def _scan_backslash(self) -> None:
        self._position += 1
        if self._honor_quotes and self._position < len(self._text):
            self._append(self._text[self._position], self._position + 1)

    def _scan_redirect(self) -> bool:
        """The operator goes, and its target stands in a run of its own."""
        found = _REDIRECT.match(self._text, self._position)
        if found is None:
            return False
        if "".join(self._word).isdigit():
            self._word, self._in_word = [], False
        self._end_word()
        self._position = found.end()
        while self._position < len(self._text) and self._text[self._position] in _BLANKS:
            self._position += 1
        self._in_redirect_target = True
        return True

    def _scan_operator(self) -> bool:
        found = _OPERATOR.match(self._text, self._position)
        if found is None:
            return False
        if found.group()[0] in "$`<>" and self._in_word:
            # What is substituted may belong to the word before it.
            self._runs.append((*self._run, "".join(self._word) + EXPANSION))
        self._position = found.end()
        self._end_run()
        return True

    def _scan_expansion(self) -> bool:
        if found := _VARIABLE.match(self._text, self._position):
            self._append(EXPANSION, found.end())
        elif found := _PARAMETER.match(self._text, self._position):
            self._append(EXPANSION, found.end())
            self._end_run()
        elif self._text[self._position] == "$":
            self._position += 1
        else:
            return False
        return True

    def _scan_brace(self, character: str) -> bool:
        """`{a,b}` becomes its parts; a part that grows together with something is unsure."""
        if character not in "{}" and not (character == "," and self._has_braces):
            return False
        after = self._text[self._position + 1 : self._position + 2]
        if character == "{" and after not in (" ", "\t", "\n"):
            self._word.append(EXPANSION)
            self._in_word = True
        self._position += 1
        self._end_word()
        if character == "}" and after.isalnum():
            self._append(EXPANSION, self._position)
        return True

    def _end_word(self) -> None:
        if not self._in_word:
            return
        word = "".join(self._word)
        if self._in_redirect_target:
            self._runs.append((word,))
            self._in_redirect_target = False
        else:
            self._run.append(word)
        self._word, self._in_word = [], False

    def _end_run(self) -> None:
        self._end_word()
        self._in_redirect_target = False
        if self._run:
            self._runs.append(tuple(self._run))
        self._run = []
