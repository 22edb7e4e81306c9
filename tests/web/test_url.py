"""Canonical URLs and hosts, and the refusal of ambiguous ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.web.errors import BadUrl
from mcp_dispatch.web.hosts import canonicalize_host
from mcp_dispatch.web.url import Url, parse_url


@pytest.mark.parametrize(
    ("spelled", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("my_host", "my_host"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER。example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F.0.0.0x1", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127.0.0.1"),
        ("①②⑦.0.0.1", "127.0.0.1"),
        ("4294967295", "255.255.255.255"),
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[FE80::1]", "[fe80::1]"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
    ],
)
def test_every_spelling_of_a_host_is_the_same_host(spelled: str, host: str) -> None:
    assert canonicalize_host(spelled) == host
    assert canonicalize_host(host) == host


@pytest.mark.parametrize(
    "spelled",
    [
        *("", ".", "..", "a..b", ".a", "a b", "a%2eb", "a/b", "a\\b", "a@b", "a:b", "a*b", "a,b"),
        *("1.2.3.4.5", "256.0.0.1", "1.256.0.1", "4294967296", "08.1", "a.1", "a.0x1"),
        *("[::1", "::1]", "[]", "[::g]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[127.0.0.1]"),
        *("a" * 64, ".".join(["a" * 60] * 5), "ex℀mple.com", "\u200dü.com", "exa\u0000mple.com"),
    ],
)
def test_an_invalid_host_is_refused(spelled: str) -> None:
    with pytest.raises(BadUrl):
        canonicalize_host(spelled)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com", Url("https", "example.com", 443, "/")),
        ("HTTPS://Example.com:443/a?b=c#d", Url("https", "example.com", 443, "/a?b=c")),
        (" https://example.com/\n", Url("https", "example.com", 443, "/")),
        ("http://example.com:8080?x", Url("http", "example.com", 8080, "/?x")),
        ("https://example.com:", Url("https", "example.com", 443, "/")),
        ("https://example.com/ä?ö=<>", Url("https", "example.com", 443, "/%C3%A4?%C3%B6=%3C%3E")),
        ("https://example.com/%2e%2E/a", Url("https", "example.com", 443, "/%2e%2E/a")),
        ("https://[::1]:8443/", Url("https", "[::1]", 8443, "/")),
        ("https://example.com/@user:x", Url("https", "example.com", 443, "/@user:x")),
    ],
)
def test_a_url_is_parsed_into_its_parts(text: str, url: Url) -> None:
    assert parse_url(text) == url
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("example.com", "'example.com' is no absolute URL; write it as https://host/path"),
        ("//example.com/", "'//example.com/' is no absolute URL; write it as https://host/path"),
        (
            "https:/example.com",
            "'https:/example.com' is no absolute URL; write it as https://host/path",
        ),
        ("", "'' is no absolute URL; write it as https://host/path"),
        (
            "file:///etc/passwd",
            "'file:///etc/passwd' has the scheme 'file'; only http and https are fetched",
        ),
        (
            "ftp://example.com/",
            "'ftp://example.com/' has the scheme 'ftp'; only http and https are fetched",
        ),
        (
            "https://docs.python.org@evil.com/",
            "the URL holds a user name or password ('@' before the path); leave it out",
        ),
        (
            "https://u:p@evil.com/",
            "the URL holds a user name or password ('@' before the path); leave it out",
        ),
        ("https:///path", "'https:///path' has no usable host"),
        ("https://a:b/", "'https://a:b/' has no usable host"),
        ("https://a:1:2/", "'https://a:1:2/' has no usable host"),
        ("https://a:0/", "'https://a:0/' has the port 0; a port is from 1 to 65535"),
        ("https://a:65536/", "'https://a:65536/' has the port 65536; a port is from 1 to 65535"),
        ("https://a:٣/", "'https://a:٣/' has no usable host"),
        ("https://a b/", "the URL contains ' '; percent-encode it"),
        ("https://a/b c", "the URL contains ' '; percent-encode it"),
        ("https://a\\@b/", "the URL contains '\\\\'; percent-encode it"),
        ("https://a/\r\nHost: b", "the URL contains '\\r'; percent-encode it"),
        ("https://a\t.com/", "the URL contains '\\t'; percent-encode it"),
        ("https://a/\ud800", "the URL contains '\\ud800'; percent-encode it"),
        ("https://a/\u2028", "the URL contains '\\u2028'; percent-encode it"),
        (
            "https://a/" + "b" * 20_000,
            "the URL has 20,010 characters; at most 2,000 are taken",
        ),
    ],
)
def test_a_url_that_could_be_misread_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(BadUrl) as refused:
        parse_url(text)

    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("text", "secured"),
    [
        ("http://example.com/a", "https://example.com/a"),
        ("http://example.com:80/a", "https://example.com/a"),
        ("http://example.com:8080/a", "http://example.com:8080/a"),
        ("https://example.com/a", "https://example.com/a"),
    ],
)
def test_http_becomes_https_unless_the_url_has_an_explicit_port(text: str, secured: str) -> None:
    assert str(parse_url(text).https_url) == secured


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/x", "https://example.com/x"),
        ("x", "https://example.com/a/x"),
        ("../x?y", "https://example.com/x?y"),
        ("?z", "https://example.com/a/b?z"),
        ("//evil.com/x", "https://evil.com/x"),
        ("http://example.com/x", "http://example.com/x"),
        ("https://evil.com", "https://evil.com/"),
    ],
)
def test_a_redirect_is_resolved_against_the_url_of_the_response(
    reference: str, target: str
) -> None:
    assert str(parse_url("https://example.com/a/b").resolve(reference)) == target


@pytest.mark.parametrize(
    "reference",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "\\\\evil.com",
        "https://a@b/",
        "https://[::1",
        "/a b",
    ],
)
def test_a_redirect_that_could_be_misread_is_refused(reference: str) -> None:
    with pytest.raises(BadUrl):
        parse_url("https://example.com/a/b").resolve(reference)


@given(st.text(max_size=60))
def test_parsing_the_canonical_form_of_a_url_returns_the_same_url(text: str) -> None:
    try:
        url = parse_url(f"https://{text}").https_url
    except BadUrl:
        return

    assert parse_url(str(url)) == url
    assert str(url).isascii()
