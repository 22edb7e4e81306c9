"""One request to a server for one client, and the questions that the server has meanwhile."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from mcp_dispatch.model.client import NotAnswered, Respondent, Resumed, Unfinished
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.deadline import Patience
from mcp_dispatch.upstream.requests.server_requests import CANCELLED, ELICITATION, Inquiry

PARKED_SECONDS: Final = 600.0
"""How long a request waits for its client to come back with answers, and for one answer."""

MOST_OPEN: Final = 16
MOST_QUESTIONS: Final = 100

Answer = JsonObject | ProtocolError
Work = Callable[["Errand"], Awaitable[Answer]]
Beside = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
"""Starts a task that outlives the request."""


@dataclass(slots=True, eq=False)
class _Open:
    """A question that the client takes along."""

    request: JsonObject
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonObject = field(default_factory=lambda: {})


class Errand:
    """What belongs to one request while a server works on it.

    A live client is asked at once. For the others the work goes on in a task of its own: `attend`
    returns when it is done or has questions, and is called again when the answers have come.
    """

    def __init__(self, respondent: Respondent, progress: Progress | None = None) -> None:
        self.respondent = respondent
        self.progress = progress
        self.clock: Patience | None = None
        """It stands still for questions."""

        self._questions = 0
        self._waiting = 0
        self._open: dict[str, _Open] = {}
        self._over = anyio.Event()
        self._stirred = anyio.Event()
        self._work = anyio.CancelScope()
        self._outcome: Answer | CallFailed | None = None

    @property
    def waits_for_answer(self) -> bool:
        return self._waiting > 0

    # -- for whoever speaks with the server

    async def ask(self, inquiry: Inquiry) -> JsonObject:
        """The answer to one question. Raises `NotAnswered`."""
        answers = await self.ask_all({f"question-{self._questions + 1}": inquiry})
        return next(iter(answers.values()))

    async def ask_all(
        self, inquiries: Mapping[str, Inquiry], volunteered: JsonObject | None = None
    ) -> dict[str, JsonObject]:
        """The answers to questions that were put together; one that was volunteered need not be
        asked for. Raises `NotAnswered`."""
        self._questions += len(inquiries)
        if self._questions > MOST_QUESTIONS or self._waiting + len(inquiries) > MOST_OPEN:
            raise NotAnswered(-32000, "mcp-dispatch: too many questions for one request")
        respondent = self.respondent
        answers: dict[str, JsonObject] = {}
        for key, inquiry in inquiries.items():
            inquiry.refuse_undeclared(respondent.client)
            answer = await inquiry.foreseen(respondent)
            if answer is not None:
                answers[key] = answer
        left = {key: each for key, each in inquiries.items() if key not in answers}
        given = as_objects({key: (volunteered or {}).get(key) for key in left})
        answers |= given
        asked = {key: each for key, each in left.items() if key not in given}
        with self._waiting_for(len(asked)):
            put = self._put if respondent.client.live else self._leave
            answers |= await put(asked) if asked else {}
        return {
            key: await each.reviewed(self.respondent, answers[key]) if key in left else answers[key]
            for key, each in inquiries.items()
        }

    async def tell(self, progress: JsonObject) -> None:
        if self.progress is not None:
            await self.progress(progress)

    # -- for whoever made the request

    async def carry(self, work: Work, beside: Beside) -> Answer | Unfinished:
        """Raises `CallFailed`."""
        if not self.respondent.client.live:
            beside(lambda: self._run(work))
            return await self.attend()
        try:
            return await work(self)
        finally:
            self._over.set()

    async def attend(self) -> Answer | Unfinished:
        """Until there is an outcome, or a question for the client to take along.

        Cancelled, it cancels the work. Raises `CallFailed`.
        """
        self._work.deadline = float("inf")
        try:
            while self._outcome is None and not self._open:
                await self._stirred.wait()
                self._stirred = anyio.Event()
        except BaseException:
            self.cancel()
            raise
        if self._outcome is None:
            self.progress = None
            self._work.deadline = anyio.current_time() + PARKED_SECONDS
            requests: JsonObject = {key: each.request for key, each in self._open.items()}
            return Unfinished(requests, _Parked(self))
        if isinstance(self._outcome, CallFailed):
            raise self._outcome
        return self._outcome

    def hear(self, respondent: Respondent, progress: Progress | None, answers: JsonObject) -> None:
        """The request was made again."""
        self.respondent, self.progress = respondent, progress
        for key, question in list(self._open.items()):
            answer = answers.get(key)
            if isinstance(answer, dict):
                del self._open[key]
                question.answer = answer
                question.answered.set()

    def cancel(self) -> None:
        self._work.cancel()

    # -- within

    async def _run(self, work: Work) -> None:
        outcome: Answer | CallFailed = CallFailed(
            "The server's question was not answered in time; the request was cancelled."
        )
        try:
            with self._work:
                outcome = await work(self)
        except CallFailed as failure:
            outcome = failure
        finally:
            self._outcome = outcome
            self._over.set()
            self._stir()

    def _stir(self) -> None:
        self._stirred.set()

    @contextmanager
    def _waiting_for(self, questions: int) -> Generator[None]:
        """Time that others take does not count as the server's."""
        clock = self.clock
        if clock is not None and not self._waiting:
            clock.pause()
        self._waiting += questions
        try:
            yield
        finally:
            self._waiting -= questions
            if clock is not None and not self._waiting:
                clock.go_on()

    async def _put(self, inquiries: Mapping[str, Inquiry]) -> dict[str, JsonObject]:
        """One after the other: a person reads one form at a time."""
        answers: dict[str, JsonObject] = {}
        for key, inquiry in inquiries.items():
            answers[key] = await self._while_wanted(inquiry)
        return answers

    async def _while_wanted(self, inquiry: Inquiry) -> JsonObject:
        """Withdrawn when the request is over. Raises `NotAnswered`."""
        answers: list[JsonObject] = []
        failures: list[NotAnswered] = []
        self.respondent.let_go()
        with anyio.move_on_after(PARKED_SECONDS):
            async with anyio.create_task_group() as asking:

                async def withdraw() -> None:
                    await self._over.wait()
                    asking.cancel_scope.cancel()

                asking.start_soon(withdraw)
                try:
                    answers.append(await inquiry.put_to(self.respondent.client))
                except NotAnswered as failure:
                    failures.append(failure)
                asking.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if not answers and inquiry.method == ELICITATION:
            return dict(CANCELLED)
        if not answers:
            raise NotAnswered(-32000, "mcp-dispatch: nobody answered in time")
        return answers[0]

    async def _leave(self, inquiries: Mapping[str, Inquiry]) -> dict[str, JsonObject]:
        taken = {key: _Open(inquiry.request) for key, inquiry in inquiries.items()}
        self._open |= taken
        self._stir()
        try:
            for question in taken.values():
                await question.answered.wait()
        finally:
            for key in taken:
                self._open.pop(key, None)
        return {key: question.answer for key, question in taken.items()}


class _Parked:
    """The rest of a request whose client is expected back."""

    def __init__(self, errand: Errand) -> None:
        self._errand: Errand | None = errand

    def take(self) -> Errand | None:
        errand, self._errand = self._errand, None
        return errand

    def drop(self) -> None:
        errand = self.take()
        if errand is not None:
            errand.cancel()


async def resume(
    resumed: Resumed, respondent: Respondent, progress: Progress | None
) -> Answer | Unfinished:
    """Goes on with what a client came back for. Raises `CallFailed`."""
    errand = resumed.rest.take() if isinstance(resumed.rest, _Parked) else None
    if errand is None:
        raise CallFailed("Nothing waits for these answers any more; make the request again.")
    errand.hear(respondent, progress, resumed.responses)
    return await errand.attend()


def as_objects(requests: Json) -> dict[str, JsonObject]:
    found = requests if isinstance(requests, dict) else {}
    return {key: value for key, value in found.items() if isinstance(value, dict)}
