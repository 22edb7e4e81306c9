"""Parses one settings file: the values that fit the models, and each rule with its line."""

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
from mcp_dispatch.settings.json_lines import EMPTY_LAYOUT, JsonLayout
from mcp_dispatch.settings.layers import Layer, LayerKind
from mcp_dispatch.settings.models import Permissions, SettingsFile
from mcp_dispatch.settings.problems import SettingsProblem, Severity, format_value
from mcp_dispatch.settings.read_file import ParsedFile

_RULE_LISTS = ("allow", "ask", "deny")
_MANAGED_ONLY_KEYS = ("allowManagedHooksOnly", "allowManagedPermissionRulesOnly")


def drop_invalid_values(
    value: JsonObject, file: Path, problems: list[SettingsProblem]
) -> JsonObject:
    """Return a copy of `value` without invalid entries, and report them; `_parse_rules` reports
    invalid rules."""
    kept = copy.deepcopy(value)
    while True:
        try:
            SettingsFile.model_validate(kept)
        except ValidationError as invalid:
            # Remove all errors at once: a file may contain thousands, and each round validates all of it.
            faults = _group_by_location(kept, invalid.errors(include_url=False))
            for location, error in faults.items():
                if not _is_rule(location):
                    problems.append(_build_problem(file, location, error))
            _remove_values(kept, faults)
        else:
            return kept


def _group_by_location(
    value: JsonObject, errors: Iterable[ErrorDetails]
) -> dict[tuple[str | int, ...], ErrorDetails]:
    """Return the first error of each location: each branch of a union reports its own."""
    found: dict[tuple[str | int, ...], ErrorDetails] = {}
    for error in errors:
        found.setdefault(_find_location(value, error["loc"]), error)
    return found


def _is_rule(location: Sequence[str | int]) -> bool:
    """Return whether the location is an entry of a rule list, which is reported with its line."""
    return len(location) == 3 and location[0] == "permissions" and location[1] in _RULE_LISTS


def _find_location(value: Json, location: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the part of pydantic's location that exists in the file."""
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


def _remove_values(value: JsonObject, locations: Iterable[tuple[str | int, ...]]) -> None:
    """Remove from the end, so that list indexes stay valid; nested locations go with their parent."""
    chosen = set(locations)
    apart = [each for each in chosen if not any(each[:n] in chosen for n in range(1, len(each)))]
    for location in sorted(apart, key=_build_sort_key, reverse=True):
        holder: Json = value
        for step in location[:-1]:
            holder = cast("dict[str | int, Json]", holder)[step]
        del cast("dict[str | int, Json]", holder)[location[-1]]


def _build_sort_key(location: tuple[str | int, ...]) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in location]


def _build_problem(
    file: Path, location: Sequence[str | int], error: ErrorDetails
) -> SettingsProblem:
    key = ".".join(map(str, location))
    if error["type"] == "extra_forbidden":
        message = "unknown key; it is skipped. Look for a typo"
        return SettingsProblem(Severity.ERROR, file, key, message)
    severity = Severity.ERROR if location[0] == "dispatch" else Severity.WARNING
    if error["type"] == "missing":
        message = f"{error['loc'][-1]!r} is missing; it is skipped"
        return SettingsProblem(severity, file, key, message)
    expected = error["msg"].removeprefix("Input should be ")
    given = cast("Json", error["input"])
    return SettingsProblem(
        severity,
        file,
        key,
        f"expected {expected}, got {format_value(given)}; {_describe_consequence(key, given)}",
    )


def _describe_consequence(key: str, value: Json) -> str:
    # A deny outside a list is still applied: skipping it would allow what it forbids.
    if key in ("permissions.deny", "permissions.ask") and isinstance(value, str):
        return "it is taken as the only rule"
    if key in _MANAGED_ONLY_KEYS:
        return "in a managed file it is taken as true"
    return "it is skipped"


_EFFECTS = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
# Keys of Claude Code that have no effect here.
_IGNORED_KEYS = frozenset({"disableAutoMode", "blockReadsExemptPaths", "workingDirectoriesAsGiven"})


@dataclass(frozen=True, slots=True)
class RuleText:
    """A rule as written, with its position. A path `/p` in it is relative to `anchor`."""

    effect: Effect
    text: str
    file: Path
    line: int
    layer: LayerKind
    anchor: Path


