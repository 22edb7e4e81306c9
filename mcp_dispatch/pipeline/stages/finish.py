"""Executed -> Completed: post-hooks speak, the result is made to fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread

from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.hooks.output_override import with_output
from mcp_dispatch.model.calls import Afterword, Completed, Executed
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Sharing, Why
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.fit import Fitted, fit, needs_disk
from mcp_dispatch.results.limits import Budget, Limits
from mcp_dispatch.results.markers import marked, stop_notes
from mcp_dispatch.results.output_schema import conforming, with_notes
from mcp_dispatch.results.size import measure
from mcp_dispatch.results.stale_files import Glance, glance, stale_hint
from mcp_dispatch.results.store import ResultStore


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one result may be, and the files that were known before its call ran."""

    results: ResultStore
    limits: Limits
    budget: Budget
    before: Glance

    @classmethod
    def prepare(
        cls, results: ResultStore, limits: Limits, budget: Budget, scope: Scope, sharing: Sharing
    ) -> "Delivery":
        """What only looks changes no files."""
        alone = sharing is Sharing.EXCLUSIVE
        return cls(results, limits, budget, glance(scope.files if alone else {}))


async def finish(
    delivery: Delivery,
    hooks: Hooks,
    executed: Executed,
    scope: Scope,
    circumstances: Circumstances,
) -> Completed:
    stale = await _made_stale(delivery.before, scope)
    # Hooks may replace what an upstream answered; to what a built-in delivers they only add.
    upstream = executed.permitted.tool.server is not None
    afterword = await hooks.after(executed, circumstances) if upstream else Afterword()
    executed = with_output(executed, afterword.output)
    fitted = await _fitted(executed, delivery)
    for path in fitted.files:
        scope.deliver(path)
    if not upstream:
        afterword = await hooks.after(executed, circumstances)
    said = [*([stale_hint(stale)] if stale else []), *scope.take_notes()]
    notes = _notes(executed, afterword, said)
    wire = _annotated(fitted.wire, executed, afterword, notes)
    return Completed(executed, wire, (*executed.result.replaced, *fitted.replaced), notes)


async def shrink(
    results: ResultStore, limits: Limits, completed: Completed, scope: Scope
) -> Completed:
    """The result as its batch has room for: kept on disk, with what was said about it."""
    executed = completed.executed
    tool = executed.permitted.tool
    make = partial(_fit(executed, results, limits), limit=0, why=Why.BATCH)
    fitted = await _made(make, on_disk=True)
    for path in fitted.files:
        scope.deliver(path)
    wire = conforming(fitted.wire, tool.output, tool.name)
    wire = with_notes(wire, completed.notes, tool.output)
    meta = completed.wire.get("_meta")
    wire = wire if meta is None else {**wire, "_meta": meta}
    return replace(completed, wire=wire, replaced=(*executed.result.replaced, *fitted.replaced))


async def _made_stale(before: Glance, scope: Scope) -> tuple[str, ...]:
    """The files that the scope has read and this call has changed."""
    touched = before.touched()
    if not touched:
        return ()
    return scope.tell_stale(await to_thread.run_sync(before.changed, touched, scope.files))


async def _fitted(executed: Executed, delivery: Delivery) -> Fitted:
    """Made to fit its own limit first, then that of its batch; each decided once."""
    tool, wire = executed.permitted.tool, executed.result.wire
    limits = delivery.limits
    limit = limits.of(tool, failed=executed.result.is_error)
    make = _fit(executed, delivery.results, limits)
    on_disk = needs_disk(wire, limit.chars, limits.image_bytes)
    fitted = await _made(partial(make, limit=limit.chars), on_disk)
    call_id = executed.permitted.reviewed.checked.call.id
    if limit.counted and not delivery.budget.admits(call_id, measure(fitted.wire)):
        fitted = await _made(partial(make, limit=0, why=Why.BATCH), True)
        delivery.budget.spend(measure(fitted.wire))
    wire = conforming(fitted.wire, tool.output, tool.name)
    return fitted if wire is fitted.wire else Fitted(wire, fitted.replaced)


def _fit(executed: Executed, results: ResultStore, limits: Limits) -> partial[Fitted]:
    """All that making this result fit needs, but for the limit."""
    tool = executed.permitted.tool
    return partial(
        fit,
        executed.result.wire,
        store=results,
        tool_name=tool.name,
        has_output_schema=tool.output is not None,
        foreign=executed.result.foreign,
        image_bytes=limits.image_bytes,
    )


async def _made(make: Callable[[], Fitted], on_disk: bool) -> Fitted:
    # What waits for the disk must not keep the other calls waiting.
    return await to_thread.run_sync(make) if on_disk else make()


def _annotated(
    wire: JsonObject, executed: Executed, afterword: Afterword, notes: tuple[str, ...]
) -> JsonObject:
    noted = with_notes(wire, notes, executed.permitted.tool.output)
    return marked(noted, _stopped(executed, afterword))


def _notes(executed: Executed, afterword: Afterword, said: Sequence[str]) -> tuple[str, ...]:
    contexts = (*executed.permitted.reviewed.review.contexts, *afterword.contexts)
    return (*said, *contexts, *stop_notes(_stopped(executed, afterword)))


def _stopped(executed: Executed, afterword: Afterword) -> str | None:
    return afterword.stopped or executed.permitted.reviewed.review.stopped
