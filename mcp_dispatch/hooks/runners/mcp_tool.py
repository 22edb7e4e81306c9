"""Runs one mcp_tool hook: a tool of an upstream is called, and its text is read like stdout."""

import json
import re
from typing import Final, Protocol

import anyio

from mcp_dispatch.hooks.actions import UpstreamCall
from mcp_dispatch.hooks.output import Failure, Printed
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.json import Json, JsonObject

LONGEST_ANSWER: Final = 8 << 20

_PLACE: Final = re.compile(r"\$\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}", re.ASCII)


class CallRefused(Exception):
    """The tool was not called, or did not answer; the message says why."""


class Upstreams(Protocol):
    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        circumstances: Circumstances,
    ) -> JsonObject:
        """The result of the tool. Raises `CallRefused`."""
        ...


class NoUpstreams:
    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        circumstances: Circumstances,
    ) -> JsonObject:
        raise CallRefused(f"there is no server named {server!r}")


class UpstreamRunner:
    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    async def run(
        self, call: UpstreamCall, document: bytes, origin: Origin, circumstances: Circumstances
    ) -> Printed | Failure:
        arguments = filled(json.loads(call.input), json.loads(document))
        assert isinstance(arguments, dict), "the input of a hook is an object"
        result: JsonObject | None = None
        try:
            with anyio.move_on_after(call.seconds):
                result = await self._upstreams.call(
                    call.server, call.tool, arguments, origin, circumstances
                )
        except CallRefused as refused:
            return Failure(str(refused))
        if result is None:
            return Failure(f"timed out after {call.seconds:g} s", timed_out=True)
        return _printed(result)


def _printed(result: JsonObject) -> Printed | Failure:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    text = "\n".join(text for text in texts if isinstance(text, str))
    if result.get("isError") is True:
        return Failure(f"the tool failed: {text[:200]}")
    return Printed(0, text[:LONGEST_ANSWER], dropped=max(0, len(text) - LONGEST_ANSWER))


def filled(template: Json, document: JsonObject) -> Json:
    """`${tool_input.file_path}` replaced by what the event says there, or by nothing.

    A text that is nothing but such a place becomes the value itself. What is put in is not
    looked at again, so that no argument can name another.
    """
    if isinstance(template, dict):
        return {key: filled(value, document) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, document) for value in template]
    if not isinstance(template, str):
        return template
    if whole := _PLACE.fullmatch(template):
        return _at(document, whole[1])
    return _PLACE.sub(lambda place: _text(_at(document, place[1])), template)


def _at(document: JsonObject, path: str) -> Json:
    value: Json = document
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, dict) else ""
    return value


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
