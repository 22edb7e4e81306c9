"""Tests of PreToolUse, PostToolUse and PostToolUseFailure hooks, with real scripts."""

import json
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import (
    CheckedCall,
    Executed,
    PermittedCall,
    PostHookResult,
    PreHookResult,
    ResolvedCall,
    ReviewedCall,
    Rewrite,
    ToolCall,
    ValidCall,
)
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Sharing,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup

PRE, POST, FAILED = "PreToolUse", "PostToolUse", "PostToolUseFailure"


class NamedTool:
    """A tool that has a name and cannot run."""

    def __init__(self, rule_name: str) -> None:
        self.name = rule_name.lower()
        self.rule_name = rule_name
        self.server = None
        self.definition: JsonObject = {"name": self.name}
        self.interrupt = Interrupt.CANCEL
        self.result_limit = None
        self.output_validator = None
        self.validator = self

    def find_problems(self, arguments: Json) -> list[str]:
        return []

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        raise NotImplementedError


def build_checked_call(tool: str = "Bash", **arguments: Json) -> CheckedCall:
    call = ToolCall("c-1", "toolu_1", tool.lower(), {"as": "it arrived"})
    valid = ValidCall(ResolvedCall(call, NamedTool(tool)), arguments, Sharing.EXCLUSIVE)
    return CheckedCall(valid, arguments, None)


def build_executed(result: ToolResult, **arguments: Json) -> Executed:
    call = build_checked_call("Bash", **arguments)
    vote = Vote(Tier.ALLOW, Effect.ALLOW, "fine", Origin("test"))
    reviewed = ReviewedCall(call, call, PreHookResult())
    return Executed(PermittedCall(reviewed, decide([vote])), result, 0.25)


@dataclass(frozen=True)
class HookFixture:
    """Runs commands in a folder as hooks of one settings file."""

    children: ProcessGroup
    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def context(self) -> HookContext:
        return HookContext("s-1", self.folder / "journal.jsonl", self.folder, "plan")

    def build_hooks(self, event: str, *entries: str | JsonObject, matcher: str = "Bash") -> Hooks:
        """Build the hooks; an entry is a command, or an object with a command and options."""
        handlers: list[Json] = [
            {"type": "command", **({"command": entry} if isinstance(entry, str) else entry)}
            for entry in entries
        ]
        raw: Json = {event: [{"matcher": matcher, "hooks": handlers}]}
        config, _ = parse_hooks([HookSource(raw, self.settings)])
        return Hooks(config, self.children, os.environ)

    async def run_pre(self, hooks: Hooks, call: CheckedCall | None = None) -> PreHookResult:
        with anyio.fail_after(20):
            return await hooks.run_pre_tool_use(call or build_checked_call(), self.context)

    async def run_post(self, hooks: Hooks, done: Executed) -> PostHookResult:
        with anyio.fail_after(20):
            return await hooks.run_post_tool_use(done, self.context)

    def build_print_command(self, document: Json, code: int = 0) -> str:
        """Return a command that prints the document, writes to stderr and exits."""
        (self.folder / "output.json").write_text(json.dumps(document), encoding="utf-8")
        return f"cat output.json; echo from stderr >&2; exit {code}"

    def build_origin(self, command: str) -> Origin:
        return Origin(str(self.settings), rule=command)

    def read_input(self) -> Json:
        """Return the document that the hook `cat > input.json` received."""
        return json.loads((self.folder / "input.json").read_text(encoding="utf-8"))


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[HookFixture]:
    async with ProcessGroup() as children:
        yield HookFixture(children, tmp_path)


def build_specific_output(event: str, **fields: Json) -> JsonObject:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def build_decision(effect: str) -> JsonObject:
    return build_specific_output(PRE, permissionDecision=effect, permissionDecisionReason="mine")


ALLOW = (Tier.ALLOW, Effect.ALLOW, "mine")
ASK = (Tier.HARD_ASK, Effect.ASK, "mine")
DENY = (Tier.DENY, Effect.DENY, "mine")
BLOCK = (Tier.DENY, Effect.DENY, "from stderr")

INVALID: Json = ["not an object"]


