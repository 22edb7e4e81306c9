"""Property tests that no hook loosens a rule."""

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


def build_pre_output(decision: str, rewrite: JsonObject | None) -> JsonObject:
    changed: JsonObject = {} if rewrite is None else {"updatedInput": rewrite}
    return specific("PreToolUse", permissionDecision=decision, **changed)


def build_allow_output(rewrite: JsonObject | None) -> JsonObject:
    changed: JsonObject = {} if rewrite is None else {"updatedInput": rewrite}
    return specific("PermissionRequest", decision={"behavior": "allow", **changed})


pre_outputs = st.one_of(
    st.builds(
        build_pre_output, st.sampled_from(["allow", "ask", "deny", "defer"]), st.none() | arguments
    ),
    arguments.map(lambda rewrite: specific("PreToolUse", updatedInput=rewrite)),
    st.sampled_from([{"decision": "approve"}, {"decision": "block"}, {"continue": False}, {}]),
)
permission_outputs = st.one_of(
    st.builds(build_allow_output, st.none() | arguments),
    st.just(specific("PermissionRequest", decision={"behavior": "deny"})),
    st.sampled_from([{"decision": "approve"}, {}]),
)


def build_subject(given: JsonObject) -> Subject:
    return Subject("T", "T", None, given, given, None)


async def run_call(
    active_policy: Policy, call: JsonObject, answers: Mapping[str, Sequence[JsonObject]]
) -> list[JsonObject]:
    """Dispatch the call without a user and return the tool's arguments of each run."""
    tool = RecordingTool("T", validator=Forbids("z"))
    results: dict[str, JsonObject] = {}
    raw: dict[str, Json] = {}
    for event, outputs in answers.items():
        names = [f"{event}{index}" for index in range(len(outputs))]
        for name, output in zip(names, outputs, strict=True):
            results[name] = {"content": [{"type": "text", "text": json.dumps(output)}]}
        handlers: list[Json] = [{"type": "mcp_tool", "server": "s", "tool": name} for name in names]
        raw[event] = [{"hooks": handlers}]
    config, problems = parse_hooks([HookSource(raw, Path("settings.json"))])
    assert problems == ()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        hooks = Hooks(
            config, ProcessGroup(), {}, services=HookServices(upstreams=SayingUpstream(results))
        )
        snapshot = Snapshot(build_registry([tool], ()), hooks, active_policy)
        store = ResultStore(Path(folder) / "results")
        dispatcher = Dispatcher(Services(lambda: snapshot, Approver(), store, journal))
        scope = Scope(None, limit=1)
        await dispatcher.dispatch(ToolCall("c", "u", "T", call), scope, ScriptedCaller())
        journal.close()
    return tool.calls


@settings(deadline=None, max_examples=choose_count(quick=60, deep=1500))
@given(
    rules,
    st.sampled_from(list(PermissionMode)),
    arguments,
    st.lists(pre_outputs, max_size=3),
    st.lists(permission_outputs, max_size=2),
)
@example(  # a hook rewrites arguments that a rule denies
    Rules(deny=["T(x:a)"]), DEFAULT, {"x": "a"}, [build_pre_output("allow", {"x": "b"})], []
)
@example(  # a hook rewrites into denied arguments when the user would be asked
    Rules(deny=["T(x:b)"]), DEFAULT, {"x": "a"}, [], [build_allow_output({"x": "b"})]
)
@example(  # a hook rewrites into arguments that need approval
    Rules(ask=["T(x:b)"]), DEFAULT, {"x": "a"}, [], [build_allow_output({"x": "b"})]
)
def test_no_hook_loosens_a_rule_and_rewritten_arguments_are_evaluated_again(
    rule_set: Rules,
    mode: PermissionMode,
    call: JsonObject,
    pre: list[JsonObject],
    permission: list[JsonObject],
) -> None:
    active_policy = policy(Path("/workspace"), rule_set, mode)

    calls = anyio.run(
        run_call, active_policy, call, {"PreToolUse": pre, "PermissionRequest": permission}
    )

    original = active_policy.evaluate(build_subject(call))
    for executed in calls:
        decision = active_policy.evaluate(build_subject(executed))
        # There is no user to ask, so a call that a rule denies or asks about cannot run.
        assert decision.by.tier not in (Tier.DENY, Tier.HARD_ASK)
        assert not (original.effect is Effect.DENY and original.by.tier is Tier.DENY)
    if original.effect is Effect.ALLOW and not pre and not permission:
        assert calls == [call]


@settings(deadline=None, max_examples=choose_count(quick=30, deep=600))
@given(rules, arguments, st.lists(pre_outputs, min_size=1, max_size=3))
def test_nothing_overrides_the_deny_of_a_hook(
    rule_set: Rules, call: JsonObject, pre: list[JsonObject]
) -> None:
    deny = specific("PreToolUse", permissionDecision="deny")
    active_policy = policy(Path("/workspace"), rule_set, PermissionMode.BYPASS_PERMISSIONS)

    assert anyio.run(run_call, active_policy, call, {"PreToolUse": [*pre, deny]}) == []
