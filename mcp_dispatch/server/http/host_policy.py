"""The allowed values of the headers Host and Origin, as a protection against DNS rebinding."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mcp_dispatch.server.http.bind import is_loopback

_HOST_PATTERN = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:\[\]/@\\?#]+)(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN_PATTERN = re.compile(rf"[a-z][a-z0-9+.-]*://{_HOST_PATTERN.pattern}/?")


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The hosts and origins from which requests are accepted.

    A page of a hostile site can reach this server under a name of that site that resolves to this
    machine. So only loopback names, the local address of the connection, and configured names are
    accepted.
    """

    bound_host: str
    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def from_settings(
        cls, bound_host: str, hosts: Iterable[str], origins: Iterable[str]
    ) -> "HostPolicy":
        return cls(
            bound_host.lower(),
            frozenset(host.lower() for host in hosts),
            frozenset(origin.lower().rstrip("/") for origin in origins),
        )

    def allows_host(self, header: str | None, local_address: str | None) -> bool:
        """`local_address` is our address of the connection. A request without a Host is rejected."""
        text = (header or "").lower()
        match = _HOST_PATTERN.fullmatch(text)
        if match is None:
            return False
        return text in self.hosts or self._is_own_host(match["name"], local_address)

    def allows_origin(self, header: str | None, local_address: str | None) -> bool:
        """Accept a request without an Origin: programs send none, browsers send that of the page."""
        if header is None:
            return True
        text = header.lower()
        if text in self.origins:
            return True
        scheme, separator, rest = text.partition("://")
        match = _HOST_PATTERN.fullmatch(rest)
        if scheme not in {"http", "https"} or not separator or match is None:
            return False
        return self._is_own_host(match["name"], local_address)

    def _is_own_host(self, name: str, local_address: str | None) -> bool:
        bare = name.strip("[]")
        if bare == "localhost" or is_loopback(bare):
            return True
        return name in self.hosts or bare == self.bound_host or bare == local_address


def find_setting_problems(hosts: Iterable[str], origins: Iterable[str]) -> list[str]:
    """Return a message for each configured host or origin that can never match."""
    return [
        *(
            f"dispatch.http.allowedHosts: expected HOST or HOST:PORT, got {host!r}"
            for host in hosts
            if not _HOST_PATTERN.fullmatch(host.lower())
        ),
        *(
            "dispatch.http.allowedOrigins: expected SCHEME://HOST or SCHEME://HOST:PORT, "
            f"got {origin!r}"
            for origin in origins
            if not _ORIGIN_PATTERN.fullmatch(origin.lower())
        ),
    ]
