"""Resolve paths to every name that a file has, for path rules."""

import os
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from mcp_dispatch.fs.workspace import resolve_links
from mcp_dispatch.model.errors import Refused

MAX_PATH_DEPTH = 256
"""A path with more directories is not evaluated, so that matching stays fast."""


class PathResolutionError(Exception):
    """A path cannot be resolved, so rules cannot be applied to it."""


class PathAnchors:
    """The anchors of path rules; `./` stands for `directories`.

    One object serves one decision and caches its file system queries.
    """

    def __init__(self, home: Path, directories: Sequence[Path]) -> None:
        self.home = home
        self.directories = tuple(directories)
        self._resolved: dict[Path, tuple[Path, ...]] = {}
        self._case_insensitive: dict[Path, bool] = {}
        self._root_links: dict[str, Path] | None = None

    def with_directories(self, directories: Sequence[Path]) -> "PathAnchors":
        """Return the same anchors with other directories for `./`. Both share their caches."""
        other = PathAnchors(self.home, directories)
        other._resolved, other._case_insensitive = self._resolved, self._case_insensitive
        return other

    def resolve(self, path: Path) -> tuple[Path, ...]:
        """Return every name of `path`, or only `path` if it cannot be resolved."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = resolve_or_keep(path)
        return found

    def is_case_insensitive(self, path: Path) -> bool:
        found = self._case_insensitive.get(path)
        if found is None:
            found = self._case_insensitive[path] = is_case_insensitive(path)
        return found

    def list_root_links(self) -> dict[str, Path]:
        """Return the symbolic links in `/`, which only the administrator can change."""
        if self._root_links is None:
            with os.scandir("/") as entries:
                linked = [entry.path for entry in entries if entry.is_symlink()]
            self._root_links = {link[1:]: self.resolve(Path(link))[-1] for link in linked}
        return self._root_links

    def contains_all(self, names: Sequence[Path], directories: Sequence[Path]) -> bool:
        """Whether every name lies in one of the directories, compared component by component."""
        ends = [end for directory in directories for end in self.resolve(directory)]
        return bool(names) and all(any(name.is_relative_to(end) for end in ends) for name in names)


def resolve_or_keep(path: Path) -> tuple[Path, ...]:
    """Return every name of `path`, or only `path` if it cannot be resolved."""
    try:
        return _resolve_if_needed(path)
    except Refused:
        return (path,)


def to_relative(name: str, anchor: str) -> str | None:
    """Return `name` relative to `anchor`, or None if it is not below `anchor`."""
    start = anchor.rstrip("/")
    if name in (start, anchor):
        return ""
    return name[len(start) + 1 :] if name.startswith(f"{start}/") else None


def fold_case(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def is_case_insensitive(path: Path) -> bool:
    """Return whether the file system ignores case in this path."""
    text = str(path)
    while text != "/":
        parent, _, name = text.rpartition("/")
        other = name.swapcase()
        if other != name:
            try:
                return os.path.samefile(text, f"{parent}/{other}")  # noqa: PTH121  (quicker)
            except OSError:
                if os.path.lexists(text):
                    return False
        text = parent or "/"
    return False


def resolve_all_names(path: str, directory: Path | None, home: Path) -> tuple[Path, ...]:
    """Return every absolute name of the file: as given, after each link, and the real path.

    Raise `PathResolutionError`.
    """
    text = f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path
    if "\0" in text or not text:
        raise PathResolutionError(f"{path!r} is not a path")
    whole = Path(text) if text.startswith("/") else (directory or Path("/")) / text
    if directory is None and not text.startswith("/"):
        raise PathResolutionError(f"{path!r} is relative, and there is no working directory")
    if len(whole.parts) > MAX_PATH_DEPTH:
        raise PathResolutionError(f"{path!r} has more than {MAX_PATH_DEPTH} directories")
    try:
        names = _resolve_if_needed(whole)
    except Refused as refused:
        raise PathResolutionError(str(refused)) from refused
    except UnicodeEncodeError as error:
        raise PathResolutionError(f"{path!r} is not a path") from error
    lexical = normalize_lexically(whole)
    return names if lexical in names else (lexical, *names)


def _resolve_if_needed(path: Path) -> tuple[Path, ...]:
    """Like `resolve_links`, but faster for a path without links and `..`."""
    return (path,) if _is_free_of_links(str(path)) else resolve_links(path)


def _is_free_of_links(text: str) -> bool:
    """Return whether no component is a link. A missing component cannot be one."""
    if not text.startswith("/") or text.startswith("//") or "/.." in text:
        return False
    at = 0
    while at >= 0:
        at = text.find("/", at + 1)
        try:
            # pathlib takes five times as long, and this is most of what a decision costs.
            mode = os.lstat(text if at < 0 else text[:at]).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        if stat.S_ISLNK(mode):
            return False
    return True


def normalize_lexically(path: Path) -> Path:
    """Remove `.`, `..` and a doubled leading slash without reading the file system."""
    text = str(path)
    if not text.startswith("//") and "/.." not in text:
        return path
    text = os.path.normpath(path)
    return Path(text[1:] if text.startswith("//") else text)
