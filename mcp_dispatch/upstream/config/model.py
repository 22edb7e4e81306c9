"""One upstream server as it was configured: how it is reached, and how it is to be treated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

# Claude Code's own default: a tool call is not cut short unless someone asks for it.
CALL_SECONDS: Final = 100_000.0
CONNECT_SECONDS: Final = 30.0
# As Claude Code has it: how long a server may work on a call without a word about its progress.
IDLE_SECONDS: Final = 1800.0
REMOTE_IDLE_SECONDS: Final = 300.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024

ConnectionRule = Literal["shared", "per-scope"]
SharingRule = Literal["exclusive", "server", "shared"]


@dataclass(frozen=True, slots=True)
class StdioEndpoint:
    """A program that speaks over its stdin and stdout.

    Arguments and environment may hold secrets, so `repr` leaves them out.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=lambda: {}, repr=False)
    inherit_env: Literal[True] | tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteEndpoint:
    """A server that is spoken to over HTTP: `http` is streamable HTTP, `sse` its predecessor.

    URL and headers may hold secrets, so `repr` leaves them out. `headers_helper` is a line for the
    shell, out of the user's own configuration.
    """

    kind: Literal["http", "sse"]
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: {}, repr=False)
    headers_helper: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """Which tools of a server are offered, by name or by `*` pattern, and under which name."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Times are in seconds; `max_message` bounds, in bytes, one message of the server."""

    name: str
    endpoint: StdioEndpoint | RemoteEndpoint
    timeout: float = CALL_SECONDS
    connect_timeout: float = CONNECT_SECONDS
    idle_timeout: float = IDLE_SECONDS
    max_message: int = MAX_MESSAGE_BYTES
    sharing: SharingRule = "exclusive"
    connection: ConnectionRule = "shared"
    """One for everybody, or one for each scope, in the protocol era of its client."""

    tools: ToolSelection = field(default_factory=ToolSelection)
    prefix: str | None = None
    """Stands for the server's name in the names of its tools; empty: they are listed bare."""

    always_load: bool | None = None
    max_concurrency: int | None = None
    restart: bool = True
    """Whether it is started again once it went down, or only when somebody needs it."""

    lazy: bool = False
    """Started with the first call rather than with us, once its tools are known."""

    disabled: bool = False
    file: Path | None = field(default=None, compare=False)
    """Where the entry stands."""

    key: str = field(default="", compare=False)
    """Names what is started or reached, whatever it is called and however it is treated."""
