"""All features of server-everything (npm) as an upstream, with real clients of both eras."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated

from tests.support.client import ERAS, Era, Installation, extract_text
from tests.support.real_servers import EVERYTHING, find_npm_program

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]


class Person:
    """Answers whatever a server asks, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.logged: list[types.LoggingMessageNotificationParams] = []
        self.heard = anyio.Event()
        self.updated: list[str] = []

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action="accept")
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def sample(
        self, _: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append("sampling")
        content = types.TextContent(type="text", text="a sampled answer")
        return types.CreateMessageResult(role="assistant", content=content, model="stand-in")

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logged.append(params)
        self.heard.set()

    async def message(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updated.append(str(message.params.uri))
            self.heard.set()


@asynccontextmanager
async def client_of(
    folder: Path, era: Era, person: Person, *deny: str
) -> AsyncGenerator[Client, None]:
    installed = Installation(folder).add_rules(allow=["mcp__everything"], deny=list(deny))
    installed.add_upstream(
        "everything", find_npm_program(EVERYTHING, "mcp-server-everything"), "stdio"
    )
    with anyio.fail_after(90):
        async with installed.open_client(
            era,
            elicitation_callback=person.elicit,
            sampling_callback=person.sample,
            logging_callback=person.log,
            message_handler=person.message,
        ) as client:
            yield client


async def test_its_requests_and_notifications_reach_the_client(tmp_path: Path, era: Era) -> None:
    person = Person()
    reached: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reached.append(progress)

    async with client_of(tmp_path, era, person) as client:
        form = await client.call_tool("everything__trigger-elicitation-request", {})
        sampled = await client.call_tool("everything__trigger-sampling-request", {"prompt": "Hi"})
        roots = await client.call_tool("everything__get-roots-list", {})
        long = await client.call_tool(
            "everything__trigger-long-running-operation",
            {"duration": 1, "steps": 4},
            progress_callback=on_progress,
        )

    assert "Name: Ada" in extract_text(form)
    assert "a sampled answer" in extract_text(sampled)
    assert person.asked == [
        "[everything] Please provide inputs for the following fields:",
        "sampling",
    ]
    assert (tmp_path / "workspace").as_uri() in extract_text(roots)
    assert "completed" in extract_text(long)
    assert reached == [1, 2, 3, 4]


async def test_resources_prompts_and_completions_pass(tmp_path: Path, era: Era) -> None:
    async with client_of(tmp_path, era, Person()) as client:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        read = await client.read_resource("demo://resource/dynamic/text/7")
        got = await client.get_prompt("everything__args-prompt", {"city": "Ghent"})
        reference = types.PromptReference(type="ref/prompt", name="everything__completable-prompt")
        completed = await client.complete(reference, {"name": "department", "value": "E"})

    assert len(resources) == 7
    assert "demo://resource/dynamic/text/{resourceId}" in [each.uri_template for each in templates]
    assert "everything__simple-prompt" in prompts
    assert isinstance(read.contents[0], types.TextResourceContents)
    assert "Resource 7" in read.contents[0].text
    assert "Ghent" in str(got.messages[0].content)
    assert "Engineering" in completed.completion.values


async def test_updates_of_a_watched_resource_and_log_messages_arrive(
    tmp_path: Path, era: Era
) -> None:
    person = Person()
    watched = "demo://resource/dynamic/text/1"
    async with client_of(tmp_path, era, person) as client:
        if era == "legacy":
            subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=watched))
            level = types.SetLevelRequest(params=types.SetLevelRequestParams(level="debug"))
            await client.session.send_request(subscribe, types.EmptyResult)
            await client.session.send_request(level, types.EmptyResult)
            await client.call_tool("everything__toggle-subscriber-updates", {})
            while not person.updated:
                await person.heard.wait()
                person.heard = anyio.Event()
            await client.call_tool("everything__toggle-simulated-logging", {})
            while not person.logged:
                await person.heard.wait()
                person.heard = anyio.Event()
        else:
            async with client.listen(resource_subscriptions=[watched]) as events:
                await client.call_tool("everything__toggle-subscriber-updates", {})
                async for event in events:
                    assert isinstance(event, ResourceUpdated)
                    person.updated.append(event.uri)
                    break

    assert person.updated[0] == watched


async def test_a_denied_server_has_no_resources_and_no_prompts(tmp_path: Path, era: Era) -> None:
    async with client_of(tmp_path, era, Person(), "mcp__everything") as client:
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(Exception, match="not found"):
            await client.read_resource("demo://resource/dynamic/text/7")
