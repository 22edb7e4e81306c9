"""Rules for hosts: which hosts they cover, and which rules are invalid."""

from pathlib import Path

import pytest

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.domains import DomainPattern, parse_domain_pattern, parse_host
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.web.private_hosts import allows_private_host
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, policy

COVERED = [
    ("domain:example.com", "https://example.com/"),
    ("domain:example.com", "https://EXAMPLE.com/path?q#f"),
    ("domain:Example.COM", "https://example.com/"),
    ("domain:example.com", "https://example.com./"),
    ("domain:example.com.", "https://example.com/"),
    (" domain : example.com ", "https://example.com/"),
    ("domain:example.com", "http://example.com:8080/"),
    ("domain:*.example.com", "https://a.example.com/"),
    ("domain:*.example.com", "https://a.b.c.example.com/"),
    ("domain:*.EXAMPLE.com.", "https://www.example.com/"),
    ("domain:*", "https://anything.at.all/"),
    ("domain:*", "https://127.0.0.1/"),
    ("domain:*", "https://[::1]/"),
    ("domain:example.*", "https://example.org/"),
    ("domain:docs-*.example.com", "https://docs-v2.example.com/"),
    ("domain:api.*.example.com", "https://api.eu.example.com/"),
    ("domain:*.api-*.example.com", "https://a.b.api-1.example.com/"),
    ("domain:bücher.example", "https://xn--bcher-kva.example/"),
    ("domain:xn--bcher-kva.example", "https://Bücher.example/"),
    ("domain:*.bücher.example", "https://www.bücher.example/"),
    ("domain:127.0.0.1", "https://0x7f.1/"),
    ("domain:127.0.0.1", "https://2130706433/"),
    ("domain:127.0.0.1", "https://017700000001/"),
    ("domain:127.0.0.1", "https://[::ffff:127.0.0.1]/"),
    ("domain:127.0.0.1", "https://\uff11\uff12\uff17.0.0.1/"),
    ("domain:0x7f.1", "https://127.0.0.1/"),
    ("domain:127.0.*.*", "https://127.0.0.1/"),
    ("domain:[::1]", "https://[0:0:0:0:0:0:0:1]/"),
    ("domain:::1", "https://[::1]/"),
]
NOT_COVERED = [
    ("domain:example.com", "https://www.example.com/"),
    ("domain:example.com", "https://example.com.evil.com/"),
    ("domain:example.com", "https://notexample.com/"),
    ("domain:example.com", "https://evil.com/example.com"),
    ("domain:example.com", "https://evil.com/?example.com"),
    ("domain:example.com", "https://evil.com/#@example.com"),
    ("domain:example.com", "https://example.co/"),
    ("domain:example.com", "https://examp1e.com/"),
    ("domain:example.com", "https://\u0435xample.com/"),
    ("domain:*.example.com", "https://example.com/"),
    ("domain:*.example.com", "https://evilexample.com/"),
    ("domain:*.example.com", "https://a.example.com.evil.com/"),
    ("domain:example.*", "https://example.evil.com/"),
    ("domain:example.*", "https://example/"),
    ("domain:docs-*.example.com", "https://docs-a.b.example.com/"),
    ("domain:api.*.example.com", "https://api.example.com/"),
    ("domain:localhost", "https://127.0.0.1/"),
    ("domain:127.0.0.1", "https://127.0.0.1.evil.com/"),
    ("domain:[::1]", "https://[::2]/"),
]


def _parse_pattern(specifier: str) -> DomainPattern:
    pattern = parse_domain_pattern(specifier)
    assert isinstance(pattern, DomainPattern), pattern
    return pattern


def _parse_host(url: str) -> str:
    host = parse_host(url)
    assert host is not None, url
    return host


@pytest.mark.parametrize(("specifier", "url"), COVERED)
def test_a_domain_rule_covers_its_host_in_every_spelling(specifier: str, url: str) -> None:
    assert _parse_pattern(specifier).covers(_parse_host(url))


@pytest.mark.parametrize(("specifier", "url"), NOT_COVERED)
def test_a_domain_rule_does_not_cover_similar_hosts(specifier: str, url: str) -> None:
    assert not _parse_pattern(specifier).covers(_parse_host(url))


@pytest.mark.parametrize(
    "domain",
    [
        "",
        "https://example.com",
        "example.com/docs",
        "example.com:8080",
        "user@example.com",
        "a..example.com",
        ".example.com",
        "*..example.com",
        "*.",
        "exa mple.com",
        "1.2.3.4.5",
        "[::1",
        "[*::1]",
        "bü*.example",
        "*.%65xample.com",
        "a" * 64,
    ],
)
def test_a_domain_rule_with_an_invalid_host_is_refused(domain: str) -> None:
    problem = parse_domain_pattern(f"domain:{domain}")

    assert problem == f"{domain!r} is no host; write it without scheme, user name, port and path"


