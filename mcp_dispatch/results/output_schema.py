"""What clients hold a result against: structure that fits the schema that was listed, always."""

from collections.abc import Sequence

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.results.markers import escape_markers
from mcp_dispatch.results.parts import contains_structure
from mcp_dispatch.results.preview import build_preview
from mcp_dispatch.results.size import as_json, extract_blocks, extract_text
from mcp_dispatch.results.store import StoredResult

MARKER = "mcp-dispatch/result"
ORIGINAL_POINTER = "#/anyOf/0"
"""Where the server's own schema stands in the advertised one."""

_REFERENCE_FIELDS: JsonObject = {
    "path": {"type": "string", "description": "The file with the whole of it, for Read"},
    "link": {"type": "string", "description": "The same for resources/read"},
    "size": {"type": "integer", "description": "Of the whole, in bytes"},
    "preview": {"type": "string", "description": "Its beginning only"},
    "notes": {"type": "array", "items": {"type": "string"}},
    "value": {"description": "What the tool answered, where it is not in a file"},
}
REFERENCE_SCHEMA: JsonObject = {
    "type": "object",
    "description": "Stands for a result that was too large, or that has notes beside it",
    "properties": {
        MARKER: {"type": "object", "properties": _REFERENCE_FIELDS, "additionalProperties": False}
    },
    "required": [MARKER],
    "additionalProperties": False,
}


def extend_output_schema(original: JsonObject) -> JsonObject:
    """The schema to advertise for `original`, whose pointers have been moved to `ORIGINAL_AT`."""
    inner = {key: value for key, value in original.items() if key != "$schema"}
    advertised: JsonObject = {}
    if "$schema" in original:
        advertised["$schema"] = original["$schema"]
    if original.get("type") == "object":
        advertised["type"] = "object"
    return {**advertised, "anyOf": [inner, REFERENCE_SCHEMA]}


def build_file_fields(stored: StoredResult, text: str) -> JsonObject:
    return {
        "path": str(stored.path),
        "link": stored.uri,
        "size": stored.size,
        "preview": escape_markers(build_preview(text)),
    }


def build_reference(fields: JsonObject) -> JsonObject:
    return {MARKER: fields}


def extract_reference_fields(structure: Json) -> JsonObject | None:
    """Of a reference of ours; None of any other structure."""
    if not isinstance(structure, dict) or set(structure) != {MARKER}:
        return None
    fields = structure[MARKER]
    return fields if isinstance(fields, dict) else None


_MAX_PROBLEMS = 5


def conform_to_schema(wire: JsonObject, validator: Validator | None, tool_name: str) -> JsonObject:
    """The result as a client that validates accepts it; the same object where it would anyway.

    Structure that breaks the schema makes the result an error, with both kept as data. A result
    without structure, where a schema was advertised, is given its own text as one.
    """
    if validator is None:
        return wire
    structure, failed = wire.get("structuredContent"), wire.get("isError") is True
    if structure is None:
        return wire if failed else _wrap_text_as_structure(wire)
    problems = validator.find_problems(structure)
    if not problems:
        return wire
    told = move_structure_to_text(wire)
    if failed:
        return told
    return {
        **told,
        "content": [
            _build_text_block(_describe_violation(tool_name, problems)),
            *extract_blocks(told),
        ],
        "isError": True,
    }


def add_notes(wire: JsonObject, notes: Sequence[str], validator: Validator | None) -> JsonObject:
    """The result with our own words, as text and wherever structure would hide the text."""
    if not notes:
        return wire
    noted: JsonObject = {**wire, "content": [*extract_blocks(wire), *map(_build_text_block, notes)]}
    structure = wire.get("structuredContent")
    if structure is None:
        return noted
    if validator is None or wire.get("isError") is True:
        return move_structure_to_text(noted)
    return {
        **noted,
        "structuredContent": _add_notes_to_structure(structure, list(notes), validator),
    }


def move_structure_to_text(wire: JsonObject) -> JsonObject:
    """The result without its structure, which a text block tells instead."""
    structure = wire.get("structuredContent")
    without = {key: value for key, value in wire.items() if key != "structuredContent"}
    blocks = extract_blocks(wire)
    if structure is None or contains_structure(blocks, structure):
        return without
    return {**without, "content": [*blocks, _build_text_block(as_json(structure))]}


def _add_notes_to_structure(structure: Json, notes: list[Json], validator: Validator) -> Json:
    """Beside the structure where its schema leaves room; else around it."""
    fields = extract_reference_fields(structure)
    if fields is not None:
        known = fields.get("notes")
        return build_reference(
            {**fields, "notes": [*(known if isinstance(known, list) else []), *notes]}
        )
    if isinstance(structure, dict):
        beside: JsonObject = {**structure, MARKER: {"notes": notes}}
        if not validator.find_problems(beside):
            return beside
    return build_reference({"notes": notes, "value": structure})


def _wrap_text_as_structure(wire: JsonObject) -> JsonObject:
    """Its server broke its word; who asked should have the answer all the same."""
    texts = [text for text in map(extract_text, extract_blocks(wire)) if text is not None]
    note = "The tool's server advertises structured content and sent none; this is its text."
    return {
        **wire,
        "structuredContent": build_reference({"notes": [note], "value": "\n".join(texts)}),
    }


def _describe_violation(tool_name: str, problems: list[str]) -> str:
    shown = [*problems[:_MAX_PROBLEMS], *(["…"] if len(problems) > _MAX_PROBLEMS else [])]
    return (
        f"<tool_use_error>The structured result of {tool_name} breaks the output schema that its "
        f"server advertises, so it may not mean what it says: {'; '.join(shown)}. "
        "What the server sent follows.</tool_use_error>"
    )


def _build_text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
