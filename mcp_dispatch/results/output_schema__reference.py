"""What stands in `structuredContent` for structure that was replaced, and the schema that says so.

A client may show the model nothing but the structure (so what we have to say must be in it), and
checks it against the schema that was listed (so that schema must admit it).
"""

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.markers import harmless
from mcp_dispatch.results.preview import preview
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
