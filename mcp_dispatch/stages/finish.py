"""Executed -> Completed: post-hooks speak, the result is made to fit."""

from collections.abc import Sequence
from functools import partial

from anyio import to_thread

from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.hooks.replacing import with_output
from mcp_dispatch.model.calls import Afterword, Completed, Executed
from mcp_dispatch.model.circumstances import Circumstances
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.replace import Fitted, fit
from mcp_dispatch.results.size import measure
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.scope import Scope

STOPPED_META = "mcp-dispatch/stopped"


async def finish(
    results: ResultStore,
    hooks: Hooks,
    executed: Executed,
    scope: Scope,
    circumstances: Circumstances,
) -> Completed:
    # Hooks may replace what an upstream answered; to what a built-in delivers they only add.
    foreign = executed.permitted.tool.server is not None
    afterword = await hooks.after(executed, circumstances) if foreign else Afterword()
    executed = with_output(executed, afterword.output)
    fitted = await _fitted(executed, results)
    for path in fitted.files:
        scope.deliver(path)
    if not foreign:
        afterword = await hooks.after(executed, circumstances)
    notes = scope.take_notes()
    return Completed(executed, _annotated(fitted.wire, executed, afterword, notes), fitted.kept)


async def _fitted(executed: Executed, results: ResultStore) -> Fitted:
    tool, wire = executed.permitted.tool, executed.result.wire
    make = partial(
        fit,
        wire,
        tool.result_limit,
        results,
        tool.name,
        has_output_schema="outputSchema" in tool.definition,
        foreign=tool.server is not None,
    )
    if tool.result_limit is None or measure(wire) <= tool.result_limit:
        return make()
    # Over the limit it waits for the disk, which the other calls must not.
    return await to_thread.run_sync(make)


def _annotated(
    wire: JsonObject, executed: Executed, afterword: Afterword, notes: Sequence[str]
) -> JsonObject:
    """What hooks say to the model arrives as extra text; a stop is visible, since the client owns
    the loop."""
    review = executed.permitted.reviewed.review
    contexts = [*notes, *review.contexts, *afterword.contexts]
    stopped = afterword.stopped or review.stopped
    if not contexts and stopped is None:
        return wire
    content = wire.get("content")
    blocks: list[Json] = list(content) if isinstance(content, list) else []
    if stopped is not None:
        contexts.append(f"A hook asks to stop here: {stopped}")
    annotated: JsonObject = {**wire, "content": [*blocks, *map(_text_block, contexts)]}
    if stopped is not None:
        meta = wire.get("_meta")
        known = meta if isinstance(meta, dict) else {}
        annotated["_meta"] = {**known, STOPPED_META: stopped}
    return annotated


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
