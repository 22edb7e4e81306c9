"""Parses rules: `Tool`, `Tool(specifier)`, `mcp__server`, `mcp__server__tool`."""

import re
from dataclasses import replace

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import Wildcard, parse_command_pattern
from mcp_dispatch.policy.domains import parse_domain_pattern
from mcp_dispatch.policy.known_tools import (
    BUILT_IN_TOOLS,
    CLAUDE_CODE_TOOLS,
    PARAMETER_FIELDS,
    PATH_RULE_TOOLS,
    PRIMARY_FIELDS,
    RENAMED_TOOLS,
)
from mcp_dispatch.policy.paths.pattern import parse_path_pattern
from mcp_dispatch.policy.rules.lint import (
    check_command_pattern,
    check_path_pattern,
    check_tool_name,
    suggest_primary_rule,
)
from mcp_dispatch.policy.rules.model import (
    MalformedRule,
    ParameterPattern,
    ParsedRule,
    PermissionRule,
    ServerTarget,
    Target,
    ToolTarget,
    UnmatchablePattern,
    WildcardTarget,
)
from mcp_dispatch.settings.settings import RuleText

_MAX_RULE_CHARS = 10_000
_RULE_SHAPE = re.compile(r"([A-Za-z0-9_*.-]+)(?:\((.*)\))?", re.DOTALL)
_NAME_AT_START = re.compile(r"\s*([A-Za-z0-9_*.-]+)")
_PARAMETER = re.compile(r"\s*(-?[A-Za-z_][A-Za-z0-9_-]*)\s*:\s*(.*?)\s*", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_TOOLS_WITH_OWN_SYNTAX = frozenset({"Bash", "Read", "Edit", "WebFetch", *PATH_RULE_TOOLS})
"""Tools whose specifier is a command, a path or a host, unless it names one of their fields."""


def parse_rule(text: RuleText) -> ParsedRule:
    rule_text = text.text.strip()
    match = _RULE_SHAPE.fullmatch(rule_text)
    if len(rule_text) > _MAX_RULE_CHARS or _UNPRINTABLE.search(rule_text) or match is None:
        return MalformedRule(
            text, _parse_leading_target(rule_text), _describe_shape_error(rule_text)
        )
    name, specifier = match.groups()
    target = _parse_target(name)
    if isinstance(target, WildcardTarget) and text.effect is Effect.ALLOW:
        reason = "an allow rule must name the tool or the server in full, as in mcp__server__get_*"
        return MalformedRule(text, target, reason)
    if specifier is None or specifier.strip() == "*":
        return PermissionRule(text, target, None, check_tool_name(name))
    if not specifier.strip():
        return MalformedRule(
            text, target, f"the parentheses are empty; write {name} for every call"
        )
    rule = _parse_specifier(text, name, target, specifier)
    name_advice = check_tool_name(name)
    if name_advice is None:
        return rule
    is_rule = isinstance(rule, PermissionRule)
    return replace(rule, advice=name_advice) if is_rule else replace(rule, reason=name_advice)


def _describe_shape_error(rule: str) -> str:
    if len(rule) > _MAX_RULE_CHARS:
        return f"the rule is longer than {_MAX_RULE_CHARS:,} characters"
    if "\0" in rule:
        return "the rule contains a NUL byte"
    if _UNPRINTABLE.search(rule):
        return "the rule contains a control character"
    return "expected Tool or Tool(specifier)"


def _parse_leading_target(rule: str) -> Target | None:
    match = _NAME_AT_START.match(rule)
    return None if match is None else _parse_target(match.group(1))


def _parse_target(name: str) -> Target:
    if not name.startswith("mcp__"):
        if "*" in name:
            return WildcardTarget(Wildcard.parse(name))
        return ToolTarget(RENAMED_TOOLS.get(name, name))
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if "*" in server or not server:
        return WildcardTarget(Wildcard.parse(name))
    return ServerTarget(server, Wildcard.parse(tool or "*"))


def _parse_specifier(text: RuleText, name: str, target: Target, specifier: str) -> ParsedRule:
    field, value = _split_field(name, specifier)
    if field is not None and field == PRIMARY_FIELDS.get(name):
        advice = (
            f"{name}({field}:…) never matches; write {suggest_primary_rule(name, value)} instead"
        )
        return PermissionRule(text, target, UnmatchablePattern(), advice)
    if field is not None and name not in CLAUDE_CODE_TOOLS:
        return _build_parameter_rule(
            text, name, target, ParameterPattern(field, Wildcard.parse(value))
        )
    match name:
        case "Bash":
            return _build_command_rule(text, target, specifier)
        case "Read" | "Edit":
            return _build_path_rule(text, target, specifier)
        case "WebFetch":
            return _build_domain_rule(text, target, specifier)
        case _ if name in PATH_RULE_TOOLS:
            advice = (
                f"{name}(path) never matches; write {PATH_RULE_TOOLS[name]}({specifier}) instead"
            )
            return PermissionRule(text, target, UnmatchablePattern(), advice)
        case _ if name in CLAUDE_CODE_TOOLS:
            return PermissionRule(text, target, UnmatchablePattern())
        case _:
            reason = f"{name} takes no such specifier; write {name} for every call"
            return MalformedRule(text, target, reason)


def _split_field(name: str, specifier: str) -> tuple[str | None, str]:
    """Return field and value of `field:value`, or None and "" for another specifier."""
    match = _PARAMETER.fullmatch(specifier)
    if match is None:
        return None, ""
    field, value = match.groups()
    fields = {*PARAMETER_FIELDS.get(name, ()), PRIMARY_FIELDS.get(name)}
    if name in _TOOLS_WITH_OWN_SYNTAX and field not in fields:
        return None, ""
    # `Bash(timeout:*)` and `Bash(command:*)` match the programs of these names.
    return (None, "") if name == "Bash" and value == "*" else (field, value)


def _build_parameter_rule(
    text: RuleText, name: str, target: Target, parameter: ParameterPattern
) -> ParsedRule:
    if text.effect is Effect.ALLOW:
        reason = f"Tool(parameter:value) is only for deny and ask; write {name} for every call"
        return MalformedRule(text, target, reason)
    advice = None
    fields = PARAMETER_FIELDS.get(name) if name in BUILT_IN_TOOLS else None
    if fields is not None and parameter.name not in fields:
        advice = f"{name} has no parameter {parameter.name}; it has {' or '.join(fields)}"
    return PermissionRule(text, target, parameter, advice)


def _build_command_rule(text: RuleText, target: Target, specifier: str) -> ParsedRule:
    body, ending = (specifier[:-2], ":*") if specifier.endswith(":*") else (specifier, "")
    advice = None
    if ":*" in body:
        advice = "':*' is special only at the end; write ' *' elsewhere"
        if text.effect is not Effect.ALLOW:
            body = body.replace(":*", "*")
    pattern = parse_command_pattern(body + ending)
    if pattern is None:
        return MalformedRule(text, target, "there is no command in the parentheses")
    if text.effect is not Effect.ALLOW:
        return PermissionRule(text, target, pattern, advice)
    if not pattern.anchored and pattern.exact_text is None:
        reason = "an allow rule is about one simple command, without operators"
        return MalformedRule(text, target, reason)
    return PermissionRule(text, target, pattern, advice or check_command_pattern(pattern))


def _build_path_rule(text: RuleText, target: Target, specifier: str) -> ParsedRule:
    path = specifier.strip()
    if text.effect is not Effect.ALLOW and path.startswith("!"):
        # Ignoring an exception only makes the other rules stricter.
        advice = "exceptions with '!' have no effect: a deny always wins"
        return PermissionRule(text, target, UnmatchablePattern(), advice)
    pattern = parse_path_pattern(path, text.anchor)
    if isinstance(pattern, str):
        return MalformedRule(text, target, pattern)
    if text.effect is Effect.ALLOW and pattern.base.parent_levels:
        advice = "a rule matches only under its directory; write //absolute/path instead"
        return PermissionRule(text, target, UnmatchablePattern(), advice)
    return PermissionRule(text, target, pattern, check_path_pattern(path, pattern, text))


def _build_domain_rule(text: RuleText, target: Target, specifier: str) -> ParsedRule:
    pattern = parse_domain_pattern(specifier)
    if isinstance(pattern, str):
        return MalformedRule(text, target, pattern)
    return PermissionRule(text, target, pattern if pattern.labels else None)
