"""Replaces an upstream result with the output of a PostToolUse hook."""

import json
from dataclasses import replace
from typing import Final

from mcp_dispatch.model.calls import Executed, NewOutput
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import build_text_block

# For each content type, the field without which a client rejects the whole result.
_REQUIRED_FIELDS: Final = {
    "text": "text",
    "image": "data",
    "audio": "data",
    "resource": "resource",
    "resource_link": "uri",
}


def replace_result(executed: Executed, output: NewOutput) -> Executed:
    """Return the call with `output` as its whole result; nothing of the tool's result is kept."""
    wire = _to_wire_result(
        output.value, structured=executed.permitted.tool.output_validator is not None
    )
    result = replace(executed.result, wire=wire, response=output.value, replaced=())
    return replace(executed, result=result)


def _to_wire_result(value: Json, *, structured: bool) -> JsonObject:
    """Accept a whole result, a list of content or a string; convert anything else to JSON text."""
    if isinstance(value, dict) and _is_content(value.get("content")):
        return value
    if isinstance(value, list) and value and _is_content(value):
        return {"content": value}
    if isinstance(value, str):
        return {"content": [build_text_block(value)]}
    shown: JsonObject = {"content": [build_text_block(json.dumps(value, ensure_ascii=False))]}
    return (
        {**shown, "structuredContent": value} if structured and isinstance(value, dict) else shown
    )


def _is_content(value: Json) -> bool:
    return isinstance(value, list) and all(map(_is_block, value))


def _is_block(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    needed = _REQUIRED_FIELDS.get(kind) if isinstance(kind, str) else None
    if needed is None:
        return False
    expected = dict if needed == "resource" else str
    return isinstance(value.get(needed), expected)
