"""The root of a search, opened without following links, and the filter for what is visible."""

import json
import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import resolve_links, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.tools import CallContext
from mcp_dispatch.tools.files.target import FileTarget, refuse_changed_path

REPOSITORY_FOLDERS = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""Folders of version control, searched only if a call names them."""

KERNEL_PATHS = (Path("/proc"), Path("/sys"))
"""Files here look regular, but may be endless, block, or disclose our own process."""

# The last directory is opened for listing; those above it need no read permission.
_LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRAVERSE_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True, slots=True)
class SearchRoot:
    """`path` is the path as given, `real` the real path."""

    path: Path
    real: Path
    is_file: bool

    @property
    def directory(self) -> Path:
        """The real directory that is opened."""
        return self.real.parent if self.is_file else self.real

    @property
    def search_argument(self) -> str:
        """The path to search, relative to `directory`. It cannot be parsed as an option."""
        return f"./{self.real.name}" if self.is_file else "./"

    def to_given_path(self, relative: str) -> Path:
        """Return the path of a found file below the path as given."""
        return self.path if self.is_file else self.path / relative

    def to_real_path(self, relative: str) -> Path:
        return self.real if self.is_file else self.real / relative


def resolve_search_root(path: Path, context: CallContext) -> SearchRoot:
    """Raise `FileError` if the path cannot be searched, `Refused` if it was swapped."""
    real = to_real_path(path)
    refuse_changed_path(FileTarget(path, real), context)
    if is_kernel_path(real):
        raise FileError(f"{path} belongs to the kernel and has no ordinary files. Use Bash.")
    with _translate_os_errors(path):
        mode = real.lstat().st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise FileError(f"{path} is neither a directory nor a regular file.")
    return SearchRoot(path, real, stat.S_ISREG(mode))


@contextmanager
def open_search_root(root: SearchRoot) -> Generator[int, None, None]:
    """Open the directory of the root. A component that has become a link is an error."""
    parts = root.directory.parts
    with _translate_os_errors(root.path):
        descriptor = os.open(parts[0], _TRAVERSE_FLAGS if parts[1:] else _LIST_FLAGS)
        for position, part in enumerate(parts[1:], 2):
            flags = _LIST_FLAGS if position == len(parts) else _TRAVERSE_FLAGS
            try:
                below = os.open(part, flags, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(descriptor: int, name: str) -> int:
    """Open the directory `name` unless it is a link."""
    return os.open(name, _LIST_FLAGS, dir_fd=descriptor)


def is_kernel_path(real: Path) -> bool:
    return any(real.is_relative_to(path) for path in KERNEL_PATHS)


class SearchFilter:
    """Decides which files a search shows. A rule that hides one path of a file hides it."""

    def __init__(self, root: SearchRoot, hides: Callable[[Path], bool]) -> None:
        self._root = root
        self._hides = hides
        self._contains_kernel_paths = any(
            path.is_relative_to(root.directory) for path in KERNEL_PATHS
        )
        self._has_link_path = root.path != root.real
        self._verified_directories: set[Path] = set()

    def can_enter(self, relative: str) -> bool:
        """Return whether the directory may contain visible files."""
        return not (
            self._contains_kernel_paths and is_kernel_path(self._root.to_real_path(relative))
        )

    def is_visible(self, relative: str) -> bool:
        if not self.can_enter(relative) or self._hides(self._root.to_given_path(relative)):
            return False
        return not (self._has_link_path and self._hides(self._root.to_real_path(relative)))

    def is_link_visible(self, relative: str) -> bool:
        """Return whether the link, its target, and each link between them are visible."""
        try:
            paths = resolve_links(self._root.to_real_path(relative))
        except Refused:
            return False
        return self.is_visible(relative) and not any(
            is_kernel_path(path) or self._hides(path) for path in paths
        )

    def stat_file(self, relative: str) -> os.stat_result | None:
        """Return None for a file that is hidden, deleted, or no regular file.

        ripgrep opens files by name, so a link that replaces a file or directory during the search
        must not disclose its target.
        """
        real = self._root.to_real_path(relative)
        if not self.is_visible(relative) or not self._is_unmoved(real.parent):
            return None
        try:
            status = real.lstat()
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _is_unmoved(self, directory: Path) -> bool:
        if directory not in self._verified_directories:
            try:
                if to_real_path(directory) != directory:
                    return False
            except Refused:
                return False
            self._verified_directories.add(directory)
        return True


@contextmanager
def _translate_os_errors(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileError(f"Path does not exist: {path}") from error
    except PermissionError as error:
        raise FileError(f"{path}: permission denied by the file system.") from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}.") from error


_LINE_BREAKING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def format_path(path: str) -> str:
    """Return the path on one line: quoted as JSON if necessary, invalid bytes as U+FFFD."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return json.dumps(text) if _LINE_BREAKING.search(text) else text


def format_relative_path(base: Path | None, path: Path) -> str:
    """Return the path relative to `base` if it lies there, which keeps results short."""
    if base is None or not path.is_relative_to(base):
        return format_path(str(path))
    relative = str(path.relative_to(base))
    # Without ./ a tool that receives the name would expand the tilde.
    return format_path(f"./{relative}" if relative.startswith("~") else relative)
