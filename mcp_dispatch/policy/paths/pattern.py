"""What stands in `Read(…)` and `Edit(…)`: a gitignore pattern with one of four anchors."""

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
    """What the pattern of a path rule starts from."""

    ROOT = "//"
    HOME = "~/"
    SOURCE = "/"
    DIRECTORY = "./"


@dataclass(frozen=True, slots=True)
class PatternBase:
    """Where a pattern starts: an anchor, and how many directories above it.

    `source` is what `/` means in the settings file; it is the root for all other anchors.
    """

    anchor: Anchor
    source: Path
    parent_levels: int


@dataclass(frozen=True, slots=True)
class PathPattern:
    """`tight` is what an allow means, `wide` what a deny or ask does: gitignore patterns."""

    base: PatternBase
    narrow: str
    wide: str

    @property
    def prefix(self) -> str:
        """The directories before the first wildcard, if the pattern is rooted."""
        return extract_literal_prefix(self.narrow)


def parse_path_pattern(specifier: str, source: Path) -> PathPattern | str:
    """The pattern, or what is wrong with it."""
    anchor, pattern = _split_anchor(specifier)
    climbs = 0
    while pattern == ".." or pattern.startswith("../"):
        climbs, pattern = climbs + 1, pattern[3:] or "**"
    pattern = re.sub(r"(?:\*\*/)+", "**/", pattern)
    wrong = _find_pattern_error(specifier, anchor, pattern)
    if wrong is not None:
        return wrong
    rooted = "/" + pattern.lstrip("/") if climbs or anchor is not Anchor.DIRECTORY else pattern
    # Every directory is as good as everything: what lies at the top is in a directory too.
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
    """`src/**`: in deny and ask a directory of that name at any depth."""
    head, slash, rest = pattern.partition("/")
    return bool(head) and head != "**" and bool(slash) and rest == "**"


def extract_literal_prefix(pattern: str) -> str:
    """The directories that a rooted pattern spells before its first wildcard."""
    if "/" not in pattern.rstrip("/"):
        return ""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if _WILDCARD_CHARACTERS.search(part):
            break
        parts.append(part)
    return "/".join(parts)


def is_literal(part: str) -> bool:
    """Whether a part of a pattern stands for itself alone."""
    return bool(part) and _WILDCARD_CHARACTERS.search(part) is None


@dataclass(frozen=True, slots=True)
class CompiledPattern:
    regex: re.Pattern[str]
    matches_everything: bool
    """It covers the directory it starts from as well."""

    def covers(self, relative: str) -> bool:
        return self.regex.match(relative) is not None if relative else self.matches_everything


def compile_pattern(pattern: str, *, literal_fallback: bool, fold_case: bool) -> CompiledPattern:
    """What the pattern matches.

    One that means nothing (an unclosed bracket) matches nothing; or, `literally`, the path that it
    spells.
    """
    text = _to_regex(pattern)
    if text is None:
        return CompiledPattern(
            _compile_literal(pattern, fold_case) if literal_fallback else _MATCH_NOTHING,
            matches_everything=False,
        )
    # A path may contain line breaks, and its end is the end of the text.
    whole = _compile(text, re.DOTALL | (re.IGNORECASE if fold_case else re.NOFLAG))
    return CompiledPattern(whole, matches_everything=text == _MATCH_EVERYTHING)


def is_invalid_gitignore(pattern: str) -> bool:
    """Whether gitignore can make nothing of it."""
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
        # Between two stars the first place that fits is as good as any other: without trying them
        # all, the time that a match takes does not explode with the length of a name.
        regex = _BETWEEN_STARS.sub(r"(?>[^/]*?\1)", regex)
        _compile(regex)
    except (GitIgnorePatternError, re.error):
        return None
    return regex


def _compile(regex: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # `[[]` is a bracket in brackets, now and in every future Python that we will run on.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(regex, flags)


def _compile_literal(pattern: str, fold_case: bool) -> re.Pattern[str]:
    rooted = "/" in pattern.rstrip("/")
    start = "" if rooted else "(?:.*/)?"
    flags = re.DOTALL | (re.IGNORECASE if fold_case else re.NOFLAG)
    return re.compile(f"{start}{re.escape(pattern.strip('/'))}(?:/|\\Z)", flags)
