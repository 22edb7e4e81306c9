"""One layer, read: the values that fit the models, and every rule with its line."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.json_lines import EMPTY, Layout
from mcp_dispatch.settings.layers import Layer, LayerKind
from mcp_dispatch.settings.models import Permissions, SettingsFile
from mcp_dispatch.settings.problems import Problem, Severity, format_value
from mcp_dispatch.settings.read_file import Text

_RULES = ("allow", "ask", "deny")
_MANAGED_ONLY = ("allowManagedHooksOnly", "allowManagedPermissionRulesOnly")


def cleaned(value: JsonObject, file: Path, problems: list[Problem]) -> JsonObject:
    """What of `value` fits the models; what does not is reported. Rules are left out of it."""
    kept = copy.deepcopy(value)
    while True:
        try:
            SettingsFile.model_validate(kept)
        except ValidationError as invalid:
            # All at once: a file may hold thousands of them, and each round reads it whole.
            faults = _by_location(kept, invalid.errors(include_url=False))
            for location, error in faults.items():
                if not _is_a_rule(location):
                    problems.append(_problem(file, location, error))
            _remove(kept, faults)
        else:
            return kept


def _by_location(
    value: JsonObject, errors: Iterable[ErrorDetails]
) -> dict[tuple[str | int, ...], ErrorDetails]:
    """The first error of each place: the branches of a union all complain of the same one."""
    found: dict[tuple[str | int, ...], ErrorDetails] = {}
    for error in errors:
        found.setdefault(_location(value, error["loc"]), error)
    return found


def _is_a_rule(location: Sequence[str | int]) -> bool:
    """Entries of a rule list are reported where they are read, with their line."""
    return len(location) == 3 and location[0] == "permissions" and location[1] in _RULES


def _location(value: Json, location: Sequence[str | int]) -> tuple[str | int, ...]:
    """The part of pydantic's location that exists in the file."""
    found: list[str | int] = []
    for step in location:
        match value, step:
            case dict(), str() if step in value:
                value = value[step]
            case list(), int():
                value = value[step]
            case _:
                break
        found.append(step)
    return tuple(found)


def _remove(value: JsonObject, locations: Iterable[tuple[str | int, ...]]) -> None:
    """From the end, so that the places of a list keep their numbers; a part goes with its whole."""
    chosen = set(locations)
    apart = [each for each in chosen if not any(each[:n] in chosen for n in range(1, len(each)))]
    for location in sorted(apart, key=_last_first, reverse=True):
        holder: Json = value
        for step in location[:-1]:
            holder = cast("dict[str | int, Json]", holder)[step]
        del cast("dict[str | int, Json]", holder)[location[-1]]


def _last_first(location: tuple[str | int, ...]) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in location]


def _problem(file: Path, location: Sequence[str | int], error: ErrorDetails) -> Problem:
    key = ".".join(map(str, location))
    if error["type"] == "extra_forbidden":
        message = "unknown key; it is skipped. Look for a typo"
        return Problem(Severity.ERROR, file, key, message)
    severity = Severity.ERROR if location[0] == "dispatch" else Severity.WARNING
    if error["type"] == "missing":
        message = f"{error['loc'][-1]!r} is missing; it is skipped"
        return Problem(severity, file, key, message)
    expected = error["msg"].removeprefix("Input should be ")
    given = cast("Json", error["input"])
    return Problem(
        severity, file, key, f"expected {expected}, got {format_value(given)}; {_fate(key, given)}"
    )


def _fate(key: str, given: Json) -> str:
    # A deny that is not in a list was still meant: leaving it out would open what it closes.
    if key in ("permissions.deny", "permissions.ask") and isinstance(given, str):
        return "it is taken as the only rule"
    if key in _MANAGED_ONLY:
        return "in a managed file it is taken as true"
    return "it is skipped"


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
                message = (
                    f"expected a rule as a string, got {format_value(leaf.value)}; it is skipped"
                )
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
