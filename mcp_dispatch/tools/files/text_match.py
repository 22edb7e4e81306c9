"""Finding the text an edit means, and replacing it in the file's own style.

A file is compared as Read shows it, with LF line ends; a match then stands for the file's own
characters, and only what differs between old and new string is put in their place.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_STRAIGHTEN_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_CURLY_QUOTES = {"'": ("\u2018", "\u2019"), '"': ("\u201c", "\u201d")}
_MAX_LISTED = 20


@dataclass(frozen=True, slots=True)
class TextMatches:
    """Where the old string stands in `view`, the text as compared.

    `count` counts overlapping places, too: they are as ambiguous as any.
    """

    normalized: "NormalizedText"
    search_text: str
    starts: tuple[int, ...]
    count: int
    is_exact: bool

    def list_line_numbers(self) -> list[int]:
        """The line numbers of the first places."""
        return [self.normalized.text.count("\n", 0, start) + 1 for start in self.starts[:10]]

    def iter_starts(self) -> Iterator[int]:
        """All places, left to right, none within another."""
        haystack, needle = self.normalized.text, self.search_text
        if not self.is_exact:
            haystack, needle = (
                haystack.translate(_STRAIGHTEN_QUOTES),
                needle.translate(_STRAIGHTEN_QUOTES),
            )
        start = haystack.find(needle)
        while start >= 0:
            yield start
            start = haystack.find(needle, start + len(needle))


@dataclass(frozen=True, slots=True)
class NormalizedText:
    """A text as it is compared, and the way back to the file's characters."""

    raw: str
    text: str
    # Positions in `text` of the line feeds that are CR LF in `raw`.
    crlf_positions: tuple[int, ...]

    @staticmethod
    def from_raw(raw: str) -> "NormalizedText":
        return NormalizedText(raw, raw, ())

    @staticmethod
    def from_crlf(raw: str) -> "NormalizedText":
        pairs = tuple(m.start() - before for before, m in enumerate(re.finditer("\r\n", raw)))
        return NormalizedText(raw, raw.replace("\r\n", "\n") if pairs else raw, pairs)

    def to_raw_position(self, position: int) -> int:
        return position + bisect_left(self.crlf_positions, position)


def find_matches(raw: str, old: str) -> TextMatches:
    """Exactly, else with curly and straight quotes taken for the same.

    An old string that names carriage returns means them where they are there.
    """
    if "\r" in old and old in raw:
        return _collect_matches(NormalizedText.from_raw(raw), raw, old, old, is_exact=True)
    view, wanted = NormalizedText.from_crlf(raw), old.replace("\r\n", "\n")
    exact = _collect_matches(view, view.text, wanted, wanted, is_exact=True)
    if exact.count:
        return exact
    straight = wanted.translate(_STRAIGHTEN_QUOTES)
    return _collect_matches(
        view, view.text.translate(_STRAIGHTEN_QUOTES), straight, wanted, is_exact=False
    )


def replace_matches(matches: TextMatches, old: str, new: str, *, replace_all: bool) -> str:
    """The file's text with the first place, or every place, changed."""
    pieces: list[str] = []
    position = 0
    for start, stop, piece in _iter_edits(
        matches, _normalize_new_text(matches, old, new), replace_all
    ):
        pieces += [matches.normalized.raw[position:start], piece]
        position = stop
    return "".join([*pieces, matches.normalized.raw[position:]])


def _collect_matches(
    normalized: NormalizedText, haystack: str, needle: str, search_text: str, *, is_exact: bool
) -> TextMatches:
    starts = tuple(islice(_iter_overlapping(haystack, needle), _MAX_LISTED))
    count = len(starts) if len(starts) < _MAX_LISTED else max(_MAX_LISTED, haystack.count(needle))
    return TextMatches(normalized, search_text, starts, count, is_exact)


def _iter_overlapping(haystack: str, needle: str) -> Iterator[int]:
    start = haystack.find(needle)
    while start >= 0:
        yield start
        start = haystack.find(needle, start + 1)


def _normalize_new_text(matches: TextMatches, old: str, new: str) -> str:
    """Where CR LF was read as LF, in the file or in the old string, it is in the new one."""
    literal = matches.search_text == old and not matches.normalized.crlf_positions
    return new if literal else new.replace("\r\n", "\n")


def _iter_edits(
    matches: TextMatches, new: str, replace_all: bool
) -> Iterator[tuple[int, int, str]]:
    """Raw start, raw stop and text of each change; what old and new share stays untouched."""
    wanted = matches.search_text
    head = _count_shared(wanted, new)
    tail = _count_shared(wanted[head:][::-1], new[head:][::-1])
    middle, before = new[head : len(new) - tail], new[:head]
    ends = _LineEndings(matches.normalized) if "\n" in middle and "\r" not in wanted + new else None
    for start in matches.iter_starts() if replace_all else matches.starts[:1]:
        actual = matches.normalized.text[start : start + len(wanted)]
        piece = middle if matches.is_exact else _apply_quote_style(middle, before, wanted, actual)
        raw_start = matches.normalized.to_raw_position(start + head)
        if ends is not None:
            piece = piece.replace("\n", ends.find_line_ending(raw_start))
        yield raw_start, matches.normalized.to_raw_position(start + len(wanted) - tail), piece


def _count_shared(first: str, second: str) -> int:
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


class _LineEndings:
    """The line end in use at a place: that of its line, else of the line before."""

    def __init__(self, normalized: NormalizedText) -> None:
        self._raw = normalized.raw
        self._feeds = [m.start() for m in re.finditer("\n", normalized.raw)]

    def find_line_ending(self, position: int) -> str:
        if not self._feeds:
            return "\n"
        index = min(bisect_left(self._feeds, position), len(self._feeds) - 1)
        feed = self._feeds[index]
        return "\r\n" if self._raw[max(0, feed - 1) : feed] == "\r" else "\n"


def _apply_quote_style(middle: str, before: str, wanted: str, actual: str) -> str:
    """`middle` with quotes as the file writes them where the old string wrote them otherwise."""
    for straight, (opening, closing) in _CURLY_QUOTES.items():
        kind = (straight, opening, closing)
        pairs = {(w, a) for w, a in zip(wanted, actual, strict=True) if w != a and w in kind}
        if pairs and all(given == straight for given, _ in pairs):
            middle = _apply_curly_quotes(middle, before, straight)
        elif pairs and all(written == straight for _, written in pairs):
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
