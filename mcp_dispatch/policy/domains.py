"""Patterns of host rules: `WebFetch(domain:example.com)`, `WebFetch(domain:*.example.com)`."""

import re
from dataclasses import dataclass

from mcp_dispatch.policy.commands.pattern import Wildcard
from mcp_dispatch.web.errors import BadUrl
from mcp_dispatch.web.hosts import encode_punycode
from mcp_dispatch.web.private_hosts import canonicalize_rule_host, parse_domain_specifier
from mcp_dispatch.web.url import parse_url

_LABEL = re.compile(r"[a-z0-9_*-]{1,63}")
_ANY_SUBDOMAIN = "*."


@dataclass(frozen=True, slots=True)
class DomainPattern:
    """The labels of a host; a `*` matches within its label. Without labels it covers every host.

    `subdomains_only`: one or more labels stand before the given ones.
    """

    labels: tuple[Wildcard, ...] = ()
    subdomains_only: bool = False

    def covers(self, host: str) -> bool:
        """Return whether the pattern covers `host`, which must be canonical."""
        if not self.labels:
            return True
        parts = host.split(".")
        extra = len(parts) - len(self.labels)
        if extra < 0 or self.subdomains_only is not (extra > 0):
            return False
        pairs = zip(self.labels, parts[extra:], strict=True)
        return all(label.matches(part) for label, part in pairs)


def parse_domain_pattern(specifier: str) -> DomainPattern | str:
    """Return the pattern of `domain:host`, or a message that says what is wrong with it."""
    domain = parse_domain_specifier(specifier)
    if domain is None:
        return "expected WebFetch(domain:host)"
    if domain == "*":
        return DomainPattern()
    subdomains_only = domain.startswith(_ANY_SUBDOMAIN)
    rest = domain.removeprefix(_ANY_SUBDOMAIN)
    try:
        if subdomains_only or "*" in rest:
            labels = _parse_labels(rest)
        else:
            labels = tuple(Wildcard((label,)) for label in canonicalize_rule_host(rest).split("."))
    except BadUrl:
        return f"{domain!r} is no host; write it without scheme, user name, port and path"
    return DomainPattern(labels, subdomains_only)


def parse_host(url: object) -> str | None:
    """Return the canonical host of a URL, or None if the URL cannot be fetched."""
    if not isinstance(url, str):
        return None
    try:
        return parse_url(url).host
    except BadUrl:
        return None


def _parse_labels(domain: str) -> tuple[Wildcard, ...]:
    labels = [encode_punycode(label).lower() for label in domain.removesuffix(".").split(".")]
    if not all(map(_LABEL.fullmatch, labels)):
        raise BadUrl(domain)
    return tuple(map(Wildcard.parse, labels))
