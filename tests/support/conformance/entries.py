"""What the conformance fixture lists, and the answers that are always the same."""

import base64
import json
import re
from typing import Any

from tests.support.conformance.questions import QUESTIONS

Message = dict[str, Any]

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5Er"
    "kJggg=="
)
SOUND = base64.b64encode(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"
).decode()
COMPLETION: Message = {"values": ["paris", "park", "party"], "total": 150, "hasMore": False}

_TEXT: Message = {"type": "string"}
_ARGUMENTS: dict[str, Message] = {
    "test_sampling": {"prompt": _TEXT},
    "test_elicitation": {"message": _TEXT},
}
_IMAGE: Message = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
_SIMPLE: dict[str, Message] = {
    "test_simple_text": {
        "content": [{"type": "text", "text": "This is a simple text response for testing."}]
    },
    "test_image_content": {"content": [_IMAGE]},
    "test_audio_content": {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {
        "content": [
            {
                "type": "resource",
                "resource": {
                    "uri": "test://embedded-resource",
                    "mimeType": "text/plain",
                    "text": "This is an embedded resource content.",
                },
            }
        ]
    },
    "test_multiple_content_types": {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            _IMAGE,
            {
                "type": "resource",
                "resource": {
                    "uri": "test://mixed-content-resource",
                    "mimeType": "application/json",
                    "text": '{"test":"data","value":123}',
                },
            },
        ]
    },
    "test_error_handling": {
        "isError": True,
        "content": [
            {"type": "text", "text": "This tool intentionally returns an error for testing"}
        ],
    },
    "json_schema_2020_12_tool": {"content": [{"type": "text", "text": "fine"}]},
    "test_x_mcp_header": {"content": [{"type": "text", "text": "fine"}]},
}
_OTHERS = (
    "test_tool_with_logging",
    "test_logging_tool",
    "test_tool_with_progress",
    "test_reconnection",
    "test_missing_capability",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
)
_SCHEMAS: dict[str, Message] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": _TEXT, "city": _TEXT},
            }
        },
        "properties": {
            "name": _TEXT,
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": _TEXT,
            "email": _TEXT,
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}


def _schema(name: str) -> Message:
    if name in _SCHEMAS:
        return _SCHEMAS[name]
    properties = _ARGUMENTS.get(name, {})
    return {"type": "object", "properties": properties, "required": list(properties)}


def _tool(name: str) -> Message:
    return {"name": name, "description": f"For conformance: {name}", "inputSchema": _schema(name)}


TOOLS: list[Message] = [
    _tool(name)
    for name in sorted(
        {*_SIMPLE, *_OTHERS, *(key for key, each in QUESTIONS.items() if not each.prompt)}
    )
]
PROMPTS: list[Message] = [
    {"name": "test_simple_prompt", "description": "Simple"},
    {
        "name": "test_prompt_with_arguments",
        "description": "With arguments",
        "arguments": [
            {"name": "arg1", "description": "First test argument", "required": True},
            {"name": "arg2", "description": "Second test argument", "required": True},
        ],
    },
    {
        "name": "test_prompt_with_embedded_resource",
        "description": "With a resource",
        "arguments": [{"name": "resourceUri", "description": "Its URI", "required": True}],
    },
    {"name": "test_prompt_with_image", "description": "With an image"},
    {"name": "test_input_required_result_prompt", "description": "Asks first"},
]
RESOURCES: list[Message] = [
    {
        "uri": f"test://{name}",
        "name": name,
        "description": f"For conformance: {name}",
        "mimeType": kind,
    }
    for name, kind in (
        ("static-text", "text/plain"),
        ("static-binary", "image/png"),
        ("watched-resource", "text/plain"),
    )
]
TEMPLATES: list[Message] = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "For conformance: a template",
        "mimeType": "application/json",
    }
]


def simple_result(name: str, _: Message) -> Message | None:
    return _SIMPLE.get(name)


def prompt_messages(name: str, arguments: Message) -> list[Message] | None:
    def said(content: Message) -> Message:
        return {"role": "user", "content": content}

    def text(words: str) -> Message:
        return said({"type": "text", "text": words})

    match name:
        case "test_simple_prompt":
            return [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            shown = ", ".join(f"{key}='{arguments.get(key)}'" for key in ("arg1", "arg2"))
            return [text(f"Prompt with arguments: {shown}")]
        case "test_prompt_with_embedded_resource":
            resource = {
                "uri": arguments.get("resourceUri"),
                "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }
            return [
                said({"type": "resource", "resource": resource}),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            return [said(_IMAGE), text("Please analyze the image above.")]
        case _:
            return None


def resource_contents(uri: str) -> Message | None:
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": PIXEL}
    texts = {
        "test://static-text": "This is the content of the static text resource.",
        "test://watched-resource": "Watched.",
    }
    if uri in texts:
        return {"uri": uri, "mimeType": "text/plain", "text": texts[uri]}
    found = re.fullmatch("test://template/([^/]+)/data", uri)
    if found is None:
        return None
    id = found.group(1)
    data = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
    return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