@pytest.mark.parametrize("code", [0, 1, 2, 127])
@pytest.mark.parametrize(
    ("document", "vote", "vote_at_2"),
    [
        (build_decision("allow"), ALLOW, BLOCK),
        (build_decision("ask"), ASK, BLOCK),
        (build_decision("deny"), DENY, DENY),
        (build_decision("defer"), None, BLOCK),
        ({"decision": "approve", "reason": "mine"}, ALLOW, BLOCK),
        ({"decision": "block", "reason": "mine"}, DENY, DENY),
        ({"decision": "whatever"}, None, BLOCK),
        (build_decision("Allow"), None, BLOCK),
        (INVALID, None, BLOCK),
        ({}, None, BLOCK),
    ],
)
async def test_the_output_and_exit_code_of_a_pre_hook_become_a_vote(
    fixture: HookFixture,
    code: int,
    document: Json,
    vote: tuple[Tier, Effect, str] | None,
    vote_at_2: tuple[Tier, Effect, str],
) -> None:
    command = fixture.build_print_command(document, code)

    pre_result = await fixture.run_pre(fixture.build_hooks(PRE, command))

    expected = vote_at_2 if code == 2 else vote
    assert pre_result == PreHookResult(
        votes=() if expected is None else (Vote(*expected, fixture.build_origin(command)),)
    )


@pytest.mark.parametrize("event", [POST, FAILED])
@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize(
    ("fields", "texts", "texts_at_2"),
    [
        ({"decision": "block", "reason": "mine"}, ["error: mine"], ["error: mine"]),
        ({"decision": "approve"}, [], ["error: from stderr"]),
        ({"decision": 5}, [], ["error: from stderr"]),
        ({"specific": "ctx"}, ["context: ctx"], ["error: from stderr", "context: ctx"]),
        ({}, [], ["error: from stderr"]),
    ],
)
async def test_the_output_of_a_post_hook_is_added_for_the_model(
    fixture: HookFixture,
    event: str,
    code: int,
    fields: JsonObject,
    texts: list[str],
    texts_at_2: list[str],
) -> None:
    context = fields.get("specific")
    document = build_specific_output(event, additionalContext=context) if context else fields
    command = fixture.build_print_command(document, code)
    result = build_text_result("ok") if event == POST else build_error_result("not ok")

    post_result = await fixture.run_post(
        fixture.build_hooks(event, command), build_executed(result)
    )

    prefixes = {
        "error": f'{event}:Bash hook blocking error from command: "{command}":',
        "context": f"{event}:Bash hook additional context:",
    }
    expected = [text.split(": ", 1) for text in (texts_at_2 if code == 2 else texts)]
    assert post_result == PostHookResult(
        tuple(f"{prefixes[kind]} {text}" for kind, text in expected)
    )


async def test_a_pre_hook_receives_the_fields_of_claude_code(fixture: HookFixture) -> None:
    hooks = fixture.build_hooks(PRE, "cat > input.json", matcher="mcp__github__.*")

    pre_result = await fixture.run_pre(
        hooks, build_checked_call("mcp__github__search", query="é $(rm) '\n\x01")
    )

    assert pre_result == PreHookResult()
    assert fixture.read_input() == {
        "session_id": "s-1",
        "transcript_path": str(fixture.folder / "journal.jsonl"),
        "cwd": str(fixture.folder),
        "permission_mode": "plan",
        "hook_event_name": "PreToolUse",
        "tool_name": "mcp__github__search",
        "tool_input": {"query": "é $(rm) '\n\x01"},
        "tool_use_id": "toolu_1",
    }


async def test_a_post_hook_receives_the_structured_response(fixture: HookFixture) -> None:
    result = build_text_result("text", response={"stdout": "x", "interrupted": False})

    await fixture.run_post(
        fixture.build_hooks(POST, "cat > input.json"), build_executed(result, command="ls")
    )

    assert fixture.read_input() == {
        "session_id": "s-1",
        "transcript_path": str(fixture.folder / "journal.jsonl"),
        "cwd": str(fixture.folder),
        "permission_mode": "plan",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "toolu_1",
        "tool_response": {"stdout": "x", "interrupted": False},
        "duration_ms": 250,
    }


async def test_a_failure_hook_receives_the_error(fixture: HookFixture) -> None:
    text = f"<tool_use_error>Exit code 1\n{'x' * 20_000}</tool_use_error>"

    await fixture.run_post(
        fixture.build_hooks(FAILED, "cat > input.json"),
        build_executed(build_error_result(text), command="ls"),
    )

    document = fixture.read_input()
    assert isinstance(document, dict)
    head, tail = "Exit code 1\n" + "x" * 4_988, "x" * 5_000
    assert document == {
        "session_id": "s-1",
        "transcript_path": str(fixture.folder / "journal.jsonl"),
        "cwd": str(fixture.folder),
        "permission_mode": "plan",
        "hook_event_name": "PostToolUseFailure",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "toolu_1",
        "error": f"{head}\n... [10012 characters truncated] ...\n{tail}",
        "duration_ms": 250,
    }


