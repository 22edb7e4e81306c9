"""What clients hold a result against: structure that fits the schema that was listed, always."""

from collections.abc import Sequence

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.results.markers import harmless
from mcp_dispatch.results.parts import tells
from mcp_dispatch.results.preview import preview
from mcp_dispatch.results.size import as_json, blocks_of, text_of
from mcp_dispatch.results.store import Kept

MARKER = "mcp-dispatch/result"
ORIGINAL_AT = "#/anyOf/0"
"""Where the server's own schema stands in the advertised one."""

_FIELDS: JsonObject = {
    "path": {"type": "string", "description": "The file with the whole of it, for Read"},
    "link": {"type": "string", "description": "The same for resources/read"},
    "size": {"type": "integer", "description": "Of the whole, in bytes"},
    "preview": {"type": "string", "description": "Its beginning only"},
    "notes": {"type": "array", "items": {"type": "string"}},
    "value": {"description": "What the tool answered, where it is not in a file"},
}
REFERENCE: JsonObject = {
    "type": "object",
    "description": "Stands for a result that was too large, or that has notes beside it",
    "properties": {
        MARKER: {"type": "object", "properties": _FIELDS, "additionalProperties": False}
    },
    "required": [MARKER],
    "additionalProperties": False,
}


def admitting(original: JsonObject) -> JsonObject:
    """The schema to advertise for `original`, whose pointers have been moved to `ORIGINAL_AT`."""
    inner = {key: value for key, value in original.items() if key != "$schema"}
    advertised: JsonObject = {}
    if "$schema" in original:
        advertised["$schema"] = original["$schema"]
    if original.get("type") == "object":
        advertised["type"] = "object"
    return {**advertised, "anyOf": [inner, REFERENCE]}


def to_file(kept: Kept, text: str) -> JsonObject:
    return {
        "path": str(kept.path),
        "link": kept.uri,
        "size": kept.size,
        "preview": harmless(preview(text)),
    }


def reference(fields: JsonObject) -> JsonObject:
    return {MARKER: fields}


def fields_of(structure: Json) -> JsonObject | None:
    """Of a reference of ours; None of any other structure."""
    if not isinstance(structure, dict) or set(structure) != {MARKER}:
        return None
    fields = structure[MARKER]
    return fields if isinstance(fields, dict) else None


_MOST_PROBLEMS = 5


def conforming(wire: JsonObject, output: Validator | None, tool_name: str) -> JsonObject:
    """The result as a client that validates accepts it; the same object where it would anyway.

    Structure that breaks the schema makes the result an error, with both kept as data. A result
    without structure, where a schema was advertised, is given its own text as one.
    """
    if output is None:
        return wire
    structure, failed = wire.get("structuredContent"), wire.get("isError") is True
    if structure is None:
        return wire if failed else _with_text_as_structure(wire)
    problems = output.problems(structure)
    if not problems:
        return wire
    told = told_as_text(wire)
    if failed:
        return told
    return {
        **told,
        "content": [_block(_broken(tool_name, problems)), *blocks_of(told)],
        "isError": True,
    }


def with_notes(wire: JsonObject, notes: Sequence[str], output: Validator | None) -> JsonObject:
    """The result with our own words, as text and wherever structure would hide the text."""
    if not notes:
        return wire
    noted: JsonObject = {**wire, "content": [*blocks_of(wire), *map(_block, notes)]}
    structure = wire.get("structuredContent")
    if structure is None:
        return noted
    if output is None or wire.get("isError") is True:
        return told_as_text(noted)
    return {**noted, "structuredContent": _noted(structure, list(notes), output)}


def told_as_text(wire: JsonObject) -> JsonObject:
    """The result without its structure, which a text block tells instead."""
    structure = wire.get("structuredContent")
    without = {key: value for key, value in wire.items() if key != "structuredContent"}
    blocks = blocks_of(wire)
    if structure is None or tells(blocks, structure):
        return without
    return {**without, "content": [*blocks, _block(as_json(structure))]}


def _noted(structure: Json, notes: list[Json], output: Validator) -> Json:
    """Beside the structure where its schema leaves room; else around it."""
    fields = fields_of(structure)
    if fields is not None:
        known = fields.get("notes")
        return reference({**fields, "notes": [*(known if isinstance(known, list) else []), *notes]})
    if isinstance(structure, dict):
        beside: JsonObject = {**structure, MARKER: {"notes": notes}}
        if not output.problems(beside):
            return beside
    return reference({"notes": notes, "value": structure})


def _with_text_as_structure(wire: JsonObject) -> JsonObject:
    """Its server broke its word; who asked should have the answer all the same."""
    texts = [text for text in map(text_of, blocks_of(wire)) if text is not None]
    note = "The tool's server advertises structured content and sent none; this is its text."
    return {**wire, "structuredContent": reference({"notes": [note], "value": "\n".join(texts)})}


def _broken(tool_name: str, problems: list[str]) -> str:
    shown = [*problems[:_MOST_PROBLEMS], *(["…"] if len(problems) > _MOST_PROBLEMS else [])]
    return (
        f"<tool_use_error>The structured result of {tool_name} breaks the output schema that its "
        f"server advertises, so it may not mean what it says: {'; '.join(shown)}. "
        "What the server sent follows.</tool_use_error>"
    )


def _block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
