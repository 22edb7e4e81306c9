"""Requests of servers: the client they belong to, the answer, and retries of clients."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from mcp_dispatch.model.client import ClientBridge, ClientRequestError, InputRequired, Retry
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.aggregator import matches_template
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.listener import NullListener, ServerNotification
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import (
    MAX_SERVER_REQUESTS,
    SpawnTask,
    UpstreamAnswer,
    UpstreamRequest,
    resume_request,
)
from mcp_dispatch.upstream.requests.send import run_rounds

pytestmark = pytest.mark.anyio

ELICIT = "elicitation/create"
QUESTION: JsonObject = {"message": "Your name?", "requestedSchema": {"type": "object"}}
ACCEPTED: JsonObject = {"action": "accept", "content": {"name": "Ada"}}
CAN_ELICIT: JsonObject = {"elicitation": {}}


@dataclass
class Person:
    """A client that answers everything with the same words."""

    is_live: bool = True
    capabilities: JsonObject = field(default_factory=lambda: dict(CAN_ELICIT))
    log_level: str | None = None
    early_responses: JsonObject = field(default_factory=lambda: {})
    asked: list[JsonObject] = field(default_factory=list[JsonObject])
    notified: list[JsonObject] = field(default_factory=list[JsonObject])

    async def send_request(self, method: str, params: JsonObject) -> JsonObject:
        self.asked.append(params)
        return ACCEPTED

    async def send_notification(self, method: str, params: JsonObject) -> None:
        self.notified.append(params)


def build_request(person: Person, scope: str = "one") -> UpstreamRequest:
    return UpstreamRequest(ClientBridge(scope, person))


async def test_a_server_request_goes_to_the_only_client_with_a_request_in_flight() -> None:
    relay, person = Relay("weather"), Person()

    with relay.track_request(1, build_request(person)):
        answer = await relay.answer(ELICIT, QUESTION, None)

    assert answer == ACCEPTED
    assert person.asked[0]["message"] == "[weather] Your name?"


async def test_a_server_request_that_may_belong_to_two_clients_is_refused() -> None:
    relay, person = Relay("weather"), Person()

    with (
        relay.track_request(1, build_request(person)),
        relay.track_request(2, build_request(person, "two")),
        pytest.raises(ClientRequestError, match="per-scope"),
    ):
        await relay.answer(ELICIT, QUESTION, None)

    assert person.asked == []


async def test_the_stream_of_a_server_request_determines_its_client() -> None:
    relay, one, two = Relay("weather"), Person(), Person()

    with (
        relay.track_request(1, build_request(one)),
        relay.track_request(2, build_request(two, "two")),
    ):
        await relay.answer(ELICIT, QUESTION, 1)

    assert (len(one.asked), len(two.asked)) == (1, 0)


async def test_a_server_request_without_a_request_in_flight_is_refused() -> None:
    with pytest.raises(ClientRequestError, match="no request is in flight"):
        await Relay("weather").answer(ELICIT, QUESTION, None)


@pytest.mark.parametrize(
    ("method", "params", "capabilities", "missing"),
    [
        (ELICIT, QUESTION, {}, "elicitation"),
        (ELICIT, {**QUESTION, "mode": "url"}, {"elicitation": {}}, "elicitation.url"),
        (ELICIT, QUESTION, {"elicitation": {"url": {}}}, "elicitation.form"),
        ("sampling/createMessage", {}, CAN_ELICIT, "sampling"),
        ("sampling/createMessage", {"tools": []}, {"sampling": {}}, "sampling.tools"),
    ],
)
async def test_a_client_is_asked_only_for_declared_capabilities(
    method: str, params: JsonObject, capabilities: JsonObject, missing: str
) -> None:
    relay, person = Relay("weather"), Person(capabilities=capabilities)

    with (
        relay.track_request(1, build_request(person)),
        pytest.raises(ClientRequestError, match=f"did not declare '{missing}'") as refusal,
    ):
        await relay.answer(method, params, None)

    assert refusal.value.code == -32601
    assert person.asked == []


async def test_the_number_of_server_requests_is_limited() -> None:
    relay, person = Relay("weather"), Person()

    with relay.track_request(1, build_request(person)):
        for _ in range(MAX_SERVER_REQUESTS):
            await relay.answer(ELICIT, QUESTION, None)
        with pytest.raises(ClientRequestError, match="too many questions"):
            await relay.answer(ELICIT, QUESTION, None)

    assert len(person.asked) == MAX_SERVER_REQUESTS


async def test_roots_are_answered_without_a_client() -> None:
    class Listener(NullListener):
        def list_roots(self) -> list[JsonObject]:
            return [{"uri": "file:///work", "name": "work"}]

    relay = Relay("weather", Listener())

    assert await relay.answer("roots/list", {}, None) == {
        "roots": [{"uri": "file:///work", "name": "work"}]
    }


async def test_hidden_characters_in_a_message_are_escaped() -> None:
    relay, person = Relay("weather"), Person()

    with relay.track_request(1, build_request(person)):
        await relay.answer(ELICIT, {**QUESTION, "message": "pay\u202eyap"}, None)

    assert person.asked[0]["message"] == "[weather] pay\\u{202e}yap"


async def test_a_hook_may_answer_instead_of_the_client() -> None:
    class DecliningBridge(ClientBridge):
        async def answer_by_hook(self, server: str, params: JsonObject) -> JsonObject | None:
            return {"action": "decline"}

    relay, person = Relay("weather"), Person()

    with relay.track_request(1, UpstreamRequest(DecliningBridge("one", person))):
        answer = await relay.answer(ELICIT, QUESTION, None)

    assert answer == {"action": "decline"}
    assert person.asked == []


async def test_notifications_of_a_request_are_delivered_in_order_before_its_result() -> None:
    delivered: list[ServerNotification] = []

    class Listener(NullListener):
        async def handle_notification(self, notification: ServerNotification) -> None:
            await anyio.lowlevel.checkpoint()
            delivered.append(notification)

    relay, request = Relay("weather", Listener()), build_request(Person())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.deliver)
        await anyio.wait_all_tasks_blocked()
        with relay.track_request(1, request):
            for number in range(20):
                relay.handle_notification("notifications/message", {"data": number}, None)
            await relay.drain()
        tasks.cancel_scope.cancel()

    assert [each.params["data"] for each in delivered] == list(range(20))
    assert {each.upstream_request for each in delivered} == {request}


# -- clients that take questions along


def build_spawner(tasks: TaskGroup) -> SpawnTask:
    def start(task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        tasks.start_soon(task)

    return start


class Upstream:
    """A server of 2025-11-25 that asks once while it works, over a relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.cancelled = anyio.Event()

    async def work(self, request: UpstreamRequest) -> UpstreamAnswer:
        with self.relay.track_request(1, request):
            try:
                return {"answer": await self.relay.answer(ELICIT, QUESTION, None)}
            except anyio.get_cancelled_exc_class():
                self.cancelled.set()
                raise


