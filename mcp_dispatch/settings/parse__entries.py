"""Bad entries taken out of a settings file one by one, so that the rest holds."""

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.models import SettingsFile
from mcp_dispatch.settings.problems import Problem, Severity, shown

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
        severity, file, key, f"expected {expected}, got {shown(given)}; {_fate(key, given)}"
    )


def _fate(key: str, given: Json) -> str:
    # A deny that is not in a list was still meant: leaving it out would open what it closes.
    if key in ("permissions.deny", "permissions.ask") and isinstance(given, str):
        return "it is taken as the only rule"
    if key in _MANAGED_ONLY:
        return "in a managed file it is taken as true"
    return "it is skipped"