@pytest.mark.parametrize("specifier", ["example.com", "url:https://x.org", "Domain:example.com"])
def test_a_web_fetch_specifier_without_a_domain_is_refused(specifier: str) -> None:
    assert parse_domain_pattern(specifier) == "expected WebFetch(domain:host)"


@pytest.mark.parametrize(
    "url", [None, 3, "", "example.com", "ftp://example.com/", "https://a@b/", "https://exa mple/"]
)
def test_a_url_that_cannot_be_fetched_has_no_host(url: object) -> None:
    assert parse_host(url) is None


def _build_fetch(url: str) -> Subject:
    return Subject("WebFetch", "WebFetch", None, {"url": url}, {"url": url}, None)


def _evaluate_fetch(
    tmp_path: Path, rules: Rules, url: str, mode: PermissionMode | None = None
) -> Effect:
    judge = policy(tmp_path, rules, mode or PermissionMode.DEFAULT)
    return judge.evaluate(_build_fetch(url)).effect


def test_a_fetch_that_no_rule_covers_asks_and_suggests_the_rule_for_its_host(
    tmp_path: Path,
) -> None:
    judge = policy(tmp_path)

    decision = judge.evaluate(_build_fetch("https://example.com/a"))

    assert (decision.effect, decision.undecided) == (ASK, True)
    line = judge.suggest_allow_line(_build_fetch("https://example.com/a"))
    assert line == '"allow": ["WebFetch(domain:example.com)"]'


def test_deny_comes_before_ask_and_allow_for_hosts(tmp_path: Path) -> None:
    rules = Rules(
        allow=["WebFetch(domain:*.example.com)", "WebFetch(domain:example.com)"],
        ask=["WebFetch(domain:ask.example.com)"],
        deny=["WebFetch(domain:*.secret.example.com)"],
    )

    assert _evaluate_fetch(tmp_path, rules, "https://example.com/") is ALLOW
    assert _evaluate_fetch(tmp_path, rules, "https://a.b.example.com/") is ALLOW
    assert _evaluate_fetch(tmp_path, rules, "https://ask.example.com/") is ASK
    assert _evaluate_fetch(tmp_path, rules, "https://x.secret.example.com/") is DENY
    assert _evaluate_fetch(tmp_path, rules, "https://example.com.evil.com/") is ASK


def test_an_invalid_url_matches_every_domain_deny_and_no_domain_allow(
    tmp_path: Path,
) -> None:
    url = "https://docs.python.org@evil.com/"

    assert _evaluate_fetch(tmp_path, Rules(deny=["WebFetch(domain:other.com)"]), url) is DENY
    assert _evaluate_fetch(tmp_path, Rules(allow=["WebFetch(domain:docs.python.org)"]), url) is ASK


@pytest.mark.parametrize("text", ["WebFetch(domain:)", "WebFetch(domain:a/b)", "WebFetch(x.com)"])
def test_a_malformed_domain_deny_covers_the_tool_and_a_malformed_allow_nothing(
    tmp_path: Path, text: str
) -> None:
    assert _evaluate_fetch(tmp_path, Rules(deny=[text]), "https://example.com/") is DENY
    assert (
        _evaluate_fetch(tmp_path, Rules(ask=[text], allow=["WebFetch"]), "https://example.com/")
        is ASK
    )
    assert _evaluate_fetch(tmp_path, Rules(allow=[text]), "https://example.com/") is ASK


def test_a_domain_rule_applies_to_no_other_tool(tmp_path: Path) -> None:
    judge = policy(tmp_path, Rules(deny=["WebFetch(domain:*)"], allow=["Bash(curl:*)"]))

    assert judge.evaluate(bash("curl https://example.com/", tmp_path)).effect is ALLOW


def test_a_rule_that_names_a_host_votes_beside_a_rule_for_every_host(tmp_path: Path) -> None:
    rules = Rules(allow=["WebFetch", "WebFetch(domain:localhost)", "WebFetch(domain:other.com)"])

    decision = policy(tmp_path, rules).evaluate(_build_fetch("http://localhost:8080/"))

    named = [vote.origin.rule for vote in decision.votes if vote.effect is ALLOW]
    assert named == ["WebFetch", "WebFetch(domain:localhost)"]
    assert allows_private_host(decision, "localhost")


def test_an_allow_rule_permits_a_fetch_in_plan_mode(tmp_path: Path) -> None:
    rules = Rules(allow=["WebFetch(domain:example.com)"])

    assert _evaluate_fetch(tmp_path, rules, "https://example.com/", PermissionMode.PLAN) is ALLOW


def test_a_deny_of_every_host_hides_the_tool(tmp_path: Path) -> None:
    judge = policy(tmp_path, Rules(deny=["WebFetch(domain:*)"]))

    assert judge.find_tool_deny("WebFetch", "WebFetch", None) is not None
