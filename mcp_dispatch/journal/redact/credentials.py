"""Decides which names belong to secrets (`password`, `GITHUB_TOKEN`, `X-Api-Key`), and which values
are secrets."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum


class SecretConfidence(Enum):
    """How strongly a name indicates that its value is a secret."""

    PASSWORD = "any value is a secret, even a word or a number"
    SECRET = "a value is a secret unless it is plainly something else"
    IF_RANDOM = "a value is a secret if it looks random"


@dataclass(frozen=True, slots=True)
class CredentialName:
    kind: str
    confidence: SecretConfidence


CREDENTIAL_HINT = re.compile(
    r"pass|pwd|pw|secret|token|key|cred|auth|bearer|cookie|jwt|sig|session", re.I
)
"""Matches in every credential name: a text without a match contains none."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS = frozenset(
    {"password", "passwords", "passwd", "passphrase", "passcode", "pwd", "passwort"}
)
_SECRET_KINDS = {
    "secret": "secret",
    "secrets": "secret",
    "token": "token",
    "credential": "credential",
    "credentials": "credential",
    "creds": "credential",
    "apikey": "api-key",
    "apikeys": "api-key",
    "accesskey": "api-key",
    "secretkey": "secret",
    "privatekey": "private-key",
    "bearer": "authorization",
    "jwt": "token",
}
_HEADER_KINDS = {"authorization": "authorization", "cookie": "cookie", "cookies": "cookie"}
# `dbpassword`, `PGPASSWORD`, `authtoken`: the noun is the end of an unseparated word.
_KIND_BY_ENDING = {
    "password": "password",
    "passwd": "password",
    "token": "token",
    "secret": "secret",
    "apikey": "api-key",
    "accesskey": "api-key",
    "secretkey": "secret",
    "privatekey": "private-key",
}
_KEY_QUALIFIERS = frozenset(
    {
        *("api", "access", "secret", "private", "signing", "encryption", "encrypt", "master"),
        *("account", "shared", "auth", "authentication", "admin", "deploy", "hmac", "storage"),
        *("license", "licence", "subscription", "webhook", "sas", "signature", "service", "root"),
    }
)
_AMBIGUOUS_NAMES = frozenset(
    {"key", "keys", "auth", "sig", "signature", "tokens", "pass", "pw", "session"}
)

# `token_type`, `password_policy`, `secret_name`: metadata of a secret.
_METADATA_WORDS = frozenset(
    {
        *("age", "algorithm", "alg", "at", "budget", "by", "class", "count", "counts", "created"),
        *("description", "enabled", "endpoint", "env", "error", "exists", "expiration", "expires"),
        *("expiry", "field", "fields", "file", "filename", "format", "header", "hint", "index"),
        *("input", "issuer", "kind", "label", "len", "length", "lifetime", "limit", "limits"),
        *("manager", "max", "message", "method", "min", "mode", "name", "names", "path", "paths"),
        *("placeholder", "policy", "prefix", "prompt", "provider", "ref", "reference", "regex"),
        *("required", "reset", "rotation", "rules", "scope", "scopes", "size", "source", "status"),
        *("store", "strategy", "suffix", "ttl", "type", "types", "updated", "uri", "url", "usage"),
        *("valid", "validator", "version", "versions", "in", "banner", "consent", "jar"),
        *("basic", "post", "code", "codes", "state", "str", "range"),
    }
)
# `nextPageToken`, `progressToken`, `max_token`: tokens that are not credentials.
_HARMLESS_TOKENS = frozenset(
    {
        *("bos", "cancel", "cancellation", "continuation", "cursor", "end", "eos", "first", "last"),
        *("mask", "max", "min", "next", "num", "pad", "page", "prev", "previous", "progress"),
        *("resume", "sep", "skip", "special", "start", "stop", "sync", "total", "unk"),
    }
)


