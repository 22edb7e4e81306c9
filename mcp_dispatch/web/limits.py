"""Limits of a fetch, and the resolution of host names."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host for a port, best first. Raises `OSError` if there are none."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`seconds` includes redirects; `max_body_bytes` is the size after decompression."""

    seconds: float = 30
    connect_seconds: float = 10
    conversion_seconds: float = 20
    max_body_bytes: int = 10_000_000
    max_redirects: int = 5


async def resolve_host(host: str, port: int) -> list[str]:
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
