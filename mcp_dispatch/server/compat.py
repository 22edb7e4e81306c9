"""Conversions of definitions and results for clients of older protocol revisions."""

from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import build_text_block
from mcp_dispatch.results.output_schema import move_structure_to_text
from mcp_dispatch.results.size import extract_blocks

RESOURCE_LINKS_SINCE: Final = "2025-06-18"
ANY_STRUCTURED_CONTENT_SINCE: Final = "2026-07-28"


def convert_definition(version: str, definition: JsonObject) -> JsonObject:
    """Remove an output schema that does not describe an object for clients up to 2025-11-25.

    Such a client may reject the whole tool list because of it.
    """
    schema = definition.get("outputSchema")
    if version >= ANY_STRUCTURED_CONTENT_SINCE or schema is None:
        return definition
    if isinstance(schema, dict) and schema.get("type") == "object":
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}


def convert_result(version: str, result: JsonObject) -> JsonObject:
    """Replace structured content and resource links that `version` does not have by text."""
    if version >= ANY_STRUCTURED_CONTENT_SINCE:
        return result
    structured = result.get("structuredContent")
    if structured is not None and not isinstance(structured, dict):
        result = move_structure_to_text(result)
    if version >= RESOURCE_LINKS_SINCE:
        return result
    blocks = extract_blocks(result)
    if not any(map(_is_link, blocks)):
        return result
    return {
        **result,
        "content": [_as_text(block) if _is_link(block) else block for block in blocks],
    }


def _is_link(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "resource_link"


def _as_text(block: Json) -> Json:
    link = block if isinstance(block, dict) else {}
    description = f" ({link['description']})" if "description" in link else ""
    return build_text_block(f"[Resource link: {link.get('name')}] {link.get('uri')}{description}")
