"""Which tools a hook is for: every tool, a list of exact names, or a pattern."""

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import jsonschema_rs

_PLAIN: Final = re.compile(r"[A-Za-z0-9_\- ,|]*")
_SEPARATOR: Final = re.compile(r"[|,]")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

# Three bounds keep a hostile pattern harmless. The engine is linear-time unless a pattern has
# look-around or back-references; for those the steps are counted; and a name is never long.
_BACKTRACKS: Final = 100_000
_COMPILED_BYTES: Final = 1_000_000
_LONGEST_NAME: Final = 1_000


class Fit(Enum):
    """Whether a hook is for a tool. An UNSURE hook runs, but what it allows does not count."""

    YES = "yes"
    NO = "no"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class EveryTool:
    def fits(self, tool: str) -> Fit:
        return Fit.YES


@dataclass(frozen=True, slots=True)
class NamedTools:
    names: frozenset[str]

    def fits(self, tool: str) -> Fit:
        return Fit.YES if tool in self.names else Fit.NO


@dataclass(frozen=True, slots=True)
class Pattern:
    """An unanchored, case-sensitive regular expression in JavaScript's dialect."""

    text: str
    # A JSON schema's `pattern` is exactly that, so the schema engine's is the one we use.
    compiled: jsonschema_rs.Validator = field(compare=False, repr=False)

    def fits(self, tool: str) -> Fit:
        if len(tool) > _LONGEST_NAME:
            return Fit.UNSURE
        try:
            error = next(iter(self.compiled.iter_errors(tool)), None)
        except ValueError:  # a name that is not Unicode text
            return Fit.UNSURE
        if error is None:
            return Fit.YES
        return Fit.NO if isinstance(error.kind, _NO_MATCH) else Fit.UNSURE


_NO_MATCH: Final = jsonschema_rs.ValidationErrorKind.Pattern


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A matcher we do not understand: its hook runs for every tool."""

    def fits(self, tool: str) -> Fit:
        return Fit.UNSURE


Matcher = EveryTool | NamedTools | Pattern | Unreadable


def read_matcher(text: str) -> Matcher:
    """`""` and `*` are every tool; plain characters a list of names; anything else a pattern."""
    if text in ("", "*"):
        return EveryTool()
    if _PLAIN.fullmatch(text):
        return _named(text)
    return _pattern(text)


def _named(text: str) -> Matcher:
    names = frozenset(name.strip() for name in _SEPARATOR.split(text)) - {""}
    return NamedTools(names) if names else Unreadable()


def _pattern(text: str) -> Matcher:
    options = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=_BACKTRACKS, size_limit=_COMPILED_BYTES
    )
    try:
        compiled = jsonschema_rs.validator_for(
            {"$schema": _DIALECT, "pattern": text}, pattern_options=options
        )
    except ValueError:  # jsonschema_rs.ValidationError is one
        return Unreadable()
    return Pattern(text, compiled)
