"""Decides whether a rule that allowed a call also allows addresses that are not public."""

import re

from mcp_dispatch.model.decision import Decision, Effect, Vote
from mcp_dispatch.web.errors import BadUrl
from mcp_dispatch.web.hosts import canonicalize_host

_DOMAIN_SPECIFIER = re.compile(r"\s*domain\s*:\s*(.*?)\s*", re.DOTALL)
_WEB_FETCH_RULE = re.compile(r"\s*WebFetch\((.*)\)\s*", re.DOTALL)


def parse_domain_specifier(specifier: str) -> str | None:
    """Return the host of `domain:host`, as written."""
    found = _DOMAIN_SPECIFIER.fullmatch(specifier)
    return None if found is None else found.group(1)


def canonicalize_rule_host(domain: str) -> str:
    """Return the canonical host of a rule without `*`. An IPv6 address may have no brackets.

    Raises `BadUrl`.
    """
    bare = ":" in domain and not domain.startswith("[")
    return canonicalize_host(f"[{domain}]" if bare else domain)


def allows_private_host(decision: Decision | None, host: str) -> bool:
    """Return whether an allow rule names exactly this host.

    A bare `WebFetch`, a pattern, a hook or a person allows reading a page, but not connecting to
    every address that its name resolves to.
    """
    votes = () if decision is None else decision.votes
    return any(vote.effect is Effect.ALLOW and _matches_host(vote, host) for vote in votes)


def _matches_host(vote: Vote, host: str) -> bool:
    # Only a rule has a line; the origin of a hook has its command in the field `rule`.
    if vote.origin.line is None or vote.origin.rule is None:
        return False
    found = _WEB_FETCH_RULE.fullmatch(vote.origin.rule)
    domain = None if found is None else parse_domain_specifier(found.group(1))
    if domain is None:
        return False
    try:
        return canonicalize_rule_host(domain) == host
    except BadUrl:
        return False
