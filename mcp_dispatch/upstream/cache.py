"""Tool lists and definition changes of each server, cached on disk between runs."""

import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Annotated, Final, cast

import msgspec

from mcp_dispatch import __version__
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.definition_diff import DefinitionChange, diff_definitions
from mcp_dispatch.upstream.listener import UpstreamListener
from mcp_dispatch.upstream.pagination import MAX_TOOLS, Listing
from mcp_dispatch.wire.codec import Undecodable, decode

logger = logging.getLogger(__name__)

MAX_FILE_BYTES: Final = 32 * 1024 * 1024
MAX_REMOVED_TOOLS: Final = 1_000
MAX_CHANGES: Final = 50
FORMAT_VERSION: Final = 1

_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change of a definition, and when it was detected (seconds since the epoch)."""

    tool: str
    what: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """What is known of one server.

    `tools` is the last complete list, or the last list if none was complete; `listed` says whether
    there was any. `removed` holds definitions of earlier lists. `schemas_checked` says that this
    version of mcp-dispatch has checked the schemas of `tools`; `refused` and `refused_outputs`
    name the tools with an unusable schema, and why.
    """

    listed: bool = False
    complete: bool = False
    tools: tuple[JsonObject, ...] = ()
    removed: tuple[JsonObject, ...] = ()
    changes: tuple[PastChange, ...] = ()
    schemas_checked: bool = False
    refused: tuple[tuple[str, str], ...] = ()
    refused_outputs: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    """Why the last attempt to connect failed."""

    @property
    def pinned(self) -> tuple[JsonObject, ...]:
        return (*self.tools, *self.removed)

    @property
    def verdicts(self) -> Iterator[tuple[str, Json, str | None]]:
        """Each tool whose input schema was checked, the schema, and why it cannot be used."""
        return self._iter_verdicts("inputSchema", dict(self.refused))

    @property
    def output_verdicts(self) -> Iterator[tuple[str, Json, str | None]]:
        return self._iter_verdicts("outputSchema", dict(self.refused_outputs))

    def _iter_verdicts(
        self, key: str, refused: Mapping[str, str]
    ) -> Iterator[tuple[str, Json, str | None]]:
        for tool in self.tools if self.schemas_checked else ():
            name = tool.get("name")
            if isinstance(name, str) and key in tool:
                yield name, tool[key], refused.get(name)

    def with_tools(
        self, tools: tuple[JsonObject, ...], timestamp: float
    ) -> tuple["ServerSnapshot", tuple[DefinitionChange, ...]]:
        """Return the snapshot after the server has listed `tools`, and the changed definitions."""
        # Compared as text: 1, 1.0 and true are equal in Python but not in a schema.
        if self.listed and self.problem is None and repr(tools) == repr(self.tools):
            return self, ()
        changed, gone = diff_definitions(self.pinned, tools)
        past = [PastChange(each.tool, each.differences, timestamp) for each in changed]
        known = replace(
            self,
            listed=True,
            tools=tools,
            removed=gone[:MAX_REMOVED_TOOLS],
            changes=(*self.changes, *past)[-MAX_CHANGES:],
            schemas_checked=False,
            refused=(),
            refused_outputs=(),
            problem=None,
        )
        return known, changed


class CatalogueCache:
    """One file for each server, named by the server's key.

    Several processes share the folder: a file is replaced as a whole, and an invalid one is ignored.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time) -> None:
        self._folder = folder
        self.clock = clock

    def load(self, key: str) -> ServerSnapshot | None:
        """Return the cached snapshot, or None if there is none or the file is invalid."""
        path = self._build_path(key)
        try:
            content = _read_file(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.info("the catalogue file %s is not used: %s", path, error.strerror)
            return None
        try:
            return _to_snapshot(msgspec.convert(decode(content), type=_File))
        except (Undecodable, msgspec.ValidationError) as error:
            logger.info("the catalogue file %s is not used: %s", path, error)
            return None

    def save(self, key: str, server: str, snapshot: ServerSnapshot) -> None:
        """Write the file. An error is logged and costs only the cache, never the server."""
        document = {
            "format": FORMAT_VERSION,
            "by": __version__,
            "server": server,
            "listed": snapshot.listed,
            "complete": snapshot.complete,
            "usable": snapshot.schemas_checked,
            "refused": snapshot.refused,
            "refused_outputs": snapshot.refused_outputs,
            "problem": snapshot.problem,
            "changes": snapshot.changes,
            "tools": snapshot.tools,
            "gone": snapshot.removed,
        }
        try:
            self._write(self._build_path(key), msgspec.json.encode(document))
        except (OSError, ValueError, TypeError) as error:
            logger.warning("the tools of %s are not kept: %s", server, error)

    def _build_path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, path: Path, content: bytes) -> None:
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"{len(content):,} bytes are more than {MAX_FILE_BYTES:,}")
        partial = path.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            with os.fdopen(os.open(partial, _CREATE_FLAGS, 0o600), "wb") as file:
                file.write(content)
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink()


