"""Hooks around a call: real scripts, from the settings file to the review."""

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
    """A tool of which hooks learn no more than the name."""

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


def checked(tool: str = "Bash", **arguments: Json) -> CheckedCall:
    call = ToolCall("c-1", "toolu_1", tool.lower(), {"as": "it arrived"})
    valid = ValidCall(ResolvedCall(call, NamedTool(tool)), arguments, Sharing.EXCLUSIVE)
    return CheckedCall(valid, arguments, None)


def executed(result: ToolResult, **arguments: Json) -> Executed:
    call = checked("Bash", **arguments)
    vote = Vote(Tier.ALLOW, Effect.ALLOW, "fine", Origin("test"))
    reviewed = ReviewedCall(call, call, PreHookResult())
    return Executed(PermittedCall(reviewed, decide([vote])), result, 0.25)


@dataclass(frozen=True)
class World:
    """Scripts in a folder, and a settings file that names them."""

    children: ProcessGroup
    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "settings.json"

    @property
    def circumstances(self) -> HookContext:
        return HookContext("s-1", self.folder / "journal.jsonl", self.folder, "plan")

    def hooks(self, event: str, *entries: str | JsonObject, matcher: str = "Bash") -> Hooks:
        """An entry is a command, or a command with its options."""
        listed: list[Json] = [
            {"type": "command", **({"command": entry} if isinstance(entry, str) else entry)}
            for entry in entries
        ]
        raw: Json = {event: [{"matcher": matcher, "hooks": listed}]}
        config, _ = parse_hooks([HookSource(raw, self.settings)])
        return Hooks(config, self.children, os.environ)

    async def before(self, hooks: Hooks, call: CheckedCall | None = None) -> PreHookResult:
        with anyio.fail_after(20):
            return await hooks.run_pre_tool_use(call or checked(), self.circumstances)

    async def after(self, hooks: Hooks, done: Executed) -> PostHookResult:
        with anyio.fail_after(20):
            return await hooks.run_post_tool_use(done, self.circumstances)

    def printing(self, document: Json, code: int = 0) -> str:
        """A command that prints this, complains on stderr and exits."""
        (self.folder / "said").write_text(json.dumps(document), encoding="utf-8")
        return f"cat said; echo stderr says >&2; exit {code}"

    def origin(self, command: str) -> Origin:
        return Origin(str(self.settings), rule=command)

    def told(self) -> Json:
        """What a hook `cat > told` was told."""
        return json.loads((self.folder / "told").read_text(encoding="utf-8"))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with ProcessGroup() as children:
        yield World(children, tmp_path)


def specific(event: str, **fields: Json) -> JsonObject:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def decision(effect: str) -> JsonObject:
    return specific(PRE, permissionDecision=effect, permissionDecisionReason="mine")


ALLOW = (Tier.ALLOW, Effect.ALLOW, "mine")
ASK = (Tier.HARD_ASK, Effect.ASK, "mine")
DENY = (Tier.DENY, Effect.DENY, "mine")
BLOCK = (Tier.DENY, Effect.DENY, "stderr says")

INVALID: Json = ["not an object"]


@pytest.mark.parametrize("code", [0, 1, 2, 127])
@pytest.mark.parametrize(
    ("document", "vote", "vote_at_2"),
    [
        (decision("allow"), ALLOW, BLOCK),
        (decision("ask"), ASK, BLOCK),
        (decision("deny"), DENY, DENY),
        (decision("defer"), None, BLOCK),
        ({"decision": "approve", "reason": "mine"}, ALLOW, BLOCK),
        ({"decision": "block", "reason": "mine"}, DENY, DENY),
        ({"decision": "whatever"}, None, BLOCK),
        (decision("Allow"), None, BLOCK),
        (INVALID, None, BLOCK),
        ({}, None, BLOCK),
    ],
)
async def test_what_a_script_prints_and_how_it_exits_becomes_a_vote(
    world: World,
    code: int,
    document: Json,
    vote: tuple[Tier, Effect, str] | None,
    vote_at_2: tuple[Tier, Effect, str],
) -> None:
    command = world.printing(document, code)

    review = await world.before(world.hooks(PRE, command))

    expected = vote_at_2 if code == 2 else vote
    assert review == PreHookResult(
        votes=() if expected is None else (Vote(*expected, world.origin(command)),)
    )


