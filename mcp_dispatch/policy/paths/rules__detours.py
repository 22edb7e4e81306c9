"""Links that path rules name: what such a link leads to is meant as well."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.fs.resolve import ends_of


@dataclass(slots=True)
class _Branch:
    """A directory that rules spell, and what they spell in it."""

    inner: dict[str, "_Branch"] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class Start:
    """A directory, and what rules call it from their anchor on."""

    spelled: str
    place: str


class Detours:
    """The links among the beginnings of many patterns.

    A directory is looked through again only when it has changed, so that a thousand rules cost no
    more than one question for each directory in which they name something.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._root = _Branch()
        self._seen: dict[tuple[str, int], tuple[tuple[int, ...], list[tuple[str, bool]]]] = {}
        for prefix in prefixes:
            branch = self._root
            for part in filter(None, prefix.split("/")):
                branch = branch.inner.setdefault(part, _Branch())

    def under(self, anchor: Path) -> list[Start]:
        """Those below a real directory."""
        return list(self._follow(self._root, "", str(anchor).rstrip("/"), 0))

    def _follow(self, branch: _Branch, spelled: str, place: str, links: int) -> Iterator[Start]:
        for name, is_link in self._present(branch, place or "/"):
            longer = f"{spelled}/{name}" if spelled else name
            there = f"{place}/{name}"
            if is_link:
                there = str(ends_of(Path(there))[-1])
                yield Start(longer, there)
            # A link may lead back to where it stands.
            if branch.inner[name].inner and links < 8:
                yield from self._follow(branch.inner[name], longer, there, links + is_link)

    def _present(self, branch: _Branch, place: str) -> list[tuple[str, bool]]:
        """The names of the branch that exist there, and whether they are links."""
        if not branch.inner:
            return []
        try:
            found = os.stat(place)  # noqa: PTH116  (once for each directory, in every decision)
        except OSError:
            return []
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        key = (place, id(branch))
        known = self._seen.get(key)
        if known is None or known[0] != state:
            known = self._seen[key] = (state, _looked_up(branch.inner, place))
        return known[1]


def _looked_up(names: Iterable[str], place: str) -> list[tuple[str, bool]]:
    present: list[tuple[str, bool]] = []
    for name in names:
        try:
            mode = os.lstat(f"{place.rstrip('/')}/{name}").st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            present.append((name, stat.S_ISLNK(mode)))
    return present
