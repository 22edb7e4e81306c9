"""Public and special addresses, and the rules that permit special ones."""

from ipaddress import ip_address

import pytest

from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote
from mcp_dispatch.web.ip_ranges import classify_address
from mcp_dispatch.web.private_hosts import allows_private_host


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "100.63.0.1"),
        *("100.128.0.1", "192.0.1.1", "198.17.0.1", "223.255.255.255", "11.0.0.1", "126.0.0.1"),
        *("2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:8.8.8.8"),
        *("64:ff9b::808:808", "2002:808:808::1"),
    ],
)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert classify_address(ip_address(address)) is None


@pytest.mark.parametrize(
    ("address", "kind", "by_name"),
    [
        ("127.0.0.1", "a loopback address", True),
        ("127.255.255.254", "a loopback address", True),
        ("::1", "a loopback address", True),
        ("::ffff:127.0.0.1", "a loopback address", True),
        ("64:ff9b::7f00:1", "a loopback address", True),
        ("2002:7f00:1::1", "a loopback address", True),
        ("10.0.0.1", "a private address", True),
        ("172.16.0.1", "a private address", True),
        ("172.31.255.255", "a private address", True),
        ("192.168.1.1", "a private address", True),
        ("fd12:3456::1", "a private address", True),
        ("::ffff:10.0.0.1", "a private address", True),
        ("2002:a00:1::", "a private address", True),
        ("64:ff9b::a00:1", "a private address", True),
        ("100.64.0.1", "a carrier's shared address", True),
        ("169.254.169.254", "a link-local address", False),
        ("::ffff:169.254.169.254", "a link-local address", False),
        ("64:ff9b::a9fe:a9fe", "a link-local address", False),
        ("fe80::1", "a link-local address", False),
        ("fe80::1%eth0", "a link-local address", False),
        ("100.100.100.200", "a cloud metadata address", False),
        ("fd00:ec2::254", "a cloud metadata address", False),
        ("0.0.0.0", "an unspecified address", False),
        ("0.1.2.3", "an unspecified address", False),
        ("::", "an unspecified address", False),
        ("224.0.0.1", "a multicast address", False),
        ("239.255.255.250", "a multicast address", False),
        ("ff02::1", "a multicast address", False),
        ("192.0.2.1", "a documentation address", False),
        ("198.51.100.1", "a documentation address", False),
        ("203.0.113.1", "a documentation address", False),
        ("2001:db8::1", "a documentation address", False),
        ("3fff::1", "a documentation address", False),
        ("192.0.0.192", "a reserved address", False),
        ("192.88.99.1", "a reserved address", False),
        ("198.18.0.1", "a reserved address", False),
        ("240.0.0.1", "a reserved address", False),
        ("255.255.255.255", "a reserved address", False),
        ("::127.0.0.1", "a reserved address", False),
        ("64:ff9b:1::7f00:1", "a reserved address", False),
        ("2001::1", "a reserved address", False),
        ("fec0::1", "a reserved address", False),
        ("100::1", "a reserved address", False),
        ("5f00::1", "a reserved address", False),
    ],
)
def test_any_other_address_is_special(address: str, kind: str, by_name: bool) -> None:
    found = classify_address(ip_address(address))

    assert found is not None
    assert (found.kind, found.allowed_by_host_rule) == (kind, by_name)


def _decision(*votes: Vote) -> Decision:
    return Decision(Effect.ALLOW, votes[0], votes)


def _rule(text: str, effect: Effect = Effect.ALLOW) -> Vote:
    tier = Tier.ALLOW if effect is Effect.ALLOW else Tier.HARD_ASK
    return Vote(tier, effect, "a rule", Origin("settings.json", 3, text))


@pytest.mark.parametrize(
    ("rule", "host"),
    [
        ("WebFetch(domain:localhost)", "localhost"),
        ("WebFetch( domain : LOCALHOST. )", "localhost"),
        ("WebFetch(domain:0x7f.1)", "127.0.0.1"),
        ("WebFetch(domain:::1)", "[::1]"),
        ("WebFetch(domain:[::1])", "[::1]"),
    ],
)
def test_an_allow_rule_permits_the_private_host_that_it_names(rule: str, host: str) -> None:
    assert allows_private_host(_decision(_rule("WebFetch"), _rule(rule)), host)


@pytest.mark.parametrize(
    "vote",
    [
        _rule("WebFetch"),
        _rule("WebFetch(domain:*)"),
        _rule("WebFetch(domain:local*)"),
        _rule("WebFetch(domain:*.localhost)"),
        _rule("WebFetch(domain:localhost.evil.com)"),
        _rule("WebFetch(domain:127.0.0.1)"),
        _rule("Read(domain:localhost)"),
        _rule("WebFetch(domain:localhost)", Effect.ASK),
        Vote(
            Tier.ALLOW, Effect.ALLOW, "a hook", Origin("s.json", rule="WebFetch(domain:localhost)")
        ),
        Vote(Tier.ALLOW, Effect.ALLOW, "the mode asks nothing", Origin("permission mode")),
    ],
)
def test_only_an_allow_rule_for_exactly_this_host_permits_it(vote: Vote) -> None:
    assert not allows_private_host(_decision(vote), "localhost")


def test_a_call_without_a_decision_permits_no_private_host() -> None:
    assert not allows_private_host(None, "localhost")
