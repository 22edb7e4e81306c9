"""Rules of .gitignore files, for a Glob that is configured to respect them."""

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
    """The rule begins with `!`: paths that it matches are not ignored."""
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
    """The rules of one file, and how to make a path of the walk relative to it.

    `leading_parts` lead from the directory of the file down to the start of the walk;
    `skipped_parts` is the depth of the file below that start.
    """

    rules: tuple[IgnoreRule, ...]
    leading_parts: tuple[str, ...] = ()
    skipped_parts: int = 0

    def decide(self, parts: Sequence[str], *, is_directory: bool) -> bool | None:
        """Return whether the last matching rule ignores the path, or None if no rule matches."""
        own_parts = (*self.leading_parts, *parts[self.skipped_parts :])
        for rule in reversed(self.rules):
            if rule.matches(own_parts, is_directory=is_directory):
                return not rule.is_negated
        return None


@dataclass(frozen=True, slots=True)
class GitignoreStack:
    """The files that apply in one directory, the outermost first."""

    files: tuple[IgnoreFile, ...] = ()

    def enter_directory(self, descriptor: int, depth: int) -> "GitignoreStack":
        """Return a stack with the .gitignore of a directory `depth` levels below the start."""
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
    """Load the .gitignore files of the repository above `directory`, a real path."""
    candidates = [directory, *directory.parents]
    root = next((path for path in candidates if os.path.lexists(path / ".git")), directory)
    files: list[IgnoreFile] = []
    for parent in reversed([path for path in directory.parents if path.is_relative_to(root)]):
        try:
            descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            files.append(IgnoreFile(_read_rules(descriptor), directory.relative_to(parent).parts))
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
    is_negated = text.startswith("!")
    text = text[1:] if is_negated else text
    if not text.strip("/") or line.startswith("#"):
        return None
    body = text.strip("/")
    anchored = "/" in text.rstrip("/")
    parts = [part for part in body.split("/") if part]
    segments = build_segments(parts if anchored else ["**", *parts])
    return IgnoreRule(GlobPattern((segments,)), is_negated, text.endswith("/"))
