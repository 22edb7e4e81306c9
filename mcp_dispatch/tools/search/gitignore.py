"""The .gitignore files around a walk, for those who want Glob to respect them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.tools.search.glob_pattern import Level, Pattern, segments_of

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_MOST_BYTES = 256 * 1024
_TRAILING_BLANKS = re.compile(r"(?<!\\) +$")


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: Pattern
    keeps: bool
    """It begins with `!`: what it matches is not ignored after all."""
    directories_only: bool

    def meets(self, parts: Sequence[str], *, is_directory: bool) -> bool:
        if self.directories_only and not is_directory:
            return False
        positions = self.pattern.start()
        for part in parts[:-1]:
            positions = Level(self.pattern, positions).below(part)
        return Level(self.pattern, positions).takes(parts[-1])


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """`lead`: the names from its directory to the walk's start; `skip`: from there back to it."""

    rules: tuple[Rule, ...]
    lead: tuple[str, ...] = ()
    skip: int = 0

    def verdict(self, parts: Sequence[str], *, is_directory: bool) -> bool | None:
        """Of the rules that meet a name the last decides; None where there is none."""
        own = (*self.lead, *parts[self.skip :])
        for rule in reversed(self.rules):
            if rule.meets(own, is_directory=is_directory):
                return not rule.keeps
        return None


@dataclass(frozen=True, slots=True)
class Ignored:
    """The files that count in one directory, the outermost first."""

    files: tuple[IgnoreFile, ...] = ()

    def below(self, descriptor: int, depth: int) -> "Ignored":
        """With the one in the directory `depth` names below the walk's start."""
        rules = _rules(descriptor)
        return Ignored((*self.files, IgnoreFile(rules, skip=depth))) if rules else self

    def covers(self, relative: str, *, is_directory: bool) -> bool:
        parts = relative.split("/")
        for file in reversed(self.files):
            verdict = file.verdict(parts, is_directory=is_directory)
            if verdict is not None:
                return verdict
        return False


def ignored_around(directory: Path) -> Ignored:
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
            files.append(IgnoreFile(_rules(descriptor), directory.relative_to(place).parts))
        finally:
            os.close(descriptor)
    return Ignored(tuple(files))


def _rules(directory: int) -> tuple[Rule, ...]:
    try:
        descriptor = os.open(".gitignore", _READ, dir_fd=directory)
    except OSError:
        return ()
    try:
        text = os.read(descriptor, _MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    return tuple(rule for line in text.splitlines() if (rule := rule_of(line)) is not None)


def rule_of(line: str) -> Rule | None:
    text = _TRAILING_BLANKS.sub("", line)
    keeps = text.startswith("!")
    text = text[1:] if keeps else text
    if not text.strip("/") or line.startswith("#"):
        return None
    body = text.strip("/")
    anchored = "/" in text.rstrip("/")
    parts = [part for part in body.split("/") if part]
    segments = segments_of(parts if anchored else ["**", *parts])
    return Rule(Pattern((segments,)), keeps, text.endswith("/"))
