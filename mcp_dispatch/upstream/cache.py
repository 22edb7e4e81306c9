"""What was last learnt of each server, on disk: a list of tools before the server is even started."""

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
from mcp_dispatch.upstream.definition_diff import Change, changes
from mcp_dispatch.upstream.pagination import MOST_TOOLS, Listing
from mcp_dispatch.wire.codec import Undecodable, decode

logger = logging.getLogger(__name__)

LARGEST_FILE: Final = 32 * 1024 * 1024
MOST_GONE: Final = 1_000
MOST_CHANGES: Final = 50
FORMAT: Final = 1

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change of a definition, and when it was noticed (seconds since the epoch)."""

    tool: str
    what: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Known:
    """`tools` is the last list, if the server ever `listed` any: the last `complete` one where
    there was one; `gone` are definitions that were in it before.

    `usable` says that our own version has looked at the schemas in `tools`; `refused` and
    `refused_outputs` which of the tools have one that cannot be used, and why.
    """

    listed: bool = False
    complete: bool = False
    tools: tuple[JsonObject, ...] = ()
    gone: tuple[JsonObject, ...] = ()
    changes: tuple[PastChange, ...] = ()
    usable: bool = False
    refused: tuple[tuple[str, str], ...] = ()
    refused_outputs: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    """Why the server could not be reached when it was last tried."""

    @property
    def pinned(self) -> tuple[JsonObject, ...]:
        return (*self.tools, *self.gone)

    @property
    def verdicts(self) -> Iterator[tuple[str, Json, str | None]]:
        """Each tool whose input schema was looked at, the schema, and why it cannot be used."""
        return self._verdicts("inputSchema", dict(self.refused))

    @property
    def output_verdicts(self) -> Iterator[tuple[str, Json, str | None]]:
        return self._verdicts("outputSchema", dict(self.refused_outputs))

    def _verdicts(
        self, key: str, refused: Mapping[str, str]
    ) -> Iterator[tuple[str, Json, str | None]]:
        for tool in self.tools if self.usable else ():
            name = tool.get("name")
            if isinstance(name, str) and key in tool:
                yield name, tool[key], refused.get(name)

    def learn(self, tools: tuple[JsonObject, ...], at: float) -> tuple["Known", tuple[Change, ...]]:
        """What is known after the server has listed `tools`, and which of them are others now."""
        # Compared as text: 1, 1.0 and true are equal in Python and not in a schema.
        if self.listed and self.problem is None and repr(tools) == repr(self.tools):
            return self, ()
        changed, gone = changes(self.pinned, tools)
        past = [PastChange(each.tool, each.what, at) for each in changed]
        known = replace(
            self,
            listed=True,
            tools=tools,
            gone=gone[:MOST_GONE],
            changes=(*self.changes, *past)[-MOST_CHANGES:],
            usable=False,
            refused=(),
            refused_outputs=(),
            problem=None,
        )
        return known, changed


class Memory:
    """One file for each server, named by what the server is. Several processes share the folder:
    a file is replaced whole, and one that makes no sense is as good as none."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time) -> None:
        self._folder = folder
        self.clock = clock

    def recall(self, key: str) -> Known | None:
        """What is known of the server; None where nothing is, or nothing that can be relied on."""
        path = self._path(key)
        try:
            content = _content(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.info("the catalogue file %s is not used: %s", path, error.strerror)
            return None
        try:
            return _known(msgspec.convert(decode(content), type=_File))
        except (Undecodable, msgspec.ValidationError) as error:
            logger.info("the catalogue file %s is not used: %s", path, error)
            return None

    def keep(self, key: str, server: str, known: Known) -> None:
        """Costs the catalogue, never the server, where the disk does not take it."""
        document = {
            "format": FORMAT,
            "by": __version__,
            "server": server,
            "listed": known.listed,
            "complete": known.complete,
            "usable": known.usable,
            "refused": known.refused,
            "refused_outputs": known.refused_outputs,
            "problem": known.problem,
            "changes": known.changes,
            "tools": known.tools,
            "gone": known.gone,
        }
        try:
            self._write(self._path(key), msgspec.json.encode(document))
        except (OSError, ValueError, TypeError) as error:
            logger.warning("the tools of %s are not kept: %s", server, error)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _write(self, path: Path, content: bytes) -> None:
        if len(content) > LARGEST_FILE:
            raise ValueError(f"{len(content):,} bytes are more than {LARGEST_FILE:,}")
        beside = path.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            with os.fdopen(os.open(beside, _CREATE, 0o600), "wb") as file:
                file.write(content)
            beside.replace(path)
        finally:
            with suppress(OSError):
                beside.unlink()


def _content(path: Path) -> bytes:
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            return b""
        return file.read(LARGEST_FILE)


class _PastChange(msgspec.Struct):
    tool: str
    what: list[str]
    at: float


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: Annotated[int, msgspec.Meta(ge=FORMAT, le=FORMAT)]
    by: str
    server: str
    tools: Annotated[list[dict[str, object]], msgspec.Meta(max_length=MOST_TOOLS)]
    gone: Annotated[list[dict[str, object]], msgspec.Meta(max_length=MOST_GONE)]
    changes: Annotated[list[_PastChange], msgspec.Meta(max_length=MOST_CHANGES)]
    refused: Annotated[list[tuple[str, str]], msgspec.Meta(max_length=MOST_TOOLS)]
    refused_outputs: Annotated[list[tuple[str, str]], msgspec.Meta(max_length=MOST_TOOLS)]
    listed: bool
    complete: bool
    usable: bool
    problem: str | None


def _known(file: _File) -> Known:
    return Known(
        listed=file.listed,
        complete=file.complete,
        tools=_definitions(file.tools),
        gone=_definitions(file.gone),
        changes=tuple(PastChange(each.tool, tuple(each.what), each.at) for each in file.changes),
        # Another version of ours may judge otherwise.
        usable=file.usable and file.by == __version__,
        refused=tuple(file.refused),
        refused_outputs=tuple(file.refused_outputs),
        problem=file.problem,
    )


def _definitions(found: Iterable[dict[str, object]]) -> tuple[JsonObject, ...]:
    return tuple(cast("Iterable[JsonObject]", found))


Changed = Callable[[str, tuple[Change, ...]], None]
"""Told of a server and of its tools that are no longer what they were."""


class Dossier:
    """Without a `memory`, what is learnt lasts as long as the process."""

    def __init__(
        self, config: ServerConfig, memory: Memory | None, on_changed: Changed | None = None
    ) -> None:
        self._config = config
        self._memory = memory if config.key else None
        self._on_changed = on_changed
        self.known = (self._memory and self._memory.recall(config.key)) or Known()

    @property
    def seen(self) -> bool:
        """Whether the server has ever told its tools."""
        return self.known.listed

    def learn(self, listing: Listing) -> None:
        """A list that may be incomplete replaces no complete one on disk."""
        before = self.known
        at = self._memory.clock() if self._memory else 0.0
        known, changed = before.learn(listing.tools, at)
        complete = listing.problem is None
        if complete or not before.complete:
            self.known = replace(known, complete=complete)
        elif changed:
            self.known = replace(before, changes=known.changes)
        if self.known != before:
            self._keep()
        if changed and self._on_changed is not None:
            self._on_changed(self._config.name, changed)

    def judged(
        self,
        tools: tuple[JsonObject, ...],
        refused: Mapping[str, str],
        outputs: Mapping[str, str],
    ) -> None:
        """The schemas of `tools` have been looked at; some of them cannot be used, and why."""
        if tools is not self.known.tools:
            return
        known = replace(
            self.known,
            usable=True,
            refused=tuple(sorted(refused.items())),
            refused_outputs=tuple(sorted(outputs.items())),
        )
        if known != self.known:
            self.known = known
            if known.listed:
                self._keep()

    def failed(self, problem: str) -> None:
        if self.known.problem != problem:
            self.known = replace(self.known, problem=problem)
            self._keep()

    def _keep(self) -> None:
        if self._memory is not None:
            self._memory.keep(self._config.key, self._config.name, self.known)
