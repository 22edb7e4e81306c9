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

MAX_PATTERN_CHARS = 4096
MAX_ALTERNATIVES = 256
MAX_EXPANDED_CHARS = 65536
"""Of all alternatives together."""

Positions = frozenset[tuple[int, int]]
"""Alternatives and their segments which the next name may match."""

_WILDCARD = re.compile(r"[*?\[{\\]")
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)
_WILDCARD_CHARS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Segment:
    """One name of a path. Without `wild` it is that name; `any_depth` is `**`."""

    text: str
    regex: re.Pattern[str] | None = None
    any_depth: bool = False

    def matches(self, name: str) -> bool:
        # A name spelled out matches too: `app/[id]` finds the directory that is called `[id]`.
        return (
            self.any_depth
            or name == self.text
            or (self.regex is not None and self.regex.match(name) is not None)
        )


class PatternLevel:
    """What a pattern asks of the names in one directory."""

    def __init__(self, pattern: "GlobPattern", positions: Positions) -> None:
        self._pattern = pattern
        steps = [(at, pattern.alternatives[at[0]][at[1]]) for at in sorted(positions)]
        self._file_segments = [segment for at, segment in steps if pattern.is_last(at)]
        self._directory_steps = [
            (at, segment) for at, segment in steps if segment.any_depth or not pattern.is_last(at)
        ]

    def matches(self, name: str) -> bool:
        """Whether a file of that name is meant."""
        return any(segment.matches(name) for segment in self._file_segments)

    def enter_directory(self, name: str) -> Positions:
        """Where the pattern stands in the directory of that name; nowhere if nothing can match."""
        internal = name in REPOSITORY_FOLDERS
        return frozenset(
            position
            for at, segment in self._directory_steps
            if not (internal and (segment.any_depth or segment.regex)) and segment.matches(name)
            for position in self._pattern.next_positions(at)
        )


@dataclass(frozen=True, slots=True)
class GlobPattern:
    alternatives: tuple[tuple[Segment, ...], ...]

    def find_start_positions(self) -> Positions:
        return frozenset(
            position
            for alternative in range(len(self.alternatives))
            for position in self._expand_position(alternative, 0)
        )

    def is_last(self, position: tuple[int, int]) -> bool:
        return position[1] == len(self.alternatives[position[0]]) - 1

    def next_positions(self, position: tuple[int, int]) -> Iterator[tuple[int, int]]:
        alternative, index = position
        stays = self.alternatives[alternative][index].any_depth
        return self._expand_position(alternative, index if stays else index + 1)

    def _expand_position(self, alternative: int, index: int) -> Iterator[tuple[int, int]]:
        """`**` stands for no directory as well."""
        segments = self.alternatives[alternative]
        yield alternative, index
        while segments[index].any_depth and index + 1 < len(segments):
            index += 1
            yield alternative, index


def parse_glob(text: str) -> GlobPattern:
    """Raises `Refused` for a pattern that would leave the directory it is searched in."""
    refuse_unusable_pattern(text)
    at_any_depth = "/" not in text
    return GlobPattern(
        tuple(_parse_segments(one, text, at_any_depth) for one in _expand_braces(text))
    )


def split_fixed_prefix(text: str) -> tuple[str, str]:
    """The directories a pattern spells out before its first wildcard, and the rest."""
    magic = _WILDCARD.search(text)
    cut = text.rfind("/", 0, magic.start() if magic else len(text)) + 1
    return text[:cut], text[cut:]


def build_segments(parts: Sequence[str]) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for part in parts:
        if part != "**":
            found.append(_parse_segment(part))
        elif not (found and found[-1].any_depth):
            found.append(Segment(part, any_depth=True))
    return tuple(found)


def refuse_unusable_pattern(text: str) -> None:
    if not text:
        raise _build_refusal("the pattern is empty; write **/* for every file")
    if "\0" in text:
        raise _build_refusal(f"{text!r}: a pattern cannot contain a NUL character")
    if len(text) > MAX_PATTERN_CHARS:
        raise _build_refusal(
            f"the pattern has {len(text):,} characters; at most {MAX_PATTERN_CHARS:,} are taken"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _build_refusal(f"{text!r}: a pattern cannot contain half a surrogate pair") from error


def _parse_segments(text: str, pattern: str, at_any_depth: bool) -> tuple[Segment, ...]:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or any(_unescape(part) == ".." for part in parts):
        raise _build_refusal(
            f"{pattern!r}: '/' at the start of an alternative and '..' after a wildcard lead out of"
            " the directory; give that directory as path instead"
        )
    if not parts or text.endswith("/"):
        parts.append("**")
    return build_segments(["**", *parts] if at_any_depth else parts)


def _parse_segment(text: str) -> Segment:
    if not any(token[0] in _WILDCARD_CHARS for token in _TOKEN.findall(text)):
        return Segment(_unescape(text))
    # fnmatch translates every `*` to a group that gives nothing back: matching stays linear.
    translated = fnmatch.translate("".join(map(_translate_token, _TOKEN.findall(text))))
    return Segment(text, re.compile(translated))


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _translate_token(token: str) -> str:
    if token.startswith("[^"):
        return f"[!{token[2:]}"
    if token.startswith("\\") and len(token) == 2:
        return f"[{token[1]}]" if token[1] in _WILDCARD_CHARS else token[1]
    return token


def _expand_braces(text: str) -> list[str]:
    """Every reading of the `{a,b}` in a pattern; braces without a partner are plain characters."""
    tokens: list[str] = _TOKEN.findall(text)
    if not _has_balanced_braces(tokens):
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
            stack[-1] = (outer_done, _combine_alternatives(text, outer, [*done, *readings]))
        elif token == "," and len(stack) > 1:
            stack[-1] = ([*done, *readings], [""])
        else:
            stack[-1] = (done, [reading + token for reading in readings])
    return stack[0][1]


def _combine_alternatives(text: str, starts: list[str], ends: list[str]) -> list[str]:
    count = len(starts) * len(ends)
    if count > MAX_ALTERNATIVES or count * len(text) > MAX_EXPANDED_CHARS:
        raise _build_refusal(f"{text!r} has too many alternatives; search in several calls")
    return [start + end for start in starts for end in ends]


def _has_balanced_braces(tokens: Sequence[str]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0


def _build_refusal(message: str) -> Refused:
    return Refused(RefusedBy.SEMANTIC, message)
