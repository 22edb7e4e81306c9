"""Merges the files of all layers, highest first, into one value per group of settings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.env_names import find_variable_problem
from mcp_dispatch.settings.groups import (
    HookSettings,
    PermissionSettings,
    ProcessSettings,
    Restrictions,
    RuleSettings,
    RuleTestText,
    ServerSettings,
)
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.models import (
    DispatchSettings,
    PermissionMode,
    SettingsFile,
)
from mcp_dispatch.settings.own_file import APPROVED_DEFINITIONS_KEY
from mcp_dispatch.settings.parse import LayerFile, RawSection
from mcp_dispatch.settings.problems import SettingsProblem, Severity, format_value

_MODES = {
    "manual": PermissionMode.DEFAULT,
    "auto": PermissionMode.DEFAULT,
    **{mode.value: mode for mode in PermissionMode},
}
HOOK_LISTS = ("allowedHttpHookUrls", "httpHookAllowedEnvVars")
_MANAGED_HOOKS_ONLY = "allowManagedHooksOnly"
_MANAGED_RULES_ONLY = "allowManagedPermissionRulesOnly"


def merge_rules(files: Sequence[LayerFile]) -> RuleSettings:
    """Return all rules. If only managed files may allow, other files still deny and ask."""
    managed_only = _is_enabled_by_managed_file(files, _MANAGED_RULES_ONLY)
    texts = tuple(
        rule
        for file in files
        for rule in file.rules
        if not managed_only or _is_managed(file) or rule.effect is not Effect.ALLOW
    )
    return RuleSettings(
        texts, tuple(_collect_rule_tests(files)), managed_only, _collect_approved_definitions(files)
    )


def merge_permissions(
    files: Sequence[LayerFile], root: Path | None, problems: list[SettingsProblem]
) -> PermissionSettings:
    """Return the highest mode and all directories. A switch that tightens needs only one file."""
    each = [file.permissions for file in files]
    return PermissionSettings(
        mode=_choose_mode(files, problems),
        additional_directories=_collect_directories(files, root, problems),
        block_reads_outside=any(one.block_reads_outside_working_directories for one in each),
        block_writes_outside=any(one.block_writes_outside_working_directories for one in each),
        deny_instead_of_prompting=any(one.deny_instead_of_prompting for one in each),
        bypass_disabled=_is_bypass_disabled(files),
    )


def merge_hooks(files: Sequence[LayerFile], scripts: tuple[Path, ...]) -> HookSettings:
    return HookSettings(
        sections=_collect_hooks(files),
        scripts=scripts,
        http_urls=_merge_hook_list(files, "allowedHttpHookUrls"),
        http_variables=_merge_hook_list(files, "httpHookAllowedEnvVars"),
    )


def merge_servers(files: Sequence[LayerFile]) -> ServerSettings:
    return ServerSettings(collect_sections(files, "mcpServers"), _merge_restrictions(files))


def merge_processes(files: Sequence[LayerFile], problems: list[SettingsProblem]) -> ProcessSettings:
    limits = [file.values.get("bashOutputMaxChars") for file in files]
    limit = next((each for each in limits if isinstance(each, int)), None)
    return ProcessSettings(_collect_env(files, problems), limit)


def _collect_approved_definitions(files: Sequence[LayerFile]) -> dict[str, str]:
    """Read the digests from the user's own file, the only file that this program writes."""
    own = [
        file.raw_values.get(APPROVED_DEFINITIONS_KEY)
        for file in files
        if file.layer.kind is LayerKind.OWN
    ]
    return {
        name: digest
        for approved in own
        if isinstance(approved, dict)
        for name, digest in approved.items()
        if isinstance(digest, str)
    }


def _choose_mode(files: Sequence[LayerFile], problems: list[SettingsProblem]) -> PermissionMode:
    for file in files:
        named = file.permissions.default_mode
        if named is None:
            continue
        key = "permissions.defaultMode"
        if named == "auto":
            message = 'there is no model here to decide; "auto" is treated as "default"'
            problems.append(SettingsProblem(Severity.WARNING, file.layer.path, key, message))
        mode = _MODES[named]
        if mode is PermissionMode.BYPASS_PERMISSIONS and _is_bypass_disabled(files):
            message = 'disableBypassPermissionsMode is set; "default" holds instead'
            problems.append(SettingsProblem(Severity.WARNING, file.layer.path, key, message))
            return PermissionMode.DEFAULT
        return mode
    return PermissionMode.DEFAULT


def _is_bypass_disabled(files: Sequence[LayerFile]) -> bool:
    return any(file.permissions.disable_bypass_permissions_mode == "disable" for file in files)


def _collect_directories(
    files: Sequence[LayerFile], root: Path | None, problems: list[SettingsProblem]
) -> tuple[Path, ...]:
    """Return all additional directories; relative ones start at the workspace."""
    found: dict[Path, None] = {}
    for file in files:
        for text in file.permissions.additional_directories:
            directory = _parse_directory(text)
            if directory is None:
                message = f"not the name of a directory: {format_value(text)}; it is skipped"
                key = "permissions.additionalDirectories"
                problems.append(SettingsProblem(Severity.WARNING, file.layer.path, key, message))
            else:
                found[root / directory if root else directory] = None
    return tuple(found)


def merge_dispatch(files: Sequence[LayerFile]) -> DispatchSettings:
    """Merge key by key, the highest file first; rule tests are collected from all files."""
    merged: JsonObject = {}
    tests: list[Json] = []
    for file in reversed(files):
        own = _get_object(file, "dispatch")
        tests = [*cast("list[Json]", own.get("ruleTests", [])), *tests]
        merged = _merge_objects(merged, own)
    return DispatchSettings.model_validate({**merged, "ruleTests": tests})


