"""Glob, Grep and WebFetch through a real client, in both eras."""

import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.client import ERAS, Era, Installation, extract_text

pytestmark = pytest.mark.parametrize("era", ERAS)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<html><body><h1>Tea</h1><script>x()</script><p>green &amp; black</p></body></html>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the test's output is for the test."""


@pytest.fixture
def page() -> Generator[str, None, None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/tea"
        server.shutdown()
        thread.join()


async def test_files_are_found_by_name_and_by_content_without_those_a_rule_denies(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(deny=["Read(./secrets/**)"])
    shown = installed.write_file("src/a.txt", "needle one\n")
    installed.write_file("secrets/b.txt", "needle two\n")

    async with installed.open_client(era) as client:
        named = await client.call_tool("Glob", {"pattern": "**/*.txt"})
        found = await client.call_tool("Grep", {"pattern": "needle"})
        lines = await client.call_tool("Grep", {"pattern": "needle", "output_mode": "content"})
        outside = await client.call_tool("Glob", {"pattern": "/etc/*"})

    assert extract_text(named) == str(shown)
    assert "src/a.txt" in extract_text(found)
    assert "secrets" not in extract_text(found) + extract_text(lines)
    assert "needle one" in extract_text(lines)
    assert outside.is_error


async def test_a_page_of_a_host_that_a_rule_names_comes_back_as_markdown(
    installed: Installation, era: Era, page: str
) -> None:
    installed.add_rules(allow=["WebFetch(domain:127.0.0.1)"])

    async with installed.open_client(era) as client:
        fetched = await client.call_tool("WebFetch", {"url": page})

    assert not fetched.is_error, extract_text(fetched)
    assert "green & black" in extract_text(fetched)
    assert "<p>" not in extract_text(fetched)
    assert "x()" not in extract_text(fetched)


async def test_a_bare_allow_rule_does_not_permit_local_addresses(
    installed: Installation, era: Era, page: str
) -> None:
    installed.add_rules(allow=["WebFetch"])

    async with installed.open_client(era) as client:
        refused = await client.call_tool("WebFetch", {"url": page})

    assert refused.is_error
    assert "WebFetch(domain:127.0.0.1)" in extract_text(refused)
