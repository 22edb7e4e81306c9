"""Our own markers: the texts that stand for a result, and imitations of them made harmless."""

import re

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.preview import PREVIEW_BYTES, human_size, preview, utf8
from mcp_dispatch.results.size import blocks_of, text_of
from mcp_dispatch.results.store import Kept

ONLY_A_PREVIEW = (
    "This is only a preview, not the whole output. "
    "Before you rely on the rest, read that file page by page: with Read, `offset` and `limit`, "
    "or with read_result where there is no Read."
)

_IMITATION = re.compile(
    r"<(?=[\s/]{0,8}(?:persisted-output|tool_use_error|system-reminder)\b)", re.IGNORECASE
)


def harmless(text: str) -> str:
    """`text` with the opening `<` of anything that looks like a marker of ours spelt `&lt;`.

    The same object where nothing does.
    """
    return _IMITATION.sub("&lt;", text) if _IMITATION.search(text) else text


def harmless_result(wire: JsonObject) -> JsonObject:
    """The result with every text block made harmless; the same object where none needed it.

    Structured content is left as it is: a program reads it, and its strings are data.
    """
    blocks = blocks_of(wire)
    changed = [_harmless_block(block) for block in blocks]
    if all(new is old for new, old in zip(changed, blocks, strict=True)):
        return wire
    return {**wire, "content": changed}


def _harmless_block(block: Json) -> Json:
    text = text_of(block)
    if text is None or harmless(text) is text:
        return block
    return with_text(block, harmless(text))


def with_text(block: Json, text: str) -> Json:
    """The block, or the resource it embeds, showing `text`; all its other fields kept."""
    if not isinstance(block, dict):
        return block
    resource = block.get("resource")
    if block.get("type") == "resource" and isinstance(resource, dict):
        return {**block, "resource": {**resource, "text": text}}
    return {**block, "text": text}


def persisted(text: str, kept: Kept) -> str:
    """What the model gets instead of `text`. Its bytes depend on the content alone."""
    return persisted_preview(preview(text), kept)


def persisted_preview(shown: str, kept: Kept) -> str:
    """The same where only the beginning of the text is at hand."""
    return (
        "<persisted-output>\n"
        f"Output too large ({human_size(kept.size)}). Full output saved to: {kept.path}\n"
        "\n"
        f"Preview (first {human_size(PREVIEW_BYTES)}):\n"
        f"{harmless(shown)}\n"
        "...\n"
        "</persisted-output>\n"
        f"{ONLY_A_PREVIEW}"
    )


def persisted_file(kind: str, kept: Kept) -> str:
    """What the model gets instead of content that is not text; `kind` is a MIME type of ours."""
    return (
        "<persisted-output>\n"
        f"Content of type {kind} ({human_size(kept.size)}) was decoded and saved to: {kept.path}\n"
        "</persisted-output>"
    )


def link(kept: Kept, mime_type: str) -> JsonObject:
    """The kept result as a resource that this client can read, page by page."""
    return {
        "type": "resource_link",
        "uri": kept.uri,
        "name": kept.path.name,
        "description": f"The whole output, {human_size(kept.size)}; resources/read gives a page",
        "mimeType": mime_type,
        "size": kept.size,
    }


def cut(text: str, room: int, reason: str) -> str:
    """Head and tail of a text that could be neither shown nor kept, in about `room` characters."""
    notice = (
        f"[Output too large ({human_size(len(utf8(text)))}) and not kept on disk: {reason}. "
        "The middle is left out. Ask for a smaller part.]"
    )
    shown = max(room - len(notice) - 4, 0)
    head = shown * 2 // 3
    tail = shown - head
    end = text[len(text) - tail :]
    return f"{harmless(text[:head])}\n\n{notice}\n\n{harmless(end)}"


def nothing_said(tool_name: str, *, failed: bool) -> str:
    return f"({tool_name} {'failed' if failed else 'completed'} with no output)"


STOPPED_META = "mcp-dispatch/stopped"


def stop_notes(reason: str | None) -> tuple[str, ...]:
    return () if reason is None else (f"A hook asks to stop here: {reason}",)


def marked(wire: JsonObject, stopped: str | None) -> JsonObject:
    """The result with the reason to stop in its `_meta`, where there is one."""
    if stopped is None:
        return wire
    meta = wire.get("_meta")
    known = meta if isinstance(meta, dict) else {}
    return {**wire, "_meta": {**known, STOPPED_META: stopped}}
