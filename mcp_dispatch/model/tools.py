"""The interface of tools, for built-in tools and for those of upstream servers."""

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
    """The reason why a part of a result was replaced."""

    SIZE = "over the limit of its tool"
    BATCH = "over the budget of its batch"
    MEDIA = "too large to be shown"
    STREAM = "too large for memory"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replaced part of a result: its description, its size in bytes, and the file that contains
    it. Without a file, `problem` is the reason, and the middle of the part was left out."""

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
"""Sends `{"progress": n, "total"?: n, "message"?: text, ...}`, without the client's token."""


class Sharing(Enum):
    """Whether a call may run at the same time as other calls of its scope."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Interrupt(Enum):
    """What a cancellation does to a running call: stop it, or let it finish and drop its result."""

    CANCEL = "cancel"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as the scope last read or wrote it. A partial read does not count as a read."""

    mtime_ns: int
    size: int
    digest: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class FileRead:
    """A change of context: `path` (absolute, resolved) was read or written in this state."""

    path: str
    seen: FileSeen


@dataclass(frozen=True, slots=True)
class DirectoryChanged:
    """A change of context: later shell commands start in `path`."""

    path: Path


@dataclass(frozen=True, slots=True)
class FileDelivered:
    """A change of context: our file `path` was delivered, so this scope may read it."""

    path: str


@dataclass(frozen=True, slots=True)
class ToolsActivated:
    """A change of context: the model has received the schemas of the tools with these rule
    names."""

    tools: tuple[str, ...]


ContextChange = FileRead | DirectoryChanged | FileDelivered | ToolsActivated


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool.

    `wire` is the complete MCP result (`content`, `isError`, `structuredContent`, `_meta`, unknown
    fields). `response` is the structured output in the input of PostToolUse hooks.
    """

    wire: JsonObject
    response: Json = None
    changes: tuple[ContextChange, ...] = ()
    replaced: tuple[Replacement, ...] = ()
    """The parts that the tool itself has stored on disk."""

    foreign: bool = False
    """Whether the text comes from outside, so that it may imitate our markers."""

    @property
    def is_error(self) -> bool:
        return self.wire.get("isError") is True


def build_text_result(
    text: str, *, response: Json = None, changes: tuple[ContextChange, ...] = ()
) -> ToolResult:
    return ToolResult({"content": [build_text_block(text)]}, response, changes)


def build_error_result(text: str, *, response: Json = None) -> ToolResult:
    """Return the result of a tool that ran and failed. (A refused call raises `Refused`
    instead.)"""
    wire: JsonObject = {"content": [build_text_block(text)], "isError": True}
    return ToolResult(wire, response)


def build_text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


class ScopeView(Protocol):
    """The part of a scope that tools may use."""

    @property
    def id(self) -> str: ...
    @property
    def cwd(self) -> Path | None: ...
    def find_seen_file(self, path: str) -> FileSeen | None: ...
    def is_delivered(self, path: str) -> bool:
        """Whether `path` is a stored result that was delivered to this scope."""
        ...


async def ignore_progress(_: JsonObject) -> None:
    """The progress callback of callers that did not request progress."""


def hide_nothing(_: Path) -> bool:
    """The default without rules: no file is hidden."""
    return False


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool receives in addition to its arguments."""

    call_id: str
    scope: ScopeView
    progress: Progress = ignore_progress
    meta: JsonObject = field(default_factory=lambda: {})
    is_hidden: Callable[[Path], bool] = hide_nothing
    """Whether a rule denies reading this absolute path: a search leaves the file out."""

    client_bridge: ClientBridge | None = None
    """Handles the requests that a server sends while it works on the call; None if there is no
    client."""

    retry: Retry | None = None
    """The continuation and the answers, if the call was sent again."""

    decision: Decision | None = None
    """The decision that permitted the call; set when the tool runs."""

    judged_paths: frozenset[Path] | None = None
    """The resolved paths that were authorized: the tool may open no others. None before the
    decision."""


@dataclass(frozen=True, slots=True)
class ToolAsk:
    """The tool requires that a person confirms the call, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of the tool's own check: canonical arguments, and possibly a question."""

    arguments: JsonObject
    ask: ToolAsk | None = None


class Validator(Protocol):
    """A compiled JSON schema."""

    def find_problems(self, arguments: Json) -> list[str]:
        """Return every violation of the schema, in words that a model can act on."""
        ...


class Tool(Protocol):
    """One tool, built-in or upstream."""

    @property
    def name(self) -> str:
        """The exposed name, under which the tool is listed and called."""
        ...

    @property
    def rule_name(self) -> str:
        """The name in rules, hooks and the journal: `Read`, `mcp__server__tool`."""
        ...

    @property
    def server(self) -> str | None:
        """The upstream server of the tool; None for a built-in tool."""
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
        """The number of characters above which a result is stored on disk; None for a tool that
        limits its results itself."""
        ...

    @property
    def output_validator(self) -> Validator | None:
        """Validates the structured content as clients do; None if the tool declares no output
        schema."""
        ...

    def decide_sharing(self, arguments: JsonObject) -> Sharing: ...

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Check the arguments without side effects. Raise `Refused` (SEMANTIC)."""
        ...

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> "ToolResult | ProtocolError | InputRequired": ...


def hash_definition(definition: JsonObject) -> str:
    """Return a digest of the definition without its name, which is our choice."""
    unnamed: JsonObject = {key: value for key, value in definition.items() if key != "name"}
    return hashlib.sha256(to_canonical_json(unnamed).encode(errors="surrogatepass")).hexdigest()
