"""How a connection begins: the version that both sides speak, and what the server says of itself."""

from dataclasses import dataclass, field
from typing import Final, Protocol

from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_dispatch import __version__
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.errors import HandshakeFailed
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


HANDSHAKE_VERSION: Final = HANDSHAKE_PROTOCOL_VERSIONS[-1]


@dataclass(frozen=True, slots=True)
class Greeting:
    """How we begin: with what some client, or the only one, can answer, and in which era."""

    declared: JsonObject = field(default_factory=lambda: CARRIED)
    modern_first: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """What came of it; nothing as long as `version` is empty."""

    version: str = ""
    capabilities: JsonObject = field(default_factory=lambda: {})
    instructions: str = ""

    @property
    def modern(self) -> bool:
        return self.version == MODERN_VERSION


class Ask(Protocol):
    """Raises `MCPError` where the server refuses."""

    async def __call__(
        self, method: str, params: JsonObject, *, cancellable: bool = True
    ) -> JsonObject: ...


async def agree(ask: Ask, greeting: Greeting) -> Agreement:
    """In whichever era the server knows. Raises `HandshakeFailed`, and what `ask` raises of loss."""
    if greeting.modern_first:
        agreement = await _discover(ask)
        if agreement is not None:
            return agreement
    try:
        return await _initialize(ask, greeting)
    except MCPError as refusal:
        agreement = await _discover(ask)
        if agreement is None:
            raise HandshakeFailed(f"refused 'initialize': {in_words(refusal)}") from refusal
        return agreement


def in_words(error: MCPError) -> str:
    return f"{error.message} ({error.code})"


async def _initialize(ask: Ask, greeting: Greeting) -> Agreement:
    params: JsonObject = {
        "protocolVersion": HANDSHAKE_VERSION,
        "capabilities": greeting.declared,
        "clientInfo": CLIENT,
    }
    answer = await ask("initialize", params, cancellable=False)
    version = answer.get("protocolVersion")
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise HandshakeFailed(
            f"speaks protocol version {str(version)[:40]!r}, which is none of "
            f"{', '.join(HANDSHAKE_PROTOCOL_VERSIONS)}"
        )
    return _agreement(version, answer)


async def _discover(ask: Ask) -> Agreement | None:
    """None where it is no server of the era without a handshake. Raises `HandshakeFailed`."""
    try:
        answer = await ask("server/discover", stamped({}, None))
    except MCPError:
        return None
    versions = answer.get("supportedVersions")
    if not isinstance(versions, list) or MODERN_VERSION not in versions:
        raise HandshakeFailed(
            f"speaks protocol versions {str(versions)[:80]}, which do not include {MODERN_VERSION}"
        )
    return _agreement(MODERN_VERSION, answer)


def _agreement(version: str, answer: JsonObject) -> Agreement:
    capabilities, instructions = answer.get("capabilities"), answer.get("instructions")
    return Agreement(
        version,
        capabilities if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else "",
    )
