"""One frozen type per point of a call's way. A stage takes the one before it and gives the next.

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
    """New arguments for the call, and the hook that wants them."""

    arguments: JsonObject
    by: str


@dataclass(frozen=True, slots=True)
class PreHookResult:
    """What PreToolUse hooks said of a call, all together."""

    votes: tuple[Vote, ...] = ()
    contexts: tuple[str, ...] = ()
    rewrite: Rewrite | None = None
    stopped: str | None = None
    """A hook said `continue: false`: the reason. The tool still runs; the result is marked."""

    def merge(self, later: "PreHookResult") -> "PreHookResult":
        """Both together; what was rewritten later stands."""
        reasons = [each for each in (self.stopped, later.stopped) if each is not None]
        return PreHookResult(
            votes=(*self.votes, *later.votes),
            contexts=(*self.contexts, *later.contexts),
            rewrite=later.rewrite or self.rewrite,
            stopped="; ".join(reasons) if reasons else None,
        )


@dataclass(frozen=True, slots=True)
class NewOutput:
    """What a hook wants in place of a tool's result."""

    value: Json


@dataclass(frozen=True, slots=True)
class PostHookResult:
    """What PostToolUse or PostToolUseFailure hooks said, all together."""

    contexts: tuple[str, ...] = ()
    stopped: str | None = None
    output: NewOutput | None = None


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """A call made again with the answer to our question: hooks are not run a second time."""

    context: "AskedContext"
    response: JsonObject


@dataclass(frozen=True, slots=True)
class AskedContext:
    """What was known when the question was put: a yes is meant for these files, and a lasting one
    for what was offered."""

    review: PreHookResult
    resolved_paths: Mapping[str, tuple[Path, ...]] = field(default_factory=lambda: {})
    options: RememberOptions = ONCE_ONLY


@dataclass(frozen=True, slots=True)
class CallRetry:
    """A call made again with the answers to a server's own questions: it runs on from there."""

    review: PreHookResult
    retry: Retry


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as it arrived. `id` is ours; `tool_use_id` the model's own where the client sent it."""

    id: str
    tool_use_id: str
    name: str
    arguments: JsonObject
    meta: JsonObject = field(default_factory=lambda: {})
    approval_answer: ApprovalAnswer | None = None
    via_call_tool: bool = False
    """It came as the content of a `call_tool`: the client that let it through saw only that."""
    call_retry: "CallRetry | None" = None


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """The tool exists. `unseen`: nobody has shown the caller its schema yet."""

    call: ToolCall
    tool: Tool
    schema_unseen: bool = False


@dataclass(frozen=True, slots=True)
class ValidCall:
    """The arguments fit the tool's schema."""

    resolved: ResolvedCall
    arguments: JsonObject
    sharing: Sharing


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The tool itself accepts the arguments, which are canonical now."""

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
    """Hooks have spoken. `checked` is what will run; `original` what was asked for, which a deny
    rule still forbids."""

    checked: CheckedCall
    original: CheckedCall
    review: PreHookResult


@dataclass(frozen=True, slots=True)
class PermittedCall:
    """Rules, mode and, where asked, a person allow it. Only `authorize` builds one."""

    reviewed: ReviewedCall
    decision: Decision
    judged_paths: frozenset[Path] = frozenset()
    """The real paths that were judged: the tool opens no other."""

    approved: Approved | None = None
    """The yes that it took; None where the rules alone allow it."""

    @property
    def arguments(self) -> JsonObject:
        return self.reviewed.checked.arguments

    @property
    def tool(self) -> Tool:
        return self.reviewed.checked.tool


@dataclass(frozen=True, slots=True)
class Executed:
    """The tool ran; a failing tool is a result with `isError`."""

    permitted: PermittedCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Completed:
    """The result as it is delivered, what of it was replaced, and what hooks and we added."""

    executed: Executed
    wire: JsonObject
    replaced: tuple[Replacement, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """A finished call as hooks of its batch are told of it; `response` is what the model reads."""

    tool: str
    arguments: JsonObject
    tool_use_id: str
    response: str


Outcome = Completed | Refusal | Suspended | ProtocolError | Cancelled
