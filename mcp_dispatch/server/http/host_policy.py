"""Host and Origin: the names under which this server may be called, against DNS rebinding."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mcp_dispatch.server.http.bind import is_loopback

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:\[\]/@\\?#]+)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]*://{_HOST.pattern}/?")


@dataclass(frozen=True, slots=True)
class Names:
    """What may stand in `Host` and `Origin`.

    A page of a hostile site reaches us by a name of that site, made to point at this machine: so
    only loopback, the address that the connection arrived on, and names that a person listed.
    """

    bound: str
    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, bound: str, hosts: Iterable[str], origins: Iterable[str]) -> "Names":
        return cls(
            bound.lower(),
            frozenset(host.lower() for host in hosts),
            frozenset(origin.lower().rstrip("/") for origin in origins),
        )

    def host_allowed(self, header: str | None, arrived_at: str | None) -> bool:
        """`arrived_at` is our own end of the connection; a request without a Host is refused."""
        text = (header or "").lower()
        found = _HOST.fullmatch(text)
        if found is None:
            return False
        return text in self.hosts or self._ours(found["name"], arrived_at)

    def origin_allowed(self, header: str | None, arrived_at: str | None) -> bool:
        """Programs send none; a browser sends that of the page."""
        if header is None:
            return True
        text = header.lower()
        if text in self.origins:
            return True
        scheme, separator, rest = text.partition("://")
        found = _HOST.fullmatch(rest)
        if scheme not in {"http", "https"} or not separator or found is None:
            return False
        return self._ours(found["name"], arrived_at)

    def _ours(self, name: str, arrived_at: str | None) -> bool:
        bare = name.strip("[]")
        if bare == "localhost" or is_loopback(bare):
            return True
        return name in self.hosts or bare == self.bound or bare == arrived_at


def problems(hosts: Iterable[str], origins: Iterable[str]) -> list[str]:
    """A line for each entry of the settings that can never match."""
    return [
        *(
            f"dispatch.http.allowedHosts: expected HOST or HOST:PORT, got {host!r}"
            for host in hosts
            if not _HOST.fullmatch(host.lower())
        ),
        *(
            "dispatch.http.allowedOrigins: expected SCHEME://HOST or SCHEME://HOST:PORT, "
            f"got {origin!r}"
            for origin in origins
            if not _ORIGIN.fullmatch(origin.lower())
        ),
    ]
