"""The configuration of one upstream server: its endpoint, its limits and its tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

# Claude Code's default: a tool call has practically no time limit unless one is configured.
CALL_SECONDS: Final = 100_000.0
CONNECT_SECONDS: Final = 30.0
# As in Claude Code: how long a server may execute a call without reporting progress.
IDLE_SECONDS: Final = 1800.0
REMOTE_IDLE_SECONDS: Final = 300.0
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024

ConnectionRule = Literal["shared", "per-scope"]
SharingRule = Literal["exclusive", "server", "shared"]


@dataclass(frozen=True, slots=True)
class StdioEndpoint:
    """A program that is connected over its stdin and stdout.

    Arguments and environment may hold secrets, so `repr` leaves them out.
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=lambda: {}, repr=False)
    inherit_env: Literal[True] | tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteEndpoint:
    """A server that is reached over HTTP: `http` is streamable HTTP, `sse` its predecessor.

    URL and headers may hold secrets, so `repr` leaves them out. `headers_helper` is a shell command
    from the user's own configuration.
    """

    kind: Literal["http", "sse"]
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: {}, repr=False)
    headers_helper: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """Which tools of a server are offered, by name or `*` pattern, and under which names."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Times are in seconds; `max_message` is the maximum size of one message in bytes."""

    name: str
    endpoint: StdioEndpoint | RemoteEndpoint
    timeout: float = CALL_SECONDS
    connect_timeout: float = CONNECT_SECONDS
    idle_timeout: float = IDLE_SECONDS
    max_message: int = MAX_MESSAGE_BYTES
    sharing: SharingRule = "exclusive"
    connection: ConnectionRule = "shared"
    """One connection for all clients, or one per scope in the protocol era of its client."""

    tools: ToolSelection = field(default_factory=ToolSelection)
    prefix: str | None = None
    """Replaces the server's name in the names of its tools; an empty prefix leaves it out."""

    always_load: bool | None = None
    max_concurrency: int | None = None
    restart: bool = True
    """Restart the server when it ends; otherwise only when a call needs it."""

    lazy: bool = False
    """Start the server with the first call instead of at startup, once its tools are cached."""

    disabled: bool = False
    file: Path | None = field(default=None, compare=False)
    """The file that contains the entry."""

    key: str = field(default="", compare=False)
    """A hash that identifies the server, independent of options that do not change its identity."""
