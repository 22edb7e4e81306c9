"""Connections to addresses that were checked: a name is resolved once, and not again."""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import cast

import anyio
import httpcore2

from mcp_dispatch.web.errors import CannotFetch, Unreachable
from mcp_dispatch.web.ip_ranges import Special, special
from mcp_dispatch.web.limits import Resolve

_MOST_ADDRESSES = 8


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """`opened`: a rule names the host that is fetched from, so its address need not be public."""

    def __init__(self, resolve: Resolve, *, opened: bool) -> None:
        self._resolve = resolve
        self._opened = opened
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
        addresses = await self._addresses(host, port, limit)
        for address in addresses:
            self._refuse_special(host, address)
        return await self._first_to_answer(addresses, port, until)

    async def _addresses(self, host: str, port: int, seconds: float) -> Sequence[str]:
        if _is_address(host):
            return [host]
        try:
            with anyio.fail_after(seconds):
                found = await self._resolve(host, port)
        except TimeoutError as error:
            raise Unreachable(
                f"the host {host} was not found within {seconds:g} seconds; try again later"
            ) from error
        except OSError as error:
            raise Unreachable(
                f"the host {host} was not found ({error.strerror or error}); check the spelling"
            ) from error
        if not found:
            raise Unreachable(f"the host {host} has no address; check the spelling")
        return found[:_MOST_ADDRESSES]

    def _refuse_special(self, host: str, address: str) -> None:
        what = special(ip_address(address))
        named = self._opened and what is not None and (what.by_name or _is_address(host))
        if what is not None and not named:
            raise CannotFetch(_not_public(host, address, what))

    async def _first_to_answer(
        self, addresses: Sequence[str], port: int, until: float
    ) -> httpcore2.AsyncNetworkStream:
        *others, last = addresses
        for tried, address in enumerate(others):
            try:
                return await self._connect(address, port, until, len(addresses) - tried)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._connect(last, port, until, 1)

    async def _connect(
        self, address: str, port: int, until: float, share: int
    ) -> httpcore2.AsyncNetworkStream:
        # Each address has its part of the time: one that never answers leaves some for the others.
        seconds = max(until - anyio.current_time(), 0) / share
        return await self._backend.connect_tcp(address, port, seconds)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _not_public(host: str, address: str, what: Special) -> str:
    leads = f"{host} is" if host == address else f"{host} leads to {address},"
    named = host if what.by_name else address
    means = "the host" if what.by_name else "the address, in a URL that does so too"
    return (
        f"{leads} {what.kind}. WebFetch reaches only public addresses, unless an allow rule names"
        f' {means}: "WebFetch(domain:{named})" in permissions.allow of the settings.'
        " A bare WebFetch, a pattern, a hook or a person's yes does not open it."
    )
