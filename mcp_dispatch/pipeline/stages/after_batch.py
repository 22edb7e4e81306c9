"""Outcome -> Outcome: the last call of a batch is over, and PostToolBatch hooks speak."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import BatchedCall, Completed, Outcome, PostHookResult
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.outcome import Refusal
from mcp_dispatch.pipeline.batch import CallRun
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.markers import add_stop_reason, build_stop_notes
from mcp_dispatch.results.output_schema import add_notes
from mcp_dispatch.results.size import extract_blocks, extract_text


async def run_batch_hooks(
    hooks: Hooks,
    run: CallRun,
    outcome: Outcome,
    scope: Scope,
    create_context: Callable[[], HookContext],
) -> Outcome:
    """Without such hooks nothing waits; with them the last answer is held until no other call can
    join its batch, so that what they say can go with it."""
    if HookEventName.POST_TOOL_BATCH not in hooks.events:
        return outcome
    if not await run.batch.is_last(run):
        return outcome
    calls = tuple(_collect_batched_calls(run.batch.runs))
    if not calls:
        return outcome
    said = await hooks.run_post_tool_batch(calls, create_context())
    return _add_notes(outcome, said, scope)


def _collect_batched_calls(runs: Iterable[CallRun]) -> Iterator[BatchedCall]:
    """The calls that have an answer, with what the model reads of it."""
    for member in runs:
        if member.tool is None:
            continue
        match member.outcome:
            case Completed() as done:
                arguments = done.executed.permitted.arguments
                texts = filter(None, map(extract_text, extract_blocks(done.wire)))
                response = "\n".join(texts)
            case Refusal(_, message):
                arguments = member.call.arguments
                response = f"<tool_use_error>{message}</tool_use_error>"
            case _:
                continue
        yield BatchedCall(member.tool.rule_name, arguments, member.call.tool_use_id, response)


def _add_notes(outcome: Outcome, result: PostHookResult, scope: Scope) -> Outcome:
    """What cannot be said with this answer is said with the next."""
    notes = (*result.contexts, *build_stop_notes(result.stopped))
    if not isinstance(outcome, Completed):
        for note in notes:
            scope.add_note(note)
        return outcome
    noted = add_notes(outcome.wire, notes, outcome.executed.permitted.tool.output_validator)
    return replace(
        outcome, wire=add_stop_reason(noted, result.stopped), notes=(*outcome.notes, *notes)
    )
