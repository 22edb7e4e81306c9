"""Trust records: the entries of a workspace that a person confirmed, stored by its real path."""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcp_dispatch.fs.atomic import create_private_directory, replace_file
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.layers import derive_workspace_file_name
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.read_file import BrokenFile, read_json_file
from mcp_dispatch.settings.trust_survey import TrustEntry, TrustSurvey

_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True, slots=True)
class TrustRecord:
    """The entries that were shown and confirmed, and the guards that existed at that time."""

    workspace: Path
    grants: tuple[TrustEntry, ...]
    guards: tuple[TrustEntry, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The hash of the whole record."""
        lists = [[_to_json_entry(entry) for entry in each] for each in (self.grants, self.guards)]
        content: Json = [str(self.workspace), *cast("list[Json]", lists)]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Trust(Enum):
    """The trust state of a workspace."""

    NOT_NEEDED = "asks for nothing"
    UNTRUSTED = "is not trusted"
    TRUSTED = "is trusted"
    CHANGED = "asks for more than when it was trusted"
    LOOSENED = "closes less than when it was trusted"


@dataclass(frozen=True, slots=True)
class TrustStatus:
    """Which entries of a survey are granted, and what has changed since the confirmation."""

    trust: Trust
    granted: frozenset[TrustEntry] = frozenset()
    withheld: tuple[TrustEntry, ...] = ()
    missing_guards: tuple[TrustEntry, ...] = ()
    removed_grants: tuple[TrustEntry, ...] = ()
    """Entries that were confirmed and are no longer requested."""


TRUST_NOT_NEEDED = TrustStatus(Trust.NOT_NEEDED)


def evaluate_trust(
    record: TrustRecord | None, survey: TrustSurvey, files: Iterable[Path]
) -> TrustStatus:
    """Grant each entry that was confirmed; withhold entries that were added later.

    If a guard is missing that existed at the confirmation, nothing is granted: the same entries
    now allow more than was shown. Guards in files other than `files`, which a flag excluded, do not
    count as missing.
    """
    if record is None:
        trust = Trust.UNTRUSTED if survey.grants else Trust.NOT_NEEDED
        return TrustStatus(trust, withheld=survey.grants)
    looked_at = frozenset(files)
    confirmed, guards = frozenset(record.grants), frozenset(survey.guards)
    asked = frozenset(survey.grants)
    gone = tuple(each for each in record.grants if each.file in looked_at and each not in asked)
    missing = tuple(each for each in record.guards if each.file in looked_at and each not in guards)
    if missing and survey.grants:
        return TrustStatus(Trust.LOOSENED, frozenset(), survey.grants, missing, gone)
    withheld = tuple(each for each in survey.grants if each not in confirmed)
    trust = Trust.CHANGED if withheld else Trust.TRUSTED
    return TrustStatus(trust, confirmed & asked, withheld, missing, gone)


def build_confirmed_record(
    previous: TrustRecord | None, workspace: Path, survey: TrustSurvey, files: Iterable[Path]
) -> TrustRecord:
    """Return the record after a person confirmed the whole survey; entries of other files stay."""
    looked_at = frozenset(files)
    grants = [each for each in previous.grants if each.file not in looked_at] if previous else []
    guards = [each for each in previous.guards if each.file not in looked_at] if previous else []
    return TrustRecord(
        workspace,
        tuple(dict.fromkeys([*grants, *survey.grants])),
        tuple(dict.fromkeys([*guards, *survey.guards])),
    )


def locate_record(config_dir: Path, workspace: Path) -> Path:
    return config_dir / "trust" / derive_workspace_file_name(workspace)


def read_record(
    config_dir: Path, workspace: Path
) -> tuple[TrustRecord | None, tuple[SettingsProblem, ...]]:
    """Return the record for the real path `workspace`; an invalid or exposed one is ignored."""
    path = locate_record(config_dir, workspace)
    text = read_json_file(path)
    if text is None:
        return None, ()
    reason = text.reason if isinstance(text, BrokenFile) else _explain_exposure(path)
    record = None if isinstance(text, BrokenFile) or reason else _parse_record(text.value)
    if record is not None and record.workspace == workspace:
        return record, ()
    reason = reason or "not a record of this workspace as `mcp-dispatch trust` writes it"
    message = f"{reason}; the workspace is not trusted. Run `mcp-dispatch trust` again"
    return None, (SettingsProblem(Severity.ERROR, path, "", message),)


def write_record(config_dir: Path, record: TrustRecord) -> Path:
    """Write the record atomically: a reader sees the old one or the new one."""
    path = locate_record(config_dir, record.workspace)
    create_private_directory(path.parent)
    replace_file(path, json.dumps(_to_document(record), indent=2).encode())
    return path


def remove_record(config_dir: Path, workspace: Path) -> bool:
    """Return whether there was a record."""
    try:
        locate_record(config_dir, workspace).unlink()
    except FileNotFoundError:
        return False
    return True


def _explain_exposure(path: Path) -> str:
    """Return why another user may have written the file, or an empty text."""
    if sys.platform == "win32":
        return ""
    try:
        states = (path.lstat(), path.parent.stat())
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    for status in states:
        if status.st_uid != os.geteuid():
            return "it belongs to another user"
        if stat.S_IMODE(status.st_mode) & _WRITABLE_BY_OTHERS:
            return "other users can write it"
    return ""


class _EntryFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    file: Annotated[str, Field(min_length=1)]
    key: str
    value: Any

    def to_entry(self) -> TrustEntry:
        return TrustEntry.create(Path(self.file), self.key, cast(Json, self.value))


class _RecordFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1]
    workspace: str
    grants: list[_EntryFile]
    guards: list[_EntryFile]
    hash: str


def _parse_record(value: JsonObject) -> TrustRecord | None:
    try:
        file = _RecordFile.model_validate(value)
    except ValidationError:
        return None
    grants = tuple(each.to_entry() for each in file.grants)
    guards = tuple(each.to_entry() for each in file.guards)
    record = TrustRecord(Path(file.workspace), grants, guards)
    return record if record.fingerprint == file.hash else None


def _to_document(record: TrustRecord) -> JsonObject:
    return {
        "version": 1,
        "workspace": str(record.workspace),
        "grants": [_to_json_entry(entry) for entry in record.grants],
        "guards": [_to_json_entry(entry) for entry in record.guards],
        "hash": record.fingerprint,
    }


def _to_json_entry(entry: TrustEntry) -> JsonObject:
    return {"file": str(entry.file), "key": entry.key, "value": entry.value}
