"""Parses `HOST:PORT` and binds a listening socket, with one-line error messages."""

import errno
import ipaddress
import os
import re
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from mcp_dispatch.model.errors import StartError

_ADDRESS_PATTERN = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:\[\]/@]+)):(?P<port>[0-9]{1,5})"
)
_FIRST_UNPRIVILEGED_PORT = 1024
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address to listen on. With port 0 the system chooses a free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Parse `HOST:PORT`. Raises `StartError`."""
        found = _ADDRESS_PATTERN.fullmatch(text)
        port = int(found["port"]) if found else -1
        if found is None or port > _MAX_PORT:
            example = "127.0.0.1:8123, or [::1]:8123"
            raise StartError(f"--http: expected HOST:PORT such as {example}, got {text!r}")
        return cls(found["ipv6"] or found["host"], port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket with its actual address. `requested_host` is the host of the flag."""

    socket: socket.socket
    address: ListenAddress
    requested_host: str

    @property
    def url(self) -> str:
        return f"http://{self.address}/mcp"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.address.host)


def is_loopback(host: str) -> bool:
    """Whether a numeric address can only be reached from this machine."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def bind(address: ListenAddress) -> BoundSocket:
    """Bind a socket and listen on it. Raises `StartError`."""
    family, numeric = _resolve(address)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform != "win32":
            # Else a restart would fail while old connections are in TIME_WAIT.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((numeric, address.port))
        # Before the address is printed: two servers may bind one port, but only one can listen.
        listening.listen(1024)
        listening.setblocking(False)
    except OSError as problem:
        listening.close()
        raise _build_listen_error(address, _explain_bind_error(problem, address.port)) from problem
    host, port = listening.getsockname()[:2]
    return BoundSocket(listening, ListenAddress(host, port), address.host)


def _resolve(address: ListenAddress) -> tuple[socket.AddressFamily, str]:
    """Return one numeric address, preferably IPv4: clients try that first for `localhost`."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as problem:
        raise _build_listen_error(address, "no such host") from problem
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    family, _, _, _, address_tuple = found[0]
    return family, str(address_tuple[0])


def _explain_bind_error(error: OSError, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use; name another, or 0 to have one chosen"
        case errno.EACCES if port < _FIRST_UNPRIVILEGED_PORT:
            return f"ports below {_FIRST_UNPRIVILEGED_PORT} need special rights; name a higher one"
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address"
        case number:
            return os.strerror(number) if number else str(error)


def _build_listen_error(address: ListenAddress, reason: str) -> StartError:
    return StartError(f"cannot listen on {address}: {reason}")
