"""Writes "always allow" rules to the user's own settings for one workspace."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from mcp_dispatch.fs.atomic import create_private_directory, lock_file, replace_file
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.read_file import BrokenFile, read_json_file

APPROVED_DEFINITIONS_KEY = "approvedDefinitions"
"""Maps the rule name of an upstream tool to the digest of the definition that was approved."""


def add_allow_rules(path: Path, rules: Sequence[str], definitions: Mapping[str, str]) -> None:
    """Add the rules that are missing and keep the rest of the file. Blocks the thread.

    Raise `ConfigError` if the file is invalid, so that a person's work is not overwritten, and
    `OSError` if it cannot be written.
    """
    create_private_directory(path.parent)
    with lock_file(path.with_name(f".{path.name}.lock")):
        before = _load_content(path)
        after = _add_to_content(before, rules, definitions, path)
        if after != before:
            replace_file(path, f"{json.dumps(after, indent=2, ensure_ascii=False)}\n".encode())


def _load_content(path: Path) -> JsonObject:
    text = read_json_file(path)
    if isinstance(text, BrokenFile):
        raise ConfigError(str(path), "", f"{text.reason}; nothing is added to it")
    if text is None:
        return {}
    if text.layout.repeated_keys:
        key = ".".join(map(str, text.layout.repeated_keys[0].path))
        raise ConfigError(str(path), key, "the key occurs twice; nothing is added to the file")
    return text.value


def _add_to_content(
    before: JsonObject, rules: Sequence[str], definitions: Mapping[str, str], path: Path
) -> JsonObject:
    permissions = _get_object(before, "permissions", path)
    allowed = permissions.get("allow", [])
    if not isinstance(allowed, list):
        raise ConfigError(str(path), "permissions.allow", "expected a list; nothing is added to it")
    new = [rule for rule in rules if rule not in allowed]
    after: JsonObject = {**before, "permissions": {**permissions, "allow": [*allowed, *new]}}
    if definitions:
        known = _get_object(before, APPROVED_DEFINITIONS_KEY, path)
        after[APPROVED_DEFINITIONS_KEY] = {**known, **cast("dict[str, Json]", definitions)}
    return after


def _get_object(content: JsonObject, key: str, path: Path) -> JsonObject:
    part = content.get(key, {})
    if not isinstance(part, dict):
        raise ConfigError(str(path), key, "expected an object; nothing is added to it")
    return part
