"""The question that is put about a call, and what a lasting yes to it sets down."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.approval.remember import AllowRuleWriter
from mcp_dispatch.model.approval import ApprovalScope, Approved, Question, RememberOptions
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, to_canonical_json
from mcp_dispatch.model.tools import hash_definition
from mcp_dispatch.pipeline.judge import PolicyResult, decide_call
from mcp_dispatch.pipeline.scope import Scope, SessionApproval
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.settings import RuleText

_SESSION_SOURCE = Path("this session")


@dataclass(frozen=True, slots=True)
class ApprovalPrompt:
    """Asks by the policy as it stands at each moment, for one scope."""

    get_policy: Callable[[], Policy]
    scope: Scope
    rule_writer: AllowRuleWriter

    def build_question(self, result: PolicyResult) -> Question:
        policy, checked, subject = self.get_policy(), result.reviewed.checked, result.subject

        def allows(rules: tuple[str, ...]) -> bool:
            return self._allows(result, rules)

        rules = policy.suggest_lasting_rules(subject, allows)
        return Question(
            checked.tool.rule_name,
            checked.arguments,
            result.decision,
            policy.suggest_allow_line(subject) if allows(policy.suggest_rules(subject)) else None,
            RememberOptions(rules, self.rule_writer.file if rules else None),
            _build_question_key(result, self.scope),
            self.scope.id,
            checked.call.via_call_tool,
        )

    async def remember(
        self, approved: Approved, options: RememberOptions, result: PolicyResult
    ) -> None:
        """Sets a lasting yes down, if what was offered still covers the call by itself."""
        if approved.scope is ApprovalScope.ONCE or not self._allows(result, options.rules):
            return
        tool = result.reviewed.checked.tool
        digest = None if tool.server is None else hash_definition(tool.definition)
        if approved.scope is ApprovalScope.SESSION:
            rules = _as_rules(options.rules, self.scope)
            self.scope.approve(SessionApproval(tool.rule_name, rules, digest))
        elif options.file is not None:
            definitions = {} if digest is None else {tool.rule_name: digest}
            await self.rule_writer.save_rules(options.file, options.rules, definitions)

    def _allows(self, result: PolicyResult, rules: tuple[str, ...]) -> bool:
        """Whether the call would run unasked with these rules added to what holds now."""
        reviewed = result.reviewed
        held = self.scope.list_approved_rules(reviewed.checked.tool)
        policy = self.get_policy().extend((*held, *_as_rules(rules, self.scope)))
        return decide_call(policy, reviewed, result.subject).effect is Effect.ALLOW


def _as_rules(rules: tuple[str, ...], scope: Scope) -> tuple[RuleText, ...]:
    anchor = scope.cwd or Path("/")
    return tuple(
        RuleText(Effect.ALLOW, text, _SESSION_SOURCE, 0, LayerKind.OWN, anchor) for text in rules
    )


def _build_question_key(result: PolicyResult, scope: Scope) -> str:
    """An answer is for this call alone: its name, arguments, files, and the reason to ask."""
    call, checked = result.reviewed.checked.call, result.reviewed.checked
    by, ends = result.decision.by, result.subject.resolved_paths
    files: Json = {path: [str(name) for name in names] for path, names in ends.items()}
    asked: list[Json] = [by.tier.value, by.reason, str(by.origin)]
    named: list[Json] = [scope.id, call.name, checked.tool.rule_name]
    return to_canonical_json([*named, call.arguments, checked.arguments, files, *asked])
