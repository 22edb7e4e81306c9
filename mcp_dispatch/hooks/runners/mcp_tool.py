"""Runs an mcp_tool hook: calls an upstream tool and treats its text like stdout."""

import json
import re
from typing import Final, Protocol

import anyio

from mcp_dispatch.hooks.actions import UpstreamCall
from mcp_dispatch.hooks.output import HookFailure, HookOutput
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json, JsonObject

MAX_ANSWER_CHARS: Final = 8 << 20

_PLACEHOLDER: Final = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}", re.ASCII)


class CallRefused(Exception):
    """The tool was not called or did not answer; the message gives the reason."""


class UpstreamCaller(Protocol):
    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        context: HookContext,
    ) -> JsonObject:
        """Return the result of the tool. Raise `CallRefused` if there is none."""
        ...


class NoUpstreams:
    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        context: HookContext,
    ) -> JsonObject:
        raise CallRefused(f"there is no server named {server!r}")


class UpstreamRunner:
    def __init__(self, upstreams: UpstreamCaller) -> None:
        self._upstreams = upstreams

    async def run(
        self, call: UpstreamCall, document: bytes, origin: Origin, context: HookContext
    ) -> HookOutput | HookFailure:
        arguments = fill_template(json.loads(call.input), json.loads(document))
        assert isinstance(arguments, dict), "the input of a hook is an object"
        result: JsonObject | None = None
        try:
            with anyio.move_on_after(call.timeout_seconds):
                result = await self._upstreams.call(
                    call.server, call.tool, arguments, origin, context
                )
        except CallRefused as refused:
            return HookFailure(str(refused))
        if result is None:
            return HookFailure(f"timed out after {call.timeout_seconds:g} s", timed_out=True)
        return _to_hook_output(result)


def _to_hook_output(result: JsonObject) -> HookOutput | HookFailure:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    text = "\n".join(text for text in texts if isinstance(text, str))
    if result.get("isError") is True:
        return HookFailure(f"the tool failed: {text[:200]}")
    return HookOutput(
        0, text[:MAX_ANSWER_CHARS], dropped_bytes=max(0, len(text) - MAX_ANSWER_CHARS)
    )


def fill_template(template: Json, document: JsonObject) -> Json:
    """Replace placeholders such as `${tool_input.file_path}` with values of the hook input.

    A missing value becomes an empty text. A string that is only a placeholder becomes the value
    itself. Inserted values are not expanded again, so no argument can refer to another.
    """
    if isinstance(template, dict):
        return {key: fill_template(value, document) for key, value in template.items()}
    if isinstance(template, list):
        return [fill_template(value, document) for value in template]
    if not isinstance(template, str):
        return template
    if whole := _PLACEHOLDER.fullmatch(template):
        return _lookup_path(document, whole[1])
    return _PLACEHOLDER.sub(lambda place: _to_text(_lookup_path(document, place[1])), template)


def _lookup_path(document: JsonObject, path: str) -> Json:
    value: Json = document
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, dict) else ""
    return value


def _to_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
