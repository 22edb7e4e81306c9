"""One request to a server for one client, and the questions that the server has meanwhile."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from mcp_dispatch.model.client import ClientBridge, ClientRequestError, InputRequired, Retry
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.deadline import Deadline
from mcp_dispatch.upstream.requests.server_requests import CANCELLED, ELICITATION, ServerRequest

CLIENT_ANSWER_SECONDS: Final = 600.0
"""How long a request waits for its client to come back with answers, and for one answer."""

MAX_OPEN_REQUESTS: Final = 16
MAX_SERVER_REQUESTS: Final = 100

UpstreamAnswer = JsonObject | ProtocolError
SendUpstreamRequest = Callable[["UpstreamRequest"], Awaitable[UpstreamAnswer]]
SpawnTask = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Starts a task that outlives the request."""


@dataclass(slots=True, eq=False)
class _PendingServerRequest:
    """A question that the client takes along."""

    request: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject = field(default_factory=lambda: {})


class UpstreamRequest:
    """What belongs to one request while a server works on it.

    A live client is asked at once. For the others the work goes on in a task of its own: `attend`
    returns when it is done or has questions, and is called again when the answers have come.
    """

    def __init__(self, bridge: ClientBridge, progress: Progress | None = None) -> None:
        self.bridge = bridge
        self.progress = progress
        self.deadline: Deadline | None = None
        """It stands still for questions."""

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

    # -- for whoever speaks with the server

    async def ask(self, server_request: ServerRequest) -> JsonObject:
        """The answer to one question. Raises `NotAnswered`."""
        answers = await self.ask_all({f"question-{self._request_count + 1}": server_request})
        return next(iter(answers.values()))

    async def ask_all(
        self, server_requests: Mapping[str, ServerRequest], volunteered: JsonObject | None = None
    ) -> dict[str, JsonObject]:
        """The answers to questions that were put together; one that was volunteered need not be
        asked for. Raises `NotAnswered`."""
        self._request_count += len(server_requests)
        if (
            self._request_count > MAX_SERVER_REQUESTS
            or self._waiting_count + len(server_requests) > MAX_OPEN_REQUESTS
        ):
            raise ClientRequestError(-32000, "mcp-dispatch: too many questions for one request")
        respondent = self.bridge
        answers: dict[str, JsonObject] = {}
        for key, inquiry in server_requests.items():
            inquiry.refuse_undeclared(respondent.client)
            answer = await inquiry.answer_by_hook(respondent)
            if answer is not None:
                answers[key] = answer
        left = {key: each for key, each in server_requests.items() if key not in answers}
        given = filter_objects({key: (volunteered or {}).get(key) for key in left})
        answers |= given
        asked = {key: each for key, each in left.items() if key not in given}
        with self._pause_deadline(len(asked)):
            put = self._ask_live_client if respondent.client.is_live else self._wait_for_retry
            answers |= await put(asked) if asked else {}
        return {
            key: await each.review_answer(self.bridge, answers[key])
            if key in left
            else answers[key]
            for key, each in server_requests.items()
        }

    async def report_progress(self, progress: JsonObject) -> None:
        if self.progress is not None:
            await self.progress(progress)

    # -- for whoever made the request

    async def run(
        self, send: SendUpstreamRequest, spawn_task: SpawnTask
    ) -> UpstreamAnswer | InputRequired:
        """Raises `CallFailed`."""
        if not self.bridge.client.is_live:
            spawn_task(lambda: self._run_detached(send))
            return await self.wait()
        try:
            return await send(self)
        finally:
            self._done.set()

    async def wait(self) -> UpstreamAnswer | InputRequired:
        """Until there is an outcome, or a question for the client to take along.

        Cancelled, it cancels the work. Raises `CallFailed`.
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
            self._work_scope.deadline = anyio.current_time() + CLIENT_ANSWER_SECONDS
            requests: JsonObject = {key: each.request for key, each in self._pending.items()}
            return InputRequired(requests, _UpstreamContinuation(self))
        if isinstance(self._outcome, CallFailed):
            raise self._outcome
        return self._outcome

    def accept_answers(
        self, bridge: ClientBridge, progress: Progress | None, answers: JsonObject
    ) -> None:
        """The request was made again."""
        self.bridge, self.progress = bridge, progress
        for key, question in list(self._pending.items()):
            answer = answers.get(key)
            if isinstance(answer, dict):
                del self._pending[key]
                question.answer = answer
                question.answered.set()

    def cancel(self) -> None:
        self._work_scope.cancel()

    # -- within

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
            self._wake()

    def _wake(self) -> None:
        self._wakeup.set()

    @contextmanager
    def _pause_deadline(self, request_count: int) -> Generator[None]:
        """Time that others take does not count as the server's."""
        clock = self.deadline
        if clock is not None and not self._waiting_count:
            clock.pause()
        self._waiting_count += request_count
        try:
            yield
        finally:
            self._waiting_count -= request_count
            if clock is not None and not self._waiting_count:
                clock.resume()

    async def _ask_live_client(
        self, server_requests: Mapping[str, ServerRequest]
    ) -> dict[str, JsonObject]:
        """One after the other: a person reads one form at a time."""
        answers: dict[str, JsonObject] = {}
        for key, inquiry in server_requests.items():
            answers[key] = await self._ask_until_done(inquiry)
        return answers

    async def _ask_until_done(self, server_request: ServerRequest) -> JsonObject:
        """Withdrawn when the request is over. Raises `NotAnswered`."""
        answers: list[JsonObject] = []
        failures: list[ClientRequestError] = []
        self.bridge.release_slot()
        with anyio.move_on_after(CLIENT_ANSWER_SECONDS):
            async with anyio.create_task_group() as asking:

                async def cancel_when_done() -> None:
                    await self._done.wait()
                    asking.cancel_scope.cancel()

                asking.start_soon(cancel_when_done)
                try:
                    answers.append(await server_request.ask_client(self.bridge.client))
                except ClientRequestError as failure:
                    failures.append(failure)
                asking.cancel_scope.cancel()
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
        taken = {
            key: _PendingServerRequest(inquiry.client_request)
            for key, inquiry in server_requests.items()
        }
        self._pending |= taken
        self._wake()
        try:
            for question in taken.values():
                await question.answered.wait()
        finally:
            for key in taken:
                self._pending.pop(key, None)
        return {key: question.answer for key, question in taken.items()}


class _UpstreamContinuation:
    """The rest of a request whose client is expected back."""

    def __init__(self, upstream_request: UpstreamRequest) -> None:
        self._upstream_request: UpstreamRequest | None = upstream_request

    def pop(self) -> UpstreamRequest | None:
        errand, self._upstream_request = self._upstream_request, None
        return errand

    def drop(self) -> None:
        errand = self.pop()
        if errand is not None:
            errand.cancel()


async def resume_request(
    retry: Retry, bridge: ClientBridge, progress: Progress | None
) -> UpstreamAnswer | InputRequired:
    """Goes on with what a client came back for. Raises `CallFailed`."""
    errand = (
        retry.continuation.pop() if isinstance(retry.continuation, _UpstreamContinuation) else None
    )
    if errand is None:
        raise CallFailed("Nothing waits for these answers any more; make the request again.")
    errand.accept_answers(bridge, progress, retry.responses)
    return await errand.wait()


def filter_objects(candidates: Json) -> dict[str, JsonObject]:
    found = candidates if isinstance(candidates, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}
