"""What we say of ourselves, and of the client behind us, on the hop to a server."""

from typing import Final

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_dispatch import __version__
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.requests.request import Errand

CLIENT: Final[JsonObject] = {"name": "mcp-dispatch", "version": __version__}
MODERN_VERSION: Final = MODERN_PROTOCOL_VERSIONS[-1]

CARRIED: Final[JsonObject] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {"listChanged": True},
}
"""What some client may be able to answer: told to a server that all clients share."""

_PREFIX: Final = "io.modelcontextprotocol/"
# What a request says about its own hop. The client's are not ours to repeat.
_HOP_KEYS: Final = frozenset(
    {"progressToken"}
    | {_PREFIX + key for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel")}
)


def carried(capabilities: JsonObject) -> JsonObject:
    """What a client can answer, through us. The workspace we know ourselves."""
    passed = {key: capabilities[key] for key in ("elicitation", "sampling") if key in capabilities}
    return {**passed, "roots": {"listChanged": True}}


def kept(meta: JsonObject) -> JsonObject:
    """Of a client's `_meta`, what is not about the hop to us."""
    return {key: value for key, value in meta.items() if key not in _HOP_KEYS}


def stamped(params: JsonObject, errand: Errand | None) -> JsonObject:
    """Since 2026-07-28 every request says what its own client can answer."""
    client = errand.respondent.client if errand is not None else None
    stamp: JsonObject = {
        f"{_PREFIX}protocolVersion": MODERN_VERSION,
        f"{_PREFIX}clientInfo": CLIENT,
        f"{_PREFIX}clientCapabilities": carried(client.capabilities) if client else {},
    }
    if client is not None and client.log_level is not None:
        stamp[f"{_PREFIX}logLevel"] = client.log_level
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), **stamp}}
