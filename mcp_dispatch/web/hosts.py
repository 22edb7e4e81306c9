"""Canonical host names, so that a rule and a connection always refer to the same host."""

import re
from ipaddress import IPv4Address, IPv6Address

from mcp_dispatch.web.errors import BadUrl

_HOST_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_MAX_NAME_CHARS = 253
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_IPV4_PARTS = 4


def canonicalize_host(text: str) -> str:
    """Return `127.0.0.1`, `[::1]`, or a name in lower-case punycode without a trailing dot.

    As in browsers, `0x7f.1`, `2130706433` and `[::ffff:7f00:1]` are addresses. Raises `BadUrl`.
    """
    if text.startswith("["):
        return _parse_ipv6(text)
    name = encode_punycode(text).lower().removesuffix(".")
    if _NUMERIC.fullmatch(name.rpartition(".")[2]):
        return str(_parse_ipv4(name))
    if len(name) > _MAX_NAME_CHARS or not _HOST_NAME.fullmatch(name):
        raise BadUrl(f"{text!r} is no host name")
    return name


def encode_punycode(name: str) -> str:
    """Encode a name that is not ASCII. Raises `BadUrl`."""
    if name.isascii():
        return name
    # Imported only when needed: its tables are large.
    import idna

    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise BadUrl(f"{name!r} is no host name: {error}") from error


def _parse_ipv6(text: str) -> str:
    try:
        address = IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError as error:
        raise BadUrl(f"{text!r} is no IPv6 address") from error
    if not text.endswith("]") or address.scope_id is not None:
        raise BadUrl(f"{text!r} is no IPv6 address that a URL can hold")
    return f"[{address}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)


def _parse_ipv4(name: str) -> IPv4Address:
    """Parse one to four decimal, octal or hexadecimal numbers; the last fills the other bytes."""
    parts = name.split(".")
    try:
        numbers = [_parse_number(part) for part in parts]
        *leading, last = numbers
        room = 256 ** (_MAX_IPV4_PARTS + 1 - len(numbers))
        if (
            len(numbers) > _MAX_IPV4_PARTS
            or any(number > 255 for number in leading)
            or last >= room
        ):
            raise ValueError("out of range")
    except ValueError as error:
        raise BadUrl(f"{name!r} ends in a number and is no IPv4 address") from error
    return IPv4Address(last + sum(part << (24 - 8 * index) for index, part in enumerate(leading)))


def _parse_number(part: str) -> int:
    if not _NUMERIC.fullmatch(part):
        raise ValueError(part)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8 if part.startswith("0") else 10)
