"""Finding the text an edit means, and replacing it in the file's own style.

A file is compared as Read shows it, with LF line ends; a match then stands for the file's own
characters, and only what differs between old and new string is put in their place.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_CURLY = {"'": ("\u2018", "\u2019"), '"': ("\u201c", "\u201d")}
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Found:
    """Where the old string stands in `view`, the text as compared.

    `count` counts overlapping places, too: they are as ambiguous as any.
    """

    view: "View"
    wanted: str
    starts: tuple[int, ...]
    count: int
    exact: bool

    def lines(self) -> list[int]:
        """The line numbers of the first places."""
        return [self.view.text.count("\n", 0, start) + 1 for start in self.starts[:10]]

    def places(self) -> Iterator[int]:
        """All places, left to right, none within another."""
        haystack, needle = self.view.text, self.wanted
        if not self.exact:
            haystack, needle = haystack.translate(_STRAIGHT), needle.translate(_STRAIGHT)
        start = haystack.find(needle)
        while start >= 0:
            yield start
            start = haystack.find(needle, start + len(needle))


@dataclass(frozen=True, slots=True)
class View:
    """A text as it is compared, and the way back to the file's characters."""

    raw: str
    text: str
    # Positions in `text` of the line feeds that are CR LF in `raw`.
    pairs: tuple[int, ...]

    @staticmethod
    def literal(raw: str) -> "View":
        return View(raw, raw, ())

    @staticmethod
    def folded(raw: str) -> "View":
        pairs = tuple(m.start() - before for before, m in enumerate(re.finditer("\r\n", raw)))
        return View(raw, raw.replace("\r\n", "\n") if pairs else raw, pairs)

    def raw_position(self, position: int) -> int:
        return position + bisect_left(self.pairs, position)


def find(raw: str, old: str) -> Found:
    """Exactly, else with curly and straight quotes taken for the same.

    An old string that names carriage returns means them where they are there.
    """
    if "\r" in old and old in raw:
        return _found(View.literal(raw), raw, old, old, exact=True)
    view, wanted = View.folded(raw), old.replace("\r\n", "\n")
    exact = _found(view, view.text, wanted, wanted, exact=True)
    if exact.count:
        return exact
    straight = wanted.translate(_STRAIGHT)
    return _found(view, view.text.translate(_STRAIGHT), straight, wanted, exact=False)


def replaced(found: Found, old: str, new: str, *, every: bool) -> str:
    """The file's text with the first place, or every place, changed."""
    pieces: list[str] = []
    position = 0
    for start, stop, piece in _edits(found, _folded_like(found, old, new), every):
        pieces += [found.view.raw[position:start], piece]
        position = stop
    return "".join([*pieces, found.view.raw[position:]])


def _found(view: View, haystack: str, needle: str, wanted: str, *, exact: bool) -> Found:
    starts = tuple(islice(_overlapping(haystack, needle), _LISTED))
    count = len(starts) if len(starts) < _LISTED else max(_LISTED, haystack.count(needle))
    return Found(view, wanted, starts, count, exact)


def _overlapping(haystack: str, needle: str) -> Iterator[int]:
    start = haystack.find(needle)
    while start >= 0:
        yield start
        start = haystack.find(needle, start + 1)


def _folded_like(found: Found, old: str, new: str) -> str:
    """Where CR LF was read as LF, in the file or in the old string, it is in the new one."""
    literal = found.wanted == old and not found.view.pairs
    return new if literal else new.replace("\r\n", "\n")


def _edits(found: Found, new: str, every: bool) -> Iterator[tuple[int, int, str]]:
    """Raw start, raw stop and text of each change; what old and new share stays untouched."""
    wanted = found.wanted
    head = _shared(wanted, new)
    tail = _shared(wanted[head:][::-1], new[head:][::-1])
    middle, before = new[head : len(new) - tail], new[:head]
    ends = _LineEnds(found.view) if "\n" in middle and "\r" not in wanted + new else None
    for start in found.places() if every else found.starts[:1]:
        actual = found.view.text[start : start + len(wanted)]
        piece = middle if found.exact else _in_style(middle, before, wanted, actual)
        raw_start = found.view.raw_position(start + head)
        if ends is not None:
            piece = piece.replace("\n", ends.at(raw_start))
        yield raw_start, found.view.raw_position(start + len(wanted) - tail), piece


def _shared(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


class _LineEnds:
    """The line end in use at a place: that of its line, else of the line before."""

    def __init__(self, view: View) -> None:
        self._raw = view.raw
        self._feeds = [m.start() for m in re.finditer("\n", view.raw)]

    def at(self, position: int) -> str:
        if not self._feeds:
            return "\n"
        index = min(bisect_left(self._feeds, position), len(self._feeds) - 1)
        feed = self._feeds[index]
        return "\r\n" if self._raw[max(0, feed - 1) : feed] == "\r" else "\n"


def _in_style(middle: str, before: str, wanted: str, actual: str) -> str:
    """`middle` with quotes as the file writes them where the old string wrote them otherwise."""
    for straight, (opening, closing) in _CURLY.items():
        kind = (straight, opening, closing)
        pairs = {(w, a) for w, a in zip(wanted, actual, strict=True) if w != a and w in kind}
        if pairs and all(given == straight for given, _ in pairs):
            middle = _curled(middle, before, straight)
        elif pairs and all(written == straight for _, written in pairs):
            middle = middle.replace(opening, straight).replace(closing, straight)
    return middle


def _curled(middle: str, before: str, straight: str) -> str:
    opening, closing = _CURLY[straight]
    characters = list(before[-1:] + middle)
    for index, character in enumerate(characters):
        if character == straight:
            previous = characters[index - 1] if index else " "
            opens = previous.isspace() or previous in "([{<-\u2013\u2014/=\u2018\u201c"
            characters[index] = opening if opens else closing
    return "".join(characters[len(before[-1:]) :])
