"""What holds for every hook and every set of rules: no hook loosens one."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks, HookServices
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.decision import Effect, Tier
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.models import PermissionMode
from tests.support.depth import choose_count
from tests.support.hook_server import SayingUpstream, specific
from tests.support.policies import Rules, policy
from tests.support.stand_ins import Forbids, RecordingTool, ScriptedCaller

DEFAULT = PermissionMode.DEFAULT
VALUES = ["a", "b", "c"]
RULES = ["T", "T(x:a)", "T(x:b)", "T(x:c)", "T(y:1)", "*"]

arguments = st.fixed_dictionaries({"x": st.sampled_from(VALUES)}, optional={"y": st.just("1")})
rules = st.builds(
    Rules,
    allow=st.lists(st.sampled_from(["T", "U"]), max_size=1),
    ask=st.lists(st.sampled_from(RULES), max_size=2),
    deny=st.lists(st.sampled_from(RULES), max_size=2),
)


def says_before(decision: str, rewrite: JsonObject | None) -> JsonObject:
    changed: JsonObject = {} if rewrite is None else {"updatedInput": rewrite}
    return specific("PreToolUse", permissionDecision=decision, **changed)


def allows(rewrite: JsonObject | None) -> JsonObject:
    changed: JsonObject = {} if rewrite is None else {"updatedInput": rewrite}
    return specific("PermissionRequest", decision={"behavior": "allow", **changed})


before = st.one_of(
    st.builds(
        says_before, st.sampled_from(["allow", "ask", "deny", "defer"]), st.none() | arguments
    ),
    arguments.map(lambda rewrite: specific("PreToolUse", updatedInput=rewrite)),
    st.sampled_from([{"decision": "approve"}, {"decision": "block"}, {"continue": False}, {}]),
)
requested = st.one_of(
    st.builds(allows, st.none() | arguments),
    st.just(specific("PermissionRequest", decision={"behavior": "deny"})),
    st.sampled_from([{"decision": "approve"}, {}]),
)


def subject(given: JsonObject) -> Subject:
    return Subject("T", "T", None, given, given, None)


async def ran_with(
    rulebook: Policy, call: JsonObject, answers: Mapping[str, Sequence[JsonObject]]
) -> list[JsonObject]:
    """What the tool was run with, where nobody can be asked and these are the hooks' answers."""
    tool = RecordingTool("T", validator=Forbids("z"))
    results: dict[str, JsonObject] = {}
    raw: dict[str, Json] = {}
    for event, said in answers.items():
        names = [f"{event}{at}" for at in range(len(said))]
        for name, each in zip(names, said, strict=True):
            results[name] = {"content": [{"type": "text", "text": json.dumps(each)}]}
        handlers: list[Json] = [{"type": "mcp_tool", "server": "s", "tool": name} for name in names]
        raw[event] = [{"hooks": handlers}]
    config, problems = parse_hooks([HookSource(raw, Path("settings.json"))])
    assert problems == ()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        hooks = Hooks(
            config, ProcessGroup(), {}, services=HookServices(upstreams=SayingUpstream(results))
        )
        live = Snapshot(build_registry([tool], ()), hooks, rulebook)
        store = ResultStore(Path(folder) / "results")
        dispatcher = Dispatcher(Services(lambda: live, Approver(), store, journal))
        scope = Scope(None, limit=1)
        await dispatcher.dispatch(ToolCall("c", "u", "T", call), scope, ScriptedCaller())
        journal.close()
    return tool.calls


@settings(deadline=None, max_examples=choose_count(quick=60, deep=1500))
@given(
    rules,
    st.sampled_from(list(PermissionMode)),
    arguments,
    st.lists(before, max_size=3),
    st.lists(requested, max_size=2),
)
@example(  # rewritten away from what a rule denies
    Rules(deny=["T(x:a)"]), DEFAULT, {"x": "a"}, [says_before("allow", {"x": "b"})], []
)
@example(  # rewritten into what a rule denies, where a person would have been asked
    Rules(deny=["T(x:b)"]), DEFAULT, {"x": "a"}, [], [allows({"x": "b"})]
)
@example(  # rewritten into what a rule asks about
    Rules(ask=["T(x:b)"]), DEFAULT, {"x": "a"}, [], [allows({"x": "b"})]
)
def test_no_hook_loosens_a_rule_and_what_a_hook_rewrites_is_judged_again(
    book: Rules,
    mode: PermissionMode,
    call: JsonObject,
    pre: list[JsonObject],
    asked: list[JsonObject],
) -> None:
    rulebook = policy(Path("/workspace"), book, mode)

    calls = anyio.run(ran_with, rulebook, call, {"PreToolUse": pre, "PermissionRequest": asked})

    original = rulebook.evaluate(subject(call))
    for ran in calls:
        judged = rulebook.evaluate(subject(ran))
        # Nobody could be asked, so what a rule denies or asks about cannot have run.
        assert judged.by.tier not in (Tier.DENY, Tier.HARD_ASK)
        assert not (original.effect is Effect.DENY and original.by.tier is Tier.DENY)
    if original.effect is Effect.ALLOW and not pre and not asked:
        assert calls == [call]


@settings(deadline=None, max_examples=choose_count(quick=30, deep=600))
@given(rules, arguments, st.lists(before, min_size=1, max_size=3))
def test_a_hooks_deny_is_final(book: Rules, call: JsonObject, pre: list[JsonObject]) -> None:
    denies = specific("PreToolUse", permissionDecision="deny")
    rulebook = policy(Path("/workspace"), book, PermissionMode.BYPASS_PERMISSIONS)

    assert anyio.run(ran_with, rulebook, call, {"PreToolUse": [*pre, denies]}) == []
