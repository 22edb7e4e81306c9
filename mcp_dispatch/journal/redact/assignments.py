"""Finds secrets by the name before them: `NAME=value`, `"name": "value"`, `--name value`."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mcp_dispatch.journal.redact.credentials import (
    CredentialName,
    SecretConfidence,
    is_bare_secret,
    is_random,
    is_secret,
    is_shell_secret,
    parse_credential_name,
)
from mcp_dispatch.journal.redact.vendor_tokens import SecretSpan

# Quantifiers inside patterns are possessive or bounded, so that matching takes linear time.
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])(?<!\[redacted:)(?P<dashes>-{0,2}+)(?P<name>\w[\w.-]{0,120}+)"
    r"(?P<closed>\\{0,3}+[\"'`]?+\]?+)(?P<before>[ \t]{0,8}+)"
    r"(?P<sign>:=|=>|={1,3}+|\?=|:{1,2}+=?+|\|\||,|>)(?P<after>[ \t]{0,8}+)"
)
_OPTION = re.compile(r"(?<![\w-])--(?P<name>[A-Za-z][\w-]{0,60}+)[ \t]{1,8}+(?![-|<>&;])")
_BLOCK_SCALAR = re.compile(r"[|>][-+]?+[ \t]*+\r?\n[ \t]++")
_QUOTED = (
    re.compile(r'[A-Za-z]{0,2}+"((?:[^"\\\n]|\\.)*+)'),
    re.compile(r"[A-Za-z]{0,2}+'((?:[^'\\\n]|\\.)*+)"),
    re.compile(r"`([^`\n]*+)"),
    re.compile(r"\\{1,3}+[\"']((?:[^\\\"'\n]|\\(?!\\{0,2}[\"']))*+)"),
)
_BARE = re.compile(r"[^\s\"'`,;<>&\\]{1,4096}+")
_SHORT_BARE = re.compile(r"[^\s\"'`,;<>&\\]{1,600}+")
_SHELL_VALUE = re.compile(r"[^\s\"'`\\]{1,4096}+")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_VALUE_ENDINGS = ("", "\n", "\r", "\\", '"', "'", "<")
_HEADER = re.compile(
    r"(?P<quote>\\{0,3}+[\"'`])?+(?P<scheme>(?:Basic|Bearer|Token|Digest|ApiKey|Negotiate)[ \t]++)?+"
    r"(?P<value>[^\r\n\"'`\\]{1,4096}+)",
    re.IGNORECASE,
)
_HEADER_REMAINDER = re.compile(r"[^\r\n\"'`\\]++")
_TWO_WORDS = re.compile(r"\w+[ \t]\w+\Z")


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A credential name and the sign after it; the value begins at `value_start`.

    `tight`: `name=value` without spaces. `shell`: a form that only a shell or an env file uses.
    """

    text: str
    written_name: str
    name: CredentialName
    name_start: int
    value_start: int
    sign: str
    tight: bool
    shell: bool


def find_assigned_secrets(text: str) -> Iterator[SecretSpan]:
    """Yield the values of credential names."""
    yield from _find_secrets(_find_assignments(text))
    yield from _find_secrets(_find_options(text))


def _find_secrets(assignments: Iterable[_Assignment]) -> Iterator[SecretSpan]:
    """Assignments come in order; one inside a secret that was found already is skipped."""
    done = 0
    for assignment in assignments:
        span = None if assignment.name_start < done else _find_secret(assignment)
        if span is not None:
            done = span.end
            yield span


def _find_assignments(text: str) -> Iterator[_Assignment]:
    for found in _ASSIGNMENT.finditer(text):
        name = _classify_name(text, found)
        if name is not None and _is_plausible(text, found):
            spaced = found["before"] or found["after"] or found["closed"]
            tight = found["sign"] == "=" and not spaced
            yield _Assignment(
                text=text,
                written_name=found["name"],
                name=name,
                name_start=found.start("name"),
                value_start=_find_value_start(text, found.end()),
                sign=found["sign"],
                tight=tight,
                shell=tight and (found["dashes"] == "--" or found["name"].isupper()),
            )


def _find_options(text: str) -> Iterator[_Assignment]:
    for found in _OPTION.finditer(text):
        name = parse_credential_name(found["name"])
        if name is not None:
            opened, start = found.start("name"), found.end()
            yield _Assignment(text, found["name"], name, opened, start, "=", tight=True, shell=True)


def _classify_name(text: str, found: re.Match[str]) -> CredentialName | None:
    """Classify the name; for `API key: …` together with the word before it."""
    if found["name"].lower() in ("key", "keys"):
        words = _TWO_WORDS.search(text, max(0, found.start("name") - 24), found.end("name"))
        return parse_credential_name(words[0] if words else found["name"])
    return parse_credential_name(found["name"])


def _is_plausible(text: str, found: re.Match[str]) -> bool:
    """`>` is an assignment only after `<name`, a comma only between two quoted strings."""
    if found["sign"] == ">":
        return text[found.start() - 1 : found.start()] == "<"
    if found["sign"] == ",":
        return found["closed"][-1:] in ("'", '"') and text[found.end() : found.end() + 1] in "'\""
    return True


