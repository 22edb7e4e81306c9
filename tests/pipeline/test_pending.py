"""Requests that wait until the client sends them again with answers."""

import pytest

from mcp_dispatch.model.calls import PreHookResult
from mcp_dispatch.model.client import PENDING_SECONDS
from mcp_dispatch.model.json import Json
from mcp_dispatch.pipeline.pending import (
    MAX_PENDING_QUESTIONS,
    PendingRequest,
    PendingRequests,
)

REQUEST: Json = {"name": "Bash", "arguments": {"command": "ls"}}


class RecordingContinuation:
    def __init__(self) -> None:
        self.dropped = 0

    def drop(self) -> None:
        self.dropped += 1


def test_a_state_token_works_once() -> None:
    pending = PendingRequests[str](MAX_PENDING_QUESTIONS)
    state = pending.add(REQUEST, "question")

    first = pending.pop(state, REQUEST)
    second = pending.pop(state, REQUEST)

    assert (first, second) == ("question", None)


def test_a_request_with_other_arguments_finds_nothing_and_uses_the_token_up() -> None:
    pending = PendingRequests[str](MAX_PENDING_QUESTIONS)
    state = pending.add(REQUEST, "question")

    assert pending.pop(state, {"name": "Bash", "arguments": {"command": "rm"}}) is None
    assert len(pending) == 0


@pytest.mark.parametrize("other", [True, 1.0, "1", [1]])
def test_values_that_are_equal_in_python_only_are_different_arguments(other: Json) -> None:
    pending = PendingRequests[str](MAX_PENDING_QUESTIONS)
    state = pending.add({"x": 1}, "question")

    assert pending.pop(state, {"x": other}) is None


def test_a_state_token_expires() -> None:
    now = [0.0]
    pending = PendingRequests[str](MAX_PENDING_QUESTIONS, clock=lambda: now[0])
    state = pending.add(REQUEST, "question")

    now[0] = PENDING_SECONDS + 1

    assert pending.pop(state, REQUEST) is None


def test_the_oldest_request_gives_way_when_there_are_too_many() -> None:
    pending = PendingRequests[str](MAX_PENDING_QUESTIONS)
    first = pending.add(REQUEST, "question")
    for _ in range(MAX_PENDING_QUESTIONS):
        pending.add(REQUEST, "question")

    assert len(pending) == MAX_PENDING_QUESTIONS
    assert pending.pop(first, REQUEST) is None


def test_a_request_that_cannot_continue_is_dropped() -> None:
    continuation = RecordingContinuation()
    pending = PendingRequests[PendingRequest](2, PendingRequest.drop)
    states = [pending.add(REQUEST, PendingRequest(continuation, PreHookResult())) for _ in range(3)]
    dropped_by_eviction = continuation.dropped

    pending.pop(states[1], {"other": "request"})
    dropped_by_mismatch = continuation.dropped
    pending.clear()

    assert (dropped_by_eviction, dropped_by_mismatch, continuation.dropped) == (1, 2, 3)
