"""Exposed names of tools: within the alphabet and length that every client accepts, and stable
across restarts."""

import hashlib
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.names import replace_unsafe_characters

DEFAULT_MAX_LENGTH = 45
"""Clients add prefixes of their own, and the total must stay below 64."""

_HASH_LENGTH = 8


class NamingStyle(Enum):
    SERVER = "server"
    CANONICAL = "canonical"
    BARE = "bare"


# Properties of every JavaScript object: a client that keeps tools in an object must not meet them.
_JAVASCRIPT_PROPERTIES = frozenset(
    {
        *("constructor", "prototype", "__proto__", "hasOwnProperty", "isPrototypeOf"),
        *("propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    }
)


@dataclass(frozen=True, slots=True)
class Naming:
    """How upstream tools are named. `reserved` names are never given to an upstream tool."""

    style: NamingStyle = NamingStyle.SERVER
    max_length: int = DEFAULT_MAX_LENGTH
    reserved: frozenset[str] = frozenset()


def build_exposed_name(server: str, tool: str, naming: Naming, prefix: str | None = None) -> str:
    """Return the name under which an upstream tool is listed.

    A `prefix` replaces the name of the server; an empty one omits it. If the name is reserved, the
    name with the server is used.
    """
    if find_reserved_name(server, tool, naming, prefix) is not None:
        return fit_name(f"{server}__{tool}", naming.max_length)
    return fit_name(_format_full_name(server, tool, naming.style, prefix), naming.max_length)


def find_reserved_name(
    server: str, tool: str, naming: Naming, prefix: str | None = None
) -> str | None:
    """Return the name that the tool would have, if it is reserved; otherwise None."""
    name = fit_name(_format_full_name(server, tool, naming.style, prefix), naming.max_length)
    return name if name in _JAVASCRIPT_PROPERTIES or name in naming.reserved else None


def _format_full_name(server: str, tool: str, style: NamingStyle, prefix: str | None) -> str:
    if prefix is not None:
        return f"{prefix}__{tool}" if prefix else tool
    match style:
        case NamingStyle.SERVER:
            return f"{server}__{tool}"
        case NamingStyle.CANONICAL:
            return f"mcp__{server}__{tool}"
        case NamingStyle.BARE:
            return tool


def fit_name(name: str, max_length: int) -> str:
    """Return `name` in the common alphabet and at most `max_length` long. A changed name ends with
    a hash of the original, so that two names do not become equal."""
    plain = replace_unsafe_characters(name)
    if plain == name and len(name) <= max_length:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: max_length - _HASH_LENGTH - 1]}_{digest}"
