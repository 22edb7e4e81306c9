"""Disables "always allow" rules of tools whose definition has changed since the approval."""

from collections.abc import Callable
from dataclasses import replace

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import hash_definition
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.parse import RuleText
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.settings import Settings


def find_stale_rules(
    settings: Settings, find_definition: Callable[[str], JsonObject | None]
) -> tuple[RuleText, ...]:
    """Return the rules of the user's own file that were approved for another definition."""
    return tuple(
        rule
        for rule in settings.rules.texts
        if rule.layer is LayerKind.OWN
        and rule.effect is Effect.ALLOW
        and (digest := settings.rules.approved_definitions.get(rule.text)) is not None
        and (now := find_definition(rule.text)) is not None
        and hash_definition(now) != digest
    )


def remove_rules(settings: Settings, rules: tuple[RuleText, ...]) -> Settings:
    """Return the settings without the rules, with a warning for each."""
    if not rules:
        return settings
    problems = [
        SettingsProblem(
            Severity.WARNING,
            rule.file,
            "permissions.allow",
            f"{rule.text!r}: the tool's definition has changed since you allowed it; it is asked "
            "again",
            rule.line,
        )
        for rule in rules
    ]
    kept = tuple(rule for rule in settings.rules.texts if rule not in rules)
    rules_left = replace(settings.rules, texts=kept)
    return replace(settings, rules=rules_left).add_problems(problems)
