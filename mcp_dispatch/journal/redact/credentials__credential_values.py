"""Which values are secrets, given how sure their name makes us."""

import math
import re
from collections import Counter

from mcp_dispatch.journal.redact.credentials import CredentialName, Promise

# Where a secret will stand: `${NAME}`, `$NAME`, `{{ name }}`, `<your token>`, `%(name)s`, and
# the word before it in `Bearer {token}`.
_REFERENCE = re.compile(
    r"\$?\{\{?[^{}]{1,200}\}?\}|\$\([^()]{1,200}\)|\$[A-Z_][A-Z0-9_]*\b|<[^<>]{1,200}>"
    r"|%\(\w{1,80}\)s|%[A-Z_]{1,80}%|%[sdr]\b|\A(?:Bearer|Basic|Token)\s"
)
_REDACTED = re.compile(r"(?:\[redacted:[a-z0-9-]{1,40}\]?)+\Z")
_MASKED = re.compile(r"[*x.•…_-]+", re.IGNORECASE)
_LITERALS = frozenset(
    {
        *("true", "false", "null", "none", "nil", "undefined", "yes", "no", "on", "off", "self"),
        *("str", "string", "int", "integer", "number", "bool", "boolean", "bytes", "object", "any"),
        *("array", "list", "dict", "char", "text", "unknown", "required", "optional", "secretstr"),
    }
)
_CODE = re.compile(
    r"[!(\[{]*[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*)*(?:[(\[{].*)?", re.DOTALL
)
_WORD_WITH_DIGIT = re.compile(r"[A-Za-z_-]{0,512}[0-9][\w-]*")
_VARIABLE = re.compile(r"\$\w+")
_RANDOM_ALPHABET = re.compile(r"[A-Za-z0-9+/=_.~:%|-]{16,512}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_DIGEST = re.compile(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})", re.IGNORECASE)


def is_secret(value: str, name: CredentialName) -> bool:
    """For a value that is a string of its own: quoted, or in a JSON object."""
    value = value.strip()
    if name.promise is Promise.PERHAPS:
        return looks_random(value)
    if not value or _REDACTED.match(value) or _MASKED.fullmatch(value) or _only_refers(value):
        return False
    if name.promise is Promise.SECRET:
        return value.lower() not in _LITERALS and not (value.isdigit() and len(value) < 6)
    return True


def _only_refers(value: str) -> bool:
    rest = _REFERENCE.sub("", value)
    return len(rest) < len(value) and not any(character.isalnum() for character in rest)


def is_shell_secret(value: str, name: CredentialName) -> bool:
    """For an unquoted value in an env file or a command, where every word is a value."""
    if value.lower() in _LITERALS or _VARIABLE.fullmatch(value):
        return False
    return is_secret(value, name) and any(character.isalnum() for character in value)


def is_bare_secret(value: str, name: CredentialName, *, alone: bool) -> bool:
    """For an unquoted value elsewhere in a text, which may also be code or prose.

    `alone` means that its place makes a plain word a value, though still not an expression.
    """
    if not is_shell_secret(value, name):
        return False
    if alone and (value.isalnum() or _WORD_WITH_DIGIT.fullmatch(value)):
        return True
    if _CODE.fullmatch(value):
        return looks_random(value)
    return alone or name.promise is Promise.PASSWORD or len(value) >= 8


def looks_random(value: str) -> bool:
    """Letters and digits mixed, long, and without the shape of an id, a digest or a path."""
    if not _RANDOM_ALPHABET.fullmatch(value) or _UUID.fullmatch(value) or _DIGEST.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~/", "http")) or value.count("/") > len(value) // 8:
        return False
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    return digits >= 2 and letters >= 2 and _entropy(value) >= 3.0


def _entropy(value: str) -> float:
    """Bits per character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
