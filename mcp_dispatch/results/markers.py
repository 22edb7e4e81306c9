"""The texts that replace a result, and the escaping of imitations of them in untrusted text."""

import re

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.preview import PREVIEW_BYTES, build_preview, encode_utf8, format_size
from mcp_dispatch.results.size import extract_blocks, extract_text
from mcp_dispatch.results.store import StoredResult

PREVIEW_NOTICE = (
    "This is only a preview, not the whole output. "
    "Before you rely on the rest, read that file page by page: with Read, `offset` and `limit`, "
    "or with read_result where there is no Read."
)

_FAKE_MARKER = re.compile(
    r"<(?=[\s/]{0,8}(?:persisted-output|tool_use_error|system-reminder)\b)", re.IGNORECASE
)


def escape_markers(text: str) -> str:
    """Return `text` with the opening `<` of anything like our markers written as `&lt;`.

    Returns the same object if there is nothing to escape.
    """
    return _FAKE_MARKER.sub("&lt;", text) if _FAKE_MARKER.search(text) else text


def escape_markers_in_result(wire: JsonObject) -> JsonObject:
    """Return the result with the markers in its text blocks escaped; the same object if there
    are none.

    Structured content is not changed: a program reads it, and its strings are data.
    """
    blocks = extract_blocks(wire)
    changed = [_escape_markers_in_block(block) for block in blocks]
    if all(new is old for new, old in zip(changed, blocks, strict=True)):
        return wire
    return {**wire, "content": changed}


def _escape_markers_in_block(block: Json) -> Json:
    text = extract_text(block)
    if text is None or escape_markers(text) is text:
        return block
    return with_text(block, escape_markers(text))


def with_text(block: Json, text: str) -> Json:
    """Return the block, or its embedded resource, with `text` and all its other fields."""
    if not isinstance(block, dict):
        return block
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return {**block, "resource": {**resource, "text": text}}
    return {**block, "text": text}


def render_persisted_text(text: str, stored: StoredResult) -> str:
    """Return the replacement for `text`. It depends on nothing but the content and its path."""
    return render_persisted_preview(build_preview(text), stored)


def render_persisted_preview(preview_text: str, stored: StoredResult) -> str:
    """Return the replacement for a text of which the caller has only the beginning."""
    return (
        "<persisted-output>\n"
        f"Output too large ({format_size(stored.size)}). Full output saved to: {stored.path}\n"
        "\n"
        f"Preview (first {format_size(PREVIEW_BYTES)}):\n"
        f"{escape_markers(preview_text)}\n"
        "...\n"
        "</persisted-output>\n"
        f"{PREVIEW_NOTICE}"
    )


def render_persisted_file(kind: str, stored: StoredResult) -> str:
    """Return the replacement for content that is not text; `kind` is a MIME type that we know."""
    return (
        "<persisted-output>\n"
        f"Content of type {kind} ({format_size(stored.size)}) was decoded and saved to: {stored.path}\n"
        "</persisted-output>"
    )


def build_resource_link(stored: StoredResult, mime_type: str) -> JsonObject:
    """Return a link with which the client can read the stored result page by page."""
    return {
        "type": "resource_link",
        "uri": stored.uri,
        "name": stored.path.name,
        "description": f"The whole output, {format_size(stored.size)}; resources/read gives a page",
        "mimeType": mime_type,
        "size": stored.size,
    }


def cut_middle(text: str, max_chars: int, reason: str) -> str:
    """Return head and tail of a text that could not be stored, about `max_chars` long."""
    notice = (
        f"[Output too large ({format_size(len(encode_utf8(text)))}) and not kept on disk: {reason}. "
        "The middle is left out. Ask for a smaller part.]"
    )
    shown = max(max_chars - len(notice) - 4, 0)
    head = shown * 2 // 3
    tail = shown - head
    end = text[len(text) - tail :]
    return f"{escape_markers(text[:head])}\n\n{notice}\n\n{escape_markers(end)}"


def describe_empty_output(tool_name: str, *, failed: bool) -> str:
    return f"({tool_name} {'failed' if failed else 'completed'} with no output)"


STOPPED_META = "mcp-dispatch/stopped"


def build_stop_notes(reason: str | None) -> tuple[str, ...]:
    return () if reason is None else (f"A hook asks to stop here: {reason}",)


def add_stop_reason(wire: JsonObject, stop_reason: str | None) -> JsonObject:
    """Return the result with the reason to stop, if there is one, in its `_meta`."""
    if stop_reason is None:
        return wire
    meta = wire.get("_meta")
    known = meta if isinstance(meta, dict) else {}
    return {**wire, "_meta": {**known, STOPPED_META: stop_reason}}
