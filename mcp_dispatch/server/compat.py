"""What clients of an older revision do not know, said in the words they do know."""

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.output_schema import move_structure_to_text
from mcp_dispatch.results.size import extract_blocks

_RESOURCE_LINKS_SINCE = "2025-06-18"
_ANY_STRUCTURED_CONTENT_SINCE = "2026-07-28"


def convert_definition(version: str, definition: JsonObject) -> JsonObject:
    """Up to 2025-11-25 an output schema describes an object, and a client may refuse the whole
    list over another one."""
    schema = definition.get("outputSchema")
    if version >= _ANY_STRUCTURED_CONTENT_SINCE or schema is None:
        return definition
    if isinstance(schema, dict) and schema.get("type") == "object":
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}


def convert_result(version: str, result: JsonObject) -> JsonObject:
    if version >= _ANY_STRUCTURED_CONTENT_SINCE:
        return result
    structure = result.get("structuredContent")
    if structure is not None and not isinstance(structure, dict):
        result = move_structure_to_text(result)
    if version >= _RESOURCE_LINKS_SINCE:
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
    about = f" ({link['description']})" if "description" in link else ""
    return {"type": "text", "text": f"[Resource link: {link.get('name')}] {link.get('uri')}{about}"}
