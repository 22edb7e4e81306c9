"""Splits a script that is not understood into words, so that rules can still deny it.

The result deliberately contains too much: some of these words bash would not run.
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
# Near one of these, a quote character may not quote: in a comment, a here-document, `${…}`.
_QUOTES_UNSURE = re.compile(r"<<|#|`|\$[({'\"\[]|[<>]\(|\(\(|[\x00-\x08\x0b-\x1f\x7f]")

TokenRuns = tuple[tuple[str, ...], ...]


def tokenize_unparsed(text: str) -> TokenRuns:
    """Return every run of words between two operators, unquoted and with continued lines joined.

    Text that only the shell can expand is an `EXPANSION`. If quotes are unreliable, the text is
    scanned a second time as if it had no quotes.
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
    """Return whether a quote is not closed."""
    quote = ""
    index = 0
    while index < len(text):
        character = text[index]
        index += 2 if character == "\\" and quote != "'" else 1
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
    return bool(quote)


class _Scanner:
    """Scans one text. `honor_quotes`: quotes keep blanks inside a word."""

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
        match = _QUOTED.match(self._text, self._position) if self._honor_quotes else None
        if match is None:
            self._position += 1
            return
        inner = match.group()[1:-1]
        if match.group()[0] == '"':
            inner = re.sub(r"\\([$`\"\\])", r"\1", _VARIABLE.sub(EXPANSION, inner))
        self._append(inner, match.end())

    def _scan_backslash(self) -> None:
        self._position += 1
        if self._honor_quotes and self._position < len(self._text):
            self._append(self._text[self._position], self._position + 1)

    def _scan_redirect(self) -> bool:
        """Drop the operator and put its target into a run of its own."""
        match = _REDIRECT.match(self._text, self._position)
        if match is None:
            return False
        if "".join(self._word).isdigit():
            self._word, self._in_word = [], False
        self._end_word()
        self._position = match.end()
        while self._position < len(self._text) and self._text[self._position] in _BLANKS:
            self._position += 1
        self._in_redirect_target = True
        return True

    def _scan_operator(self) -> bool:
        match = _OPERATOR.match(self._text, self._position)
        if match is None:
            return False
        if match.group()[0] in "$`<>" and self._in_word:
            # The substituted text may belong to the word before it.
            self._runs.append((*self._run, "".join(self._word) + EXPANSION))
        self._position = match.end()
        self._end_run()
        return True

    def _scan_expansion(self) -> bool:
        if match := _VARIABLE.match(self._text, self._position):
            self._append(EXPANSION, match.end())
        elif match := _PARAMETER.match(self._text, self._position):
            self._append(EXPANSION, match.end())
            self._end_run()
        elif self._text[self._position] == "$":
            self._position += 1
        else:
            return False
        return True

    def _scan_brace(self, character: str) -> bool:
        """Split `{a,b}` into its parts; a part that is joined to other text is an `EXPANSION`."""
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
