"""`call_tool`, an envelope around the call of any tool: what is inside."""

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import CALL_TOOL


def inside(name: str, arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """The name and the arguments of the call in this one; None for what is no envelope or a torn
    one, and for an envelope around an envelope, by which nothing but a detour can be meant."""
    if name != CALL_TOOL or not arguments.keys() <= {"name", "arguments"}:
        return None
    tool, given = arguments.get("name"), arguments.get("arguments", {})
    if not isinstance(tool, str) or tool in ("", CALL_TOOL) or not isinstance(given, dict):
        return None
    return tool, given
