"""One layer, read: the values that fit the models, and every rule with its line."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.json_lines import EMPTY, Layout
from mcp_dispatch.settings.layers import Layer, LayerKind
from mcp_dispatch.settings.models import Permissions
from mcp_dispatch.settings.parse__entries import cleaned
from mcp_dispatch.settings.problems import Problem, Severity, shown
from mcp_dispatch.settings.read_file import Text

_EFFECTS = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
# Keys of Claude Code's that mean nothing here.
_WITHOUT_EFFECT = frozenset(
    {"disableAutoMode", "blockReadsExemptPaths", "workingDirectoriesAsGiven"}
)


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule as it is written, and where. `anchor` is what its `/p` means."""

    effect: Effect
    text: str
    file: Path
    line: int
    layer: LayerKind
    anchor: Path


@dataclass(frozen=True, slots=True)
class Kept:
    """A value that another room reads for itself, and the file it stands in."""

    value: JsonObject
    file: Path
    layer: LayerKind


@dataclass(frozen=True)
class LayerFile:
    """A layer whose file was read. `values` holds only what fits the models."""

    layer: Layer
    values: JsonObject
    rules: tuple[RuleText, ...] = ()
    layout: Layout = EMPTY
    written: JsonObject = field(default_factory=lambda: {})
    """The file as it is."""

    @cached_property
    def permissions(self) -> Permissions:
        return Permissions.model_validate(self.values.get("permissions", {}))

    @cached_property
    def lines(self) -> dict[tuple[str | int, ...], int]:
        """The line where each key and each entry of a list begins."""
        found: dict[tuple[str | int, ...], int] = {}
        for leaf in self.layout.leaves:
            for length in range(1, len(leaf.path) + 1):
                found.setdefault(leaf.path[:length], leaf.line)
        return found


def read_layer(layer: Layer, text: Text, problems: list[Problem]) -> LayerFile:
    for repeated in text.layout.repeated:
        key = ".".join(map(str, repeated.path))
        message = "the key occurs twice; write it once. Of its rules, deny and ask all apply"
        problems.append(Problem(Severity.ERROR, layer.path, key, message, repeated.line))
    if layer.servers_only:
        found = _at(text.value, layer.inside)
        servers: JsonObject = {key: found[key] for key in ("mcpServers",) if key in found}
        return LayerFile(layer, cleaned(servers, layer.path, problems), layout=text.layout)
    rules = _rules(layer, text, problems)
    problems.extend(_unknown_permissions(layer, text.value))
    values = cleaned(text.value, layer.path, problems)
    return LayerFile(layer, values, rules, text.layout, text.value)


def _at(value: JsonObject, steps: tuple[str, ...]) -> JsonObject:
    for step in steps:
        inner = value.get(step)
        value = inner if isinstance(inner, dict) else {}
    return value


def _rules(layer: Layer, text: Text, problems: list[Problem]) -> tuple[RuleText, ...]:
    rules: list[RuleText] = []
    for name, effect in _EFFECTS.items():
        leaves = [leaf for leaf in text.layout.leaves if leaf.path[:2] == ("permissions", name)]
        if effect is Effect.ALLOW:
            # A repeated key: JSON's last one holds, and nothing else is allowed.
            leaves = leaves[len(leaves) - _entries(text.value, name) :]
        for leaf in leaves:
            key = f"permissions.{name}" + "".join(f"[{step}]" for step in leaf.path[2:])
            if len(leaf.path) > 3 or not isinstance(leaf.value, str):
                message = f"expected a rule as a string, got {shown(leaf.value)}; it is skipped"
                problems.append(Problem(Severity.WARNING, layer.path, key, message, leaf.line))
            elif len(leaf.path) == 2 and effect is Effect.ALLOW:
                continue  # reported with the other entries of the wrong type
            else:
                rules.append(
                    RuleText(effect, leaf.value, layer.path, leaf.line, layer.kind, layer.start)
                )
    return tuple(rules)


def _entries(value: JsonObject, name: str) -> int:
    """How many leaves the list has that holds."""
    permissions = value.get("permissions")
    return _leaves(permissions.get(name, [])) if isinstance(permissions, dict) else 0


def _leaves(value: Json) -> int:
    if isinstance(value, dict):
        return sum(_leaves(inner) for inner in value.values())
    if isinstance(value, list):
        return sum(_leaves(inner) for inner in value)
    return 1


def _unknown_permissions(layer: Layer, value: JsonObject) -> list[Problem]:
    permissions = value.get("permissions")
    known = {field.alias for field in Permissions.model_fields.values()} | _WITHOUT_EFFECT
    return [
        Problem(Severity.WARNING, layer.path, f"permissions.{key}", "unknown key; look for a typo")
        for key in (permissions if isinstance(permissions, dict) else {})
        if key not in known
    ]
