"""Parses here-documents, whose text follows the line of their command, and here-strings."""

import re
import sys
from dataclasses import dataclass

from mcp_dispatch.shell.ast import Literal, Redirect, Word
from mcp_dispatch.shell.plain_parser import PlainParser
from mcp_dispatch.shell.syntax import WORD_END, UnsupportedSyntax

_HERE_STRING = re.compile(r"<<<[ \t]*")
_HERE_DOCUMENT = re.compile(rf"<<(-?)[ \t]*(?:'(\w+)'|\"(\w+)\"|(\w+)){WORD_END}")
# Bash before version 4, as on macOS, finds the end of `$(` by counting quotes and parentheses.
_COUNTS_QUOTES = sys.platform == "darwin"


@dataclass(frozen=True, slots=True)
class _PendingDocument:
    """A here-document whose text begins after the current line."""

    delimiter: str
    indented: bool
    literal: bool


class HereDocumentParser(PlainParser):
    """A parser that reads the texts of here-documents at the end of their line."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open_substitutions = 0
        """The number of substitutions around the current position."""
        self._pending: list[_PendingDocument] = []
        self._last_document = ""
        """The text of the last here-document."""
        self._document_count = 0
        """The number of here-documents read so far."""

    def _parse_redirect(self) -> Redirect | None:
        if match := _HERE_STRING.match(self.text, self.position):
            self.position = match.end()
            return Redirect("<<<", "", self._parse_word())
        if match := _HERE_DOCUMENT.match(self.text, self.position):
            self.position = match.end()
            indented, single, double, bare = match.groups()
            delimiter = single or double or bare
            self._pending.append(_PendingDocument(delimiter, bool(indented), bare is None))
            return Redirect("<<", "", Word(delimiter, (Literal(delimiter),)))
        return super()._parse_redirect()

    def _read_here_documents(self) -> None:
        pending, self._pending = self._pending, []
        for document in pending:
            self._read_here_document(document)

    def _read_here_document(self, document: _PendingDocument) -> None:
        self._document_count += 1
        lines: list[str] = []
        while self.position < len(self.text):
            line, newline, _ = self.text[self.position :].partition("\n")
            self.position += len(line) + len(newline)
            line = line.lstrip("\t") if document.indented else line
            if line == document.delimiter:
                self._last_document = self._check_document("\n".join(lines), document)
                return
            lines.append(line)
        raise UnsupportedSyntax("a here-document is not closed")

    def _check_document(self, text: str, document: _PendingDocument) -> str:
        if not document.literal and any(character in text for character in "$`\\"):
            raise UnsupportedSyntax("a here-document expands something")
        if (
            _COUNTS_QUOTES
            and self._open_substitutions
            and any(character in text for character in "'\"()`")
        ):
            raise UnsupportedSyntax("a here-document in a substitution holds quotes or parentheses")
        return text

    def _parse_word(self) -> Word:
        word = super()._parse_word()
        if self._pending and "\n" in word.raw:
            raise UnsupportedSyntax("a line with a here-document does not end")
        return word
