"""A server with a connection for each client, over HTTP, and the journal of what passes through."""

from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest

from tests.support.client import Installation, extract_text
from tests.support.http_server_process import start_http_server
from tests.support.real_servers import EVERYTHING, find_npm_program

pytestmark = pytest.mark.anyio


async def test_two_clients_are_asked_at_once_where_each_has_a_connection(tmp_path: Path) -> None:
    installed = Installation(tmp_path).add_rules(allow=["mcp__everything"])
    program = find_npm_program(EVERYTHING, "mcp-server-everything")
    installed.add_upstream("everything", program, "stdio", connection="per-scope")
    both_asked = anyio.Event()
    waiting: list[str] = []
    answers: dict[str, str] = {}

    async def ask(url: Any, name: str) -> None:
        async def elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            waiting.append(name)
            if len(waiting) == 2:
                both_asked.set()
            await both_asked.wait()
            return types.ElicitResult(action="accept", content={"name": name, "check": True})

        async with url.client("legacy", elicitation_callback=elicit) as client:
            result = await client.call_tool("everything__trigger-elicitation-request", {})
            answers[name] = extract_text(result)

    with anyio.fail_after(90):
        async with start_http_server(installed) as running, anyio.create_task_group() as clients:
            clients.start_soon(ask, running, "Ada")
            clients.start_soon(ask, running, "Grace")

    assert "Name: Ada" in answers["Ada"]
    assert "Name: Grace" in answers["Grace"]


async def test_resources_read_from_a_server_are_in_the_journal(tmp_path: Path) -> None:
    installed = Installation(tmp_path)
    installed.add_upstream(
        "everything", find_npm_program(EVERYTHING, "mcp-server-everything"), "stdio"
    )

    with anyio.fail_after(90):
        async with installed.open_client() as client:
            await client.read_resource("demo://resource/dynamic/text/7")
            with pytest.raises(Exception, match="nvalid"):
                await client.get_prompt("everything__args-prompt", {})

    entries = [
        entry for entry in installed.read_journal() if entry.get("tool") == "mcp__everything"
    ]
    assert [(entry["name"], entry["outcome"]) for entry in entries] == [
        ("resources/read", "completed"),
        ("prompts/get", "protocol_error"),
    ]
    assert entries[0]["arguments"] == {"uri": "demo://resource/dynamic/text/7"}
