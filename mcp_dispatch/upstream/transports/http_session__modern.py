"""The headers that 2026-07-28 wants on a request, which repeat what its body says."""

from typing import Final

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)

from mcp_dispatch.model.json import Json, JsonObject

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


def stamped_version(message: JsonObject) -> str | None:
    """The version that a request of the era without a handshake carries with it."""
    version = _object(_object(message.get("params")).get("_meta")).get(VERSION_KEY)
    return version if isinstance(version, str) else None


def modern_headers(message: JsonObject, version: str) -> dict[str, str]:
    method = str(message.get("method"))
    headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
    key = NAME_BEARING_METHODS.get(method)
    name = _object(message.get("params")).get(key) if key else None
    if isinstance(name, str):
        headers[MCP_NAME_HEADER] = encode_header_value(name)
    return headers


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