def _read_file(path: Path) -> bytes:
    descriptor = os.open(path, _READ_FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return b""
        return file.read(MAX_FILE_BYTES)


class _PastChange(msgspec.Struct):
    tool: str
    what: list[str]
    at: float


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Annotated[int, msgspec.Meta(ge=FORMAT_VERSION, le=FORMAT_VERSION)]
    by: str
    server: str
    tools: Annotated[list[dict[str, object]], msgspec.Meta(max_length=MAX_TOOLS)]
    gone: Annotated[list[dict[str, object]], msgspec.Meta(max_length=MAX_REMOVED_TOOLS)]
    changes: Annotated[list[_PastChange], msgspec.Meta(max_length=MAX_CHANGES)]
    refused: Annotated[list[tuple[str, str]], msgspec.Meta(max_length=MAX_TOOLS)]
    refused_outputs: Annotated[list[tuple[str, str]], msgspec.Meta(max_length=MAX_TOOLS)]
    listed: bool
    complete: bool
    usable: bool
    problem: str | None


def _to_snapshot(file: _File) -> ServerSnapshot:
    return ServerSnapshot(
        listed=file.listed,
        complete=file.complete,
        tools=_to_definitions(file.tools),
        removed=_to_definitions(file.gone),
        changes=tuple(PastChange(each.tool, tuple(each.what), each.at) for each in file.changes),
        # Another version of mcp-dispatch may check schemas differently.
        schemas_checked=file.usable and file.by == __version__,
        refused=tuple(file.refused),
        refused_outputs=tuple(file.refused_outputs),
        problem=file.problem,
    )


def _to_definitions(values: Iterable[dict[str, object]]) -> tuple[JsonObject, ...]:
    return tuple(cast("Iterable[JsonObject]", values))


class CachedServer:
    """The snapshot of one server. Without a `cache` it lasts as long as the process."""

    def __init__(
        self,
        config: ServerConfig,
        cache: CatalogueCache | None,
        listener: UpstreamListener | None = None,
    ) -> None:
        self._config = config
        self._cache = cache if config.key else None
        self._listener = listener
        self.snapshot = (self._cache and self._cache.load(config.key)) or ServerSnapshot()

    @property
    def has_listing(self) -> bool:
        """Whether the server has ever listed its tools."""
        return self.snapshot.listed

    def record_listing(self, listing: Listing) -> None:
        """Record a tool list. An incomplete list does not replace a complete one."""
        before = self.snapshot
        at = self._cache.clock() if self._cache else 0.0
        known, changed = before.with_tools(listing.entries, at)
        complete = listing.problem is None
        if complete or not before.complete:
            self.snapshot = replace(known, complete=complete)
        elif changed:
            self.snapshot = replace(before, changes=known.changes)
        if self.snapshot != before:
            self._save()
        if changed and self._listener is not None:
            self._listener.handle_definitions_changed(self._config.name, changed)

    def record_schema_problems(
        self,
        tools: tuple[JsonObject, ...],
        input_problems: Mapping[str, str],
        output_problems: Mapping[str, str],
    ) -> None:
        """Record that the schemas of `tools` were checked, and which of them cannot be used."""
        if tools is not self.snapshot.tools:
            return
        known = replace(
            self.snapshot,
            schemas_checked=True,
            refused=tuple(sorted(input_problems.items())),
            refused_outputs=tuple(sorted(output_problems.items())),
        )
        if known != self.snapshot:
            self.snapshot = known
            if known.listed:
                self._save()

    def record_failure(self, problem: str) -> None:
        if self.snapshot.problem != problem:
            self.snapshot = replace(self.snapshot, problem=problem)
            self._save()

    def _save(self) -> None:
        if self._cache is not None:
            self._cache.save(self._config.key, self._config.name, self.snapshot)
