"""Batches of calls, and the effect of one call's end on the others."""

from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.abc import TaskGroup

from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Cancelled, CancelReason, Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    ContextChange,
    FileDelivered,
    Interrupt,
    Sharing,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.pipeline.batch import (
    MAX_WINDOW_CALLS,
    Batch,
    BatchSettings,
    BatchWindow,
    CallRun,
    CallState,
    SiblingAbort,
)
from tests.support.dispatcher import DispatcherFixture, open_dispatcher
from tests.support.stand_ins import RecordingTool, ScriptedCaller

REFUSAL = Refusal(RefusedBy.LOOKUP, "no such tool")
LONG = 3600.0


def call(id: str = "a") -> ToolCall:
    return ToolCall(id, id, "T", {})


def open_window(window_seconds: float = LONG) -> BatchWindow:
    return BatchWindow(BatchSettings(window_seconds), _ignore)


def _ignore(_: Iterable[ContextChange]) -> None:
    return None


async def test_calls_that_arrive_in_one_window_share_a_batch_in_order_of_arrival() -> None:
    window = open_window()

    runs = [window.join(call(id)) for id in "abc"]

    assert len({run.batch for run in runs}) == 1
    assert [run.call.id for run in runs[0].batch.runs] == ["a", "b", "c"]


async def test_after_the_window_a_new_batch_begins() -> None:
    window = open_window(window_seconds=0)

    first, second = window.join(call("a")), window.join(call("b"))

    assert first.batch.closed
    assert first.batch is not second.batch


async def test_a_batch_has_at_most_sixty_four_calls() -> None:
    window = open_window()

    runs = [window.join(call(str(n))) for n in range(MAX_WINDOW_CALLS + 1)]

    assert len(runs[0].batch.runs) == MAX_WINDOW_CALLS
    assert runs[0].batch.closed
    assert runs[-1].batch.runs == [runs[-1]]


async def test_a_call_that_has_ended_cannot_be_cancelled() -> None:
    run = open_window().join(call())
    run.end(REFUSAL)

    assert not run.cancel(CancelReason.USER_INTERRUPTED)
    assert run.outcome == REFUSAL


class BatchFixture:
    """Calls of one batch that wait inside their tools until the test releases them."""

    def __init__(self, fixture: DispatcherFixture, batch: Batch | None = None) -> None:
        self.fixture = fixture
        self.batch = batch
        self.runs: dict[str, CallRun] = {}
        self.outcomes: dict[str, Outcome] = {}

    def start(self, tasks: TaskGroup, id: str, name: str, /, **arguments: Json) -> None:
        tasks.start_soon(self.run, id, name, arguments)

    async def run(self, id: str, name: str, arguments: JsonObject) -> None:
        made = ToolCall(id, id, name, arguments)
        scope = self.fixture.scope
        run = self.batch.join(made) if self.batch else scope.batch_window.join(made)
        self.runs[id] = run
        self.outcomes[id] = await self.fixture.dispatcher.dispatch_run(run, scope, ScriptedCaller())


