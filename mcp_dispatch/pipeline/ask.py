"""The question that is put about a call, and what a lasting yes to it sets down."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.approval.remember import AlwaysAllowed
from mcp_dispatch.model.approval import Approved, Extent, Offer, Question
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, canonical
from mcp_dispatch.model.tools import definition_digest
from mcp_dispatch.pipeline.judge import Judgement, decision_on
from mcp_dispatch.pipeline.scope import Scope, SessionApproval
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.settings import RuleText

_THIS_SESSION = Path("this session")


@dataclass(frozen=True, slots=True)
class Questioning:
    """Asks by the policy as it stands at each moment, for one scope."""

    policy: Callable[[], Policy]
    scope: Scope
    always: AlwaysAllowed

    def question(self, judgement: Judgement) -> Question:
        policy, checked, subject = self.policy(), judgement.reviewed.checked, judgement.subject

        def allows(rules: tuple[str, ...]) -> bool:
            return self._allows(judgement, rules)

        rules = policy.lasting(subject, allows)
        return Question(
            checked.tool.rule_name,
            checked.arguments,
            judgement.decision,
            policy.suggestion(subject) if allows(policy.suggested(subject)) else None,
            Offer(rules, self.always.file if rules else None),
            _key(judgement, self.scope),
            self.scope.id,
            checked.call.enveloped,
        )

    async def remember(self, yes: Approved, offer: Offer, judgement: Judgement) -> None:
        """Sets a lasting yes down, if what was offered still covers the call by itself."""
        if yes.extent is Extent.ONCE or not self._allows(judgement, offer.rules):
            return
        tool = judgement.reviewed.checked.tool
        digest = None if tool.server is None else definition_digest(tool.definition)
        if yes.extent is Extent.SESSION:
            rules = _as_rules(offer.rules, self.scope)
            self.scope.approve(SessionApproval(tool.rule_name, rules, digest))
        elif offer.file is not None:
            definitions = {} if digest is None else {tool.rule_name: digest}
            await self.always.keep(offer.file, offer.rules, definitions)

    def _allows(self, judgement: Judgement, rules: tuple[str, ...]) -> bool:
        """Whether the call would run unasked with these rules added to what holds now."""
        reviewed = judgement.reviewed
        held = self.scope.approved_rules(reviewed.checked.tool)
        policy = self.policy().extended((*held, *_as_rules(rules, self.scope)))
        return decision_on(policy, reviewed, judgement.subject).effect is Effect.ALLOW


def _as_rules(rules: tuple[str, ...], scope: Scope) -> tuple[RuleText, ...]:
    anchor = scope.cwd or Path("/")
    return tuple(
        RuleText(Effect.ALLOW, text, _THIS_SESSION, 0, LayerKind.OWN, anchor) for text in rules
    )


def _key(judgement: Judgement, scope: Scope) -> str:
    """An answer is for this call alone: its name, arguments, files, and the reason to ask."""
    call, checked = judgement.reviewed.checked.call, judgement.reviewed.checked
    by, ends = judgement.decision.by, judgement.subject.ends
    files: Json = {path: [str(name) for name in names] for path, names in ends.items()}
    asked: list[Json] = [by.tier.value, by.reason, str(by.origin)]
    named: list[Json] = [scope.id, call.name, checked.tool.rule_name]
    return canonical([*named, call.arguments, checked.arguments, files, *asked])
