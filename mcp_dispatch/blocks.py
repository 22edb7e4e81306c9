"""Types of the content blocks and tool definitions of the Anthropic Messages API."""

from typing import Any, Literal, NotRequired, TypedDict


class ToolUseBlock(TypedDict):
    """A call that a model asks for."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class TextBlock(TypedDict):
    type: Literal["text"]
    text: str


class MediaSource(TypedDict):
    type: Literal["base64"]
    media_type: str
    data: str


class MediaBlock(TypedDict):
    """An image, or a PDF document."""

    type: Literal["image", "document"]
    source: MediaSource


class ToolResultBlock(TypedDict):
    """The result of one call. `is_error` is present only for an error."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: list[TextBlock | MediaBlock]
    is_error: NotRequired[bool]


class ToolDefinition(TypedDict):
    """A tool as the `tools` parameter of a request describes it."""

    name: str
    description: NotRequired[str]
    input_schema: dict[str, Any]
