"""Whether what permitted a call also opens addresses that are not public."""

import re

from mcp_dispatch.model.decision import Decision, Effect, Vote
from mcp_dispatch.web.errors import BadUrl
from mcp_dispatch.web.hosts import canonical_host

_DOMAIN = re.compile(r"\s*domain\s*:\s*(.*?)\s*", re.DOTALL)
_RULE = re.compile(r"\s*WebFetch\((.*)\)\s*", re.DOTALL)


def spelled_domain(specifier: str) -> str | None:
    """The host in `domain:host`, as it is written."""
    found = _DOMAIN.fullmatch(specifier)
    return None if found is None else found.group(1)


def rule_host(domain: str) -> str:
    """The canonical host that a rule spells without `*`. An IPv6 address may go without brackets.

    Raises `BadUrl`.
    """
    bare = ":" in domain and not domain.startswith("[")
    return canonical_host(f"[{domain}]" if bare else domain)


def opened_by(decision: Decision | None, host: str) -> bool:
    """Whether an allow rule names this very host.

    A bare `WebFetch`, a pattern, a hook or a person says that a page may be read, not that
    whatever its name leads to may be reached.
    """
    votes = () if decision is None else decision.votes
    return any(vote.effect is Effect.ALLOW and _names(vote, host) for vote in votes)


def _names(vote: Vote, host: str) -> bool:
    # Only a rule stands on a line; a hook's origin has its command where a rule has its text.
    if vote.origin.line is None or vote.origin.rule is None:
        return False
    found = _RULE.fullmatch(vote.origin.rule)
    domain = None if found is None else spelled_domain(found.group(1))
    if domain is None:
        return False
    try:
        return rule_host(domain) == host
    except BadUrl:
        return False
