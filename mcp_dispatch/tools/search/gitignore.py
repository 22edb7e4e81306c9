"""The .gitignore files around a walk, for those who want Glob to respect them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.tools.search.glob_pattern import GlobPattern, PatternLevel, build_segments

_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_MAX_FILE_BYTES = 256 * 1024
_TRAILING_BLANKS = re.compile(r"(?<!\\) +$")


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    pattern: GlobPattern
    is_negated: bool
    """It begins with `!`: what it matches is not ignored after all."""
    directories_only: bool

    def matches(self, parts: Sequence[str], *, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        positions = self.pattern.find_start_positions()
        for part in parts[:-1]:
            positions = PatternLevel(self.pattern, positions).enter_directory(part)
        return PatternLevel(self.pattern, positions).matches(parts[-1])


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """`lead`: the names from its directory to the walk's start; `skip`: from there back to it."""

    rules: tuple[IgnoreRule, ...]
    leading_parts: tuple[str, ...] = ()
    skipped_parts: int = 0

    def decide(self, parts: Sequence[str], *, is_directory: bool) -> bool | None:
        """Of the rules that meet a name the last decides; None where there is none."""
        own = (*self.leading_parts, *parts[self.skipped_parts :])
        for rule in reversed(self.rules):
            if rule.matches(own, is_directory=is_directory):
                return not rule.is_negated
        return None


@dataclass(frozen=True, slots=True)
class GitignoreStack:
    """The files that count in one directory, the outermost first."""

    files: tuple[IgnoreFile, ...] = ()

    def enter_directory(self, descriptor: int, depth: int) -> "GitignoreStack":
        """With the one in the directory `depth` names below the walk's start."""
        rules = _read_rules(descriptor)
        return (
            GitignoreStack((*self.files, IgnoreFile(rules, skipped_parts=depth))) if rules else self
        )

    def covers(self, relative: str, *, is_directory: bool) -> bool:
        parts = relative.split("/")
        for file in reversed(self.files):
            verdict = file.decide(parts, is_directory=is_directory)
            if verdict is not None:
                return verdict
        return False


def load_ignore_files(directory: Path) -> GitignoreStack:
    """What the repository says above `directory`, a real path; nothing outside a repository."""
    above = [directory, *directory.parents]
    root = next((place for place in above if os.path.lexists(place / ".git")), directory)
    files: list[IgnoreFile] = []
    for place in reversed([one for one in directory.parents if one.is_relative_to(root)]):
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            files.append(IgnoreFile(_read_rules(descriptor), directory.relative_to(place).parts))
        finally:
            os.close(descriptor)
    return GitignoreStack(tuple(files))


def _read_rules(directory: int) -> tuple[IgnoreRule, ...]:
    try:
        descriptor = os.open(".gitignore", _READ_FLAGS, dir_fd=directory)
    except OSError:
        return ()
    try:
        text = os.read(descriptor, _MAX_FILE_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    return tuple(rule for line in text.splitlines() if (rule := parse_rule(line)) is not None)


def parse_rule(line: str) -> IgnoreRule | None:
    text = _TRAILING_BLANKS.sub("", line)
    keeps = text.startswith("!")
    text = text[1:] if keeps else text
    if not text.strip("/") or line.startswith("#"):
        return None
    body = text.strip("/")
    anchored = "/" in text.rstrip("/")
    parts = [part for part in body.split("/") if part]
    segments = build_segments(parts if anchored else ["**", *parts])
    return IgnoreRule(GlobPattern((segments,)), keeps, text.endswith("/"))
