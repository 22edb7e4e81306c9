"""Tests of HTTP hooks against a real server."""

import json
import os

import anyio
import pytest
from anyio.abc import ByteStream

from mcp_dispatch.hooks.actions import HttpPost
from mcp_dispatch.hooks.output import HookFailure, HookOutput
from mcp_dispatch.hooks.runners.http import MAX_RESPONSE_BYTES, AllowedUrls, HttpLimits, HttpRunner
from tests.support.web_server import Script, Server, answer, redirect, serving

DOCUMENT = b'{"tool_name":"Bash"}\n'


async def run_hook(
    post: HttpPost, limits: HttpLimits | None = None, **environ: str
) -> HookOutput | HookFailure:
    with anyio.fail_after(30):
        return await HttpRunner({**os.environ, **environ}, limits).run(post, DOCUMENT)


async def test_the_document_is_posted_and_the_response_body_is_the_output() -> None:
    body = json.dumps({"decision": "block"})
    async with serving({"/hook?a=1": answer(body, "text/plain")}) as server:
        output = await run_hook(HttpPost(server.url("/hook?a=1")))

    head = server.requests[0].lower()
    assert output == HookOutput(0, body)
    assert head.startswith("post /hook?a=1 http/1.1\r\n")
    assert "content-type: application/json\r\n" in head
    assert f"content-length: {len(DOCUMENT)}\r\n" in head


def parse_headers(server: Server) -> dict[str, str]:
    lines = server.requests[0].split("\r\n\r\n")[0].split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


async def test_headers_expand_only_the_allowed_variables() -> None:
    headers = (("Authorization", "Bearer $TOKEN"), ("X-Two", "${TOKEN}/$OTHER/$"), ("a", "$"))
    async with serving({"/": answer("{}")}) as server:
        post = HttpPost(server.url(), headers, ("TOKEN", "UNSET"))
        await run_hook(post, TOKEN="s3cret", OTHER="hidden")

    sent = parse_headers(server)
    assert sent["authorization"] == "Bearer s3cret"
    assert sent["x-two"] == "s3cret//$"
    assert sent["a"] == "$"


async def test_settings_limit_the_variables_of_every_hook() -> None:
    limits = HttpLimits(variables=frozenset({"ONE"}))
    async with serving({"/": answer("{}")}) as server:
        post = HttpPost(server.url(), (("X", "[$ONE][$TWO]"),), ("ONE", "TWO"))
        await run_hook(post, limits, ONE="1", TWO="2")

    assert parse_headers(server)["x"] == "[1][]"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nEvil: 1"),
        ("X", "a\0"),
        ("X", "é"),
        ("X\r\nEvil", "1"),
        ("", "1"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Host", "elsewhere"),
    ],
)
async def test_an_invalid_header_fails_the_hook_without_showing_its_value(
    name: str, value: str
) -> None:
    async with serving({"/": answer("{}")}) as server:
        post = HttpPost(server.url(), ((name, "$SECRET"),), ("SECRET",))
        output = await run_hook(post, SECRET=value)

    assert isinstance(output, HookFailure)
    assert "cannot be sent" in output.message
    assert value not in output.message
    assert server.requests == []


async def test_a_redirect_is_not_followed() -> None:
    async with serving({"/": redirect("/other"), "/other": answer("{}")}) as server:
        output = await run_hook(HttpPost(server.url()))

    assert output == HookFailure("answered with status 302, which decides nothing")
    assert len(server.requests) == 1


