"""Model-based tests of `CallStream`: random operations on it and on a simple model."""

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import checkpoint
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mcp_dispatch.model.calls import Completed, ToolCall
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import Cancelled, CancelReason, Refusal
from mcp_dispatch.model.tools import (
    CallContext,
    Interrupt,
    Sharing,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.pipeline.batch import CallRun, CallState
from mcp_dispatch.pipeline.executor import CallStream
from mcp_dispatch.pipeline.scope import Scope
from tests.support.depth import choose_count
from tests.support.dispatcher import DispatcherFixture, open_dispatcher
from tests.support.stand_ins import Forbids, RecordingTool, ScriptedCaller

T = TypeVar("T")
LIMIT = 3
TURNS = 60
RULES = {"permissions": {"allow": ["Read", "Write", "Bash"]}}


@dataclass(frozen=True)
class Kind:
    """The properties of a call before it runs."""

    tool: str
    shared: bool = False
    blocks: bool = False
    shell: bool = False
    refused: bool = False
    arguments: tuple[tuple[str, bool], ...] = ()


KINDS = (
    Kind("Read", shared=True),
    Kind("Write", blocks=True),
    Kind("Bash", shell=True),
    Kind("Bash", shell=True, shared=True, arguments=(("looks", True),)),
    Kind("Nope", refused=True),
    Kind("Read", refused=True, arguments=(("bad", True),)),
)


@dataclass
class Expected:
    """A call of the model. `end` is None until the call has ended."""

    kind: Kind
    running: bool = False
    end: str | None = None


@dataclass
class Model:
    """A queue in order of arrival: the first calls that may run together run."""

    calls: list[Expected] = field(default_factory=list[Expected])
    stopped_by: str | None = None
    shell_failed: bool = False

    def add(self, kind: Kind) -> None:
        call = Expected(kind)
        self.calls.append(call)
        if kind.refused:
            call.end = "refused"
        elif self.stopped_by is not None:
            call.end = self.stopped_by
        elif kind.shell and self.shell_failed:
            call.end = "sibling_error"
        self._admit()

    def finish(self, index: int, *, failing: bool) -> None:
        call = self.calls[index]
        call.running, call.end = False, "failed" if failing else "done"
        if failing and call.kind.shell:
            self.shell_failed = True
            for other in self.calls:
                if other.kind.shell:
                    self._cancel(other, "sibling_error")
        self._admit()

    def cancel(self, index: int) -> None:
        self._cancel(self.calls[index], "user_interrupted")
        self._admit()

    def stop(self, reason: str) -> None:
        self.stopped_by = self.stopped_by or reason
        for call in self.calls:
            self._cancel(call, reason)
        self._admit()

    @property
    def running(self) -> list[int]:
        return [index for index, call in enumerate(self.calls) if call.running]

    @property
    def ended_in_order(self) -> list[str]:
        """The ends of the calls before the first that has not ended."""
        ends: list[str] = []
        for call in self.calls:
            if call.end is None:
                return ends
            ends.append(call.end)
        return ends

    def _cancel(self, call: Expected, reason: str) -> None:
        if call.end is None and not (call.running and call.kind.blocks):
            call.running, call.end = False, reason

    def _admit(self) -> None:
        for call in self.calls:
            if call.end is not None or call.running:
                continue
            running = [self.calls[index].kind.shared for index in self.running]
            fits = all(running) and len(running) < LIMIT if call.kind.shared else not running
            if not fits:
                return
            call.running = True


class SharedTool(RecordingTool):
    """A shell tool whose read-only calls may share."""

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if arguments.get("looks") else Sharing.EXCLUSIVE


class GatedBodies:
    """The bodies of all tools: each waits until the test ends it, and is recorded."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.ran_to_the_end: list[int] = []
        self._failing: dict[int, bool] = {}
        self._told: dict[int, anyio.Event] = {}

    def finish(self, index: int, *, failing: bool) -> None:
        self._failing[index] = failing
        self._told[index].set()

    def release(self) -> None:
        """A test that failed must end too."""
        for index in self.running:
            self.finish(index, failing=False)

    async def __call__(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        index = int(context.call_id)
        self._told[index] = anyio.Event()
        self.running.add(index)
        try:
            await self._told[index].wait()
            self.ran_to_the_end.append(index)
        finally:
            self.running.remove(index)
        return build_error_result("no") if self._failing[index] else build_text_result("yes")


class ExecutorMachine(RuleBasedStateMachine):
    """Each rule acts on the stream and on the model, waits until all tasks block, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.bodies = GatedBodies()
        self.delivered: list[CallRun] = []
        self.seen: dict[int, list[CallState]] = {}
        self._stack = ExitStack()
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.stream: CallStream = self._stack.enter_context(self._opened(folder))

    def _opened(self, folder: Path) -> AbstractContextManager[CallStream]:
        return self._portal.wrap_async_context_manager(_Opened(folder, self.bodies))

    def _do(self, act: Callable[[], T]) -> T:
        async def rest() -> T:
            done = act()
            # Nothing here waits for anything but the loop: after so many turns all is at rest.
            # (`wait_all_tasks_blocked` sleeps, thousands of times.)
            for _ in range(TURNS):
                await checkpoint()
            return done

        return self._portal.call(rest)

    @initialize()
    def begin(self) -> None:
        assert self.stream.runs == []

    @rule(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    def add(self, kinds: list[Kind]) -> None:
        for kind in kinds:
            self._add(kind)

    def _add(self, kind: Kind) -> None:
        index = len(self.model.calls)
        call = ToolCall(str(index), f"use-{index}", kind.tool, dict(kind.arguments))
        seen = self.seen.setdefault(index, [])

        self._do(
            lambda: self.stream.add(call, ScriptedCaller(), lambda each: seen.append(each.state))
        )
        self.model.add(kind)

    @precondition(lambda self: self.model.running)
    @rule(data=st.data(), failing=st.booleans())
    def finish(self, data: st.DataObject, failing: bool) -> None:
        self._finish(data.draw(st.sampled_from(self.model.running)), failing=failing)

    def _finish(self, index: int, *, failing: bool) -> None:
        self._do(lambda: self.bodies.finish(index, failing=failing))
        self.model.finish(index, failing=failing)

    @precondition(lambda self: self.model.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.model.calls) - 1))

        self._do(lambda: self.stream.runs[index].cancel(CancelReason.USER_INTERRUPTED))
        self.model.cancel(index)

    # Early on it would leave nothing to try.
    @precondition(lambda self: len(self.model.calls) > 8)
    @rule(reason=st.sampled_from([CancelReason.USER_INTERRUPTED, CancelReason.STREAMING_FALLBACK]))
    def stop(self, reason: CancelReason) -> None:
        self._do(lambda: self.stream.cancel(reason, "enough"))
        self.model.stop(reason.value)

    @rule()
    def collect(self) -> None:
        self.delivered += self._do(self.stream.completed)

        assert [_end(run) for run in self.delivered] == self.model.ended_in_order

    @invariant()
    def what_runs_is_what_may_run(self) -> None:
        running = sorted(self.bodies.running)
        shared = [self.model.calls[index].kind.shared for index in running]

        assert running == self.model.running
        assert len(running) <= LIMIT
        assert all(shared) or len(running) == 1

    @invariant()
    def every_call_is_in_the_state_it_should_be_in(self) -> None:
        for index, (run, call) in enumerate(zip(self.stream.runs, self.model.calls, strict=True)):
            assert run.state is self._state(index, call)

    @invariant()
    def interruptible_is_what_does_not_block(self) -> None:
        running = [self.model.calls[index].kind.blocks for index in self.model.running]

        assert self.stream.interruptible is not any(running)

    def _state(self, index: int, call: Expected) -> CallState:
        if index < len(self.delivered):
            return CallState.DELIVERED
        if call.end is not None:
            return CallState.COMPLETED
        return CallState.EXECUTING if call.running else CallState.QUEUED

    def teardown(self) -> None:
        try:
            while self.model.running:
                self._finish(self.model.running[0], failing=False)
            self.delivered += self._portal.call(self._rest)
            self._compare_everything()
        finally:
            self._stack.close()

    async def _rest(self) -> list[CallRun]:
        """What `remaining` delivers once all is at rest: nothing is left to wait for."""
        delivered: list[CallRun] = []

        async def collect() -> None:
            async for run in self.stream.remaining():
                delivered.append(run)  # noqa: PERF401  (cancelled, it keeps what it has)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collect)
            for _ in range(TURNS):
                await checkpoint()
            tasks.cancel_scope.cancel()
        return delivered

    def _compare_everything(self) -> None:
        ends = [call.end for call in self.model.calls]
        assert [_end(run) for run in self.delivered] == ends
        assert [run.index for run in self.delivered] == list(range(len(ends)))
        assert sorted(self.bodies.ran_to_the_end) == [
            index for index, end in enumerate(ends) if end in {"done", "failed"}
        ]
        for states in self.seen.values():
            assert states == sorted(states, key=list(CallState).index)
            assert states[-2:] == [CallState.COMPLETED, CallState.DELIVERED]


