"""Hook actions: run a program, post to a URL, or call a tool of an upstream server."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from mcp_dispatch.model.text import format_excerpt

DEFAULT_TIMEOUT_SECONDS: Final = 600.0

Shell = Literal["sh", "bash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActionOptions:
    """Options of every hook. `timeout` is in seconds, None if the hook sets none."""

    timeout: float | None = None
    condition: str | None = None
    """The permission rule in `if`: the hook runs only for calls that match it."""
    block_on_failure: bool = False
    status: str = ""
    """Sent to the client as progress while the hook runs."""

    @property
    def timeout_seconds(self) -> float:
        return DEFAULT_TIMEOUT_SECONDS if self.timeout is None else self.timeout


@dataclass(frozen=True, slots=True)
class HookCommand(_ActionOptions):
    """A program to run: directly if `args` is set, otherwise through a shell."""

    command: str
    args: tuple[str, ...] | None = None
    shell: Shell = "sh"
    background: bool = False
    """`async`: the call does not wait for the hook, and the hook decides nothing."""

    @property
    def label(self) -> str:
        return format_excerpt(" ".join((self.command, *(self.args or ()))))


@dataclass(frozen=True, slots=True)
class HttpPost(_ActionOptions):
    """A POST of the hook input. `variables` lists the environment variables that `headers` may use."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    background: Literal[False] = False

    @property
    def label(self) -> str:
        """The URL without parts that may be secret: user, password and query."""
        parts = urlsplit(self.url)
        return format_excerpt(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


@dataclass(frozen=True, slots=True)
class UpstreamCall(_ActionOptions):
    """A call of an upstream tool. `input` is JSON text, so that equal hooks compare equal."""

    server: str
    tool: str
    input: str = "{}"
    background: Literal[False] = False

    @property
    def label(self) -> str:
        return format_excerpt(f"{self.server}/{self.tool}")


Action: TypeAlias = HookCommand | HttpPost | UpstreamCall
