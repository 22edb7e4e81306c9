"""The user's own settings for one workspace, as "always allow" writes them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from mcp_dispatch.fs.atomic import locked, private_directory, put_in_place
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.read_file import BrokenFile, read_text

APPROVED = "approvedDefinitions"
"""Which definition of an upstream tool was meant: its rule name → the digest of it."""


def add_allow_rules(path: Path, rules: Sequence[str], definitions: Mapping[str, str]) -> None:
    """Adds what is not there yet and keeps all the rest. Blocks its thread.

    Raises `ConfigError` where the file makes no sense: what a person wrote is not thrown away; and
    `OSError` where it cannot be written.
    """
    private_directory(path.parent)
    with locked(path.with_name(f".{path.name}.lock")):
        before = _content(path)
        after = _added(before, rules, definitions, path)
        if after != before:
            put_in_place(path, f"{json.dumps(after, indent=2, ensure_ascii=False)}\n".encode())


def _content(path: Path) -> JsonObject:
    text = read_text(path)
    if isinstance(text, BrokenFile):
        raise ConfigError(str(path), "", f"{text.reason}; nothing is added to it")
    if text is None:
        return {}
    if text.layout.repeated:
        key = ".".join(map(str, text.layout.repeated[0].path))
        raise ConfigError(str(path), key, "the key occurs twice; nothing is added to the file")
    return text.value


def _added(
    before: JsonObject, rules: Sequence[str], definitions: Mapping[str, str], path: Path
) -> JsonObject:
    permissions = _part(before, "permissions", path)
    allowed = permissions.get("allow", [])
    if not isinstance(allowed, list):
        raise ConfigError(str(path), "permissions.allow", "expected a list; nothing is added to it")
    new = [rule for rule in rules if rule not in allowed]
    after: JsonObject = {**before, "permissions": {**permissions, "allow": [*allowed, *new]}}
    if definitions:
        known = _part(before, APPROVED, path)
        after[APPROVED] = {**known, **cast("dict[str, Json]", definitions)}
    return after


def _part(content: JsonObject, key: str, path: Path) -> JsonObject:
    part = content.get(key, {})
    if not isinstance(part, dict):
        raise ConfigError(str(path), key, "expected an object; nothing is added to it")
    return part
