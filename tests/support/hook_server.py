"""Hooks for tests that record events by name; a short code sets their effect."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks, HookServices
from mcp_dispatch.hooks.runners.mcp_tool import CallRefused
from mcp_dispatch.model.calls import (
    BatchedCall,
    CheckedCall,
    Executed,
    PermittedCall,
    PostHookResult,
    PreHookResult,
    ResolvedCall,
    ReviewedCall,
    ToolCall,
    ValidCall,
)
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.hook_context import HookContext, HookEvent, HookRecord
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Sharing, build_error_result, build_text_result
from mcp_dispatch.processes.children import ProcessGroup
from tests.support.stand_ins import RecordingTool

EVENTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"),
    *("PermissionRequest", "PermissionDenied", "SessionStart", "SessionEnd"),
    *("Elicitation", "ElicitationResult"),
)
ACCEPTED: JsonObject = {"action": "accept", "content": {"by": "a person"}}


@dataclass
class RecordingSink:
    """Notes what hooks say beside their answer."""

    statuses: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    records: list[HookRecord] = field(default_factory=list[HookRecord])

    async def show_status(self, message: str) -> None:
        self.statuses.append(message)

    def add_note(self, text: str) -> None:
        self.notes.append(text)

    async def store_text(self, text: str) -> str:
        self.kept.append(text)
        return f"kept {len(text)}"

    async def record(self, record: HookRecord) -> None:
        self.records.append(record)

    @property
    def failed(self) -> bool:
        return any(each.event in (HookEvent.ERROR, HookEvent.CANCELLED) for each in self.records)


@dataclass(frozen=True)
class SayingUpstream:
    """A server whose tools answer with the text of their own name's entry."""

    results: dict[str, JsonObject]

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        context: HookContext,
    ) -> JsonObject:
        if tool not in self.results:
            raise CallRefused("no such tool")
        return self.results[tool]


def checked(tool: str = "T", **arguments: Json) -> CheckedCall:
    call = ToolCall("c-1", "toolu_1", tool, arguments)
    valid = ValidCall(ResolvedCall(call, RecordingTool(tool)), arguments, Sharing.EXCLUSIVE)
    return CheckedCall(valid, arguments, None)


def executed(failed: bool = False) -> Executed:
    call = checked()
    vote = Vote(Tier.ALLOW, Effect.ALLOW, "fine", Origin("test"))
    permitted = PermittedCall(ReviewedCall(call, call, PreHookResult()), decide([vote]))
    return Executed(
        permitted, build_error_result("no") if failed else build_text_result("yes"), 0.25
    )


@dataclass(frozen=True)
class HookServer:
    """`effect` tells the hooks of an event and says what came of it: A(llow or accept), ? (ask),
    D(eny, decline or complaint), C(ontext), S(top), R(etry), F(ailed)."""

    children: ProcessGroup
    folder: Path
    upstream: SayingUpstream = field(default_factory=lambda: SayingUpstream({}))

    def hooks(self, event: str, *handlers: JsonObject) -> Hooks:
        # With a time of its own: a busy machine must not end a session's end too early.
        listed: list[Json] = [{"timeout": 60, **handler} for handler in handlers]
        raw: Json = {event: [{"hooks": listed}]}
        config, problems = parse_hooks([HookSource(raw, self.folder / "settings.json")])
        assert problems == ()
        return Hooks(
            config, self.children, os.environ, services=HookServices(upstreams=self.upstream)
        )

    async def effect(self, event: str, *handlers: JsonObject) -> str:
        outlets = RecordingSink()
        around = HookContext("s", self.folder / "j", self.folder, "default", outlets)
        said = await _told(self.hooks(event, *handlers), event, around)
        return f"{said}{'F' if outlets.failed else ''}" or "-"


async def _told(hooks: Hooks, event: str, around: HookContext) -> str:
    match event:
        case "PreToolUse":
            return _of_review(await hooks.run_pre_tool_use(checked(), around))
        case "PermissionRequest":
            return _of_review(await hooks.run_permission_request(checked(), around))
        case "PostToolUse" | "PostToolUseFailure":
            failed = event == "PostToolUseFailure"
            return _of_afterword(await hooks.run_post_tool_use(executed(failed), around))
        case "PostToolBatch":
            calls = [BatchedCall("T", {}, "toolu_1", "yes")]
            return _of_afterword(await hooks.run_post_tool_batch(calls, around))
        case "PermissionDenied":
            return "R" if await hooks.run_permission_denied(checked(), "no", around) else ""
        case "SessionStart":
            return "C" if await hooks.run_session_start(around) else ""
        case "SessionEnd":
            await hooks.run_session_end(around)
            return ""
        case "Elicitation":
            return _of_reply(await hooks.run_elicitation("s", {"message": "?"}, around))
        case _:
            reply = await hooks.run_elicitation_result("s", {"message": "?"}, ACCEPTED, around)
            return _of_reply(None if reply == ACCEPTED else reply)


_LETTERS = {Effect.ALLOW: "A", Effect.ASK: "?", Effect.DENY: "D"}


def _of_review(review: PreHookResult) -> str:
    votes = "".join(_LETTERS[vote.effect] for vote in review.votes)
    return votes + "C" * bool(review.contexts) + "S" * (review.stopped is not None)


def _of_afterword(said: PostHookResult) -> str:
    complaints = [text for text in said.contexts if "hook blocking error" in text]
    contexts = len(said.contexts) - len(complaints)
    return "D" * bool(complaints) + "C" * bool(contexts) + "S" * (said.stopped is not None)


def _of_reply(reply: JsonObject | None) -> str:
    if reply is None:
        return ""
    return "A" if reply["action"] == "accept" else "D"


def specific(event: str, **fields: Any) -> JsonObject:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def command(text: str, **options: Json) -> JsonObject:
    return {"type": "command", "command": text, **options}


def printing(text: str, code: int) -> JsonObject:
    """A script that prints exactly this, complains and exits."""
    quoted = text.replace("'", "'\\''")
    return command(f"printf '%s' '{quoted}'; echo stderr says >&2; exit {code}")


def documents(event: str) -> Sequence[tuple[str, str]]:
    """Everything a hook of this event can print, by a short name."""
    yes: dict[str, JsonObject] = {
        "PreToolUse": specific(event, permissionDecision="allow"),
        "PermissionRequest": specific(event, decision={"behavior": "allow"}),
        "PermissionDenied": specific(event, retry=True),
        "Elicitation": specific(event, action="accept", content={"by": "a hook"}),
        "ElicitationResult": specific(event, action="accept", content={"by": "a hook"}),
    }
    no: dict[str, JsonObject] = {
        "PreToolUse": specific(event, permissionDecision="deny"),
        "PermissionRequest": specific(event, decision={"behavior": "deny"}),
        "Elicitation": specific(event, action="decline"),
        "ElicitationResult": specific(event, action="cancel"),
    }
    other = "PostToolUse" if event == "PreToolUse" else "PreToolUse"
    said: dict[str, Json] = {
        "{}": {},
        "yes": yes.get(event, {"decision": "approve"}),
        "no": no.get(event, {"decision": "block"}),
        "context": specific(event, additionalContext="ctx"),
        "stop": {"continue": False, "stopReason": "enough"},
        "other event": specific(other, permissionDecision="allow"),
        "null": {"continue": None},
    }
    printed = {name: json.dumps(value) for name, value in said.items()}
    return [("empty", ""), ("text", "all is well"), ("broken", "{"), *printed.items()]
