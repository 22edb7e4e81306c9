"""A server over HTTP behind `mcp-dispatch serve`, with a real client in front, across the eras."""

import json

import anyio
import pytest

from tests.support.client import Era, Installation, extract_text
from tests.support.upstreams.web import run_web_upstream

TOKEN = "s3cret-t0ken"


@pytest.mark.parametrize(("era", "modern"), [("legacy", True), ("2026-07-28", False)])
async def test_a_remote_server_is_listed_called_and_found_again(
    installed: Installation, era: Era, modern: bool
) -> None:
    with anyio.fail_after(90):
        async with run_web_upstream(modern=modern, style="sse") as web:
            web.credentials = f"Bearer {TOKEN}"
            headers = {"Authorization": f"Bearer {TOKEN}"}
            servers = {"web": {"type": "http", "url": web.url, "headers": headers}}
            file = installed.folder / "remote.json"
            file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
            installed.add_rules(allow=["mcp__web"]).add_flags("--mcp-config", str(file))

            async with installed.open_client(era) as client:
                listed = [tool.name for tool in (await client.list_tools()).tools]
                first = await client.call_tool("web__echo", {"text": "before"})
                await web.stop()
                await web.start()
                second = await client.call_tool("web__echo", {"text": "after"})

    assert "web__echo" in listed
    assert (extract_text(first), extract_text(second)) == ("before", "after")
    sent = [each.message["params"]["arguments"]["text"] for each in web.find_requests("tools/call")]
    assert sent == (["before", "after"] if modern else ["before", "after", "after"])
    written = [path for path in installed.state.rglob("*") if path.is_file()]
    kept = "".join(path.read_text(encoding="utf-8", errors="replace") for path in written)
    assert TOKEN not in kept
    assert "/mcp" not in kept
