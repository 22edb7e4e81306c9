"""Rules about hosts: `WebFetch(domain:example.com)`, `WebFetch(domain:*.example.com)`."""

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
    """A host, label by label; `*` stays within its label. `below`: any number of labels more.

    Without labels it is about every host.
    """

    labels: tuple[Wildcard, ...] = ()
    subdomains_only: bool = False

    def covers(self, host: str) -> bool:
        """`host` is canonical."""
        if not self.labels:
            return True
        parts = host.split(".")
        more = len(parts) - len(self.labels)
        if more < 0 or self.subdomains_only is not (more > 0):
            return False
        pairs = zip(self.labels, parts[more:], strict=True)
        return all(label.matches(part) for label, part in pairs)


def parse_domain_pattern(specifier: str) -> DomainPattern | str:
    """The pattern of `domain:host`, or what is wrong with it."""
    domain = parse_domain_specifier(specifier)
    if domain is None:
        return "expected WebFetch(domain:host)"
    if domain == "*":
        return DomainPattern()
    below = domain.startswith(_ANY_SUBDOMAIN)
    rest = domain.removeprefix(_ANY_SUBDOMAIN)
    try:
        labels = (
            _parse_labels(rest)
            if below or "*" in rest
            else tuple(_to_literal_labels(canonicalize_rule_host(rest)))
        )
    except BadUrl:
        return f"{domain!r} is no host; write it without scheme, user name, port and path"
    return DomainPattern(labels, below)


def parse_host(url: object) -> str | None:
    """The canonical host of a URL; None where it is none that could be fetched."""
    if not isinstance(url, str):
        return None
    try:
        return parse_url(url).host
    except BadUrl:
        return None


def _to_literal_labels(host: str) -> list[Wildcard]:
    return [Wildcard((label,)) for label in host.split(".")]


def _parse_labels(domain: str) -> tuple[Wildcard, ...]:
    labels = [encode_punycode(label).lower() for label in domain.removesuffix(".").split(".")]
    if not all(map(_LABEL.fullmatch, labels)):
        raise BadUrl(domain)
    return tuple(map(Wildcard.parse, labels))
