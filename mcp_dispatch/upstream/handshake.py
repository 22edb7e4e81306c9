"""The handshake: agrees on a protocol version and reads the capabilities of the server."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_dispatch import __version__
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.errors import HandshakeFailed
from mcp_dispatch.upstream.requests.request import UpstreamRequest
from mcp_dispatch.wire.sdk import MCPError

CLIENT_INFO: Final[JsonObject] = {"name": "mcp-dispatch", "version": __version__}
MODERN_VERSION: Final = MODERN_PROTOCOL_VERSIONS[-1]

RELAYED_CAPABILITIES: Final[JsonObject] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {},
    "roots": {"listChanged": True},
}
"""Capabilities declared to a server that all clients share: some client may have them."""

_META_PREFIX: Final = "io.modelcontextprotocol/"
# Keys that describe one hop. Those of the client's hop to us are not forwarded.
_HOP_KEYS: Final = frozenset(
    {"progressToken"}
    | {
        _META_PREFIX + key
        for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel")
    }
)


def select_relayed_capabilities(capabilities: JsonObject) -> JsonObject:
    """Return the client's capabilities that we relay. Roots are answered from our own workspace."""
    passed = {key: capabilities[key] for key in ("elicitation", "sampling") if key in capabilities}
    return {**passed, "roots": {"listChanged": True}}


def strip_hop_keys(meta: JsonObject) -> JsonObject:
    """Return a client's `_meta` without the keys that describe its hop to us."""
    return {key: value for key, value in meta.items() if key not in _HOP_KEYS}


def add_client_meta(params: JsonObject, upstream_request: UpstreamRequest | None) -> JsonObject:
    """Add version, client and capabilities, which each request carries since 2026-07-28."""
    client = upstream_request.bridge.client if upstream_request is not None else None
    stamp: JsonObject = {
        f"{_META_PREFIX}protocolVersion": MODERN_VERSION,
        f"{_META_PREFIX}clientInfo": CLIENT_INFO,
        f"{_META_PREFIX}clientCapabilities": select_relayed_capabilities(client.capabilities)
        if client
        else {},
    }
    if client is not None and client.log_level is not None:
        stamp[f"{_META_PREFIX}logLevel"] = client.log_level
    meta = params.get("_meta")
    return {**params, "_meta": {**(meta if isinstance(meta, dict) else {}), **stamp}}


HANDSHAKE_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class HandshakeOptions:
    """The capabilities that are declared, and which protocol era is tried first."""

    capabilities: JsonObject = field(default_factory=lambda: RELAYED_CAPABILITIES)
    modern_first: bool = False


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """The result of a handshake; `version` is empty before it."""

    version: str = ""
    capabilities: JsonObject = field(default_factory=lambda: {})
    instructions: str = ""

    @property
    def modern(self) -> bool:
        return self.version == MODERN_VERSION


class HandshakeSender(Protocol):
    """Sends one request and returns its result. Raises `MCPError` if the server refuses it."""

    async def __call__(
        self, method: str, params: JsonObject, *, cancellable: bool = True
    ) -> JsonObject: ...


async def negotiate_protocol(
    send_request: HandshakeSender, options: HandshakeOptions
) -> HandshakeResult:
    """Negotiate in the era that the server supports.

    Raises `HandshakeFailed`, and the errors of `send_request` when the connection is lost.
    """
    if options.modern_first:
        agreement = await _discover(send_request)
        if agreement is not None:
            return agreement
    try:
        return await _initialize(send_request, options)
    except MCPError as refusal:
        agreement = await _discover(send_request)
        if agreement is None:
            raise HandshakeFailed(f"refused 'initialize': {format_mcp_error(refusal)}") from refusal
        return agreement


def format_mcp_error(error: MCPError) -> str:
    return f"{error.message} ({error.code})"


async def _initialize(send_request: HandshakeSender, options: HandshakeOptions) -> HandshakeResult:
    params: JsonObject = {
        "protocolVersion": HANDSHAKE_VERSION,
        "capabilities": options.capabilities,
        "clientInfo": CLIENT_INFO,
    }
    answer = await send_request("initialize", params, cancellable=False)
    version = answer.get("protocolVersion")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise HandshakeFailed(
            f"speaks protocol version {str(version)[:40]!r}, which is none of "
            f"{', '.join(HANDSHAKE_PROTOCOL_VERSIONS)}"
        )
    return _build_result(version, answer)


async def _discover(send_request: HandshakeSender) -> HandshakeResult | None:
    """Return None if the server requires `initialize`. Raises `HandshakeFailed`."""
    try:
        answer = await send_request("server/discover", add_client_meta({}, None))
    except MCPError:
        return None
    versions = answer.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        raise HandshakeFailed(
            f"speaks protocol versions {str(versions)[:80]}, which do not include {MODERN_VERSION}"
        )
    return _build_result(MODERN_VERSION, answer)


def _build_result(version: str, answer: JsonObject) -> HandshakeResult:
    capabilities, instructions = answer.get("capabilities"), answer.get("instructions")
    return HandshakeResult(
        version,
        capabilities if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else "",
    )
