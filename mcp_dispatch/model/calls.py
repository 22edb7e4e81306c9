"""The states of a call, one frozen type each. A stage takes one type and returns the next.

ToolCall → ResolvedCall → ValidCall → CheckedCall → ReviewedCall → PermittedCall → Executed
→ Completed
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.model.approval import ONCE_ONLY, Approved, RememberOptions
from mcp_dispatch.model.client import Retry
from mcp_dispatch.model.decision import Decision, Vote
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Cancelled, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.tools import Replacement, Sharing, Tool, ToolAsk, ToolResult


@dataclass(frozen=True, slots=True)
class Rewrite:
    """New arguments for the call, and the hook that returned them."""

    arguments: JsonObject
    by: str


@dataclass(frozen=True, slots=True)
class PreHookResult:
    """The combined result of the PreToolUse hooks of a call."""

    votes: tuple[Vote, ...] = ()
    contexts: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    stopped: str | None = None
    """The reason of a hook that returned `continue: false`. The tool still runs; its result is
    marked."""

    def merge(self, later: "PreHookResult") -> "PreHookResult":
        """Combine two results; the later rewrite wins."""
        reasons = [each for each in (self.stopped, later.stopped) if each is not None]
        return PreHookResult(
            votes=(*self.votes, *later.votes),
            contexts=(*self.contexts, *later.contexts),
            rewrite=later.rewrite or self.rewrite,
            stopped="; ".join(reasons) if reasons else None,
        )


@dataclass(frozen=True, slots=True)
class NewOutput:
    """What a hook returns in place of a tool's result."""

    value: Json


@dataclass(frozen=True, slots=True)
class PostHookResult:
    """The combined result of PostToolUse or PostToolUseFailure hooks."""

    contexts: tuple[str, ...] = ()
    stopped: str | None = None
    output: NewOutput | None = None


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """The answer to our question, sent with the repeated call. PreToolUse hooks do not run
    again."""

    context: "AskedContext"
    response: JsonObject


@dataclass(frozen=True, slots=True)
class AskedContext:
    """What the question was about: an approval holds for these files, and a lasting one for these
    options."""

    review: PreHookResult
    resolved_paths: Mapping[str, tuple[Path, ...]] = field(default_factory=lambda: {})
    options: RememberOptions = ONCE_ONLY


@dataclass(frozen=True, slots=True)
class CallRetry:
    """The answers to a server's questions, sent with the repeated call, which continues the
    first."""

    review: PreHookResult
    retry: Retry


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as it was received. `id` is ours; `tool_use_id` is the model's if the client sent
    it."""

    id: str
    tool_use_id: str
    name: str
    arguments: JsonObject
    meta: JsonObject = field(default_factory=lambda: {})
    approval_answer: ApprovalAnswer | None = None
    via_call_tool: bool = False
    """Whether the call came inside a `call_tool`: the client has approved only the `call_tool`."""
    call_retry: "CallRetry | None" = None


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """The tool exists. `schema_unseen`: the caller has not received its schema yet."""

    call: ToolCall
    tool: Tool
    schema_unseen: bool = False


@dataclass(frozen=True, slots=True)
class ValidCall:
    """The arguments are valid for the tool's schema."""

    resolved: ResolvedCall
    arguments: JsonObject
    sharing: Sharing


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The tool has accepted the arguments and made them canonical."""

    valid: ValidCall
    arguments: JsonObject
    ask: ToolAsk | None

    @property
    def call(self) -> ToolCall:
        return self.valid.resolved.call

    @property
    def tool(self) -> Tool:
        return self.valid.resolved.tool


@dataclass(frozen=True, slots=True)
class ReviewedCall:
    """PreToolUse hooks have run. `checked` is what will run; `original` is the call before a
    rewrite, which a deny rule still denies."""

    checked: CheckedCall
    original: CheckedCall
    review: PreHookResult


@dataclass(frozen=True, slots=True)
class PermittedCall:
    """Rules, mode and, if asked, a person allow the call. Only `authorize` creates one."""

    reviewed: ReviewedCall
    decision: Decision
    judged_paths: frozenset[Path] = frozenset()
    """The resolved paths that were authorized: the tool opens no others."""

    approved: Approved | None = None
    """The approval; None if the rules alone allow the call."""

    @property
    def arguments(self) -> JsonObject:
        return self.reviewed.checked.arguments

    @property
    def tool(self) -> Tool:
        return self.reviewed.checked.tool


@dataclass(frozen=True, slots=True)
class Executed:
    """The tool has run; a failure is a result with `isError`."""

    permitted: PermittedCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Completed:
    """The result as it is delivered, its replaced parts, and the notes that were added."""

    executed: Executed
    wire: JsonObject
    replaced: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A finished call in the input of PostToolBatch hooks; `response` is what the model reads."""

    tool: str
    arguments: JsonObject
    tool_use_id: str
    response: str


Outcome = Completed | Refusal | Suspended | ProtocolError | Cancelled
