"""Outcome -> Outcome: run PostToolBatch hooks when the last call of a batch has ended."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mcp_dispatch.model.calls import BatchedCall, Completed, Outcome, PostHookResult
from mcp_dispatch.model.outcome import Refusal, format_error
from mcp_dispatch.pipeline.batch import CallRun
from mcp_dispatch.pipeline.hook_env import create_session_context
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.results.markers import add_stop_reason, build_stop_notes
from mcp_dispatch.results.output_schema import add_notes
from mcp_dispatch.results.size import extract_blocks, extract_text


async def run_batch_hooks(
    services: Services, run: CallRun, outcome: Outcome, scope: Scope
) -> Outcome:
    """Hold the last outcome of a batch until no other call can join, run the hooks, and add what
    they print to that outcome."""
    hooks = services.get_snapshot().hooks
    if not await run.batch.is_last(run):
        return outcome
    calls = tuple(_collect_batched_calls(run.batch.runs))
    if not calls:
        return outcome
    result = await hooks.run_post_tool_batch(calls, create_session_context(services, scope))
    return _add_notes(outcome, result, scope)


def _collect_batched_calls(runs: Iterable[CallRun]) -> Iterator[BatchedCall]:
    """Yield the calls that have a result, with the text that the model reads."""
    for run in runs:
        if run.tool is None:
            continue
        match run.outcome:
            case Completed() as completed:
                arguments = completed.executed.permitted.arguments
                texts = filter(None, map(extract_text, extract_blocks(completed.wire)))
                response = "\n".join(texts)
            case Refusal(_, message):
                arguments = run.call.arguments
                response = format_error(message)
            case _:
                continue
        yield BatchedCall(run.tool.rule_name, arguments, run.call.tool_use_id, response)


def _add_notes(outcome: Outcome, result: PostHookResult, scope: Scope) -> Outcome:
    """Add the notes to a completed outcome; otherwise keep them for the next result."""
    notes = (*result.contexts, *build_stop_notes(result.stopped))
    if not isinstance(outcome, Completed):
        for note in notes:
            scope.add_note(note)
        return outcome
    wire = add_notes(outcome.wire, notes, outcome.executed.permitted.tool.output_validator)
    wire = add_stop_reason(wire, result.stopped)
    return replace(outcome, wire=wire, notes=(*outcome.notes, *notes))