@dataclass(frozen=True, slots=True)
class RawSection:
    """A section that another package parses, and the file it comes from."""

    value: JsonObject
    file: Path
    layer: LayerKind


@dataclass(frozen=True)
class LayerFile:
    """A layer whose file was read. `values` holds only what fits the models."""

    layer: Layer
    values: JsonObject
    rules: tuple[RuleText, ...] = ()
    layout: JsonLayout = EMPTY_LAYOUT
    raw_values: JsonObject = field(default_factory=lambda: {})
    """The content of the file before invalid values are dropped."""

    @cached_property
    def permissions(self) -> Permissions:
        return Permissions.model_validate(self.values.get("permissions", {}))

    @cached_property
    def lines(self) -> dict[tuple[str | int, ...], int]:
        """The line where each key and each list entry begins."""
        found: dict[tuple[str | int, ...], int] = {}
        for leaf in self.layout.leaves:
            for length in range(1, len(leaf.path) + 1):
                found.setdefault(leaf.path[:length], leaf.line)
        return found


def parse_layer(layer: Layer, text: ParsedFile, problems: list[SettingsProblem]) -> LayerFile:
    for repeated in text.layout.repeated_keys:
        key = ".".join(map(str, repeated.path))
        message = "the key occurs twice; write it once. Of its rules, deny and ask all apply"
        problems.append(SettingsProblem(Severity.ERROR, layer.path, key, message, repeated.line))
    if layer.servers_only:
        found = _lookup_object(text.value, layer.object_path)
        servers: JsonObject = {key: found[key] for key in ("mcpServers",) if key in found}
        return LayerFile(
            layer, drop_invalid_values(servers, layer.path, problems), layout=text.layout
        )
    rules = _parse_rules(layer, text, problems)
    problems.extend(_find_unknown_permissions(layer, text.value))
    values = drop_invalid_values(text.value, layer.path, problems)
    return LayerFile(layer, values, rules, text.layout, text.value)


def _lookup_object(value: JsonObject, steps: tuple[str, ...]) -> JsonObject:
    for step in steps:
        inner = value.get(step)
        value = inner if isinstance(inner, dict) else {}
    return value


def _parse_rules(
    layer: Layer, text: ParsedFile, problems: list[SettingsProblem]
) -> tuple[RuleText, ...]:
    rules: list[RuleText] = []
    for name, effect in _EFFECTS.items():
        leaves = [leaf for leaf in text.layout.leaves if leaf.path[:2] == ("permissions", name)]
        if effect is Effect.ALLOW:
            # If the key is repeated, only the last list, which JSON parsers keep, may allow.
            leaves = leaves[len(leaves) - _count_entries(text.value, name) :]
        for leaf in leaves:
            key = f"permissions.{name}" + "".join(f"[{step}]" for step in leaf.path[2:])
            if len(leaf.path) > 3 or not isinstance(leaf.value, str):
                message = (
                    f"expected a rule as a string, got {format_value(leaf.value)}; it is skipped"
                )
                problems.append(
                    SettingsProblem(Severity.WARNING, layer.path, key, message, leaf.line)
                )
            elif len(leaf.path) == 2 and effect is Effect.ALLOW:
                continue  # reported with the other entries of the wrong type
            else:
                rules.append(
                    RuleText(
                        effect, leaf.value, layer.path, leaf.line, layer.kind, layer.rule_anchor
                    )
                )
    return tuple(rules)


def _count_entries(value: JsonObject, name: str) -> int:
    """Return the number of leaves of the list that JSON parsing keeps."""
    permissions = value.get("permissions")
    return _count_leaves(permissions.get(name, [])) if isinstance(permissions, dict) else 0


def _count_leaves(value: Json) -> int:
    if isinstance(value, dict):
        return sum(_count_leaves(inner) for inner in value.values())
    if isinstance(value, list):
        return sum(_count_leaves(inner) for inner in value)
    return 1


def _find_unknown_permissions(layer: Layer, value: JsonObject) -> list[SettingsProblem]:
    permissions = value.get("permissions")
    known = {field.alias for field in Permissions.model_fields.values()} | _IGNORED_KEYS
    return [
        SettingsProblem(
            Severity.WARNING, layer.path, f"permissions.{key}", "unknown key; look for a typo"
        )
        for key in (permissions if isinstance(permissions, dict) else {})
        if key not in known
    ]
