"""Every built-in over HTTP, with a real client, in both eras."""

import base64
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from mcp_types import ImageContent

from tests.support.client import BUILT_INS, ERAS, Era, Installation, extract_text
from tests.support.http_server_process import start_http_server

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"a plain page"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
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
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("era", ERAS)
async def test_every_built_in_answers_over_http(
    installed: Installation, era: Era, page: str
) -> None:
    installed.add_rules(allow=["Bash", "Edit(./**)", "WebFetch(domain:127.0.0.1)"])
    notes = installed.write_file("notes.txt", "tea\n")
    installed.write_file("pixel.png", PIXEL)

    async with start_http_server(installed) as server, server.client(era) as client:
        listed = await client.list_tools()
        read = await client.call_tool("Read", {"file_path": "notes.txt"})
        image = await client.call_tool("Read", {"file_path": "pixel.png"})
        edit = {"file_path": "notes.txt", "old_string": "tea", "new_string": "green tea"}
        edited = await client.call_tool("Edit", edit)
        written = await client.call_tool("Write", {"file_path": "new.txt", "content": "new\n"})
        named = await client.call_tool("Glob", {"pattern": "*.txt"})
        found = await client.call_tool("Grep", {"pattern": "green", "output_mode": "content"})
        ran = await client.call_tool("Bash", {"command": "cat new.txt"})
        sleeping = {"command": "sleep 614", "run_in_background": True}
        started = await client.call_tool("Bash", sleeping)
        task = re.search(r"\bb[a-z0-9]{7}\b", extract_text(started))
        assert task is not None
        stopped = await client.call_tool("TaskStop", {"task_id": task.group()})
        fetched = await client.call_tool("WebFetch", {"url": page})

    assert [tool.name for tool in listed.tools] == list(BUILT_INS)
    assert extract_text(read) == "     1\ttea"
    assert any(isinstance(block, ImageContent) for block in image.content)
    assert not edited.is_error
    assert not written.is_error
    assert notes.read_text(encoding="utf-8") == "green tea\n"
    assert set(extract_text(named).splitlines()) == {
        str(notes),
        str(installed.workspace / "new.txt"),
    }
    assert "green tea" in extract_text(found)
    assert extract_text(ran) == "new"
    assert not stopped.is_error
    assert "a plain page" in extract_text(fetched)