def parse_credential_name(name: str) -> CredentialName | None:
    """Classify `name` in any spelling: camelCase, snake_case, kebab-case, dotted. None if it is not
    a credential name."""
    if not CREDENTIAL_HINT.search(name):
        return None
    words = [word.lower() for word in _WORD.findall(name[:200])]
    while words and words[-1].isdigit():
        words.pop()
    if not words:
        return None
    found = _classify_words(words)
    if found is None or words[-1] in _METADATA_WORDS:
        return None
    if found.kind == "token" and _HARMLESS_TOKENS.intersection(words):
        return None
    if words[-1] in ("id", "ids"):
        return CredentialName(found.kind, SecretConfidence.IF_RANDOM)
    return found


def _classify_words(words: list[str]) -> CredentialName | None:
    if any(word in _PASSWORDS or word.endswith(("password", "passwd")) for word in words):
        return CredentialName("password", SecretConfidence.PASSWORD)
    if words[-1] in _HEADER_KINDS:
        return CredentialName(_HEADER_KINDS[words[-1]], SecretConfidence.SECRET)
    if len(words) > 1 and words[-1] in ("pass", "pw"):
        return CredentialName("password", SecretConfidence.PASSWORD)
    for word, before in zip(reversed(words), [*reversed(words[:-1]), ""], strict=True):
        kind = _SECRET_KINDS.get(word) or _find_kind_by_ending(word)
        if word in ("key", "keys") and before in _KEY_QUALIFIERS:
            kind = "private-key" if before == "private" else "api-key"
        if kind:
            return CredentialName(kind, SecretConfidence.SECRET)
    seamless = "".join(words)
    kind = _HEADER_KINDS.get(seamless) or _find_kind_by_ending(seamless)
    if kind:
        return CredentialName(kind, SecretConfidence.SECRET)
    if words[-1] in _AMBIGUOUS_NAMES:
        return CredentialName("credential", SecretConfidence.IF_RANDOM)
    return None


def _find_kind_by_ending(word: str) -> str | None:
    return next((kind for ending, kind in _KIND_BY_ENDING.items() if word.endswith(ending)), None)


# Placeholders of secrets: `${NAME}`, `$NAME`, `{{ name }}`, `<your token>`, `%(name)s`, and the
# word before one in `Bearer {token}`.
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
    """Whether a complete string is a secret: a quoted one, or a value in a JSON object."""
    value = value.strip()
    if name.confidence is SecretConfidence.IF_RANDOM:
        return is_random(value)
    if not value or _REDACTED.match(value) or _MASKED.fullmatch(value) or _is_reference(value):
        return False
    if name.confidence is SecretConfidence.SECRET:
        return value.lower() not in _LITERALS and not (value.isdigit() and len(value) < 6)
    return True


def _is_reference(value: str) -> bool:
    rest = _REFERENCE.sub("", value)
    return len(rest) < len(value) and not any(character.isalnum() for character in rest)


def is_shell_secret(value: str, name: CredentialName) -> bool:
    """Whether an unquoted value in an env file or a command is a secret."""
    if value.lower() in _LITERALS or _VARIABLE.fullmatch(value):
        return False
    return is_secret(value, name) and any(character.isalnum() for character in value)


def is_bare_secret(value: str, name: CredentialName, *, standalone: bool) -> bool:
    """Whether an unquoted value elsewhere in a text is a secret; it may also be code or prose.

    `standalone`: a plain word in this position is a value; an expression still is not.
    """
    if not is_shell_secret(value, name):
        return False
    if standalone and (value.isalnum() or _WORD_WITH_DIGIT.fullmatch(value)):
        return True
    if _CODE.fullmatch(value):
        return is_random(value)
    return standalone or name.confidence is SecretConfidence.PASSWORD or len(value) >= 8


def is_random(value: str) -> bool:
    """Whether the value is long, mixes letters and digits, and is no id, digest or path."""
    if not _RANDOM_ALPHABET.fullmatch(value) or _UUID.fullmatch(value) or _DIGEST.fullmatch(value):
        return False
    if value.startswith(("/", "./", "../", "~/", "http")) or value.count("/") > len(value) // 8:
        return False
    digits = sum(character.isdigit() for character in value)
    letters = sum(character.isalpha() for character in value)
    return digits >= 2 and letters >= 2 and _measure_entropy(value) >= 3.0


def _measure_entropy(value: str) -> float:
    """Return the entropy in bits per character."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
