"""Executed -> Completed: run post-hooks and fit the result to its limits."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from anyio import to_thread

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.output_override import replace_result
from mcp_dispatch.model.calls import Completed, Executed, PostHookResult
from mcp_dispatch.model.tools import ReplacementReason
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.results.fit import FittedResult, fit_result
from mcp_dispatch.results.markers import add_stop_reason, build_stop_notes
from mcp_dispatch.results.output_schema import add_notes, conform_to_schema
from mcp_dispatch.results.size import has_no_output, measure_result, needs_disk
from mcp_dispatch.results.stale_files import FileSnapshot, format_stale_hint


async def finish(executed: Executed, files_before: FileSnapshot | None, env: CallEnv) -> Completed:
    """`files_before` is None for a call that only reads."""
    stale_files = await _find_stale_files(files_before, env.scope)
    # Hooks may replace the result of an upstream; to the result of a built-in tool they only add.
    is_upstream = executed.permitted.tool.server is not None
    post = await _run_post_hooks(executed, env) if is_upstream else PostHookResult()
    if post.output is not None:
        executed = replace_result(executed, post.output)
    fitted = await _fit_to_limits(executed, env)
    if fitted.replacements:
        for path in fitted.files:
            env.scope.mark_delivered(path)
    if not is_upstream:
        post = await _run_post_hooks(executed, env)
    pre = executed.permitted.reviewed.review
    stop_reason = post.stopped or pre.stopped
    notes = (
        *([format_stale_hint(stale_files)] if stale_files else []),
        *env.scope.take_notes(),
        *pre.contexts,
        *post.contexts,
        *(build_stop_notes(stop_reason) if stop_reason is not None else ()),
    )
    wire = fitted.wire
    if notes:
        wire = add_notes(wire, notes, executed.permitted.tool.output_validator)
        wire = add_stop_reason(wire, stop_reason)
    return Completed(executed, wire, (*executed.result.replaced, *fitted.replacements), notes)


async def shrink(completed: Completed, scope: Scope, services: Services) -> Completed:
    """Store the result on disk, because the results of its message are too large together."""
    executed = completed.executed
    tool = executed.permitted.tool
    fit = _prepare_fit(executed, services)
    fitted = await _run_fit(partial(fit, limit=0, reason=ReplacementReason.BATCH), on_disk=True)
    for path in fitted.files:
        scope.mark_delivered(path)
    wire = conform_to_schema(fitted.wire, tool.output_validator, tool.name)
    wire = add_notes(wire, completed.notes, tool.output_validator)
    meta = completed.wire.get("_meta")
    wire = wire if meta is None else {**wire, "_meta": meta}
    return replace(completed, wire=wire, replaced=(*executed.result.replaced, *fitted.replacements))


async def _run_post_hooks(executed: Executed, env: CallEnv) -> PostHookResult:
    failed = executed.result.is_error
    event = HookEventName.POST_TOOL_USE_FAILURE if failed else HookEventName.POST_TOOL_USE
    if event not in env.hooks.events:
        return PostHookResult()
    return await env.hooks.run_post_tool_use(executed, env.hook_context)


async def _find_stale_files(before: FileSnapshot | None, scope: Scope) -> tuple[str, ...]:
    """Return the files that the scope has read and that this call has changed."""
    if before is None or not (touched := before.find_touched()):
        return ()
    return scope.report_stale(await to_thread.run_sync(before.find_changed, touched, scope.files))


async def _fit_to_limits(executed: Executed, env: CallEnv) -> FittedResult:
    """Fit the result to the limit of its tool, then to the budget of its batch."""
    tool, wire = executed.permitted.tool, executed.result.wire
    limits, budget = env.services.get_snapshot().limits, env.scope.get_budget(env.run.batch)
    limit = limits.find_limit(tool, failed=executed.result.is_error)
    fit = _prepare_fit(executed, env.services)
    on_disk = needs_disk(wire, limit.chars, limits.max_image_bytes)
    if on_disk or executed.result.foreign or has_no_output(wire):
        fitted = await _run_fit(partial(fit, limit=limit.chars), on_disk)
    else:
        fitted = FittedResult(wire)
    if limit.uses_batch_budget and not budget.reserve(env.call.id, measure_result(fitted.wire)):
        fitted = await _run_fit(partial(fit, limit=0, reason=ReplacementReason.BATCH), True)
        budget.consume(measure_result(fitted.wire))
    if tool.output_validator is None:
        return fitted
    wire = conform_to_schema(fitted.wire, tool.output_validator, tool.name)
    return FittedResult(wire, fitted.replacements)


def _prepare_fit(executed: Executed, services: Services) -> partial[FittedResult]:
    """Bind everything that `fit_result` needs, except for the limit."""
    tool = executed.permitted.tool
    return partial(
        fit_result,
        executed.result.wire,
        store=services.results,
        tool_name=tool.name,
        has_output_schema=tool.output_validator is not None,
        untrusted=executed.result.foreign,
        max_image_bytes=services.get_snapshot().limits.max_image_bytes,
    )


async def _run_fit(fit: Callable[[], FittedResult], on_disk: bool) -> FittedResult:
    # Disk access runs in a thread, so that other calls go on.
    return await to_thread.run_sync(fit) if on_disk else fit()