@pytest.mark.parametrize("event", [POST, FAILED])
@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize(
    ("fields", "texts", "texts_at_2"),
    [
        ({"decision": "block", "reason": "mine"}, ["error: mine"], ["error: mine"]),
        ({"decision": "approve"}, [], ["error: stderr says"]),
        ({"decision": 5}, [], ["error: stderr says"]),
        ({"specific": "ctx"}, ["context: ctx"], ["error: stderr says", "context: ctx"]),
        ({}, [], ["error: stderr says"]),
    ],
)
async def test_what_a_script_says_after_the_call_is_told_to_the_model(
    world: World,
    event: str,
    code: int,
    fields: JsonObject,
    texts: list[str],
    texts_at_2: list[str],
) -> None:
    wanted = fields.get("specific")
    document = specific(event, additionalContext=wanted) if wanted else fields
    command = world.printing(document, code)
    result = build_text_result("ok") if event == POST else build_error_result("not ok")

    afterword = await world.after(world.hooks(event, command), executed(result))

    framed = {
        "error": f'{event}:Bash hook blocking error from command: "{command}":',
        "context": f"{event}:Bash hook additional context:",
    }
    said = [text.split(": ", 1) for text in (texts_at_2 if code == 2 else texts)]
    assert afterword == PostHookResult(tuple(f"{framed[kind]} {text}" for kind, text in said))


async def test_a_hook_before_the_call_is_told_what_claude_code_tells(world: World) -> None:
    hooks = world.hooks(PRE, "cat > told", matcher="mcp__github__.*")

    review = await world.before(hooks, checked("mcp__github__search", query="é $(rm) '\n\x01"))

    assert review == PreHookResult()
    assert world.told() == {
        "session_id": "s-1",
        "transcript_path": str(world.folder / "journal.jsonl"),
        "cwd": str(world.folder),
        "permission_mode": "plan",
        "hook_event_name": "PreToolUse",
        "tool_name": "mcp__github__search",
        "tool_input": {"query": "é $(rm) '\n\x01"},
        "tool_use_id": "toolu_1",
    }


async def test_a_hook_after_the_call_is_told_its_structured_response(world: World) -> None:
    result = build_text_result("text", response={"stdout": "x", "interrupted": False})

    await world.after(world.hooks(POST, "cat > told"), executed(result, command="ls"))

    assert world.told() == {
        "session_id": "s-1",
        "transcript_path": str(world.folder / "journal.jsonl"),
        "cwd": str(world.folder),
        "permission_mode": "plan",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_use_id": "toolu_1",
        "tool_response": {"stdout": "x", "interrupted": False},
        "duration_ms": 250,
    }


async def test_a_hook_after_a_failure_is_told_the_error(world: World) -> None:
    text = f"<tool_use_error>Exit code 1\n{'x' * 20_000}</tool_use_error>"

    await world.after(
        world.hooks(FAILED, "cat > told"), executed(build_error_result(text), command="ls")
    )

    told = world.told()
    assert isinstance(told, dict)
    head, tail = "Exit code 1\n" + "x" * 4_988, "x" * 5_000
    assert told == {
        "session_id": "s-1",
        "transcript_path": str(world.folder / "journal.jsonl"),
        "cwd": str(world.folder),
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
async def test_success_and_failure_have_their_own_hooks(
    world: World, event: str, result: ToolResult
) -> None:
    afterword = await world.after(world.hooks(event, "cat > told"), executed(result))

    assert afterword == PostHookResult()
    assert list(world.folder.iterdir()) == []


async def test_a_hook_for_another_tool_does_not_run(world: World) -> None:
    review = await world.before(world.hooks(PRE, "touch ran; exit 2"), checked("BashOutput"))

    assert review == PreHookResult()
    assert list(world.folder.iterdir()) == []


async def test_nothing_is_started_where_there_are_no_hooks(world: World) -> None:
    assert await world.before(Hooks.create_empty()) == PreHookResult()
    assert (
        await world.after(Hooks.create_empty(), executed(build_text_result("ok")))
        == PostHookResult()
    )


async def test_arguments_never_reach_the_shell_of_a_hook(world: World) -> None:
    attack = "$(touch pwned) `touch pwned` '; touch pwned; ' \"; touch pwned\n touch pwned"
    hooks = world.hooks(PRE, 'cat > told; echo "${CLAUDE_PROJECT_DIR}" >/dev/null', matcher="*")

    await world.before(hooks, checked(attack, **{attack: attack}))

    told = world.told()
    assert isinstance(told, dict)
    assert (told["tool_name"], told["tool_input"]) == (attack, {attack: attack})
    assert [path.name for path in world.folder.iterdir()] == ["told"]


async def test_matching_hooks_run_side_by_side(world: World) -> None:
    for name in ("one", "two"):
        os.mkfifo(world.folder / name)
    # Each waits for the other: one after the other they would never end.
    hooks = world.hooks(PRE, "echo > one; cat two", "cat one; echo > two")

    assert await world.before(hooks) == PreHookResult()


async def test_merging_follows_the_configuration_and_not_who_finished_first(world: World) -> None:
    os.mkfifo(world.folder / "pid")
    slow = "read -r pid < pid; while kill -0 $pid 2>/dev/null; do :; done; cat slow.json"
    quick = "cat quick.json; echo $$ > pid"
    for name in ("slow", "quick"):
        said = specific(PRE, updatedInput={"by": name}, additionalContext=name)
        (world.folder / f"{name}.json").write_text(json.dumps(said), encoding="utf-8")

    slow_first = await world.before(world.hooks(PRE, slow, quick))
    quick_first = await world.before(world.hooks(PRE, quick, slow))

    frame = "PreToolUse:Bash hook additional context:"
    assert slow_first == PreHookResult(
        contexts=(f"{frame} slow", f"{frame} quick"),
        rewrite=Rewrite({"by": "quick"}, f"{quick} in {world.settings}"),
    )
    assert quick_first == PreHookResult(
        contexts=(f"{frame} quick", f"{frame} slow"),
        rewrite=Rewrite({"by": "slow"}, f"{slow} in {world.settings}"),
    )


async def test_all_hooks_run_to_their_end_though_one_denies(world: World) -> None:
    review = await world.before(world.hooks(PRE, "exit 2", "cat > told"))

    origin = world.origin("exit 2")
    reason = "a hook blocked it and gave no reason"
    assert review == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, reason, origin),))
    assert world.told() is not None


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
    world: World, broken: str
) -> None:
    hooks = world.hooks(PRE, {"command": broken, "timeout": 2}, "echo no >&2; exit 2")

    review = await world.before(hooks)

    origin = world.origin("echo no >&2; exit 2")
    assert review == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, "no", origin),))
    assert (
        kill_tree.find_processes(set(), kill_tree.build_run_marker(world.children.run_id)) == set()
    )