class _Opened(AsyncExitStack):
    """A dispatcher with three tools, a scope of its own and a stream."""

    def __init__(self, folder: Path, bodies: GatedBodies) -> None:
        super().__init__()
        self._folder = folder
        self._bodies = bodies
        self._tools = (
            RecordingTool("Read", body=bodies, shared=True, validator=Forbids("bad")),
            RecordingTool("Write", body=bodies, interrupt=Interrupt.BLOCK),
            SharedTool("Bash", body=bodies),
        )

    async def __aenter__(self) -> CallStream:  # pyright: ignore[reportIncompatibleMethodOverride]  what it opens is the stream
        await super().__aenter__()
        fixture: DispatcherFixture = await self.enter_async_context(
            open_dispatcher(self._folder, *self._tools)
        )
        fixture.apply_settings(RULES)
        tasks = await self.enter_async_context(anyio.create_task_group())
        self.callback(tasks.cancel_scope.cancel)
        self.callback(self._bodies.release)
        scope = Scope(self._folder, limit=LIMIT)
        return CallStream(fixture.dispatcher, scope, tasks)


def _end(run: CallRun) -> str:
    match run.outcome:
        case Completed(executed):
            return "failed" if executed.result.is_error else "done"
        case Cancelled(reason):
            return reason.value
        case Refusal():
            return "refused"
        case other:
            raise AssertionError(other)


TestExecutor = ExecutorMachine.TestCase
TestExecutor.settings = settings(
    max_examples=choose_count(quick=30, deep=800), stateful_step_count=40, deadline=None
)
