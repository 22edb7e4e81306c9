"""Makes structured content conform to the advertised output schema, so that clients accept it."""

from collections.abc import Sequence

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator, build_text_block
from mcp_dispatch.results.markers import escape_markers
from mcp_dispatch.results.parts import contains_structure
from mcp_dispatch.results.preview import build_preview
from mcp_dispatch.results.size import as_json, extract_blocks, extract_text
from mcp_dispatch.results.store import StoredResult

MARKER = "mcp-dispatch/result"
ORIGINAL_POINTER = "#/anyOf/0"
"""The position of the server's own schema in the advertised schema."""

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
    """Return the schema to advertise: it allows `original`, or a reference to a stored result.

    The references in `original` must already be rebased to `ORIGINAL_POINTER`.
    """
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
    """Return the fields of a reference; None for any other structure."""
    if not isinstance(structure, dict) or set(structure) != {MARKER}:
        return None
    fields = structure[MARKER]
    return fields if isinstance(fields, dict) else None


_MAX_PROBLEMS = 5


def conform_to_schema(wire: JsonObject, validator: Validator | None, tool_name: str) -> JsonObject:
    """Return a result that a validating client accepts; the same object if it already is one.

    Structure that breaks the schema turns the result into an error that contains text and
    structure as text. A result without structure gets its text as structure.
    """
    if validator is None:
        return wire
    structure, failed = wire.get("structuredContent"), wire.get("isError") is True
    if structure is None:
        return wire if failed else _wrap_text_as_structure(wire)
    problems = validator.find_problems(structure)
    if not problems:
        return wire
    as_text = move_structure_to_text(wire)
    if failed:
        return as_text
    violation = build_text_block(_describe_violation(tool_name, problems))
    return {**as_text, "content": [violation, *extract_blocks(as_text)], "isError": True}


def add_notes(wire: JsonObject, notes: Sequence[str], validator: Validator | None) -> JsonObject:
    """Add notes as text blocks, and to the structure too: a client may show only that."""
    if not notes:
        return wire
    noted: JsonObject = {**wire, "content": [*extract_blocks(wire), *map(build_text_block, notes)]}
    structure = wire.get("structuredContent")
    if structure is None:
        return noted
    if validator is None or wire.get("isError") is True:
        return move_structure_to_text(noted)
    structure = _add_notes_to_structure(structure, list(notes), validator)
    return {**noted, "structuredContent": structure}


def move_structure_to_text(wire: JsonObject) -> JsonObject:
    """Return the result without its structure, which becomes a text block unless one repeats it."""
    structure = wire.get("structuredContent")
    without = {key: value for key, value in wire.items() if key != "structuredContent"}
    blocks = extract_blocks(wire)
    if structure is None or contains_structure(blocks, structure):
        return without
    return {**without, "content": [*blocks, build_text_block(as_json(structure))]}


def _add_notes_to_structure(structure: Json, notes: list[Json], validator: Validator) -> Json:
    """Add the notes as a property if the schema allows it; otherwise wrap the structure."""
    fields = extract_reference_fields(structure)
    if fields is not None:
        earlier = fields.get("notes")
        earlier = earlier if isinstance(earlier, list) else []
        return build_reference({**fields, "notes": [*earlier, *notes]})
    if isinstance(structure, dict):
        extended: JsonObject = {**structure, MARKER: {"notes": notes}}
        if not validator.find_problems(extended):
            return extended
    return build_reference({"notes": notes, "value": structure})


def _wrap_text_as_structure(wire: JsonObject) -> JsonObject:
    """Deliver the text although the server broke its own schema by sending no structure."""
    texts = [text for text in map(extract_text, extract_blocks(wire)) if text is not None]
    note = "The tool's server advertises structured content and sent none; this is its text."
    structure = build_reference({"notes": [note], "value": "\n".join(texts)})
    return {**wire, "structuredContent": structure}


def _describe_violation(tool_name: str, problems: list[str]) -> str:
    shown = [*problems[:_MAX_PROBLEMS], *(["…"] if len(problems) > _MAX_PROBLEMS else [])]
    return (
        f"<tool_use_error>The structured result of {tool_name} breaks the output schema that its "
        f"server advertises, so it may not mean what it says: {'; '.join(shown)}. "
        "What the server sent follows.</tool_use_error>"
    )
