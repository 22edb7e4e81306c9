"""A strict parser for URLs of pages, and their canonical form."""

import re
from dataclasses import dataclass, replace
from urllib.parse import quote, urljoin

from mcp_dispatch.web.errors import BadUrl
from mcp_dispatch.web.hosts import canonicalize_host

MAX_URL_CHARS = 2_000
"""The maximum length of a URL in canonical form."""

_URL_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]+)(?::([0-9]{0,5}))?")
# Programs interpret these characters differently; they must be percent-encoded.
_AMBIGUOUS = re.compile(r"[\x00-\x20\x7f-\x9f\\\s\ud800-\udfff]")
_MAX_INPUT_CHARS = 20_000
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNQUOTED_CHARACTERS = "/?%:@!$&'()*+,;=~[]"


@dataclass(frozen=True, slots=True)
class Url:
    """`host` is canonical; `target` is path and query, in ASCII, and begins with `/`."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """The value of the Host header: the host, and the port unless it is the default."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    @property
    def https_url(self) -> "Url":
        """The URL with https instead of http, unless it has an explicit port."""
        if self.scheme == "http" and self.port == _DEFAULT_PORTS["http"]:
            return replace(self, scheme="https", port=_DEFAULT_PORTS["https"])
        return self

    def resolve(self, reference: str) -> "Url":
        """Resolve `reference`, the target of a redirect, against this URL. Raises `BadUrl`."""
        _refuse_ambiguous(reference)
        try:
            return parse_url(urljoin(str(self), reference))
        except ValueError as error:
            raise BadUrl(f"{reference!r} is no URL: {error}") from error


def parse_url(text: str) -> Url:
    """Parse an http or https URL without its fragment. Raises `BadUrl`."""
    trimmed = text.strip(" \t\r\n")
    _refuse_ambiguous(trimmed)
    shape = _URL_PARTS.fullmatch(trimmed)
    if shape is None:
        raise BadUrl(f"{trimmed!r} is no absolute URL; write it as https://host/path")
    scheme, authority, path, query = shape.groups(default="")
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise BadUrl(f"{trimmed!r} has the scheme {scheme!r}; only http and https are fetched")
    host, port = _parse_authority(trimmed, authority)
    target = quote((path or "/") + query, safe=_UNQUOTED_CHARACTERS)
    return Url(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port, target)


def _refuse_ambiguous(text: str) -> None:
    if len(text) > _MAX_INPUT_CHARS:
        raise BadUrl(f"the URL has {len(text):,} characters; at most {MAX_URL_CHARS:,} are taken")
    if found := _AMBIGUOUS.search(text):
        raise BadUrl(f"the URL contains {found.group()!r}; percent-encode it")


def _parse_authority(url: str, authority: str) -> tuple[str, int | None]:
    if "@" in authority:
        # A user name can look like a host: `https://docs.python.org@evil.com`.
        raise BadUrl("the URL holds a user name or password ('@' before the path); leave it out")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise BadUrl(f"{url!r} has no usable host")
    host, digits = found.groups()
    port = int(digits) if digits else None
    if port is not None and not 0 < port < 65_536:
        raise BadUrl(f"{url!r} has the port {port}; a port is from 1 to 65535")
    return canonicalize_host(host), port
