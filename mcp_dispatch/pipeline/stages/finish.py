"""Executed -> Completed: post-hooks speak, the result is made to fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.hooks.output_override import replace_result
from mcp_dispatch.model.calls import Completed, Executed, PostHookResult
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import ReplacementReason, Sharing
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.fit import FittedResult, fit_result
from mcp_dispatch.results.limits import BatchBudget, ResultLimits
from mcp_dispatch.results.markers import add_stop_reason, build_stop_notes
from mcp_dispatch.results.output_schema import add_notes, conform_to_schema
from mcp_dispatch.results.size import has_no_output, measure_result, needs_disk
from mcp_dispatch.results.stale_files import FileSnapshot, format_stale_hint, take_snapshot
from mcp_dispatch.results.store import ResultStore


@dataclass(frozen=True, slots=True)
class FinishEnv:
    """What one result may be, and the files that were known before its call ran."""

    results: ResultStore
    limits: ResultLimits
    budget: BatchBudget
    files_before: FileSnapshot | None
    """None for a call that only reads: it changes no files."""

    @classmethod
    def prepare(
        cls,
        results: ResultStore,
        limits: ResultLimits,
        budget: BatchBudget,
        scope: Scope,
        sharing: Sharing,
    ) -> "FinishEnv":
        is_exclusive = sharing is Sharing.EXCLUSIVE
        return cls(results, limits, budget, take_snapshot(scope.files) if is_exclusive else None)


async def finish(
    env: FinishEnv,
    hooks: Hooks,
    executed: Executed,
    scope: Scope,
    hook_context: HookContext,
) -> Completed:
    stale = await _find_stale_files(env.files_before, scope)
    # Hooks may replace what an upstream answered; to what a built-in delivers they only add.
    upstream = executed.permitted.tool.server is not None
    afterword = (
        await _run_post_hooks(hooks, executed, hook_context) if upstream else PostHookResult()
    )
    if afterword.output is not None:
        executed = replace_result(executed, afterword.output)
    fitted = await _fit_to_limits(executed, env)
    if fitted.replacements:
        for path in fitted.files:
            scope.mark_delivered(path)
    if not upstream:
        afterword = await _run_post_hooks(hooks, executed, hook_context)
    said = [*([format_stale_hint(stale)] if stale else []), *scope.take_notes()]
    notes = _collect_notes(executed, afterword, said)
    wire = _add_notes(fitted.wire, executed, afterword, notes) if notes else fitted.wire
    return Completed(executed, wire, (*executed.result.replaced, *fitted.replacements), notes)


async def _run_post_hooks(
    hooks: Hooks, executed: Executed, hook_context: HookContext
) -> PostHookResult:
    failed = executed.result.is_error
    event = HookEventName.POST_TOOL_USE_FAILURE if failed else HookEventName.POST_TOOL_USE
    if event not in hooks.events:
        return PostHookResult()
    return await hooks.run_post_tool_use(executed, hook_context)


async def shrink(
    results: ResultStore, limits: ResultLimits, completed: Completed, scope: Scope
) -> Completed:
    """The result as its batch has room for: kept on disk, with what was said about it."""
    executed = completed.executed
    tool = executed.permitted.tool
    make = partial(_prepare_fit(executed, results, limits), limit=0, reason=ReplacementReason.BATCH)
    fitted = await _run_fit(make, on_disk=True)
    for path in fitted.files:
        scope.mark_delivered(path)
    wire = conform_to_schema(fitted.wire, tool.output_validator, tool.name)
    wire = add_notes(wire, completed.notes, tool.output_validator)
    meta = completed.wire.get("_meta")
    wire = wire if meta is None else {**wire, "_meta": meta}
    return replace(completed, wire=wire, replaced=(*executed.result.replaced, *fitted.replacements))


async def _find_stale_files(before: FileSnapshot | None, scope: Scope) -> tuple[str, ...]:
    """Return the files that the scope has read and this call has changed."""
    if before is None or not (touched := before.find_touched()):
        return ()
    return scope.report_stale(await to_thread.run_sync(before.find_changed, touched, scope.files))


async def _fit_to_limits(executed: Executed, env: FinishEnv) -> FittedResult:
    """Made to fit its own limit first, then that of its batch; each decided once."""
    tool, wire = executed.permitted.tool, executed.result.wire
    limits = env.limits
    limit = limits.find_limit(tool, failed=executed.result.is_error)
    make = _prepare_fit(executed, env.results, limits)
    on_disk = needs_disk(wire, limit.chars, limits.max_image_bytes)
    if on_disk or executed.result.foreign or has_no_output(wire):
        fitted = await _run_fit(partial(make, limit=limit.chars), on_disk)
    else:
        fitted = FittedResult(wire)
    call_id = executed.permitted.reviewed.checked.call.id
    if limit.uses_batch_budget and not env.budget.reserve(call_id, measure_result(fitted.wire)):
        fitted = await _run_fit(partial(make, limit=0, reason=ReplacementReason.BATCH), True)
        env.budget.consume(measure_result(fitted.wire))
    if tool.output_validator is None:
        return fitted
    wire = conform_to_schema(fitted.wire, tool.output_validator, tool.name)
    return FittedResult(wire, fitted.replacements)


def _prepare_fit(
    executed: Executed, results: ResultStore, limits: ResultLimits
) -> partial[FittedResult]:
    """All that making this result fit needs, but for the limit."""
    tool = executed.permitted.tool
    return partial(
        fit_result,
        executed.result.wire,
        store=results,
        tool_name=tool.name,
        has_output_schema=tool.output_validator is not None,
        untrusted=executed.result.foreign,
        max_image_bytes=limits.max_image_bytes,
    )


async def _run_fit(fit_to_size: Callable[[], FittedResult], on_disk: bool) -> FittedResult:
    # What waits for the disk must not keep the other calls waiting.
    return await to_thread.run_sync(fit_to_size) if on_disk else fit_to_size()


def _add_notes(
    wire: JsonObject, executed: Executed, hook_result: PostHookResult, notes: tuple[str, ...]
) -> JsonObject:
    noted = add_notes(wire, notes, executed.permitted.tool.output_validator)
    return add_stop_reason(noted, _find_stop_reason(executed, hook_result))


def _collect_notes(
    executed: Executed, hook_result: PostHookResult, notes: Sequence[str]
) -> tuple[str, ...]:
    contexts = (*executed.permitted.reviewed.review.contexts, *hook_result.contexts)
    stop_reason = _find_stop_reason(executed, hook_result)
    stop_notes = () if stop_reason is None else build_stop_notes(stop_reason)
    return (*notes, *contexts, *stop_notes)


def _find_stop_reason(executed: Executed, hook_result: PostHookResult) -> str | None:
    return hook_result.stopped or executed.permitted.reviewed.review.stopped
