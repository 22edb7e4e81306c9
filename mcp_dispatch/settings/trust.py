"""What a person has trusted of a workspace, kept by its real path in their config directory."""

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

from mcp_dispatch.fs.atomic import private_directory, put_in_place
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.layers import workspace_name
from mcp_dispatch.settings.problems import Problem, Severity
from mcp_dispatch.settings.read_file import BrokenFile, read_text
from mcp_dispatch.settings.trust_survey import Entry, Survey

_WRITABLE_BY_OTHERS = 0o022


@dataclass(frozen=True, slots=True)
class Record:
    """The entries that were shown and confirmed, and the guards that stood beside them."""

    workspace: Path
    grants: tuple[Entry, ...]
    guards: tuple[Entry, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The hash of everything in it."""
        lists = [[_written(entry) for entry in each] for each in (self.grants, self.guards)]
        content: Json = [str(self.workspace), *cast("list[Json]", lists)]
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Trust(Enum):
    """How a workspace stands."""

    NOT_NEEDED = "asks for nothing"
    UNTRUSTED = "is not trusted"
    TRUSTED = "is trusted"
    CHANGED = "asks for more than when it was trusted"
    LOOSENED = "closes less than when it was trusted"


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a survey is granted, and what has changed since it was confirmed."""

    trust: Trust
    granted: frozenset[Entry] = frozenset()
    withheld: tuple[Entry, ...] = ()
    missing_guards: tuple[Entry, ...] = ()
    gone: tuple[Entry, ...] = ()
    """Entries that were confirmed and are no longer asked for."""


NOTHING_ASKED = Standing(Trust.NOT_NEEDED)


def standing(record: Record | None, found: Survey, files: Iterable[Path]) -> Standing:
    """Entry by entry: what was confirmed holds, what came later does not.

    Where a guard is gone that stood when the rest was confirmed, nothing holds: the same entries
    open more than what was shown. `files` are those that were looked at; guards of others, which
    a flag left out, are not missed.
    """
    if record is None:
        trust = Trust.UNTRUSTED if found.grants else Trust.NOT_NEEDED
        return Standing(trust, withheld=found.grants)
    looked_at = frozenset(files)
    confirmed, guards = frozenset(record.grants), frozenset(found.guards)
    asked = frozenset(found.grants)
    gone = tuple(each for each in record.grants if each.file in looked_at and each not in asked)
    missing = tuple(each for each in record.guards if each.file in looked_at and each not in guards)
    if missing and found.grants:
        return Standing(Trust.LOOSENED, frozenset(), found.grants, missing, gone)
    withheld = tuple(each for each in found.grants if each not in confirmed)
    trust = Trust.CHANGED if withheld else Trust.TRUSTED
    return Standing(trust, confirmed & asked, withheld, missing, gone)


def confirmed(
    before: Record | None, workspace: Path, found: Survey, files: Iterable[Path]
) -> Record:
    """The record once a person has said yes to all of `found`; other files' entries stay."""
    looked_at = frozenset(files)
    grants = [each for each in before.grants if each.file not in looked_at] if before else []
    guards = [each for each in before.guards if each.file not in looked_at] if before else []
    return Record(
        workspace,
        tuple(dict.fromkeys([*grants, *found.grants])),
        tuple(dict.fromkeys([*guards, *found.guards])),
    )


def record_path(config_dir: Path, workspace: Path) -> Path:
    return config_dir / "trust" / workspace_name(workspace)


def read_record(config_dir: Path, workspace: Path) -> tuple[Record | None, tuple[Problem, ...]]:
    """The record for the real path `workspace`; one that cannot be relied on counts for nothing."""
    path = record_path(config_dir, workspace)
    text = read_text(path)
    if text is None:
        return None, ()
    reason = text.reason if isinstance(text, BrokenFile) else _exposed(path)
    record = None if isinstance(text, BrokenFile) or reason else _parsed(text.value)
    if record is not None and record.workspace == workspace:
        return record, ()
    reason = reason or "not a record of this workspace as `mcp-dispatch trust` writes it"
    message = f"{reason}; the workspace is not trusted. Run `mcp-dispatch trust` again"
    return None, (Problem(Severity.ERROR, path, "", message),)


def write_record(config_dir: Path, record: Record) -> Path:
    """Puts the record in place in one step: whoever reads it sees the old one or the new one."""
    path = record_path(config_dir, record.workspace)
    private_directory(path.parent)
    put_in_place(path, json.dumps(_document(record), indent=2).encode())
    return path


def remove_record(config_dir: Path, workspace: Path) -> bool:
    """Whether there was one."""
    try:
        record_path(config_dir, workspace).unlink()
    except FileNotFoundError:
        return False
    return True


def _exposed(path: Path) -> str:
    """Why somebody else may have written it; empty where nobody can have."""
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

    def entry(self) -> Entry:
        return Entry.of(Path(self.file), self.key, cast(Json, self.value))


class _RecordFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: Literal[1]
    workspace: str
    grants: list[_EntryFile]
    guards: list[_EntryFile]
    hash: str


def _parsed(value: JsonObject) -> Record | None:
    try:
        file = _RecordFile.model_validate(value)
    except ValidationError:
        return None
    grants = tuple(each.entry() for each in file.grants)
    guards = tuple(each.entry() for each in file.guards)
    record = Record(Path(file.workspace), grants, guards)
    return record if record.fingerprint == file.hash else None


def _document(record: Record) -> JsonObject:
    return {
        "version": 1,
        "workspace": str(record.workspace),
        "grants": [_written(entry) for entry in record.grants],
        "guards": [_written(entry) for entry in record.guards],
        "hash": record.fingerprint,
    }


def _written(entry: Entry) -> JsonObject:
    return {"file": str(entry.file), "key": entry.key, "value": entry.value}
