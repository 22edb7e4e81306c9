"""A small MCP server on our stdio streams, for tests: raw dicts from a middleware, no pipeline."""

import sys
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.sdk import (
    CallNext,
    Context,
    DispatchServer,
    MCPError,
    Result,
    complete_result,
    create_state_boundary,
    get_client_capabilities,
    get_request_outbound,
    is_modern,
    send_progress,
    serve,
)
from mcp_dispatch.wire.stdio_server import StdioLimits, open_stdio

Run = Callable[[Context, JsonObject], Awaitable[JsonObject]]

TOOL: JsonObject = {
    "name": "echo",
    "inputSchema": {"type": "object", "$defs": {"x": {"const": None}}, "x-vendor": [1, None]},
    "annotations": {"readOnlyHint": True, "x-hint": 1},
    "xVendorTop": {"n": 123456789012345678901234567890},
}
FORM: JsonObject = {
    "mode": "form",
    "message": "Run it?",
    "requestedSchema": {"type": "object", "properties": {"allow": {"type": "boolean"}}},
}


def text(value: str) -> JsonObject:
    return {"content": [{"type": "text", "text": value}]}


class Toys:
    """The toy tools. `started` and `stopped` tell of the tool `wait`."""

    def __init__(self, room: Callable[[], Awaitable[None]]) -> None:
        self._room = room
        self._slots = anyio.CapacityLimiter(4)
        self.started = anyio.Event()
        self.stopped = anyio.Event()

    async def echo(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        return {**text("echo"), "structuredContent": arguments, "vendorTop": {"n": None}}

    async def big(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        size = arguments["size"]
        async with self._slots:
            await self._room()
            return text("x" * size) if isinstance(size, int) else {}

    async def wait(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        self.started.set()
        try:
            await anyio.sleep_forever()
            return {}
        finally:
            self.stopped.set()

    async def surrogate(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        return text("\ud800")

    async def stray(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        sys.stdout.write("a stray print\n")
        sys.stdout.flush()
        return text(repr(sys.stdin.read()))

    async def progress(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        for step in (1, 2, 3):
            await send_progress(ctx, {"progress": step, "total": 3, "message": f"step {step}"})
        return text("done")

    async def fail(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        raise MCPError(-32042, "vendor error", {"why": [None, 10**30]})

    async def capabilities(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        return {**text("capabilities"), "structuredContent": get_client_capabilities(ctx)}

    async def ask(self, ctx: Context, arguments: JsonObject) -> JsonObject:
        if not is_modern(ctx):
            answer = await get_request_outbound(ctx).send_raw_request("elicitation/create", FORM)
            return text(f"answered {answer['action']}")
        params = ctx.params or {}
        if params.get("requestState") != "asked once":
            question: JsonObject = {"method": "elicitation/create", "params": FORM}
            asked: JsonObject = {"permission": question}
            return {
                "resultType": "input_required",
                "inputRequests": asked,
                "requestState": "asked once",
            }
        return text(f"answered {params['inputResponses']['permission']['action']}")


def toy_server(toys: Toys) -> DispatchServer:
    tools: dict[Json, Run] = {
        "ask": toys.ask,
        "big": toys.big,
        "capabilities": toys.capabilities,
        "echo": toys.echo,
        "fail": toys.fail,
        "progress": toys.progress,
        "stray": toys.stray,
        "surrogate": toys.surrogate,
        "wait": toys.wait,
    }

    async def answer(ctx: Context, call_next: CallNext) -> Result:
        if ctx.request_id is None or ctx.method not in ("tools/list", "tools/call"):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            result: JsonObject = {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}
            return complete_result(server, ctx, result)
        params = ctx.params or {}
        result = await tools[params["name"]](ctx, params.get("arguments") or {})
        return complete_result(server, ctx, result)

    server = DispatchServer("toy", version="1", middleware=[create_state_boundary("toy"), answer])
    return server


async def main(limits: StdioLimits) -> None:
    async with open_stdio(limits) as stdio:
        await serve(
            toy_server(Toys(stdio.write_queue.wait_for_capacity)), stdio.reader, stdio.writer
        )


if __name__ == "__main__":
    anyio.run(partial(main, StdioLimits(queued_bytes=4_000_000)))