def _find_value_start(text: str, position: int) -> int:
    scalar = _BLOCK_SCALAR.match(text, position)
    return scalar.end() if scalar else position


def _find_secret(assignment: _Assignment) -> SecretSpan | None:
    header = assignment.name.kind in ("authorization", "cookie")
    if header and (assignment.tight or assignment.sign.startswith(":")):
        return _find_header_secret(assignment)
    for quoted in _QUOTED:
        value = quoted.match(assignment.text, assignment.value_start)
        if value is not None:
            return _find_quoted_secret(assignment, value)
    return _find_bare_secret(assignment)


def _find_header_secret(assignment: _Assignment) -> SecretSpan | None:
    """The value of a header is the rest of its line. In prose, words follow the same names."""
    found = _HEADER.match(assignment.text, assignment.value_start)
    if found is None:
        return None
    value = found["value"].rstrip()
    sign = "=" if assignment.name.kind == "cookie" else "[0-9]"
    is_marked = found["quote"] or found["scheme"] or re.search(sign, value)
    if not is_marked or not re.match(r"[\w\[$<{]", value) or not is_secret(value, assignment.name):
        return None
    rest = _HEADER_REMAINDER.match(assignment.text, found.end())
    end = rest.end() if rest else found.start("value") + len(value)
    return SecretSpan(found.start("value"), end, assignment.name.kind)


def _find_quoted_secret(assignment: _Assignment, found: re.Match[str]) -> SecretSpan | None:
    value = found[1]
    if not is_secret(value, assignment.name) or _is_closing_quote(assignment, found):
        return None
    compared = assignment.sign == "," or (assignment.sign.startswith("==") and len(value) < 8)
    if _is_variable_name(value, assignment.written_name) or (compared and not is_random(value)):
        return None
    return SecretSpan(found.start(1), found.end(1), assignment.name.kind)


def _is_closing_quote(assignment: _Assignment, found: re.Match[str]) -> bool:
    """Whether the quote closes the string that contains the name: `prompt="Password: ")`."""
    if not found[1] or found[1][0] in " ,)+;]}":
        return True
    ended = assignment.text[found.end() : found.end() + 1] not in ("", "\n")
    return not ended and re.search(r"[\s()]", found[1]) is not None


def _find_bare_secret(assignment: _Assignment) -> SecretSpan | None:
    pattern = _SHELL_VALUE if assignment.shell else _BARE
    if assignment.name.confidence is SecretConfidence.IF_RANDOM:
        pattern = _SHORT_BARE
    found = pattern.match(assignment.text, assignment.value_start)
    if found is None:
        return None
    value = _trim_punctuation(found[0])
    secret = (
        is_shell_secret(value, assignment.name)
        if assignment.shell
        else is_bare_secret(value, assignment.name, standalone=_is_standalone(assignment, found))
    )
    if not secret or _is_variable_name(value, assignment.written_name):
        return None
    end = _find_run_end(assignment, found, value, pattern)
    return SecretSpan(assignment.value_start, end, assignment.name.kind)


def _trim_punctuation(value: str) -> str:
    """Remove the punctuation of the sentence and the closing brackets around the value."""
    while value and (value[-1] in ",;.:" or _BRACKETS.get(value[-1], value) not in value):
        value = value[:-1]
    return value


def _find_run_end(
    assignment: _Assignment, found: re.Match[str], value: str, pattern: re.Pattern[str]
) -> int:
    """Return the end of the value, which may be longer than a single match."""
    end = found.end()
    while longer := pattern.match(assignment.text, end):
        end = longer.end()
    return end if end > found.end() else assignment.value_start + len(value)


def _is_standalone(assignment: _Assignment, value: re.Match[str]) -> bool:
    """Whether a plain word in this position is a value and not a variable or prose.

    `password=word` outside of call brackets is a value, and so is a word at the end of its line or
    element.
    """
    text = assignment.text
    follows = text[value.end() : value.end() + 1]
    if assignment.tight:
        before = text[max(0, assignment.name_start - 80) : assignment.name_start].rstrip(" -")
        return not before.endswith(("(", ",")) and follows not in (",", ")")
    if not assignment.sign.startswith((":", ">")) or follows not in _VALUE_ENDINGS:
        return False
    return assignment.name.confidence is SecretConfidence.PASSWORD or _has_letters_and_digits(
        value[0]
    )


def _has_letters_and_digits(value: str) -> bool:
    return not value.isalpha() and not value.isdigit() and value.isalnum()


def _is_variable_name(value: str, spelling: str) -> bool:
    """Whether the value repeats the name, as a variable does: `token=token`, `password:
    self._password`."""
    last = re.split(r"[.>:]", value)[-1]
    return _normalize_name(last) in (
        _normalize_name(spelling),
        _normalize_name(spelling.split(".")[-1]),
    )


def _normalize_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
