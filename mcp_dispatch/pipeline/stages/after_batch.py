"""Outcome -> Outcome: the last call of a batch is over, and PostToolBatch hooks speak."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import Afterword, BatchedCall, Completed, Outcome
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.outcome import Refusal
from mcp_dispatch.pipeline.batch import Member
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.markers import marked, stop_notes
from mcp_dispatch.results.output_schema import with_notes
from mcp_dispatch.results.size import blocks_of, text_of


async def after_batch(
    hooks: Hooks,
    member: Member,
    outcome: Outcome,
    scope: Scope,
    circumstances: Callable[[], Circumstances],
) -> Outcome:
    """Without such hooks nothing waits; with them the last answer is held until no other call can
    join its batch, so that what they say can go with it."""
    if not hooks.waits_for(Event.POST_TOOL_BATCH):
        return outcome
    if not await member.batch.over_with(member):
        return outcome
    calls = tuple(_told(member.batch.members))
    if not calls:
        return outcome
    said = await hooks.batch_over(calls, circumstances())
    return _with(outcome, said, scope)


def _told(members: Iterable[Member]) -> Iterator[BatchedCall]:
    """The calls that have an answer, with what the model reads of it."""
    for member in members:
        if member.tool is None:
            continue
        match member.outcome:
            case Completed() as done:
                arguments = done.executed.permitted.arguments
                texts = filter(None, map(text_of, blocks_of(done.wire)))
                response = "\n".join(texts)
            case Refusal(_, message):
                arguments = member.call.arguments
                response = f"<tool_use_error>{message}</tool_use_error>"
            case _:
                continue
        yield BatchedCall(member.tool.rule_name, arguments, member.call.tool_use_id, response)


def _with(outcome: Outcome, said: Afterword, scope: Scope) -> Outcome:
    """What cannot be said with this answer is said with the next."""
    notes = (*said.contexts, *stop_notes(said.stopped))
    if not isinstance(outcome, Completed):
        for note in notes:
            scope.tell_later(note)
        return outcome
    noted = with_notes(outcome.wire, notes, outcome.executed.permitted.tool.output)
    return replace(outcome, wire=marked(noted, said.stopped), notes=(*outcome.notes, *notes))
