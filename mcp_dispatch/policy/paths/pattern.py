"""Patterns of `Read(…)` and `Edit(…)` rules: a gitignore pattern with one of four anchors."""

import re
import warnings
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_MAX_WILDCARDS = 3
_WILDCARD_CHARACTERS = re.compile(r"[*?\[\\]")
_MATCH_EVERYTHING = "."
_MATCH_NOTHING = re.compile(r"(?!)")
_BETWEEN_STARS = re.compile(
    r"""\[\^/\]\*              # a star,
    ((?:\\.                     # then an escaped letter,
    |\[\^/\](?!\*)             # any one letter,
    |\[(?!\^/\])\^?[^\]]+\]    # one of some letters
    |[^\[\]/()|*\\])+)           # or a letter, once or more,
    (?=\[\^/\]\*)              # and another star""",
    re.VERBOSE,
)


class Anchor(Enum):
    """The directory from which a pattern starts."""

    ROOT = "//"
    HOME = "~/"
    SOURCE = "/"
    DIRECTORY = "./"


@dataclass(frozen=True, slots=True)
class PatternBase:
    """The start of a pattern: an anchor, and the number of directories above it.

    `source` is the directory that `/` means in the settings file, and the root for other anchors.
    """

    anchor: Anchor
    source: Path
    parent_levels: int


@dataclass(frozen=True, slots=True)
class PathPattern:
    """Two gitignore patterns: `narrow` for allow rules, `wide` for deny and ask rules."""

    base: PatternBase
    narrow: str
    wide: str

    @property
    def prefix(self) -> str:
        """The directories before the first wildcard, if the pattern is rooted."""
        return extract_literal_prefix(self.narrow)


def parse_path_pattern(specifier: str, source: Path) -> PathPattern | str:
    """Return the pattern, or a message that says what is wrong with it."""
    anchor, pattern = _split_anchor(specifier)
    climbs = 0
    while pattern == ".." or pattern.startswith("../"):
        climbs, pattern = climbs + 1, pattern[3:] or "**"
    pattern = re.sub(r"(?:\*\*/)+", "**/", pattern)
    error = _find_pattern_error(specifier, anchor, pattern)
    if error is not None:
        return error
    rooted = "/" + pattern.lstrip("/") if climbs or anchor is not Anchor.DIRECTORY else pattern
    # `**/` means all directories, so it also covers the files at the top.
    wide = "**" if rooted.strip("/") == "**" else rooted
    wide = f"**/{wide}" if _is_one_directory(wide) else wide
    base = PatternBase(anchor, source if anchor is Anchor.SOURCE else Path("/"), climbs)
    return PathPattern(base, rooted, wide)


def _find_pattern_error(specifier: str, anchor: Anchor, pattern: str) -> str | None:
    if ".." in pattern.split("/"):
        return "a pattern cannot contain '..' after its start"
    if specifier.startswith("~") and anchor is not Anchor.HOME:
        return "another user's home directory cannot be named; write //home/name/…"
    if pattern.startswith("!"):
        return "exceptions with '!' are not supported"
    if pattern.count("**") > _MAX_WILDCARDS or any(
        part.replace("**", "").count("*") > _MAX_WILDCARDS for part in pattern.split("/")
    ):
        return f"more than {_MAX_WILDCARDS} wildcards in a row"
    return None


def _split_anchor(specifier: str) -> tuple[Anchor, str]:
    if specifier.startswith("//"):
        return Anchor.ROOT, specifier[1:]
    if specifier == "~" or specifier.startswith("~/"):
        return Anchor.HOME, specifier[1:] or "/**"
    if specifier.startswith("/"):
        return Anchor.SOURCE, specifier
    pattern = specifier
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    return Anchor.DIRECTORY, "**" if pattern in ("", ".") else pattern


def _is_one_directory(pattern: str) -> bool:
    """Return whether the pattern is like `src/**`, which deny and ask apply at any depth."""
    head, slash, rest = pattern.partition("/")
    return bool(head) and head != "**" and bool(slash) and rest == "**"


def extract_literal_prefix(pattern: str) -> str:
    """Return the directories of a rooted pattern before its first wildcard."""
    if "/" not in pattern.rstrip("/"):
        return ""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if _WILDCARD_CHARACTERS.search(part):
            break
        parts.append(part)
    return "/".join(parts)


def is_literal(part: str) -> bool:
    """Return whether a part of a pattern has no wildcard."""
    return bool(part) and _WILDCARD_CHARACTERS.search(part) is None


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    regex: re.Pattern[str]
    matches_everything: bool
    """Whether it also covers the directory from which it starts."""

    def covers(self, relative: str) -> bool:
        return self.regex.match(relative) is not None if relative else self.matches_everything


def compile_pattern(pattern: str, *, literal_fallback: bool, fold_case: bool) -> CompiledPattern:
    """Compile a pattern.

    An invalid one (with an unclosed bracket) matches nothing or, with `literal_fallback`, the path
    that is its text.
    """
    text = _to_regex(pattern)
    if text is None:
        return CompiledPattern(
            _compile_literal(pattern, fold_case) if literal_fallback else _MATCH_NOTHING,
            matches_everything=False,
        )
    # A path may contain line breaks.
    compiled = _compile(text, re.DOTALL | (re.IGNORECASE if fold_case else re.NOFLAG))
    return CompiledPattern(compiled, matches_everything=text == _MATCH_EVERYTHING)


def is_invalid_gitignore(pattern: str) -> bool:
    """Return whether the pattern is invalid for gitignore."""
    return _to_regex(pattern) is None


def _to_regex(pattern: str) -> str | None:
    # Imported here: it costs 100 ms, and most decisions need no path rule.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    escaped = f"\\{pattern}" if pattern.startswith("#") else pattern
    try:
        regex, _ = GitIgnoreSpecPattern.pattern_to_regex(escaped)
        if regex is None:
            return None
        if regex.endswith("|$)"):
            regex = f"{regex[:-2]}\\Z)"
        # `[!x]` is one letter of a name, never the end of one.
        regex = re.sub(r"(?<!\\)\[\^(?!/)", "[^/", regex)
        # Between two stars the first match is as good as any other. Without backtracking, the
        # time of a match does not grow exponentially with the length of a name.
        regex = _BETWEEN_STARS.sub(r"(?>[^/]*?\1)", regex)
        _compile(regex)
    except (GitIgnorePatternError, re.error):
        return None
    return regex


def _compile(regex: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # `[[]` is a bracket in brackets in every Python version that is supported.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(regex, flags)


def _compile_literal(pattern: str, fold_case: bool) -> re.Pattern[str]:
    rooted = "/" in pattern.rstrip("/")
    start = "" if rooted else "(?:.*/)?"
    flags = re.DOTALL | (re.IGNORECASE if fold_case else re.NOFLAG)
    return re.compile(f"{start}{re.escape(pattern.strip('/'))}(?:/|\\Z)", flags)
