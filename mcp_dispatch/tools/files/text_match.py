"""Search for the old string of an edit, and replacement that keeps the style of the file.

The file is searched as Read shows it, with LF line endings. A match is mapped back to the original
characters, of which only those are replaced that differ between old and new string.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from mcp_dispatch.tools.files.diff import count_common

_STRAIGHTEN_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_CURLY_QUOTES = {"'": ("\u2018", "\u2019"), '"': ("\u201c", "\u201d")}
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class TextMatches:
    """The occurrences of the old string. `count` includes overlapping ones: they are ambiguous.

    Without `is_exact`, curly and straight quotes were treated as equal.
    """

    normalized: "NormalizedText"
    search_text: str
    starts: tuple[int, ...]
    count: int
    is_exact: bool

    def list_line_numbers(self) -> list[int]:
        """Return the line numbers of the first occurrences."""
        return [self.normalized.text.count("\n", 0, start) + 1 for start in self.starts[:10]]

    def iter_starts(self) -> Iterator[int]:
        """Yield the positions of all occurrences that do not overlap, from left to right."""
        haystack, needle = self.normalized.text, self.search_text
        if not self.is_exact:
            haystack, needle = (
                haystack.translate(_STRAIGHTEN_QUOTES),
                needle.translate(_STRAIGHTEN_QUOTES),
            )
        return _iter_starts(haystack, needle, step=len(needle))


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text with LF line endings, and the mapping back to the original text `raw`."""

    raw: str
    text: str
    crlf_positions: tuple[int, ...]
    """Positions in `text` of the line feeds that are CR LF in `raw`."""

    @staticmethod
    def from_crlf(raw: str) -> "NormalizedText":
        positions = tuple(m.start() - count for count, m in enumerate(re.finditer("\r\n", raw)))
        return NormalizedText(raw, raw.replace("\r\n", "\n") if positions else raw, positions)

    def to_raw_position(self, position: int) -> int:
        return position + bisect_left(self.crlf_positions, position)


def find_matches(raw: str, old: str) -> TextMatches:
    """Search for `old` exactly, and if that fails with curly and straight quotes as equal.

    If `old` contains carriage returns and occurs literally, line endings are not normalized.
    """
    if "\r" in old and old in raw:
        return _collect_matches(NormalizedText(raw, raw, ()), raw, old, old, is_exact=True)
    normalized, search_text = NormalizedText.from_crlf(raw), old.replace("\r\n", "\n")
    exact = _collect_matches(normalized, normalized.text, search_text, search_text, is_exact=True)
    if exact.count:
        return exact
    haystack = normalized.text.translate(_STRAIGHTEN_QUOTES)
    needle = search_text.translate(_STRAIGHTEN_QUOTES)
    return _collect_matches(normalized, haystack, needle, search_text, is_exact=False)


def replace_matches(matches: TextMatches, old: str, new: str, *, replace_all: bool) -> str:
    """Return the text of the file with the first or every occurrence replaced."""
    pieces: list[str] = []
    position = 0
    new = _normalize_new_text(matches, old, new)
    for start, stop, piece in _iter_edits(matches, new, replace_all):
        pieces += [matches.normalized.raw[position:start], piece]
        position = stop
    return "".join([*pieces, matches.normalized.raw[position:]])


def _collect_matches(
    normalized: NormalizedText, haystack: str, needle: str, search_text: str, *, is_exact: bool
) -> TextMatches:
    starts = tuple(islice(_iter_starts(haystack, needle, step=1), _MAX_LISTED))
    count = len(starts) if len(starts) < _MAX_LISTED else max(_MAX_LISTED, haystack.count(needle))
    return TextMatches(normalized, search_text, starts, count, is_exact)


def _iter_starts(haystack: str, needle: str, step: int) -> Iterator[int]:
    start = haystack.find(needle)
    while start >= 0:
        yield start
        start = haystack.find(needle, start + step)


def _normalize_new_text(matches: TextMatches, old: str, new: str) -> str:
    """Replace CR LF by LF in the new string if that was done in the file or the old string."""
    is_literal = matches.search_text == old and not matches.normalized.crlf_positions
    return new if is_literal else new.replace("\r\n", "\n")


def _iter_edits(
    matches: TextMatches, new: str, replace_all: bool
) -> Iterator[tuple[int, int, str]]:
    """Yield start, stop and new text of each replacement, as positions in the original text.

    The common prefix and suffix of old and new string are not replaced.
    """
    old = matches.search_text
    head = count_common(old, new)
    tail = count_common(old[head:][::-1], new[head:][::-1])
    middle, before = new[head : len(new) - tail], new[:head]
    needs_line_endings = "\n" in middle and "\r" not in old + new
    endings = _LineEndings(matches.normalized) if needs_line_endings else None
    for start in matches.iter_starts() if replace_all else matches.starts[:1]:
        actual = matches.normalized.text[start : start + len(old)]
        piece = middle if matches.is_exact else _apply_quote_style(middle, before, old, actual)
        raw_start = matches.normalized.to_raw_position(start + head)
        if endings is not None:
            piece = piece.replace("\n", endings.find_line_ending(raw_start))
        yield raw_start, matches.normalized.to_raw_position(start + len(old) - tail), piece


class _LineEndings:
    """Finds the line ending at a position: that of its line, or of the line before."""

    def __init__(self, normalized: NormalizedText) -> None:
        self._raw = normalized.raw
        self._feeds = [m.start() for m in re.finditer("\n", normalized.raw)]

    def find_line_ending(self, position: int) -> str:
        if not self._feeds:
            return "\n"
        index = min(bisect_left(self._feeds, position), len(self._feeds) - 1)
        feed = self._feeds[index]
        return "\r\n" if self._raw[max(0, feed - 1) : feed] == "\r" else "\n"


def _apply_quote_style(middle: str, before: str, old: str, actual: str) -> str:
    """Return `middle` with the quote style of the file where the old string has another one."""
    for straight, (opening, closing) in _CURLY_QUOTES.items():
        kind = (straight, opening, closing)
        pairs = {(o, a) for o, a in zip(old, actual, strict=True) if o != a and o in kind}
        if pairs and all(in_old == straight for in_old, _ in pairs):
            middle = _apply_curly_quotes(middle, before, straight)
        elif pairs and all(in_file == straight for _, in_file in pairs):
            middle = middle.replace(opening, straight).replace(closing, straight)
    return middle


def _apply_curly_quotes(middle: str, before: str, straight: str) -> str:
    opening, closing = _CURLY_QUOTES[straight]
    characters = list(before[-1:] + middle)
    for index, character in enumerate(characters):
        if character == straight:
            previous = characters[index - 1] if index else " "
            opens = previous.isspace() or previous in "([{<-\u2013\u2014/=\u2018\u201c"
            characters[index] = opening if opens else closing
    return "".join(characters[len(before[-1:]) :])
