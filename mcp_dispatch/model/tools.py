"""What a tool is: one interface for built-ins and for the tools of upstream servers."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from mcp_dispatch.model.client import ClientBridge, InputRequired, Retry
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import Json, JsonObject, to_canonical_json
from mcp_dispatch.model.outcome import ProtocolError


class ReplacementReason(Enum):
    """Why a part of a result was replaced."""

    SIZE = "over the limit of its tool"
    BATCH = "over the budget of its batch"
    MEDIA = "too large to be shown"
    STREAM = "too large for memory"


@dataclass(frozen=True, slots=True)
class Replacement:
    """One part: what it was, its size in bytes, and the file that holds it; without a file, the
    problem is why there is none, and its middle was left out."""

    reason: ReplacementReason
    part: str
    size: int
    file: str | None = None
    problem: str | None = None

    def to_record(self) -> JsonObject:
        record: JsonObject = {"reason": self.reason.value, "what": self.part, "bytes": self.size}
        if self.file is not None:
            record["file"] = self.file
        if self.problem is not None:
            record["problem"] = self.problem
        return record


Progress = Callable[[JsonObject], Awaitable[None]]
"""Takes `{"progress": n, "total"?: n, "message"?: text, ...}`, without the client's token."""


class Sharing(Enum):
    """Whether a call may run beside others of its scope."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Interrupt(Enum):
    """What a cancel does to a running call: stop it, or let it finish and drop its answer."""

    CANCEL = "cancel"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as the scope last read or wrote it. A partial view is not a read."""

    mtime_ns: int
    size: int
    digest: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class FileRead:
    """A change of context: `path` (absolute, resolved) has been seen in this state."""

    path: str
    seen: FileSeen


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """A change of context: later shell commands start in `path`."""

    path: Path


@dataclass(frozen=True, slots=True)
class FileDelivered:
    """A change of context: the file `path` of ours was handed out, so this scope may read it."""

    path: str


@dataclass(frozen=True, slots=True)
class ToolsActivated:
    """A change of context: the tools with these rule names have been shown with their schemas."""

    tools: tuple[str, ...]


ContextChange = FileRead | DirectoryChanged | FileDelivered | ToolsActivated


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered.

    `wire` is the whole MCP result as it came or as it will leave (`content`, `isError`,
    `structuredContent`, `_meta`, unknown fields). `response` is the structured output that
    PostToolUse hooks see.
    """

    wire: JsonObject
    response: Json = None
    changes: tuple[ContextChange, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    """What the tool itself has kept on disk instead."""

    foreign: bool = False
    """Its text was written by others, who may imitate our markers in it."""

    @property
    def is_error(self) -> bool:
        return self.wire.get("isError") is True


def build_text_result(
    text: str, *, response: Json = None, changes: tuple[ContextChange, ...] = ()
) -> ToolResult:
    return ToolResult({"content": [build_text_block(text)]}, response, changes)


def build_error_result(text: str, *, response: Json = None) -> ToolResult:
    """The tool ran and failed. (A call that is turned down is a `Refused`, not a result.)"""
    wire: JsonObject = {"content": [build_text_block(text)], "isError": True}
    return ToolResult(wire, response)


def build_text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


class ScopeView(Protocol):
    """What a tool may know of the scope that called it."""

    @property
    def id(self) -> str: ...
    @property
    def cwd(self) -> Path | None: ...
    def find_seen_file(self, path: str) -> FileSeen | None: ...
    def is_delivered(self, path: str) -> bool:
        """Whether `path` is a kept result that was delivered to this scope."""
        ...


async def ignore_progress(_: JsonObject) -> None:
    """For callers that did not ask for progress."""


def hide_nothing(_: Path) -> bool:
    """For callers without rules."""
    return False


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a running tool is given beside its arguments."""

    call_id: str
    scope: ScopeView
    progress: Progress = ignore_progress
    meta: JsonObject = field(default_factory=lambda: {})
    is_hidden: Callable[[Path], bool] = hide_nothing
    """Whether a rule denies reading this file (absolute): a search leaves it out."""

    client_bridge: ClientBridge | None = None
    """Who answers a server's questions while it works on the call; None where nobody can."""

    retry: Retry | None = None
    """The call was made again to go on from here."""

    decision: Decision | None = None
    """What permitted the call; known once it runs."""

    judged_paths: frozenset[Path] | None = None
    """The real paths that the decision was about, and the only ones that a tool may open when it
    runs; None where nothing was decided yet."""


@dataclass(frozen=True, slots=True)
class ToolAsk:
    """The tool itself wants a person to confirm this call, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The tool's own verdict: the arguments made canonical, and perhaps a question."""

    arguments: JsonObject
    ask: ToolAsk | None = None


class Validator(Protocol):
    """A compiled input schema."""

    def find_problems(self, arguments: Json) -> list[str]:
        """Every way in which `arguments` break the schema, in words a model can act on."""
        ...


class Tool(Protocol):
    """One tool, built-in or upstream."""

    @property
    def name(self) -> str:
        """The exposed name, as listed and called."""
        ...

    @property
    def rule_name(self) -> str:
        """The name rules, hooks and the journal know: `Read`, `mcp__server__tool`."""
        ...

    @property
    def server(self) -> str | None:
        """The upstream it belongs to; None for a built-in."""
        ...

    @property
    def definition(self) -> JsonObject:
        """The `tools/list` entry."""
        ...

    @property
    def validator(self) -> Validator: ...

    @property
    def interrupt(self) -> Interrupt: ...

    @property
    def result_limit(self) -> int | None:
        """Characters over which a result is kept on disk; None for a tool that bounds itself."""
        ...

    @property
    def output_validator(self) -> Validator | None:
        """What clients hold its structured content against; None where no schema is advertised."""
        ...

    def decide_sharing(self, arguments: JsonObject) -> Sharing: ...

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """The tool's semantic check. Raises `Refused` (SEMANTIC); changes nothing."""
        ...

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> "ToolResult | ProtocolError | InputRequired": ...


def hash_definition(definition: JsonObject) -> str:
    """Of all that a tool says of itself. Its name in the list is our choice and no part of it."""
    said: JsonObject = {key: value for key, value in definition.items() if key != "name"}
    return hashlib.sha256(to_canonical_json(said).encode(errors="surrogatepass")).hexdigest()
