"""The Python API: runs the calls of a model's message and returns their results."""

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import cast

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.app.app import App, open_app
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.blocks import ToolDefinition, ToolResultBlock
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.library.anthropic_blocks import is_tool_use, to_definition_block, to_result_block
from mcp_dispatch.model.approval import ApprovalReply, Approved, CannotAsk, Declined, Question
from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.client import Client, NoClient
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import CancelReason, Refusal, RefusedBy
from mcp_dispatch.model.tools import Progress, ignore_progress
from mcp_dispatch.pipeline.batch import CallRun, CallState
from mcp_dispatch.pipeline.dispatcher import INTERNAL_ERROR, Dispatcher
from mcp_dispatch.pipeline.executor import CallStream, MessageBudget
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.wire.codec import Undecodable, Unencodable, decode, encode

logger = logging.getLogger(__name__)

Block = Mapping[str, object]

AskCallback = Callable[[Question], Awaitable[bool | Approved | Declined]]
"""Asks a person. The model is sent the reason of a `Declined`."""

OnProgress = Callable[[str, JsonObject], Awaitable[None]]
"""Awaited with the id of the `tool_use` block and each progress update of its tool."""

OnState = Callable[[str, CallState], None]
"""Called with the id of the `tool_use` block and each new state of its call."""

_INTERRUPTED = "the user interrupted it"
_DISCARDED = "the message that it belonged to was discarded"


@dataclass(frozen=True, slots=True)
class LibraryBackend:
    """The parts of the application that the library uses."""

    dispatcher: Dispatcher
    scope: Scope
    tasks: TaskGroup
    definitions: Callable[[], list[JsonObject]]
    """Returns the current `tools/list` entries."""

    ask: AskCallback | None = None


class Dispatch:
    """The tools of one workspace, for an agent loop. `mcp_dispatch.open` creates it."""

    def __init__(self, backend: LibraryBackend) -> None:
        self._backend = backend

    def definitions(self) -> list[ToolDefinition]:
        """Return the tools in the format of the model's API, always in the same order.

        Call it before each request: tools that `tool_search` found are appended at the end.
        """
        return [to_definition_block(each) for each in self._backend.definitions()]

    def stream(
        self, *, progress: OnProgress | None = None, on_state: OnState | None = None
    ) -> "StreamingExecutor":
        """Return an executor for one message that the model is still writing."""
        return StreamingExecutor(self._backend, progress, on_state)

    async def run(
        self,
        blocks: Iterable[Block],
        *,
        progress: OnProgress | None = None,
        on_state: OnState | None = None,
    ) -> AsyncGenerator[ToolResultBlock, None]:
        """Run the calls of a whole message; yield a `tool_result` for each `tool_use`, in order.

        Closing the generator or cancelling its task interrupts the calls.
        """
        executor = self.stream(progress=progress, on_state=on_state)
        for block in blocks:
            executor.add(block)
        try:
            async with aclosing(executor.results()) as results:
                async for result in results:
                    yield result
        finally:
            executor.interrupt()


class StreamingExecutor:
    """Runs the calls of one message. A call starts when its block is added; results keep the order
    of the blocks.
    """

    def __init__(
        self, backend: LibraryBackend, progress: OnProgress | None, on_state: OnState | None
    ) -> None:
        self._backend = backend
        self._progress = progress
        self._on_state = on_state
        dispatcher, scope = backend.dispatcher, backend.scope
        budget = MessageBudget(dispatcher.services, scope)
        self._stream = CallStream(dispatcher, scope, backend.tasks, budget)

    @property
    def states(self) -> dict[str, CallState]:
        """The state of each call by the id of its block, in the order of the blocks."""
        return {member.call.tool_use_id: member.state for member in self._stream.runs}

    @property
    def interruptible(self) -> bool:
        """Whether `interrupt` would stop everything that runs now."""
        return self._stream.interruptible

    def add(self, block: Block) -> bool:
        """Start the call as soon as it may run. Return False for a block that is no `tool_use`.

        Raise `ValueError` for a `tool_use` block without an id, since no result could refer to it.
        """
        if not is_tool_use(block):
            return False
        tool_use_id, name, value = block.get("id"), block.get("name"), block.get("input")
        if not isinstance(tool_use_id, str):
            raise ValueError(f"a tool_use block needs an id that is a string, got {tool_use_id!r}")
        arguments = _copy_arguments(value)
        known = arguments if isinstance(arguments, dict) else {}
        call = ToolCall(secrets.token_hex(8), tool_use_id, str(name), known)
        call = self._backend.dispatcher.unwrap_call_tool(call)
        if isinstance(arguments, Refusal):
            self._stream.refuse(call, arguments, self._report_state)
        else:
            self._stream.add(call, self._create_caller(tool_use_id), self._report_state)
        return True

    def completed(self) -> list[ToolResultBlock]:
        """Return the finished results that are next in order, without waiting."""
        return [_render_result(member) for member in self._stream.completed()]

    async def results(self) -> AsyncGenerator[ToolResultBlock, None]:
        """Declare the message complete and yield the results that were not returned yet."""
        async with aclosing(self._stream.remaining()) as members:
            async for member in members:
                yield _render_result(member)

    async def remaining(self) -> list[ToolResultBlock]:
        """Declare the message complete and return the results that were not returned yet."""
        return [result async for result in self.results()]

    def interrupt(self) -> None:
        """Stop the calls because the user wants it. Each unfinished call gets a result that says
        so; tools that must not be stopped finish first.
        """
        self._stream.cancel(CancelReason.USER_INTERRUPTED, _INTERRUPTED)

    def discard(self) -> None:
        """Stop the calls because the message is discarded and will be generated again."""
        self._stream.cancel(CancelReason.STREAMING_FALLBACK, _DISCARDED)

    def _create_caller(self, tool_use_id: str) -> "_LibraryCaller":
        tell = partial(self._report_progress, tool_use_id) if self._progress else ignore_progress
        return _LibraryCaller(tell, self._backend.ask)

    async def _report_progress(self, tool_use_id: str, update: JsonObject) -> None:
        if self._progress is not None:
            try:
                await self._progress(tool_use_id, update)
            except Exception:  # an error in the caller's code must not fail the tool
                logger.exception("progress failed for %s", tool_use_id)

    def _report_state(self, member: CallRun) -> None:
        if self._on_state is not None:
            try:
                self._on_state(member.call.tool_use_id, member.state)
            except Exception:  # as above
                logger.exception("on_state failed for %s", member.call.tool_use_id)