async def test_a_client_that_retries_with_an_answer_gets_the_result() -> None:
    upstream, person = Upstream(Relay("weather")), Person(is_live=False)
    async with anyio.create_task_group() as tasks:
        first = await build_request(person).run(upstream.work, build_spawner(tasks))
        assert isinstance(first, InputRequired)
        [(key, request)] = first.input_requests.items()
        assert isinstance(request, dict)
        assert request["method"] == ELICIT

        again = Retry(first.continuation, {key: ACCEPTED})
        assert await resume_request(again, ClientBridge("one", person), None) == {
            "answer": ACCEPTED
        }
        with pytest.raises(CallFailed, match="Nothing waits"):
            await resume_request(again, ClientBridge("one", person), None)


async def test_an_answer_with_a_wrong_key_leaves_the_request_pending() -> None:
    upstream, person = Upstream(Relay("weather")), Person(is_live=False)
    async with anyio.create_task_group() as tasks:
        first = await build_request(person).run(upstream.work, build_spawner(tasks))
        assert isinstance(first, InputRequired)

        second = await resume_request(
            Retry(first.continuation, {"other": ACCEPTED}), ClientBridge("one", person), None
        )

        assert isinstance(second, InputRequired)
        assert second.input_requests == first.input_requests
        second.continuation.drop()


async def test_a_dropped_continuation_cancels_the_request_at_the_server() -> None:
    upstream, person = Upstream(Relay("weather")), Person(is_live=False)
    async with anyio.create_task_group() as tasks:
        first = await build_request(person).run(upstream.work, build_spawner(tasks))
        assert isinstance(first, InputRequired)

        first.continuation.drop()
        with anyio.fail_after(10):
            await upstream.cancelled.wait()


async def test_input_of_a_modern_server_is_collected_round_by_round() -> None:
    sent: list[JsonObject] = []

    async def send(params: JsonObject) -> UpstreamAnswer:
        sent.append(params)
        if "inputResponses" in params:
            return {"content": []}
        asked: JsonObject = {"name": {"method": ELICIT, "params": QUESTION}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}

    person = Person()
    answer = await run_rounds(send, {"name": "t"}, build_request(person), "weather", lambda: [])

    assert answer == {"content": []}
    assert sent == [
        {"name": "t"},
        {"name": "t", "inputResponses": {"name": ACCEPTED}, "requestState": "s"},
    ]


@pytest.mark.parametrize(
    ("template", "uri", "expected"),
    [
        ("test://{id}/data", "test://1/data", True),
        ("test://{id}/data", "test://1/dat", False),
        ("test://{id}", "best://1", False),
        ("test://{a}/{b}/end", "test://1/2/end", True),
        ("test://{a}-{b}", "test://1", False),
        ("test://fixed", "test://fixed", True),
    ],
)
async def test_a_uri_matches_a_template(template: str, uri: str, expected: bool) -> None:
    assert matches_template(template, uri) is expected