async def send_endless_body(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        await stream.send(chunk)


async def send_nothing(stream: ByteStream) -> None:
    await anyio.sleep_forever()


async def send_partial_body(stream: ByteStream) -> None:
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    await anyio.sleep_forever()


async def send_ssh_banner(stream: ByteStream) -> None:
    await stream.send(b"SSH-2.0-OpenSSH_9.9\r\n")


async def close_connection(stream: ByteStream) -> None:
    return None


async def test_a_response_over_the_limit_is_a_failure() -> None:
    async with serving({"/": send_endless_body}) as server:
        output = await run_hook(HttpPost(server.url()))

    assert output == HookFailure(f"answered with more than {MAX_RESPONSE_BYTES} bytes")


@pytest.mark.parametrize("script", [send_nothing, send_partial_body])
async def test_a_response_that_does_not_end_times_out(script: Script) -> None:
    async with serving({"/": script}) as server:
        output = await run_hook(HttpPost(server.url(), timeout=0.3))

    assert output == HookFailure("timed out after 0.3 s", timed_out=True)


@pytest.mark.parametrize("script", [send_ssh_banner, close_connection])
async def test_a_response_that_is_not_http_is_a_failure(script: Script) -> None:
    async with serving({"/": script}) as server:
        output = await run_hook(HttpPost(server.url(), timeout=20))

    assert isinstance(output, HookFailure)
    assert output.message.startswith("cannot be reached: ")


async def test_a_refused_connection_is_a_failure() -> None:
    output = await run_hook(HttpPost("http://127.0.0.1:1/", timeout=20))

    assert isinstance(output, HookFailure)
    assert output.message.startswith("cannot be reached: ")


async def test_a_compressed_response_is_not_decompressed() -> None:
    compressed = answer(b"\x1f\x8b\x08", "application/json", Content_Encoding="gzip")
    async with serving({"/": compressed}) as server:
        output = await run_hook(HttpPost(server.url()))

    assert output == HookFailure("answered 200 with something that is no JSON object")
    assert parse_headers(server)["accept-encoding"] == "identity"


async def test_a_url_that_settings_do_not_allow_is_not_requested() -> None:
    limits = HttpLimits(AllowedUrls([["https://example.com/*"]]))
    async with serving({"/": answer("{}")}) as server:
        output = await run_hook(HttpPost(server.url()), limits)

    assert output == HookFailure("its URL is not among allowedHttpHookUrls")
    assert server.requests == []


async def test_the_label_of_a_url_hook_omits_its_secrets() -> None:
    assert HttpPost("https://me:pw@h.example:8/p/q?token=1#x").label == "https://h.example:8/p/q"


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("*", "https://example.com/", True),
        ("https://example.com/*", "https://example.com/hook", True),
        ("https://example.com/*", "https://EXAMPLE.com./hook", True),
        ("https://Example.COM./*", "https://example.com/hook", True),
        ("https://example.com:443/*", "https://example.com/hook", True),
        ("https://example.com/*", "https://example.com:8443/hook", False),
        ("https://example.com:*/hook", "https://example.com:8443/hook", True),
        ("https://example.com/*", "http://example.com/hook", False),
        ("https://example.com", "https://example.com/", True),
        ("https://example.com", "https://example.com/other", False),
        ("https://*.example.com/*", "https://a.example.com/x", True),
        ("https://*.example.com/*", "https://evil.test/.example.com/x", False),
        ("https://*.example.com/*", "https://evil.test?.example.com/x", False),
        ("https://example.com/*", "https://example.com@evil.test/x", False),
        ("https://example.com/*", "https://example.com.evil.test/x", False),
        ("https://example.com/*", "https://evil.test#https://example.com/", False),
        ("https://example.com/a?b=*", "https://example.com/a?b=1", True),
        ("https://example.com/Hook", "https://example.com/hook", False),
        ("http://[::1]:8080/*", "http://[::1]:8080/x", True),
        ("http://[::1]/*", "http://[::1]/x", True),
        ("nonsense", "https://nonsense/", False),
    ],
)
def test_a_pattern_allows_only_the_urls_it_matches(pattern: str, url: str, allowed: bool) -> None:
    assert AllowedUrls([[pattern]]).allows(url) is allowed


def test_a_url_must_match_every_list_and_no_list_allows_every_url() -> None:
    assert AllowedUrls().allows("https://a/")
    assert not AllowedUrls([[]]).allows("https://a/")
    assert not AllowedUrls([["*"], []]).allows("https://a/")
    assert not AllowedUrls([["https://a/*"], ["https://b/*"]]).allows("https://a/")
