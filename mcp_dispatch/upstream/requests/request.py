"""One request to a server for one client, and the requests that the server sends meanwhile."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from mcp_dispatch.model.client import (
    PENDING_SECONDS,
    ClientBridge,
    ClientRequestError,
    InputRequired,
    Retry,
)
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.deadline import Deadline
from mcp_dispatch.upstream.requests.server_requests import CANCELLED, ELICITATION, ServerRequest

MAX_OPEN_REQUESTS: Final = 16
MAX_SERVER_REQUESTS: Final = 100

UpstreamAnswer = JsonObject | ProtocolError
SendUpstreamRequest = Callable[["UpstreamRequest"], Awaitable[UpstreamAnswer]]
SpawnTask = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Starts a task that may outlive the request."""


@dataclass(slots=True, eq=False)
class _PendingServerRequest:
    """A server request that the client answers when it retries."""

    request: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject = field(default_factory=lambda: {})


class UpstreamRequest:
    """The state of one request while a server executes it.

    A live client is asked at once. For other clients the request runs in a task of its own: `wait`
    returns when it is done or has requests for the client, and is called again with the answers.
    """

    def __init__(self, bridge: ClientBridge, progress: Progress | None = None) -> None:
        self.bridge = bridge
        self.progress = progress
        self.deadline: Deadline | None = None
        """Paused while the server waits for an answer."""

        self._request_count = 0
        self._waiting_count = 0
        self._pending: dict[str, _PendingServerRequest] = {}
        self._done = anyio.Event()
        self._wakeup = anyio.Event()
        self._work_scope = anyio.CancelScope()
        self._outcome: UpstreamAnswer | CallFailed | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting_count > 0

    # -- for the connection

    async def ask(self, server_request: ServerRequest) -> JsonObject:
        """Return the answer to one request of the server. Raises `ClientRequestError`."""
        answers = await self.ask_all({f"question-{self._request_count + 1}": server_request})
        return next(iter(answers.values()))

    async def ask_all(
        self,
        server_requests: Mapping[str, ServerRequest],
        early_responses: JsonObject | None = None,
    ) -> dict[str, JsonObject]:
        """Return the answers to several requests. Raises `ClientRequestError`.

        The client is not asked for answers that it sent along in `early_responses`.
        """
        self._request_count += len(server_requests)
        if (
            self._request_count > MAX_SERVER_REQUESTS
            or self._waiting_count + len(server_requests) > MAX_OPEN_REQUESTS
        ):
            raise ClientRequestError(-32000, "mcp-dispatch: too many questions for one request")
        client = self.bridge.client
        answers: dict[str, JsonObject] = {}
        for key, each in server_requests.items():
            each.refuse_undeclared(client)
            answer = await each.answer_by_hook(self.bridge)
            if answer is not None:
                answers[key] = answer
        unanswered = {key: each for key, each in server_requests.items() if key not in answers}
        early = filter_objects({key: (early_responses or {}).get(key) for key in unanswered})
        answers |= early
        remaining = {key: each for key, each in unanswered.items() if key not in early}
        with self._pause_deadline(len(remaining)):
            ask_client = self._ask_live_client if client.is_live else self._wait_for_retry
            answers |= await ask_client(remaining) if remaining else {}
        return {
            key: await each.review_answer(self.bridge, answers[key])
            if key in unanswered
            else answers[key]
            for key, each in server_requests.items()
        }

    async def report_progress(self, progress: JsonObject) -> None:
        if self.progress is not None:
            await self.progress(progress)

    # -- for the sender

    async def run(
        self, send: SendUpstreamRequest, spawn_task: SpawnTask
    ) -> UpstreamAnswer | InputRequired:
        """Send the request and return its answer. Raises `CallFailed`."""
        if not self.bridge.client.is_live:
            spawn_task(lambda: self._run_detached(send))
            return await self.wait()
        try:
            return await send(self)
        finally:
            self._done.set()

    async def wait(self) -> UpstreamAnswer | InputRequired:
        """Wait for the outcome, or for requests that the client answers when it retries.

        Cancellation cancels the request. Raises `CallFailed`.
        """
        self._work_scope.deadline = float("inf")
        try:
            while self._outcome is None and not self._pending:
                await self._wakeup.wait()
                self._wakeup = anyio.Event()
        except BaseException:
            self.cancel()
            raise
        if self._outcome is None:
            self.progress = None
            self._work_scope.deadline = anyio.current_time() + PENDING_SECONDS
            requests: JsonObject = {key: each.request for key, each in self._pending.items()}
            return InputRequired(requests, _UpstreamContinuation(self))
        if isinstance(self._outcome, CallFailed):
            raise self._outcome
        return self._outcome

    def accept_answers(
        self, bridge: ClientBridge, progress: Progress | None, answers: JsonObject
    ) -> None:
        """Continue with the answers of a retry."""
        self.bridge, self.progress = bridge, progress
        for key, pending in list(self._pending.items()):
            answer = answers.get(key)
            if isinstance(answer, dict):
                del self._pending[key]
                pending.answer = answer
                pending.answered.set()

    def cancel(self) -> None:
        self._work_scope.cancel()

    async def _run_detached(self, send: SendUpstreamRequest) -> None:
        outcome: UpstreamAnswer | CallFailed = CallFailed(
            "The server's question was not answered in time; the request was cancelled."
        )
        try:
            with self._work_scope:
                outcome = await send(self)
        except CallFailed as failure:
            outcome = failure
        finally:
            self._outcome = outcome
            self._done.set()
            self._wakeup.set()

    @contextmanager
    def _pause_deadline(self, request_count: int) -> Generator[None]:
        """Stop the deadline: the time of the client does not count as the server's."""
        deadline = self.deadline
        if deadline is not None and not self._waiting_count:
            deadline.pause()
        self._waiting_count += request_count
        try:
            yield
        finally:
            self._waiting_count -= request_count
            if deadline is not None and not self._waiting_count:
                deadline.resume()

    async def _ask_live_client(
        self, server_requests: Mapping[str, ServerRequest]
    ) -> dict[str, JsonObject]:
        """Ask one by one: a person reads one form at a time."""
        return {key: await self._ask_until_done(each) for key, each in server_requests.items()}

    async def _ask_until_done(self, server_request: ServerRequest) -> JsonObject:
        """Ask the client until the request is over. Raises `ClientRequestError`."""
        answers: list[JsonObject] = []
        failures: list[ClientRequestError] = []
        self.bridge.release_slot()
        with anyio.move_on_after(PENDING_SECONDS):
            async with anyio.create_task_group() as tasks:

                async def cancel_when_done() -> None:
                    await self._done.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(cancel_when_done)
                try:
                    answers.append(await server_request.ask_client(self.bridge.client))
                except ClientRequestError as failure:
                    failures.append(failure)
                tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if not answers and server_request.method == ELICITATION:
            return dict(CANCELLED)
        if not answers:
            raise ClientRequestError(-32000, "mcp-dispatch: nobody answered in time")
        return answers[0]

    async def _wait_for_retry(
        self, server_requests: Mapping[str, ServerRequest]
    ) -> dict[str, JsonObject]:
        pending = {
            key: _PendingServerRequest(each.client_request) for key, each in server_requests.items()
        }
        self._pending |= pending
        self._wakeup.set()
        try:
            for each in pending.values():
                await each.answered.wait()
        finally:
            for key in pending:
                self._pending.pop(key, None)
        return {key: each.answer for key, each in pending.items()}


class _UpstreamContinuation:
    """A request that waits for the retry of its client."""

    def __init__(self, upstream_request: UpstreamRequest) -> None:
        self._upstream_request: UpstreamRequest | None = upstream_request

    def pop(self) -> UpstreamRequest | None:
        request, self._upstream_request = self._upstream_request, None
        return request

    def drop(self) -> None:
        request = self.pop()
        if request is not None:
            request.cancel()


async def resume_request(
    retry: Retry, bridge: ClientBridge, progress: Progress | None
) -> UpstreamAnswer | InputRequired:
    """Continue a request with the answers of a retry. Raises `CallFailed`."""
    request = (
        retry.continuation.pop() if isinstance(retry.continuation, _UpstreamContinuation) else None
    )
    if request is None:
        raise CallFailed("Nothing waits for these answers any more; make the request again.")
    request.accept_answers(bridge, progress, retry.responses)
    return await request.wait()


def filter_objects(candidates: Json) -> dict[str, JsonObject]:
    found = candidates if isinstance(candidates, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}
