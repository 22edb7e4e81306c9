"""Exposed names: short, within every client's alphabet and length, stable over restarts."""

import hashlib
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.names import in_common_alphabet

DEFAULT_MAX_LENGTH = 45
"""Every client adds a prefix of its own, and the sum must stay under 64."""

_HASH_LENGTH = 8


class NamingStyle(Enum):
    SERVER = "server"
    CANONICAL = "canonical"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Naming:
    style: NamingStyle = NamingStyle.SERVER
    max_length: int = DEFAULT_MAX_LENGTH


def exposed_name(server: str, tool: str, naming: Naming) -> str:
    """The name under which an upstream tool is listed."""
    match naming.style:
        case NamingStyle.SERVER:
            full = f"{server}__{tool}"
        case NamingStyle.CANONICAL:
            full = f"mcp__{server}__{tool}"
        case NamingStyle.BARE:
            full = tool
    return fitting(full, naming.max_length)


def fitting(name: str, max_length: int) -> str:
    """`name` in the common alphabet; what had to be changed or cut ends in a hash of the original,
    so that two originals never become one name by accident."""
    plain = in_common_alphabet(name)
    if plain == name and len(name) <= max_length:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{plain[: max_length - _HASH_LENGTH - 1]}_{digest}"