@pytest.mark.parametrize(
    ("event", "result"), [(POST, build_error_result("no")), (FAILED, build_text_result("yes"))]
)
async def test_a_post_hook_runs_only_for_its_own_kind_of_result(
    fixture: HookFixture, event: str, result: ToolResult
) -> None:
    post_result = await fixture.run_post(
        fixture.build_hooks(event, "cat > input.json"), build_executed(result)
    )

    assert post_result == PostHookResult()
    assert list(fixture.folder.iterdir()) == []


async def test_a_hook_for_another_tool_does_not_run(fixture: HookFixture) -> None:
    pre_result = await fixture.run_pre(
        fixture.build_hooks(PRE, "touch ran; exit 2"), build_checked_call("BashOutput")
    )

    assert pre_result == PreHookResult()
    assert list(fixture.folder.iterdir()) == []


async def test_no_hooks_give_empty_results(fixture: HookFixture) -> None:
    assert await fixture.run_pre(Hooks.create_empty()) == PreHookResult()
    assert (
        await fixture.run_post(Hooks.create_empty(), build_executed(build_text_result("ok")))
        == PostHookResult()
    )


async def test_arguments_never_reach_the_shell_of_a_hook(fixture: HookFixture) -> None:
    attack = "$(touch pwned) `touch pwned` '; touch pwned; ' \"; touch pwned\n touch pwned"
    hooks = fixture.build_hooks(
        PRE, 'cat > input.json; echo "${CLAUDE_PROJECT_DIR}" >/dev/null', matcher="*"
    )

    await fixture.run_pre(hooks, build_checked_call(attack, **{attack: attack}))

    document = fixture.read_input()
    assert isinstance(document, dict)
    assert (document["tool_name"], document["tool_input"]) == (attack, {attack: attack})
    assert [path.name for path in fixture.folder.iterdir()] == ["input.json"]


async def test_matching_hooks_run_concurrently(fixture: HookFixture) -> None:
    for name in ("one", "two"):
        os.mkfifo(fixture.folder / name)
    # Each hook waits for the other, so they would never end if run in sequence.
    hooks = fixture.build_hooks(PRE, "echo > one; cat two", "cat one; echo > two")

    assert await fixture.run_pre(hooks) == PreHookResult()


async def test_answers_are_merged_in_configuration_order_and_not_in_order_of_completion(
    fixture: HookFixture,
) -> None:
    os.mkfifo(fixture.folder / "pid")
    slow = "read -r pid < pid; while kill -0 $pid 2>/dev/null; do :; done; cat slow.json"
    quick = "cat quick.json; echo $$ > pid"
    for name in ("slow", "quick"):
        output = build_specific_output(PRE, updatedInput={"by": name}, additionalContext=name)
        (fixture.folder / f"{name}.json").write_text(json.dumps(output), encoding="utf-8")

    slow_first = await fixture.run_pre(fixture.build_hooks(PRE, slow, quick))
    quick_first = await fixture.run_pre(fixture.build_hooks(PRE, quick, slow))

    frame = "PreToolUse:Bash hook additional context:"
    assert slow_first == PreHookResult(
        contexts=(f"{frame} slow", f"{frame} quick"),
        rewrite=Rewrite({"by": "quick"}, f"{quick} in {fixture.settings}"),
    )
    assert quick_first == PreHookResult(
        contexts=(f"{frame} quick", f"{frame} slow"),
        rewrite=Rewrite({"by": "slow"}, f"{slow} in {fixture.settings}"),
    )


async def test_the_other_hooks_complete_if_one_denies(fixture: HookFixture) -> None:
    pre_result = await fixture.run_pre(fixture.build_hooks(PRE, "exit 2", "cat > input.json"))

    origin = fixture.build_origin("exit 2")
    reason = "a hook blocked it and gave no reason"
    assert pre_result == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, reason, origin),))
    assert fixture.read_input() is not None


