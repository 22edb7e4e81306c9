"""The server that the conformance suite expects, in both eras: `fixture.py stdio | PORT`.

What it asks of a client it asks live up to 2025-11-25 and by `input_required` since.
"""

import json
import logging
import sys
from collections.abc import Awaitable, Callable
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any, cast

import anyio
import mcp_types
import uvicorn
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.dispatcher import Outbound
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, SERVER_INFO_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.support.conformance.entries import (
    COMPLETION,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    prompt_messages,
    resource_contents,
    simple_result,
)
from tests.support.conformance.questions import QUESTIONS, Asking

Context = ServerRequestContext[Any, Any]
Message = dict[str, Any]
Answer = Callable[[Context, Message], Awaitable[Message]]

logging.disable(logging.WARNING)
bus = InMemorySubscriptionBus()


def is_modern(ctx: Context) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


async def call(ctx: Context, params: Message) -> Message:
    name = params.get("name")
    arguments: Message = params.get("arguments") or {}
    if name in QUESTIONS:
        return await ask(ctx, params, QUESTIONS[name])
    behaviour = BEHAVIOURS.get(str(name))
    if behaviour is not None:
        return await behaviour(ctx, arguments)
    result = simple_result(str(name), arguments)
    if result is None:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {name}")
    return result


async def ask(ctx: Context, params: Message, asking: Asking) -> Message:
    if not is_modern(ctx):
        answers: Message = {}
        for key, request in asking.first(params, declared(ctx)).items():
            answers[key] = await outbound(ctx).send_raw_request(
                request["method"], request["params"]
            )
        return asking.done(answers)
    answers = cast(Message, params.get("inputResponses") or {})
    state = params.get("requestState")
    step = cast(int, json.loads(state)["step"]) if isinstance(state, str) else 0
    wanted = asking.rounds[step - 1] if step else asking.first(params, declared(ctx))
    usable = {key for key, answer in answers.items() if isinstance(answer, dict) and answer}
    if set(wanted) <= usable and (step or not asking.sealed):
        step = step or 1
        if step == len(asking.rounds):
            return asking.done(answers)
        wanted = asking.rounds[step]
        step += 1
    required: Message = {"resultType": "input_required", "inputRequests": wanted}
    if asking.sealed:
        required["requestState"] = json.dumps({"step": step or 1})
    return required


def declared(ctx: Context) -> Message:
    capabilities = ctx.session.client_capabilities
    if capabilities is None:
        return {}
    return capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


async def say(ctx: Context, text: str) -> None:
    """A log message, where it is wanted: since 2026-07-28 a request has to ask for them."""
    meta = cast(Message, (ctx.params or {}).get("_meta") or {})
    level = meta.get("io.modelcontextprotocol/logLevel")
    if is_modern(ctx) and level not in ("debug", "info"):
        return
    params = {"level": "info", "logger": "fixture", "data": text}
    await outbound(ctx).notify("notifications/message", params)


def outbound(ctx: Context) -> Outbound:
    return ctx.session._request_outbound  # pyright: ignore[reportPrivateUsage]  no public way


async def log(ctx: Context, _: Message) -> Message:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await say(ctx, text)
        await anyio.sleep(0.05)
    return {"content": [{"type": "text", "text": "logged"}]}


async def progress(ctx: Context, _: Message) -> Message:
    for reached in (0, 50, 100):
        await ctx.session.report_progress(reached, 100)
        await anyio.sleep(0.05)
    return {"content": [{"type": "text", "text": "done"}]}


async def reconnect(ctx: Context, _: Message) -> Message:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(0.1)
    return {"content": [{"type": "text", "text": "reconnected"}]}


async def need_sampling(ctx: Context, _: Message) -> Message:
    if "sampling" not in declared(ctx):
        data: Message = {"requiredCapabilities": {"sampling": {}}}
        code = mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
        raise MCPError(code, "sampling is needed", data)
    return {"content": [{"type": "text", "text": "has it"}]}


async def change_tools(ctx: Context, _: Message) -> Message:
    await bus.publish(ToolsListChanged())
    return {"content": [{"type": "text", "text": "announced"}]}