@dataclass(frozen=True, slots=True)
class _LibraryCaller:
    """The calling program. It asks with its own callback and accepts every answer at once."""

    progress: Progress
    ask_callback: AskCallback | None

    @property
    def client(self) -> Client:
        """No client: questions of upstream servers cannot be asked."""
        return NoClient()

    async def ask(self, question: Question) -> ApprovalReply:
        if self.ask_callback is None:
            return CannotAsk()
        try:
            reply = await self.ask_callback(question)
        except Exception as error:  # an error in the caller's code is not an approval
            logger.exception("the question could not be put")
            return Declined(f"the question could not be put: {error}")
        if isinstance(reply, Approved | Declined):
            return reply
        return Approved() if reply is True else Declined("the user refused")

    async def wait_until_ready(self) -> None:
        return None


def _copy_arguments(value: object) -> JsonObject | Refusal:
    """Return a copy of `value` that holds only JSON; no input means an empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return _refuse_input(f"it must be an object, got {type(value).__name__}")
    try:
        copy = decode(encode(cast(JsonObject, value)))
    except (Undecodable, Unencodable) as error:
        return _refuse_input(str(error))
    return copy if isinstance(copy, dict) else _refuse_input("it must be an object")


def _refuse_input(problem: str) -> Refusal:
    message = (
        f"InputValidationError: the input cannot be used: {problem}; correct it and call again"
    )
    return Refusal(RefusedBy.SCHEMA, message)


def _render_result(run: CallRun) -> ToolResultBlock:
    return to_result_block(run.call.tool_use_id, run.call.name, run.outcome or INTERNAL_ERROR)


StrPath = str | PathLike[str]


@asynccontextmanager
async def open(
    *,
    workspace: StrPath | None = None,
    settings: StrPath | Sequence[StrPath] = (),
    mcp_config: StrPath | Sequence[StrPath] = (),
    state_dir: StrPath | None = None,
    permission_mode: PermissionMode | str | None = None,
    claude_settings: bool = False,
    environ: Mapping[str, str] | None = None,
    ask: AskCallback | None = None,
) -> AsyncGenerator[Dispatch, None]:
    """Open the tools of a workspace for the duration of the block.

    The arguments are the flags of `mcp-dispatch serve`. `ask` is awaited for each call that needs
    approval by a person; without it such a call is denied. The block starts when every upstream
    server is ready, or after ten seconds; tools of slower servers are listed later.

    When the block ends, running calls are stopped; tools that must not be stopped finish first.

    Raise `StartError` if the arguments, or the files that they name, cannot be used.
    """
    options = AppOptions(
        workspace=Path(workspace) if workspace is not None else None,
        settings=_to_paths(settings),
        mcp_config=_to_paths(mcp_config),
        permission_mode=PermissionMode(permission_mode) if permission_mode else None,
        claude_settings=claude_settings,
    )
    if environ is not None:
        options = replace(options, environ=environ)
    state = StateDirectory.open(Path(state_dir) if state_dir is not None else None)
    failure: Exception | None = None
    async with open_app(options, state) as app, anyio.create_task_group() as tasks:
        await app.list_definitions()
        try:
            yield Dispatch(_build_backend(app, tasks, ask))
        except Exception as error:
            # A task group would wrap the exception of the caller's code.
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _build_backend(app: App, tasks: TaskGroup, ask: AskCallback | None) -> LibraryBackend:
    return LibraryBackend(
        app.dispatcher, app.scope, tasks, lambda: app.list_current_definitions(app.scope), ask
    )


def _to_paths(paths: StrPath | Sequence[StrPath]) -> tuple[Path, ...]:
    if isinstance(paths, str | PathLike):
        return (Path(paths),)
    return tuple(Path(each) for each in paths)
