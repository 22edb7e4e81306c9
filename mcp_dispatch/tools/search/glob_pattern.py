"""Glob patterns, matched one directory at a time so that only what can match is looked into.

A pattern is a list of segments for each of its `{…}` alternatives. Where a walk stands in it is a
set of positions, so `**/**/**` costs no more than `**`.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.tools.search.root import REPOSITORY_FOLDERS

LONGEST = 4096
MOST_ALTERNATIVES = 256
MOST_CHARACTERS = 65536
"""Of all alternatives together."""

Positions = frozenset[tuple[int, int]]
"""Alternatives and their segments which the next name may match."""

_MAGIC = re.compile(r"[*?\[{\\]")
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)
_SPECIAL = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Segment:
    """One name of a path. Without `wild` it is that name; `any_depth` is `**`."""

    text: str
    wild: re.Pattern[str] | None = None
    any_depth: bool = False

    def takes(self, name: str) -> bool:
        # A name spelled out matches too: `app/[id]` finds the directory that is called `[id]`.
        return (
            self.any_depth
            or name == self.text
            or (self.wild is not None and self.wild.match(name) is not None)
        )


class Level:
    """What a pattern asks of the names in one directory."""

    def __init__(self, pattern: "Pattern", positions: Positions) -> None:
        self._pattern = pattern
        steps = [(at, pattern.alternatives[at[0]][at[1]]) for at in sorted(positions)]
        self._last = [segment for at, segment in steps if pattern.is_last(at)]
        self._onward = [
            (at, segment) for at, segment in steps if segment.any_depth or not pattern.is_last(at)
        ]

    def takes(self, name: str) -> bool:
        """Whether a file of that name is meant."""
        return any(segment.takes(name) for segment in self._last)

    def below(self, name: str) -> Positions:
        """Where the pattern stands in the directory of that name; nowhere if nothing can match."""
        internal = name in REPOSITORY_FOLDERS
        return frozenset(
            position
            for at, segment in self._onward
            if not (internal and (segment.any_depth or segment.wild)) and segment.takes(name)
            for position in self._pattern.after(at)
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    alternatives: tuple[tuple[Segment, ...], ...]

    def start(self) -> Positions:
        return frozenset(
            position
            for alternative in range(len(self.alternatives))
            for position in self._from(alternative, 0)
        )

    def is_last(self, at: tuple[int, int]) -> bool:
        return at[1] == len(self.alternatives[at[0]]) - 1

    def after(self, at: tuple[int, int]) -> Iterator[tuple[int, int]]:
        alternative, index = at
        stays = self.alternatives[alternative][index].any_depth
        return self._from(alternative, index if stays else index + 1)

    def _from(self, alternative: int, index: int) -> Iterator[tuple[int, int]]:
        """`**` stands for no directory as well."""
        segments = self.alternatives[alternative]
        yield alternative, index
        while segments[index].any_depth and index + 1 < len(segments):
            index += 1
            yield alternative, index


def parse(text: str) -> Pattern:
    """Raises `Refused` for a pattern that would leave the directory it is searched in."""
    refuse_unusable(text)
    at_any_depth = "/" not in text
    return Pattern(tuple(_segments(one, text, at_any_depth) for one in _expanded(text)))


def fixed_prefix(text: str) -> tuple[str, str]:
    """The directories a pattern spells out before its first wildcard, and the rest."""
    magic = _MAGIC.search(text)
    cut = text.rfind("/", 0, magic.start() if magic else len(text)) + 1
    return text[:cut], text[cut:]


def segments_of(parts: Sequence[str]) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for part in parts:
        if part != "**":
            found.append(_segment(part))
        elif not (found and found[-1].any_depth):
            found.append(Segment(part, any_depth=True))
    return tuple(found)


def refuse_unusable(text: str) -> None:
    if not text:
        raise _refused("the pattern is empty; write **/* for every file")
    if "\0" in text:
        raise _refused(f"{text!r}: a pattern cannot contain a NUL character")
    if len(text) > LONGEST:
        raise _refused(f"the pattern has {len(text):,} characters; at most {LONGEST:,} are taken")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _refused(f"{text!r}: a pattern cannot contain half a surrogate pair") from error


def _segments(text: str, whole: str, at_any_depth: bool) -> tuple[Segment, ...]:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or any(_plain(part) == ".." for part in parts):
        raise _refused(
            f"{whole!r}: '/' at the start of an alternative and '..' after a wildcard lead out of"
            " the directory; give that directory as path instead"
        )
    if not parts or text.endswith("/"):
        parts.append("**")
    return segments_of(["**", *parts] if at_any_depth else parts)


def _segment(text: str) -> Segment:
    if not any(token[0] in _SPECIAL for token in _TOKEN.findall(text)):
        return Segment(_plain(text))
    # fnmatch translates every `*` to a group that gives nothing back: matching stays linear.
    translated = fnmatch.translate("".join(map(_for_fnmatch, _TOKEN.findall(text))))
    return Segment(text, re.compile(translated))


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _for_fnmatch(token: str) -> str:
    if token.startswith("[^"):
        return f"[!{token[2:]}"
    if token.startswith("\\") and len(token) == 2:
        return f"[{token[1]}]" if token[1] in _SPECIAL else token[1]
    return token


def _expanded(text: str) -> list[str]:
    """Every reading of the `{a,b}` in a pattern; braces without a partner are plain characters."""
    tokens: list[str] = _TOKEN.findall(text)
    if not _balanced(tokens):
        return [text]
    # Each open brace has its finished alternatives and the readings of the one being read.
    stack: list[tuple[list[str], list[str]]] = [([], [""])]
    for token in tokens:
        done, readings = stack[-1]
        if token == "{":
            stack.append(([], [""]))
        elif token == "}":
            stack.pop()
            outer_done, outer = stack[-1]
            stack[-1] = (outer_done, _products(text, outer, [*done, *readings]))
        elif token == "," and len(stack) > 1:
            stack[-1] = ([*done, *readings], [""])
        else:
            stack[-1] = (done, [reading + token for reading in readings])
    return stack[0][1]


def _products(text: str, starts: list[str], ends: list[str]) -> list[str]:
    count = len(starts) * len(ends)
    if count > MOST_ALTERNATIVES or count * len(text) > MOST_CHARACTERS:
        raise _refused(f"{text!r} has too many alternatives; search in several calls")
    return [start + end for start in starts for end in ends]


def _balanced(tokens: Sequence[str]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0


def _refused(message: str) -> Refused:
    return Refused(RefusedBy.SEMANTIC, message)
