"""One rule of settings.json: `Tool`, `Tool(specifier)`, `mcp__server`, `mcp__server__tool`."""

import re
from dataclasses import replace

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import Wildcard, command_pattern
from mcp_dispatch.policy.domains import domain_pattern
from mcp_dispatch.policy.paths.pattern import path_pattern
from mcp_dispatch.policy.rules.lint import (
    BUILT_INS,
    ELSEWHERE,
    FIELDS,
    PATHS_NEVER,
    PRIMARY,
    about_command,
    about_name,
    about_path,
    instead_of_primary,
)
from mcp_dispatch.policy.rules.model import (
    Malformed,
    NamesLike,
    Nothing,
    Parameter,
    Rule,
    ServerNamed,
    Target,
    ToolNamed,
)
from mcp_dispatch.settings.settings import RuleText

_LONGEST = 10_000
_SHAPE = re.compile(r"([A-Za-z0-9_*.-]+)(?:\((.*)\))?", re.DOTALL)
_NAME_AT_START = re.compile(r"\s*([A-Za-z0-9_*.-]+)")
_PARAMETER = re.compile(r"\s*(-?[A-Za-z_][A-Za-z0-9_-]*)\s*:\s*(.*?)\s*", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_RENAMED = {"KillShell": "TaskStop", "KillBash": "TaskStop"}
_OWN_LANGUAGE = frozenset({"Bash", "Read", "Edit", "WebFetch", *PATHS_NEVER})
"""Tools whose specifier is a command, a path or a host unless it names one of their fields."""


def parse_rule(text: RuleText) -> Rule | Malformed:
    written = text.text.strip()
    shape = _SHAPE.fullmatch(written)
    if len(written) > _LONGEST or _UNPRINTABLE.search(written) or shape is None:
        return Malformed(text, _first_target(written), _what_is_odd(written))
    name, specifier = shape.groups()
    target = _target(name)
    if isinstance(target, NamesLike) and text.effect is Effect.ALLOW:
        reason = "an allow rule must name the tool or the server in full, as in mcp__server__get_*"
        return Malformed(text, target, reason)
    if specifier is None or specifier.strip() == "*":
        return Rule(text, target, None, about_name(name))
    if not specifier.strip():
        return Malformed(text, target, f"the parentheses are empty; write {name} for every call")
    rule = _specified(text, name, target, specifier)
    unknown = about_name(name)
    if unknown is None:
        return rule
    is_rule = isinstance(rule, Rule)
    return replace(rule, advice=unknown) if is_rule else replace(rule, reason=unknown)


def _what_is_odd(written: str) -> str:
    if len(written) > _LONGEST:
        return f"the rule is longer than {_LONGEST:,} characters"
    if "\0" in written:
        return "the rule contains a NUL byte"
    if _UNPRINTABLE.search(written):
        return "the rule contains a control character"
    return "expected Tool or Tool(specifier)"


def _first_target(written: str) -> Target | None:
    found = _NAME_AT_START.match(written)
    return None if found is None else _target(found.group(1))


def _target(name: str) -> Target:
    if not name.startswith("mcp__"):
        return NamesLike(Wildcard.of(name)) if "*" in name else ToolNamed(_RENAMED.get(name, name))
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if "*" in server or not server:
        return NamesLike(Wildcard.of(name))
    return ServerNamed(server, Wildcard.of(tool or "*"))


def _specified(text: RuleText, name: str, target: Target, specifier: str) -> Rule | Malformed:
    field, value = _field(name, specifier)
    if field is not None and field == PRIMARY.get(name):
        advice = f"{name}({field}:…) never matches; write {instead_of_primary(name, value)} instead"
        return Rule(text, target, Nothing(), advice)
    if field is not None and name not in ELSEWHERE:
        return _about_parameter(text, name, target, Parameter(field, Wildcard.of(value)))
    match name:
        case "Bash":
            return _about_commands(text, target, specifier)
        case "Read" | "Edit":
            return _about_paths(text, target, specifier)
        case "WebFetch":
            return _about_hosts(text, target, specifier)
        case _ if name in PATHS_NEVER:
            advice = f"{name}(path) never matches; write {PATHS_NEVER[name]}({specifier}) instead"
            return Rule(text, target, Nothing(), advice)
        case _ if name in ELSEWHERE:
            return Rule(text, target, Nothing())
        case _:
            reason = f"{name} takes no such specifier; write {name} for every call"
            return Malformed(text, target, reason)


def _field(name: str, specifier: str) -> tuple[str | None, str]:
    """The field that `field:value` names, where that is what the specifier means."""
    found = _PARAMETER.fullmatch(specifier)
    if found is None:
        return None, ""
    field, value = found.groups()
    if name in _OWN_LANGUAGE and field not in {*FIELDS.get(name, ()), PRIMARY.get(name)}:
        return None, ""
    # `Bash(timeout:*)` and `Bash(command:*)` are about the programs of these names.
    return (None, "") if name == "Bash" and value == "*" else (field, value)


def _about_parameter(
    text: RuleText, name: str, target: Target, parameter: Parameter
) -> Rule | Malformed:
    if text.effect is Effect.ALLOW:
        reason = f"Tool(parameter:value) is only for deny and ask; write {name} for every call"
        return Malformed(text, target, reason)
    advice = None
    if name in BUILT_INS and name in FIELDS and parameter.name not in FIELDS[name]:
        fields = " or ".join(FIELDS[name])
        advice = f"{name} has no parameter {parameter.name}; it has {fields}"
    return Rule(text, target, parameter, advice)


def _about_commands(text: RuleText, target: Target, specifier: str) -> Rule | Malformed:
    body, ending = (specifier[:-2], ":*") if specifier.endswith(":*") else (specifier, "")
    advice = None
    if ":*" in body:
        advice = "':*' is special only at the end; write ' *' elsewhere"
        if text.effect is not Effect.ALLOW:
            body = body.replace(":*", "*")
    pattern = command_pattern(body + ending)
    if pattern is None:
        return Malformed(text, target, "there is no command in the parentheses")
    if text.effect is not Effect.ALLOW:
        return Rule(text, target, pattern, advice)
    if not pattern.anchored and pattern.exact is None:
        reason = "an allow rule is about one simple command, without operators"
        return Malformed(text, target, reason)
    return Rule(text, target, pattern, advice or about_command(pattern))


def _about_paths(text: RuleText, target: Target, specifier: str) -> Rule | Malformed:
    written = specifier.strip()
    if text.effect is not Effect.ALLOW and written.startswith("!"):
        # Leaving an exception out only makes the other rules stricter.
        advice = "exceptions with '!' have no effect: a deny always wins"
        return Rule(text, target, Nothing(), advice)
    pattern = path_pattern(written, text.anchor)
    if isinstance(pattern, str):
        return Malformed(text, target, pattern)
    if text.effect is Effect.ALLOW and pattern.base.climbs:
        advice = "a rule matches only under its directory; write //absolute/path instead"
        return Rule(text, target, Nothing(), advice)
    return Rule(text, target, pattern, about_path(written, pattern, text))


def _about_hosts(text: RuleText, target: Target, specifier: str) -> Rule | Malformed:
    pattern = domain_pattern(specifier)
    if isinstance(pattern, str):
        return Malformed(text, target, pattern)
    return Rule(text, target, pattern if pattern.labels else None)
