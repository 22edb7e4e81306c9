"""Hook matchers: everything, a list of exact names, or a regular expression."""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import jsonschema_rs

_PLAIN_NAMES: Final = re.compile(r"[A-Za-z0-9_\- ,|]*")
_SEPARATOR: Final = re.compile(r"[|,]")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Three limits bound the cost of a hostile pattern: backtracking steps (needed only for look-around
# and back-references; other patterns run in linear time), compiled size, and length of the name.
_MAX_BACKTRACKS: Final = 100_000
_MAX_COMPILED_BYTES: Final = 1_000_000
_MAX_NAME_CHARS: Final = 1_000


class MatchResult(Enum):
    """Whether a hook applies. With UNSURE the hook runs, but its allow does not count."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class AllMatcher:
    def match(self, subject: str) -> MatchResult:
        return MatchResult.YES


@dataclass(frozen=True, slots=True)
class NameMatcher:
    names: frozenset[str]

    def match(self, subject: str) -> MatchResult:
        return MatchResult.YES if subject in self.names else MatchResult.NO


@dataclass(frozen=True, slots=True)
class RegexMatcher:
    """An unanchored, case-sensitive regular expression in JavaScript's dialect."""

    text: str
    # `pattern` in JSON Schema has the same dialect, so the schema engine compiles it.
    compiled: jsonschema_rs.Validator = field(compare=False, repr=False)

    def match(self, subject: str) -> MatchResult:
        if len(subject) > _MAX_NAME_CHARS:
            return MatchResult.UNSURE
        try:
            error = next(iter(self.compiled.iter_errors(subject)), None)
        except ValueError:  # a name that is not Unicode text
            return MatchResult.UNSURE
        if error is None:
            return MatchResult.YES
        return MatchResult.NO if isinstance(error.kind, _PATTERN_MISMATCH) else MatchResult.UNSURE


_PATTERN_MISMATCH: Final = jsonschema_rs.ValidationErrorKind.Pattern


@dataclass(frozen=True, slots=True)
class InvalidMatcher:
    """A matcher that cannot be parsed: its hook runs for every tool."""

    def match(self, subject: str) -> MatchResult:
        return MatchResult.UNSURE


Matcher = AllMatcher | NameMatcher | RegexMatcher | InvalidMatcher


def parse_matcher(text: str) -> Matcher:
    """Parse `""` and `*` as everything, plain characters as names, anything else as a pattern."""
    if text in ("", "*"):
        return AllMatcher()
    if _PLAIN_NAMES.fullmatch(text):
        return _parse_names(text)
    return _compile_pattern(text)


def _parse_names(text: str) -> Matcher:
    names = frozenset(name.strip() for name in _SEPARATOR.split(text)) - {""}
    return NameMatcher(names) if names else InvalidMatcher()


def _compile_pattern(text: str) -> Matcher:
    options = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_MAX_BACKTRACKS, size_limit=_MAX_COMPILED_BYTES
    )
    try:
        compiled = jsonschema_rs.validator_for(
            {"$schema": _DIALECT, "pattern": text}, pattern_options=options
        )
    except ValueError:  # jsonschema_rs.ValidationError is one
        return InvalidMatcher()
    return RegexMatcher(text, compiled)