async def test_a_broken_guard_that_shall_block_blocks(world: World) -> None:
    review = await world.before(world.hooks(PRE, {"command": "./missing.sh", "onFailure": "block"}))

    reason = (
        'PreToolUse:Bash hook error: [./missing.sh]: failed; blocking because onFailure is "block"'
    )
    origin = world.origin("./missing.sh")
    assert review == PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, reason, origin),))


async def test_a_hook_whose_condition_nobody_can_judge_runs_but_allows_nothing(
    world: World,
) -> None:
    command = f"touch ran; echo '{json.dumps({'decision': 'approve'})}'"

    review = await world.before(world.hooks(PRE, {"command": command, "if": "Bash(npm test)"}))

    assert review == PreHookResult()
    assert (world.folder / "ran").exists()


async def test_a_hook_whose_pattern_is_broken_runs_for_every_tool_but_allows_nothing(
    world: World,
) -> None:
    approve = f"echo '{json.dumps({'decision': 'approve'})}'"

    allowed = await world.before(world.hooks(PRE, approve, matcher="Bash("), checked("Read"))
    denied = await world.before(world.hooks(PRE, "exit 2", matcher="Bash("), checked("Read"))

    assert allowed == PreHookResult()
    assert [vote.effect for vote in denied.votes] == [Effect.DENY]


@pytest.mark.parametrize(
    "argument", [float("nan"), "\ud800", 10**5000], ids=["nan", "surrogate", "digits"]
)
async def test_a_call_that_hooks_cannot_be_told_of_is_denied(world: World, argument: Json) -> None:
    review = await world.before(world.hooks(PRE, "touch ran"), checked(x=argument))

    (vote,) = review.votes
    assert (vote.tier, vote.effect, vote.origin) == (
        Tier.DENY,
        Effect.DENY,
        world.origin("touch ran"),
    )
    assert vote.reason.startswith("the call cannot be written as JSON for its hooks: ")
    assert not (world.folder / "ran").exists()


async def test_a_stopped_continuation_is_told_with_its_reason(world: World) -> None:
    command = f"echo '{json.dumps({'continue': False, 'stopReason': 'enough'})}'"

    before = await world.before(world.hooks(PRE, command))
    after = await world.after(world.hooks(POST, command), executed(build_text_result("ok")))

    assert before == PreHookResult(stopped="enough")
    assert after == PostHookResult(stopped="enough")


async def test_errors_and_messages_of_hooks_are_logged_with_nothing_invisible_in_them(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcp_dispatch.hooks")
    message = json.dumps({"systemMessage": "a\x1b]0;b\u202ec"})
    (world.folder / "message").write_text(message, encoding="utf-8")
    fails = r"printf 'first\033[2J\nsecond' >&2; exit 1"

    await world.before(world.hooks(PRE, fails))
    await world.before(world.hooks(PRE, "cat message"))

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            f"PreToolUse:Bash [{fails}]: hook error: Failed with non-blocking status code 1: "
            r"first\x1b[2J",
        ),
        ("INFO", r"PreToolUse:Bash [cat message]: says: a\x1b]0;b\u202ec"),
    ]
