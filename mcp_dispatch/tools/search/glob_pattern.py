"""Glob patterns, matched level by level so that a walk enters only directories that can match.

A pattern has a list of segments for each of its `{…}` alternatives. The state of a walk is a set of
positions in these lists, so `**/**/**` costs no more than `**`.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_dispatch.tools.base import build_refusal
from mcp_dispatch.tools.search.root import REPOSITORY_FOLDERS

MAX_PATTERN_CHARS = 4096
MAX_ALTERNATIVES = 256
MAX_EXPANDED_CHARS = 65536
"""The maximum for all alternatives together."""

Positions = frozenset[tuple[int, int]]
"""Pairs of alternative and segment index that the next name may match."""

_WILDCARD = re.compile(r"[*?\[{\\]")
_TOKEN = re.compile(r"\\.|\[[!^]?\]?[^\]/]*\]|.", re.DOTALL)
_WILDCARD_CHARS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Segment:
    """Matches one name of a path: literally, by `regex`, or any name (`any_depth`, for `**`)."""

    text: str
    regex: re.Pattern[str] | None = None
    any_depth: bool = False

    def matches(self, name: str) -> bool:
        # A literal match counts, too: `app/[id]` finds a directory with the name `[id]`.
        return (
            self.any_depth
            or name == self.text
            or (self.regex is not None and self.regex.match(name) is not None)
        )


class PatternLevel:
    """Matches the names in one directory of the walk."""

    def __init__(self, pattern: "GlobPattern", positions: Positions) -> None:
        self._pattern = pattern
        steps = [(each, pattern.alternatives[each[0]][each[1]]) for each in sorted(positions)]
        self._file_segments = [segment for each, segment in steps if pattern.is_last(each)]
        self._directory_steps = [
            (each, segment)
            for each, segment in steps
            if segment.any_depth or not pattern.is_last(each)
        ]

    def matches(self, name: str) -> bool:
        """Return whether a file with that name matches the pattern."""
        return any(segment.matches(name) for segment in self._file_segments)

    def enter_directory(self, name: str) -> Positions:
        """Return the positions inside the directory `name`; none if nothing there can match.

        Wildcards do not match the folders of version control.
        """
        is_repository_folder = name in REPOSITORY_FOLDERS
        return frozenset(
            following
            for position, segment in self._directory_steps
            if not (is_repository_folder and (segment.any_depth or segment.regex))
            and segment.matches(name)
            for following in self._pattern.next_positions(position)
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
        is_repeatable = self.alternatives[alternative][index].any_depth
        return self._expand_position(alternative, index if is_repeatable else index + 1)

    def _expand_position(self, alternative: int, index: int) -> Iterator[tuple[int, int]]:
        """Yield the position, and those after each `**`, which matches zero directories, too."""
        segments = self.alternatives[alternative]
        yield alternative, index
        while segments[index].any_depth and index + 1 < len(segments):
            index += 1
            yield alternative, index


def parse_glob(text: str) -> GlobPattern:
    """Raise `Refused` for a pattern that leads out of the directory that is searched."""
    refuse_unusable_pattern(text)
    at_any_depth = "/" not in text
    return GlobPattern(
        tuple(_parse_segments(each, text, at_any_depth) for each in _expand_braces(text))
    )


def split_fixed_prefix(text: str) -> tuple[str, str]:
    """Split a pattern into the literal directories before its first wildcard and the rest."""
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
        raise build_refusal("the pattern is empty; write **/* for every file")
    if "\0" in text:
        raise build_refusal(f"{text!r}: a pattern cannot contain a NUL character")
    if len(text) > MAX_PATTERN_CHARS:
        raise build_refusal(
            f"the pattern has {len(text):,} characters; at most {MAX_PATTERN_CHARS:,} are taken"
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise build_refusal(f"{text!r}: a pattern cannot contain half a surrogate pair") from error


def _parse_segments(text: str, pattern: str, at_any_depth: bool) -> tuple[Segment, ...]:
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or any(_unescape(part) == ".." for part in parts):
        raise build_refusal(
            f"{pattern!r}: '/' at the start of an alternative and '..' after a wildcard lead out of"
            " the directory; give that directory as path instead"
        )
    if not parts or text.endswith("/"):
        parts.append("**")
    return build_segments(["**", *parts] if at_any_depth else parts)


def _parse_segment(text: str) -> Segment:
    if not any(token[0] in _WILDCARD_CHARS for token in _TOKEN.findall(text)):
        return Segment(_unescape(text))
    # fnmatch translates `*` to an atomic group, which does not backtrack: matching stays linear.
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
    """Return the pattern for each combination of `{a,b}`; unbalanced braces are literal."""
    tokens: list[str] = _TOKEN.findall(text)
    if not _has_balanced_braces(tokens):
        return [text]
    # For each open brace: its finished alternatives, and the expansions of the current one.
    stack: list[tuple[list[str], list[str]]] = [([], [""])]
    for token in tokens:
        done, expansions = stack[-1]
        if token == "{":
            stack.append(([], [""]))
        elif token == "}":
            stack.pop()
            outer_done, outer = stack[-1]
            stack[-1] = (outer_done, _combine_alternatives(text, outer, [*done, *expansions]))
        elif token == "," and len(stack) > 1:
            stack[-1] = ([*done, *expansions], [""])
        else:
            stack[-1] = (done, [expansion + token for expansion in expansions])
    return stack[0][1]


def _combine_alternatives(text: str, starts: list[str], ends: list[str]) -> list[str]:
    count = len(starts) * len(ends)
    if count > MAX_ALTERNATIVES or count * len(text) > MAX_EXPANDED_CHARS:
        raise build_refusal(f"{text!r} has too many alternatives; search in several calls")
    return [start + end for start in starts for end in ends]


def _has_balanced_braces(tokens: Sequence[str]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0