@pytest.mark.parametrize(
    "broken",
    [
        "./missing.sh",
        "exit 1",
        "kill -SEGV $$",
        "kill -9 $$",
        'echo "{not json"',
        "sleep 1000",
        "sleep 1000 & exit 1",
        "head -c 100000000 /dev/zero",
        """echo '{"decision":"approve"}'; kill -9 $$""",
        """echo '{"decision":"approve"}'; sleep 1000""",
        """echo '{"decision":"approve"}'; head -c 100000000 /dev/zero | tr '\\0' ' '""",
        """echo noise; echo '{"decision":"approve"}'""",
        """echo '{"decision":"approve"}{"decision":"approve"}'""",
        """echo '{"decision":"approve"}' >&2""",
    ],
)
async def test_a_broken_hook_loosens_nothing_and_leaves_no_process(
    fixture: HookFixture, broken: str
) -> None:
    hooks = fixture.build_hooks(PRE, {"command": broken, "timeout": 2}, "echo no >&2; exit 2")

    pre_result = await fixture.run_pre(hooks)

    origin = fixture.build_origin("echo no >&2; exit 2")
    assert pre_result == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, "no", origin),))
    assert (
        kill_tree.find_processes(set(), kill_tree.build_run_marker(fixture.children.run_id))
        == set()
    )


async def test_a_broken_hook_with_on_failure_block_denies(fixture: HookFixture) -> None:
    pre_result = await fixture.run_pre(
        fixture.build_hooks(PRE, {"command": "./missing.sh", "onFailure": "block"})
    )

    reason = (
        'PreToolUse:Bash hook error: [./missing.sh]: failed; blocking because onFailure is "block"'
    )
    origin = fixture.build_origin("./missing.sh")
    assert pre_result == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, reason, origin),))


async def test_a_hook_whose_condition_cannot_be_evaluated_runs_but_allows_nothing(
    fixture: HookFixture,
) -> None:
    command = f"touch ran; echo '{json.dumps({'decision': 'approve'})}'"

    pre_result = await fixture.run_pre(
        fixture.build_hooks(PRE, {"command": command, "if": "Bash(npm test)"})
    )

    assert pre_result == PreHookResult()
    assert (fixture.folder / "ran").exists()


async def test_a_hook_with_an_invalid_matcher_runs_for_every_tool_but_allows_nothing(
    fixture: HookFixture,
) -> None:
    approve = f"echo '{json.dumps({'decision': 'approve'})}'"

    allowed = await fixture.run_pre(
        fixture.build_hooks(PRE, approve, matcher="Bash("), build_checked_call("Read")
    )
    denied = await fixture.run_pre(
        fixture.build_hooks(PRE, "exit 2", matcher="Bash("), build_checked_call("Read")
    )

    assert allowed == PreHookResult()
    assert [vote.effect for vote in denied.votes] == [Effect.DENY]


@pytest.mark.parametrize(
    "argument", [float("nan"), "\ud800", 10**5000], ids=["nan", "surrogate", "digits"]
)
async def test_a_call_that_cannot_be_written_as_json_for_its_hooks_is_denied(
    fixture: HookFixture, argument: Json
) -> None:
    pre_result = await fixture.run_pre(
        fixture.build_hooks(PRE, "touch ran"), build_checked_call(x=argument)
    )

    (vote,) = pre_result.votes
    assert (vote.tier, vote.effect, vote.origin) == (
        Tier.DENY,
        Effect.DENY,
        fixture.build_origin("touch ran"),
    )
    assert vote.reason.startswith("the call cannot be written as JSON for its hooks: ")
    assert not (fixture.folder / "ran").exists()


async def test_a_stop_is_returned_with_its_reason(fixture: HookFixture) -> None:
    command = f"echo '{json.dumps({'continue': False, 'stopReason': 'enough'})}'"

    before = await fixture.run_pre(fixture.build_hooks(PRE, command))
    after = await fixture.run_post(
        fixture.build_hooks(POST, command), build_executed(build_text_result("ok"))
    )

    assert before == PreHookResult(stopped="enough")
    assert after == PostHookResult(stopped="enough")


async def test_errors_and_messages_of_hooks_are_logged_with_escaped_control_characters(
    fixture: HookFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcp_dispatch.hooks")
    message = json.dumps({"systemMessage": "a\x1b]0;b\u202ec"})
    (fixture.folder / "message").write_text(message, encoding="utf-8")
    fails = r"printf 'first\033[2J\nsecond' >&2; exit 1"

    await fixture.run_pre(fixture.build_hooks(PRE, fails))
    await fixture.run_pre(fixture.build_hooks(PRE, "cat message"))

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            f"PreToolUse:Bash [{fails}]: hook error: Failed with non-blocking status code 1: "
            r"first\x1b[2J",
        ),
        ("INFO", r"PreToolUse:Bash [cat message]: says: a\x1b]0;b\u202ec"),
    ]
