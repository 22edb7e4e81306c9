"""What a hook does when its event comes: run a program, post to a URL, call an upstream's tool."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from mcp_dispatch.model.text import format_excerpt

DEFAULT_TIMEOUT_SECONDS: Final = 600.0

Shell = Literal["sh", "bash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ActionOptions:
    """What every hook may say of itself. `timeout` is None where it says nothing."""

    timeout: float | None = None
    condition: str | None = None
    """The rule in `if`: the hook is for the calls that it speaks of."""
    block_on_failure: bool = False
    status: str = ""
    """Told to the client while the hook runs."""

    @property
    def timeout_seconds(self) -> float:
        return DEFAULT_TIMEOUT_SECONDS if self.timeout is None else self.timeout


@dataclass(frozen=True, slots=True)
class HookCommand(_ActionOptions):
    """A program to run. With `args` it is started directly, without them a shell reads it."""

    command: str
    args: tuple[str, ...] | None = None
    shell: Shell = "sh"
    background: bool = False
    """`async`: nothing waits for it, and it decides nothing."""

    @property
    def label(self) -> str:
        return format_excerpt(" ".join((self.command, *(self.args or ()))))


@dataclass(frozen=True, slots=True)
class HttpPost(_ActionOptions):
    """The event's document, posted. `variables` are those that may stand in `headers`."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    background: Literal[False] = False

    @property
    def label(self) -> str:
        """Without what may be a secret: user, password, query."""
        parts = urlsplit(self.url)
        return format_excerpt(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


@dataclass(frozen=True, slots=True)
class UpstreamCall(_ActionOptions):
    """A tool of an upstream server. `input` is JSON, so that equal hooks are equal."""

    server: str
    tool: str
    input: str = "{}"
    background: Literal[False] = False

    @property
    def label(self) -> str:
        return format_excerpt(f"{self.server}/{self.tool}")


Action: TypeAlias = HookCommand | HttpPost | UpstreamCall
