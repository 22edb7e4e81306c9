"""Servers that ask in the middle of a call, real clients that answer, and what becomes of a call
whose client does not come back."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from tests.support.client import Installation, extract_text
from tests.support.paths import UPSTREAMS
from tests.support.upstreams.support import read_received, wait_for_message

ASKING = str(UPSTREAMS / "asking.py")
ANSWERS = {"name": "Ada", "colour": "green"}


def asking(installed: Installation, *options: str) -> Path:
    log = installed.folder / "log"
    installed.add_rules(allow=["mcp__asking"])
    installed.add_upstream("asking", sys.executable, ASKING, str(log), *options)
    return log


async def answer(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    [field] = params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={field: ANSWERS[field]})


async def parked(client: Client, tool: str) -> types.InputRequiredResult:
    result = await client.session.call_tool(tool, {}, allow_input_required=True)
    assert isinstance(result, types.InputRequiredResult)
    return result


async def retried(
    client: Client, tool: str, first: types.InputRequiredResult, **arguments: Any
) -> types.CallToolResult | types.InputRequiredResult:
    given = types.ElicitResult(action="accept", content={"name": "Ada"})
    return await client.session.call_tool(
        tool,
        arguments,
        input_responses=dict.fromkeys(first.input_requests or {}, given),
        request_state=first.request_state,
        allow_input_required=True,
    )


async def test_a_client_of_2025_answers_a_server_of_2026_that_asks_in_rounds(
    installed: Installation,
) -> None:
    log = asking(installed, "--modern")

    with anyio.fail_after(90):
        async with installed.open_client("legacy", elicitation_callback=answer) as client:
            greeted = await client.call_tool("asking__greet", {})

    assert extract_text(greeted) == "Ada green"
    rounds = read_received(log, "tools/call")
    assert [each.get("requestState") for each in rounds] == [None, "[]", '["Ada"]']
    assert [[*each.get("inputResponses", {})] for each in rounds] == [[], ["name"], ["colour"]]


async def test_a_retry_that_is_cancelled_cancels_the_call_at_a_server_of_2025(
    installed: Installation,
) -> None:
    log = asking(installed)

    with anyio.fail_after(90):
        async with installed.open_client("2026-07-28", elicitation_callback=answer) as client:
            first = await parked(client, "asking__ponder")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(retried, client, "asking__ponder", first)
                while not any(message.get("id") == "name" for message in read_received(log)):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            [cancelled] = await wait_for_message(log, "notifications/cancelled")
            again = await client.call_tool("asking__greet", {})

    calls = [
        message["id"] for message in read_received(log) if message.get("method") == "tools/call"
    ]
    assert cancelled["requestId"] == calls[0]
    assert extract_text(again) == "Ada green"


async def test_a_state_that_comes_with_another_request_is_refused_and_the_call_waits_on(
    installed: Installation,
) -> None:
    log = asking(installed)

    with anyio.fail_after(90):
        async with installed.open_client("2026-07-28", elicitation_callback=answer) as client:
            first = await parked(client, "asking__greet")
            with pytest.raises(MCPError, match="requestState"):
                await retried(client, "asking__greet", first, other=1)
            second = await retried(client, "asking__greet", first)

    assert isinstance(second, types.InputRequiredResult)
    assert len(read_received(log, "tools/call")) == 1


async def test_a_server_is_notified_when_its_roots_change(
    installed: Installation,
) -> None:
    log = asking(installed)
    added = installed.folder / "added"
    added.mkdir()
    settings = installed.folder / "settings-0.json"
    rules = {"allow": ["mcp__asking"], "additionalDirectories": [str(added)]}

    with anyio.fail_after(90):
        async with installed.open_client() as client:
            before = await client.call_tool("asking__roots", {})
            settings.write_text(json.dumps({"permissions": rules}), encoding="utf-8")
            await wait_for_message(log, "notifications/roots/list_changed")
            after = await client.call_tool("asking__roots", {})

    assert extract_text(before).split() == [installed.workspace.as_uri()]
    assert extract_text(after).split() == [installed.workspace.as_uri(), added.as_uri()]
    assert len(read_received(log, "initialize")) == 1
