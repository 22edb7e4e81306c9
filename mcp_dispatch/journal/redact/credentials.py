"""Which names promise a secret: `password`, `GITHUB_TOKEN`, `X-Api-Key`; and which only sound so."""

import math
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum


class Promise(Enum):
    """How sure a name makes us of its value."""

    PASSWORD = "any value is a secret, even a word or a number"
    SECRET = "a value is a secret unless it is plainly something else"
    PERHAPS = "a value is a secret if it looks random"


@dataclass(frozen=True, slots=True)
class CredentialName:
    kind: str
    promise: Promise


_MIGHT = re.compile(r"pass|pwd|pw|secret|token|key|cred|auth|bearer|cookie|jwt|sig|session", re.I)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_PASSWORDS = frozenset(
    {"password", "passwords", "passwd", "passphrase", "passcode", "pwd", "passwort"}
)
_SECRETS = {
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
_HEADERS = {"authorization": "authorization", "cookie": "cookie", "cookies": "cookie"}
# `dbpassword`, `PGPASSWORD`, `authtoken`: the noun closes a word that has no seams.
_ENDINGS = {
    "password": "password",
    "passwd": "password",
    "token": "token",
    "secret": "secret",
    "apikey": "api-key",
    "accesskey": "api-key",
    "secretkey": "secret",
    "privatekey": "private-key",
}
_KINDS_OF_KEY = frozenset(
    {
        *("api", "access", "secret", "private", "signing", "encryption", "encrypt", "master"),
        *("account", "shared", "auth", "authentication", "admin", "deploy", "hmac", "storage"),
        *("license", "licence", "subscription", "webhook", "sas", "signature", "service", "root"),
    }
)
_PERHAPS = frozenset({"key", "keys", "auth", "sig", "signature", "tokens", "pass", "pw", "session"})

# `token_type`, `password_policy`, `secret_name`: about the secret, not the secret.
_ABOUT = frozenset(
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
# `nextPageToken`, `progressToken`, `max_token`: tokens that open nothing.
_HARMLESS_TOKENS = frozenset(
    {
        *("bos", "cancel", "cancellation", "continuation", "cursor", "end", "eos", "first", "last"),
        *("mask", "max", "min", "next", "num", "pad", "page", "prev", "previous", "progress"),
        *("resume", "sep", "skip", "special", "start", "stop", "sync", "total", "unk"),
    }
)


def credential_name(name: str) -> CredentialName | None:
    """What `name` promises, in any spelling: camelCase, snake_case, kebab-case, dotted."""
    if not _MIGHT.search(name):
        return None
    words = [word.lower() for word in _WORD.findall(name[:200])]
    while words and words[-1].isdigit():
        words.pop()
    if not words:
        return None
    found = _promised(words)
    if found is None or words[-1] in _ABOUT:
        return None
    if found.kind == "token" and _HARMLESS_TOKENS.intersection(words):
        return None
    if words[-1] in ("id", "ids"):
        return CredentialName(found.kind, Promise.PERHAPS)
    return found


def _promised(words: list[str]) -> CredentialName | None:
    if any(word in _PASSWORDS or word.endswith(("password", "passwd")) for word in words):
        return CredentialName("password", Promise.PASSWORD)
    if words[-1] in _HEADERS:
        return CredentialName(_HEADERS[words[-1]], Promise.SECRET)
    if len(words) > 1 and words[-1] in ("pass", "pw"):
        return CredentialName("password", Promise.PASSWORD)
    for word, before in zip(reversed(words), [*reversed(words[:-1]), ""], strict=True):
        kind = _SECRETS.get(word) or _kind_by_ending(word)
        if word in ("key", "keys") and before in _KINDS_OF_KEY:
            kind = "private-key" if before == "private" else "api-key"
        if kind:
            return CredentialName(kind, Promise.SECRET)
    seamless = "".join(words)
    kind = _HEADERS.get(seamless) or _kind_by_ending(seamless)
    if kind:
        return CredentialName(kind, Promise.SECRET)
    if words[-1] in _PERHAPS:
        return CredentialName("credential", Promise.PERHAPS)
    return None


def _kind_by_ending(word: str) -> str | None:
    return next((kind for ending, kind in _ENDINGS.items() if word.endswith(ending)), None)


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
