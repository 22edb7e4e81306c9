"""Connects to checked addresses: a name is resolved once and not again."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import cast

import anyio
import httpcore2

from mcp_dispatch.web.errors import CannotFetch, HostUnreachable
from mcp_dispatch.web.ip_ranges import SpecialAddress, classify_address
from mcp_dispatch.web.limits import Resolver

_MAX_ADDRESSES = 8


class PinnedNetworkBackend(httpcore2.AsyncNetworkBackend):
    """`allow_private`: a rule names the host, so its address need not be public."""

    def __init__(self, resolve: Resolver, *, allow_private: bool) -> None:
        self._resolve = resolve
        self._allow_private = allow_private
        self._backend = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        limit = float("inf") if timeout is None else timeout
        until = anyio.current_time() + limit
        addresses = await self._resolve_addresses(host, port, limit)
        for address in addresses:
            self._refuse_special(host, address)
        return await self._connect_to_first(addresses, port, until)

    async def _resolve_addresses(self, host: str, port: int, seconds: float) -> Sequence[str]:
        if _is_address(host):
            return [host]
        try:
            with anyio.fail_after(seconds):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            raise HostUnreachable(
                f"the host {host} was not found within {seconds:g} seconds; try again later"
            ) from error
        except OSError as error:
            raise HostUnreachable(
                f"the host {host} was not found ({error.strerror or error}); check the spelling"
            ) from error
        if not found:
            raise HostUnreachable(f"the host {host} has no address; check the spelling")
        return found[:_MAX_ADDRESSES]

    def _refuse_special(self, host: str, address: str) -> None:
        what = classify_address(ip_address(address))
        named = (
            self._allow_private
            and what is not None
            and (what.allowed_by_host_rule or _is_address(host))
        )
        if what is not None and not named:
            raise CannotFetch(_describe_refusal(host, address, what))

    async def _connect_to_first(
        self, addresses: Sequence[str], port: int, deadline: float
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = addresses
        for tried, address in enumerate(others):
            try:
                return await self._connect(address, port, deadline, len(addresses) - tried)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._connect(last, port, deadline, 1)

    async def _connect(
        self, address: str, port: int, deadline: float, remaining_addresses: int
    ) -> httpcore2.AsyncNetworkStream:
        # Each address gets a share of the time, so that one without an answer leaves some for others.
        seconds = max(deadline - anyio.current_time(), 0) / remaining_addresses
        return await self._backend.connect_tcp(address, port, seconds)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _describe_refusal(host: str, address: str, special: SpecialAddress) -> str:
    leads = f"{host} is" if host == address else f"{host} leads to {address},"
    named = host if special.allowed_by_host_rule else address
    means = "the host" if special.allowed_by_host_rule else "the address, in a URL that does so too"
    return (
        f"{leads} {special.kind}. WebFetch reaches only public addresses, unless an allow rule names"
        f' {means}: "WebFetch(domain:{named})" in permissions.allow of the settings.'
        " A bare WebFetch, a pattern, a hook or a person's yes does not open it."
    )
