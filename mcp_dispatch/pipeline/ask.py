"""The question about a call, and what a lasting approval stores."""

from pathlib import Path

from mcp_dispatch.model.approval import ApprovalScope, Approved, Question, RememberOptions
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, to_canonical_json
from mcp_dispatch.model.tools import hash_definition
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.judge import PolicyResult, decide_call
from mcp_dispatch.pipeline.scope import Scope, SessionApproval
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.settings import RuleText

_SESSION_SOURCE = Path("this session")


def build_question(result: PolicyResult, env: CallEnv) -> Question:
    policy, checked, subject = env.policy, result.reviewed.checked, result.subject

    def allows(rules: tuple[str, ...]) -> bool:
        return _allows(result, rules, env)

    rules = policy.suggest_lasting_rules(subject, allows)
    return Question(
        tool=checked.tool.rule_name,
        arguments=checked.arguments,
        decision=result.decision,
        allow_line=(
            policy.suggest_allow_line(subject) if allows(policy.suggest_rules(subject)) else None
        ),
        options=RememberOptions(rules, env.services.approver.rule_writer.file if rules else None),
        key=_build_question_key(result, env.scope),
        scope_id=env.scope.id,
        via_call_tool=checked.call.via_call_tool,
    )


async def remember_approval(
    approved: Approved, options: RememberOptions, result: PolicyResult, env: CallEnv
) -> None:
    """Store a lasting approval, if the offered rules still allow the call by themselves."""
    if approved.scope is ApprovalScope.ONCE or not _allows(result, options.rules, env):
        return
    tool = result.reviewed.checked.tool
    digest = None if tool.server is None else hash_definition(tool.definition)
    if approved.scope is ApprovalScope.SESSION:
        rules = _as_rules(options.rules, env.scope)
        env.scope.approve(SessionApproval(tool.rule_name, rules, digest))
    elif options.file is not None:
        definitions = {} if digest is None else {tool.rule_name: digest}
        writer = env.services.approver.rule_writer
        await writer.save_rules(options.file, options.rules, definitions)


def _allows(result: PolicyResult, rules: tuple[str, ...], env: CallEnv) -> bool:
    """Whether the call would run without a question if `rules` were added to the current ones."""
    reviewed = result.reviewed
    approved = env.scope.list_approved_rules(reviewed.checked.tool)
    policy = env.policy.extend((*approved, *_as_rules(rules, env.scope)))
    return decide_call(policy, reviewed, result.subject).effect is Effect.ALLOW


def _as_rules(rules: tuple[str, ...], scope: Scope) -> tuple[RuleText, ...]:
    anchor = scope.cwd or Path("/")
    return tuple(
        RuleText(Effect.ALLOW, text, _SESSION_SOURCE, 0, LayerKind.OWN, anchor) for text in rules
    )


def _build_question_key(result: PolicyResult, scope: Scope) -> str:
    """An answer holds for this call only: its name, arguments, files, and the reason to ask."""
    call, checked = result.reviewed.checked.call, result.reviewed.checked
    by, resolved_paths = result.decision.by, result.subject.resolved_paths
    files: Json = {path: [str(name) for name in names] for path, names in resolved_paths.items()}
    reason: list[Json] = [by.tier.value, by.reason, str(by.origin)]
    names: list[Json] = [scope.id, call.name, checked.tool.rule_name]
    return to_canonical_json([*names, call.arguments, checked.arguments, files, *reason])