async def change_prompts(ctx: Context, _: Message) -> Message:
    await bus.publish(PromptsListChanged())
    return {"content": [{"type": "text", "text": "announced"}]}


BEHAVIOURS: dict[str, Answer] = {
    "test_tool_with_logging": log,
    "test_logging_tool": log,
    "test_tool_with_progress": progress,
    "test_reconnection": reconnect,
    "test_missing_capability": need_sampling,
    "test_trigger_tool_change": change_tools,
    "test_trigger_prompt_change": change_prompts,
}


async def get_prompt(ctx: Context, params: Message) -> Message:
    name = str(params.get("name"))
    if name in QUESTIONS:
        return await ask(ctx, params, QUESTIONS[name])
    messages = prompt_messages(name, params.get("arguments") or {})
    if messages is None:
        raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name}")
    return {"messages": messages}


async def read(ctx: Context, params: Message) -> Message:
    uri = str(params.get("uri"))
    contents = resource_contents(uri)
    if contents is None:
        code = INVALID_PARAMS if is_modern(ctx) else -32002
        raise MCPError(code, "Resource not found", {"uri": uri})
    return {"contents": [contents]}


def fixed(key: str, value: Any) -> Answer:
    async def answer(ctx: Context, params: Message) -> Message:
        return {key: value}

    return answer


async def nothing(ctx: Context, params: Message) -> Message:
    return {}


ANSWERS: dict[str, Answer] = {
    "tools/list": fixed("tools", TOOLS),
    "tools/call": call,
    "prompts/list": fixed("prompts", PROMPTS),
    "prompts/get": get_prompt,
    "resources/list": fixed("resources", RESOURCES),
    "resources/templates/list": fixed("resourceTemplates", TEMPLATES),
    "resources/read": read,
    "resources/subscribe": nothing,
    "resources/unsubscribe": nothing,
    "logging/setLevel": nothing,
    "completion/complete": fixed("completion", COMPLETION),
}

UP_TO_2025 = {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}


async def raw(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Dicts go to the wire as they are; 2026-07-28 wants an envelope around them."""
    answer = ANSWERS.get(ctx.method)
    gone = is_modern(ctx) and ctx.method in UP_TO_2025
    if answer is None or ctx.request_id is None or gone:
        return await call_next(ctx)
    result = await answer(ctx, dict(ctx.params or {}))
    if not is_modern(ctx):
        return result
    listed = ctx.method.endswith("/list") or ctx.method == "resources/read"
    fresh: Message = {"ttlMs": 0, "cacheScope": "private"} if listed else {}
    stamp = {SERVER_INFO_META_KEY: server.server_info_stamp}
    return {"resultType": "complete", **fresh, **result, "_meta": stamp}


async def unreached(ctx: Context, params: mcp_types.RequestParams) -> Message:
    raise AssertionError(ctx.method)


class Fixture(Server[Any]):
    def create_initialization_options(self, *_: Any, **__: Any) -> Any:
        changes = NotificationOptions(
            tools_changed=True, prompts_changed=True, resources_changed=True
        )
        return super().create_initialization_options(changes)


def tool_schema(name: str) -> Message | None:
    found = [tool["inputSchema"] for tool in TOOLS if tool["name"] == name]
    return cast(Message, found[0]) if found else None


server = Fixture("fixture", version="1", get_tool_input_schema=tool_schema)
for method in ANSWERS:
    server.add_request_handler(method, mcp_types.RequestParams, unreached)
server.add_request_handler(
    "subscriptions/listen", mcp_types.SubscriptionsListenRequestParams, ListenHandler(bus)
)
server.middleware[:] = [
    RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixture"),
    raw,
]


async def serve_http(port: int) -> None:
    with socket(AF_INET, SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", port))
        host, port = listening.getsockname()
        sys.stderr.write(f"serving MCP at http://{host}:{port}/mcp\n")
        sys.stderr.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_config=None)
        await uvicorn.Server(config).serve([listening])


async def serve_stdio() -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        anyio.run(serve_stdio)
    else:
        anyio.run(serve_http, int(sys.argv[1]))
