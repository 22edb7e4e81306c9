"""Exposed names: short, within every client's alphabet and length, stable over restarts."""

import hashlib
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.names import replace_unsafe_characters

DEFAULT_MAX_LENGTH = 45
"""Every client adds a prefix of its own, and the sum must stay under 64."""

_HASH_LENGTH = 8


class NamingStyle(Enum):
    SERVER = "server"
    CANONICAL = "canonical"
    BARE = "bare"


# What every object of a JavaScript client already has: a table of tools there must not meet them.
_JAVASCRIPT_PROPERTIES = frozenset(
    {
        *("constructor", "prototype", "__proto__", "hasOwnProperty", "isPrototypeOf"),
        *("propertyIsEnumerable", "toLocaleString", "toString", "valueOf"),
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    }
)


@dataclass(frozen=True, slots=True)
class Naming:
    """`reserved` are names that no upstream tool gets, whether somebody has them now or not."""

    style: NamingStyle = NamingStyle.SERVER
    max_length: int = DEFAULT_MAX_LENGTH
    reserved: frozenset[str] = frozenset()


def build_exposed_name(server: str, tool: str, naming: Naming, prefix: str | None = None) -> str:
    """The name under which an upstream tool is listed.

    A server's `prefix` stands for its name, and an empty one for none. A name that belongs to
    somebody else falls back to the one with the server in it.
    """
    if find_reserved_name(server, tool, naming, prefix) is not None:
        return fit_name(f"{server}__{tool}", naming.max_length)
    return fit_name(_format_full_name(server, tool, naming.style, prefix), naming.max_length)


def find_reserved_name(
    server: str, tool: str, naming: Naming, prefix: str | None = None
) -> str | None:
    """The name that the tool would have, where that belongs to somebody else."""
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
    """`name` in the common alphabet; what had to be changed or cut ends in a hash of the original,
    so that two originals never become one name by accident."""
    plain = replace_unsafe_characters(name)
    if plain == name and len(name) <= max_length:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: max_length - _HASH_LENGTH - 1]}_{digest}"
