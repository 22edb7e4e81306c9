"""Which names promise a secret: `password`, `GITHUB_TOKEN`, `X-Api-Key`; and which only sound so."""

import re
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
