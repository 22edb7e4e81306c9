"""Reads here-documents and here-strings, whose texts stand apart from the commands they belong to."""

import re
import sys
from dataclasses import dataclass

from mcp_dispatch.shell.ast import Literal, Redirect, Word
from mcp_dispatch.shell.plain_parser import NotPlain, Reader

_END = r"(?=[ \t\n;&|<>()]|$)"
_HERE_STRING = re.compile(r"<<<[ \t]*")
_HERE_DOCUMENT = re.compile(rf"<<(-?)[ \t]*(?:'(\w+)'|\"(\w+)\"|(\w+)){_END}")
# Before version 4 bash looks for the end of `$(` by counting quotes and parentheses.
_COUNTS_QUOTES = sys.platform == "darwin"


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A here-document whose text begins after the line."""

    delimiter: str
    indented: bool
    literal: bool


class HereReader(Reader):
    """A reader that takes the texts of here-documents when their line has ended."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._substitutions = 0
        """How many substitutions are open."""
        self._awaited: list[_Awaited] = []
        self._here_text = ""
        """The last text that was read."""
        self._documents = 0
        """How many texts were read."""

    def _redirect(self) -> Redirect | None:
        if found := _HERE_STRING.match(self.text, self.at):
            self.at = found.end()
            return Redirect("<<<", "", self._word())
        if found := _HERE_DOCUMENT.match(self.text, self.at):
            self.at = found.end()
            indented, single, double, bare = found.groups()
            delimiter = single or double or bare
            self._awaited.append(_Awaited(delimiter, bool(indented), bare is None))
            return Redirect("<<", "", Word(delimiter, (Literal(delimiter),)))
        return super()._redirect()

    def _here_documents(self) -> None:
        awaited, self._awaited = self._awaited, []
        for document in awaited:
            self._here_document(document)

    def _here_document(self, document: _Awaited) -> None:
        self._documents += 1
        lines: list[str] = []
        while self.at < len(self.text):
            line, newline, _ = self.text[self.at :].partition("\n")
            self.at += len(line) + len(newline)
            line = line.lstrip("\t") if document.indented else line
            if line == document.delimiter:
                self._here_text = self._checked("\n".join(lines), document)
                return
            lines.append(line)
        raise NotPlain("a here-document is not closed")

    def _checked(self, text: str, document: _Awaited) -> str:
        if not document.literal and any(character in text for character in "$`\\"):
            raise NotPlain("a here-document expands something")
        if _COUNTS_QUOTES and self._substitutions and any(one in text for one in "'\"()`"):
            raise NotPlain("a here-document in a substitution holds quotes or parentheses")
        return text

    def _word(self) -> Word:
        word = super()._word()
        if self._awaited and "\n" in word.raw:
            raise NotPlain("a line with a here-document does not end")
        return word
