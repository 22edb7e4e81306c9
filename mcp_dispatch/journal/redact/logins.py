"""Finds credentials by their syntax: in URLs, `Bearer` and `Basic` headers, commands and
manifests."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from mcp_dispatch.journal.redact.credentials import (
    CredentialName,
    SecretConfidence,
    is_random,
    is_secret,
    parse_credential_name,
)
from mcp_dispatch.journal.redact.vendor_tokens import SecretSpan

LOGIN_HINT = re.compile("://|bearer|basic|curl|sshpass|mysql|value|secret", re.IGNORECASE)
"""Matches in every text in which `find_embedded_logins` finds something."""

_URL_PASSWORD = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@?#\"'<>\\]{0,256}:([^\s/?#\"'<>\\]{1,512})@"
)
_URL_TOKEN = re.compile(r"://([^\s/:@?#\"'<>\\]{16,512})@")
_BEARER = re.compile(r"\bBearer[ \t]{1,8}([A-Za-z0-9._~+/=-]{12,})", re.IGNORECASE)
_BASIC = re.compile(r"\bBasic[ \t]{1,8}([A-Za-z0-9+/]{8,}={0,2})", re.IGNORECASE)
_NAME_AND_VALUE = re.compile(
    r"\b(?:name|key)\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?([A-Za-z_][\w.-]{0,120})\\?[\"']?"
    r"[\s,]{0,40}\\?[\"']?value\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}(?:\\?[\"']([^\n\"'\\]{1,4096})"
    r"|([^\s\"'\\]{1,4096}))",
    re.IGNORECASE,
)
_CURL_LOGIN = re.compile(
    r"(?<=\s)(?:-u|--user)[ \t=]{0,8}(?:[\"'][^:\n\"']{0,200}:([^\n\"']{1,400})"
    r"|[^\s:\"']{0,200}:([^\s\"']{1,400}))"
)
_SHELL_PASSWORD = re.compile(
    r"\b(?:sshpass[ \t]{1,8}-p[ \t]{0,8}|mysql(?:dump|admin)?\b[^\n|;&]{0,200}?[ \t]-p)"
    r"[\"']?([^\s\"']{1,400})"
)
_KUBERNETES_SECRET = re.compile(
    r"\bkind\\?[\"']?[ \t]{0,8}:[ \t]{0,8}\\?[\"']?secret\b", re.IGNORECASE
)
_KUBERNETES_VALUE = re.compile(
    r"(?m)^[ \t]++[\w.-]{1,200}+:[ \t]*+[\"']?([A-Za-z0-9+/]{8,}+={0,2})[\"']?[ \t]*+\r?$"
)


def find_embedded_logins(text: str) -> Iterator[SecretSpan]:
    folded = text.lower()
    if "://" in text:
        yield from _find_captured(_URL_PASSWORD, text, "password", _is_literal)
        yield from _find_captured(_URL_TOKEN, text, "token", is_random)
    if "bearer" in folded:
        yield from _find_captured(_BEARER, text, "authorization", _has_digit)
    if "basic" in folded:
        yield from _find_captured(_BASIC, text, "authorization", _is_login)
    if "curl" in folded:
        yield from _find_captured(_CURL_LOGIN, text, "password", _is_literal)
    if "sshpass" in folded or "mysql" in folded:
        yield from _find_captured(_SHELL_PASSWORD, text, "password", _is_literal)
    if "value" in folded:
        yield from _find_named_values(text)
    if "secret" in folded and _KUBERNETES_SECRET.search(text):
        yield from _find_captured(_KUBERNETES_VALUE, text, "secret", _is_literal)


def _find_captured(
    pattern: re.Pattern[str], text: str, kind: str, accepts: Callable[[str], bool]
) -> Iterator[SecretSpan]:
    """Yield the span of the last matching group of each match, if `accepts` holds for its text."""
    for found in pattern.finditer(text):
        group = found.lastindex or 0
        if accepts(found[group]):
            yield SecretSpan(found.start(group), found.end(group), kind)


def _is_literal(value: str) -> bool:
    return (
        is_secret(value, CredentialName("password", SecretConfidence.PASSWORD)) and value[0] != "$"
    )


def _has_digit(value: str) -> bool:
    return any(character.isdigit() for character in value)


def _is_login(value: str) -> bool:
    """Whether the value is `user:password` in base64, and not a word after "basic"."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def _find_named_values(text: str) -> Iterator[SecretSpan]:
    """Find `name: DB_PASSWORD, value: …`, as in manifests and XML settings."""
    for found in _NAME_AND_VALUE.finditer(text):
        name = parse_credential_name(found[1])
        group = 2 if found[2] is not None else 3
        if name is not None and is_secret(found[group], name):
            yield SecretSpan(found.start(group), found.end(group), name.kind)