def _collect_rule_tests(files: Sequence[LayerFile]) -> Iterator[RuleTestText]:
    for file in files:
        tests = cast("list[JsonObject]", _get_object(file, "dispatch").get("ruleTests", []))
        for index, test in enumerate(tests):
            line = file.lines.get(("dispatch", "ruleTests", index))
            effect = Effect[cast(str, test["expect"]).upper()]
            yield RuleTestText(test["call"], effect, file.layer.path, line)


def _collect_hooks(files: Sequence[LayerFile]) -> tuple[RawSection, ...]:
    """Return the enabled hooks. Only a managed file can disable managed hooks."""
    kept = collect_sections(files, "hooks")
    switches = [file for file in files if file.values.get("disableAllHooks") is not None]
    off = bool(switches) and switches[0].values["disableAllHooks"] is True
    if off and _is_managed(switches[0]):
        return ()
    if off or _is_enabled_by_managed_file(files, _MANAGED_HOOKS_ONLY):
        return tuple(each for each in kept if each.layer is LayerKind.MANAGED)
    return kept


def _merge_hook_list(files: Sequence[LayerFile], key: str) -> tuple[str, ...] | None:
    """Return `allowedHttpHookUrls` or `httpHookAllowedEnvVars`, or None if no file sets it.

    If a managed file sets the key, other files cannot add to it; an invalid managed value allows
    nothing.
    """
    managed = [file for file in files if _is_managed(file)]
    if any(file.raw_values.get(key) is not None for file in managed):
        return tuple(_iter_texts(managed, key))
    return (
        tuple(_iter_texts(files, key))
        if any(file.values.get(key) is not None for file in files)
        else None
    )


def _iter_texts(files: Sequence[LayerFile], key: str) -> Iterator[str]:
    for file in files:
        yield from cast("list[str]", file.values.get(key) or [])


def _collect_env(
    files: Sequence[LayerFile], problems: list[SettingsProblem]
) -> tuple[RawSection, ...]:
    kept: list[RawSection] = []
    for each in collect_sections(files, "env"):
        good: JsonObject = {}
        for name, value in cast("dict[str, str]", each.value).items():
            why = find_variable_problem(name, value)
            if why is None:
                good[name] = value
            else:
                # Not the value: it may be a secret.
                message = f"{why}; it is skipped"
                key = f"env.{format_value(name)}"
                problems.append(SettingsProblem(Severity.WARNING, each.file, key, message))
        kept += [RawSection(good, each.file, each.layer)] if good else []
    return tuple(kept)


def collect_sections(files: Sequence[LayerFile], key: str) -> tuple[RawSection, ...]:
    values = [(file, _get_object(file, key)) for file in files]
    return tuple(
        RawSection(value, file.layer.path, file.layer.kind) for file, value in values if value
    )


def _merge_restrictions(files: Sequence[LayerFile]) -> Restrictions:
    """Merge denied servers of all files, and allowed servers of managed files or else of all others."""
    parsed = [(file, SettingsFile.model_validate(file.values)) for file in files]
    lists = [
        (file, each.allowed_mcp_servers)
        for file, each in parsed
        if not file.layer.is_workspace_layer
    ]
    # An invalid list allows nothing: the administrator meant to restrict something.
    stated = [
        (file, allowed or [])
        for file, allowed in lists
        if allowed is not None or file.raw_values.get("allowedMcpServers") is not None
    ]
    managed = [(file, allowed) for file, allowed in stated if _is_managed(file)]
    allowed = [match for _, matches in managed or stated for match in matches]
    return Restrictions(
        disabled=frozenset(name for _, each in parsed for name in each.disabled_mcpjson_servers),
        denied=tuple(match for _, each in parsed for match in each.denied_mcp_servers),
        allowed=tuple(allowed) if stated else None,
    )


def find_misplaced_keys(files: Sequence[LayerFile]) -> Iterator[SettingsProblem]:
    """Report keys that only a managed file, or only a file outside the workspace, may set."""
    for file in files:
        for key in (_MANAGED_HOOKS_ONLY, _MANAGED_RULES_ONLY):
            if file.values.get(key) is True and not _is_managed(file):
                message = "only a managed file can set this; it has no effect"
                yield SettingsProblem(Severity.WARNING, file.layer.path, key, message)
        for key in HOOK_LISTS:
            if file.layer.is_workspace_layer and file.values.get(key) is not None:
                message = "a workspace cannot set this; set it in a file of your own"
                yield SettingsProblem(Severity.WARNING, file.layer.path, key, message)


def _is_enabled_by_managed_file(files: Sequence[LayerFile], key: str) -> bool:
    """Return whether a managed file sets the switch; an invalid value counts as true."""
    managed = [file for file in files if _is_managed(file)]
    return any(file.raw_values.get(key, False) is not False for file in managed)


def _is_managed(file: LayerFile) -> bool:
    return file.layer.kind is LayerKind.MANAGED


def _parse_directory(text: str) -> Path | None:
    if not text or "\0" in text or text.encode(errors="ignore").decode() != text:
        return None
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return None


def _get_object(file: LayerFile, key: str) -> JsonObject:
    value = file.values.get(key)
    return value if isinstance(value, dict) else {}


def _merge_objects(low: JsonObject, high: JsonObject) -> JsonObject:
    result = dict(low)
    for key, value in high.items():
        below = result.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            value = _merge_objects(below, value)
        result[key] = value
    return result