class Gate:
    """The body of a tool that waits, then fails or succeeds."""

    def __init__(self, *, fails: bool = False) -> None:
        self.entered, self.open, self.done = anyio.Event(), anyio.Event(), False
        self._fails = fails

    async def __call__(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        self.entered.set()
        await self.open.wait()
        self.done = True
        return build_error_result("Exit code 1") if self._fails else build_text_result("fine")


async def by_argument(arguments: JsonObject, context: CallContext) -> ToolResult:
    failed = arguments.get("command") == "false"
    return build_error_result("Exit code 1") if failed else build_text_result("fine")


ALLOW = {"permissions": {"allow": ["Bash", "Read", "Write"]}}
SIBLING = "Bash `false`, which was called together with it, failed; this call did not run"


async def test_a_failing_bash_cancels_the_bash_calls_behind_it_and_no_read(tmp_path: Path) -> None:
    bash = RecordingTool("Bash", body=by_argument)
    read = RecordingTool("Read", shared=True)
    async with open_dispatcher(tmp_path, bash, read) as fixture:
        together = BatchFixture(fixture.apply_settings(ALLOW))
        async with anyio.create_task_group() as tasks:
            together.start(tasks, "a", "Bash", command="false")
            together.start(tasks, "b", "Bash", command="true")
            together.start(tasks, "c", "Read")
        recorded = [(entry["outcome"], entry.get("reason")) for entry in fixture.read_journal()]

    assert together.outcomes["b"] == Cancelled(CancelReason.SIBLING_ERROR, SIBLING)
    assert isinstance(together.outcomes["c"], Completed)
    assert bash.calls == [{"command": "false"}]
    assert sorted(recorded, key=str) == [
        ("cancelled", "sibling_error"),
        ("completed", None),
        ("error", None),
    ]


async def test_a_failing_bash_stops_one_that_runs_beside_it(tmp_path: Path) -> None:
    gates = {"false": Gate(fails=True), "long": Gate()}

    async def body(arguments: JsonObject, context: CallContext) -> ToolResult:
        return await gates[str(arguments["command"])](arguments, context)

    async with open_dispatcher(tmp_path, RecordingTool("Bash", body=body, shared=True)) as fixture:
        together = BatchFixture(fixture.apply_settings(ALLOW))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                together.start(tasks, "a", "Bash", command="long")
                together.start(tasks, "b", "Bash", command="false")
                await gates["long"].entered.wait()
                gates["false"].open.set()

    stopped = together.outcomes["a"]
    assert isinstance(stopped, Cancelled)
    assert stopped.message.endswith("failed; this call was stopped")
    assert not gates["long"].done


@pytest.mark.parametrize(
    ("abort", "ran"),
    [(SiblingAbort.OFF, ["Bash", "Read"]), (SiblingAbort.ALL, [])],
)
async def test_a_setting_decides_which_calls_a_failure_cancels(
    tmp_path: Path, abort: SiblingAbort, ran: list[str]
) -> None:
    tools = [RecordingTool("Bash", body=by_argument), RecordingTool("Read")]
    async with open_dispatcher(tmp_path, *tools) as fixture:
        batching = BatchSettings(LONG, abort)
        together = BatchFixture(
            fixture.apply_settings(ALLOW),
            BatchWindow(batching, fixture.scope.apply_changes).create_message_batch(),
        )
        async with anyio.create_task_group() as tasks:
            together.start(tasks, "a", "Bash", command="false")
            together.start(tasks, "b", "Bash", command="true")
            together.start(tasks, "c", "Read")

    ended = {id: outcome for id, outcome in together.outcomes.items() if id != "a"}
    named = {"b": "Bash", "c": "Read"}
    assert [named[id] for id, end in sorted(ended.items()) if isinstance(end, Completed)] == ran


async def test_a_call_after_a_failure_runs_unless_it_is_in_the_same_message(
    tmp_path: Path,
) -> None:
    bash = RecordingTool("Bash", body=by_argument)
    async with open_dispatcher(tmp_path, bash) as fixture:
        fixture.apply_settings(ALLOW)
        window, message = (
            BatchFixture(fixture),
            BatchFixture(fixture, fixture.scope.batch_window.create_message_batch()),
        )
        for together in (window, message):
            await together.run("a", "Bash", {"command": "false"})
            await together.run("b", "Bash", {"command": "true"})

    assert window.runs["a"].batch is window.runs["b"].batch
    assert isinstance(window.outcomes["b"], Completed)
    assert message.outcomes["b"] == Cancelled(CancelReason.SIBLING_ERROR, SIBLING)


async def test_a_tool_that_blocks_interrupts_finishes(tmp_path: Path) -> None:
    gate = Gate()
    write = RecordingTool("Write", body=gate, interrupt=Interrupt.BLOCK)
    async with open_dispatcher(tmp_path, write) as fixture:
        together = BatchFixture(fixture.apply_settings(ALLOW))
        cancelled: list[bool] = []
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                together.start(tasks, "a", "Write")
                together.start(tasks, "b", "Write")
                await gate.entered.wait()
                assert not together.runs["a"].interruptible
                cancelled += [
                    together.runs[id].cancel(CancelReason.USER_INTERRUPTED) for id in "ab"
                ]
                gate.open.set()

    assert cancelled == [False, True]
    assert isinstance(together.outcomes["a"], Completed)
    assert together.outcomes["b"] == Cancelled(CancelReason.USER_INTERRUPTED)


async def test_changes_of_shared_calls_of_a_message_are_applied_in_order_of_the_calls(
    tmp_path: Path,
) -> None:
    gates = {"a": Gate(), "b": Gate()}
    applied: list[str] = []

    def apply(changes: Iterable[ContextChange]) -> None:
        applied.extend(change.path for change in changes if isinstance(change, FileDelivered))

    async def body(arguments: JsonObject, context: CallContext) -> ToolResult:
        name = str(arguments["name"])
        await gates[name](arguments, context)
        return build_text_result(name, changes=(FileDelivered(name),))

    async def note(arguments: JsonObject, context: CallContext) -> ToolResult:
        applied.append("write runs")
        return build_text_result("written", changes=(FileDelivered("written"),))

    tools = RecordingTool("Read", body=body, shared=True), RecordingTool("Write", body=note)
    async with open_dispatcher(tmp_path, *tools) as fixture:
        together = BatchFixture(
            fixture.apply_settings(ALLOW),
            BatchWindow(BatchSettings(), apply).create_message_batch(),
        )
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for name in gates:
                    together.start(tasks, name, "Read", name=name)
                together.start(tasks, "w", "Write")
                gates["b"].open.set()
                await wait_all_tasks_blocked()
                assert together.runs["b"].state is CallState.COMPLETED
                assert applied == []
                gates["a"].open.set()

    assert applied == ["a", "b", "write runs", "written"]


async def test_changes_of_calls_of_a_window_are_applied_when_each_call_ends(tmp_path: Path) -> None:
    gate = Gate()

    async def body(arguments: JsonObject, context: CallContext) -> ToolResult:
        if arguments["name"] == "a":
            await gate(arguments, context)
        return build_text_result("", changes=(FileDelivered(str(arguments["name"])),))

    async with open_dispatcher(tmp_path, RecordingTool("Read", body=body, shared=True)) as fixture:
        together = BatchFixture(fixture.apply_settings(ALLOW))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for name in "ab":
                    together.start(tasks, name, "Read", name=name)
                await wait_all_tasks_blocked()
                assert [fixture.scope.is_delivered(name) for name in "ab"] == [False, True]
                gate.open.set()

    assert fixture.scope.is_delivered("a")


class Doubtful(RecordingTool):
    """A tool whose `decide_sharing` raises."""

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        raise RuntimeError("no idea")


async def test_a_tool_that_fails_to_decide_its_sharing_runs_alone(tmp_path: Path) -> None:
    gate = Gate()
    tool = Doubtful("Read", body=gate)
    states: list[CallState] = []
    async with open_dispatcher(tmp_path, tool) as fixture:
        together = BatchFixture(fixture.apply_settings(ALLOW))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for id in "ab":
                    together.start(tasks, id, "Read")
                await wait_all_tasks_blocked()
                states += [together.runs[id].state for id in "ab"]
                gate.open.set()

    assert states == [CallState.EXECUTING, CallState.QUEUED]
