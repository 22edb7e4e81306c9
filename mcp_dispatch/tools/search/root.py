"""Where a search begins: the directory or file that was judged, entered without following a link."""

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
"""What version control keeps for itself: searched only where a call names it."""

KERNEL_PATHS = (Path("/proc"), Path("/sys"))
"""Files here look regular, and may be endless, block, or tell of our own process."""

# For reading, as a search lists what it enters; the directories on the way need less.
_LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRAVERSE_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True, slots=True)
class SearchRoot:
    """`path` is the name that was given, `real` where it leads."""

    path: Path
    real: Path
    is_file: bool

    @property
    def directory(self) -> Path:
        """The real directory that is entered."""
        return self.real.parent if self.is_file else self.real

    @property
    def search_argument(self) -> str:
        """What is searched, seen from that directory. It never looks like an option."""
        return f"./{self.real.name}" if self.is_file else "./"

    def to_given_path(self, relative: str) -> Path:
        """A file that was found, by the name the caller knows."""
        return self.path if self.is_file else self.path / relative

    def to_real_path(self, relative: str) -> Path:
        return self.real if self.is_file else self.real / relative


def resolve_search_root(path: Path, context: CallContext) -> SearchRoot:
    """Raises `CannotUse` for what cannot be searched, `Refused` for what was not judged."""
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
    """A descriptor of the place's directory. A component that became a link since is an error."""
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
    """A descriptor of the directory `name`, which is no link."""
    return os.open(name, _LIST_FLAGS, dir_fd=descriptor)


def is_kernel_path(real: Path) -> bool:
    return any(real.is_relative_to(place) for place in KERNEL_PATHS)


class SearchFilter:
    """Which files of a place the caller may see. A rule hides a file by any of its names."""

    def __init__(self, root: SearchRoot, hides: Callable[[Path], bool]) -> None:
        self._root = root
        self._hides = hides
        self._contains_kernel_paths = any(
            one.is_relative_to(root.directory) for one in KERNEL_PATHS
        )
        self._has_link_path = root.path != root.real
        self._verified_directories: set[Path] = set()

    def can_enter(self, relative: str) -> bool:
        """Whether there can be a file to show in that directory."""
        return not (
            self._contains_kernel_paths and is_kernel_path(self._root.to_real_path(relative))
        )

    def is_visible(self, relative: str) -> bool:
        if not self.can_enter(relative) or self._hides(self._root.to_given_path(relative)):
            return False
        return not (self._has_link_path and self._hides(self._root.to_real_path(relative)))

    def is_link_visible(self, relative: str) -> bool:
        """Both what is linked and where it leads, and every step between."""
        try:
            ends = resolve_links(self._root.to_real_path(relative))
        except Refused:
            return False
        return self.is_visible(relative) and not any(
            is_kernel_path(end) or self._hides(end) for end in ends
        )

    def stat_file(self, relative: str) -> os.stat_result | None:
        """None for a file that is hidden, has gone, or is not the regular file it was.

        The search ran in another process, which opens files by their names: a link that was put
        in the place of a file or directory meanwhile must not show what it leads to.
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
    """A name that would break its line is quoted as in JSON; bytes that are no text become U+FFFD."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return json.dumps(text) if _LINE_BREAKING.search(text) else text


def format_relative_path(base: Path | None, path: Path) -> str:
    """The name from `directory` on where it lies in it, so that answers stay short."""
    if base is None or not path.is_relative_to(base):
        return format_path(str(path))
    relative = str(path.relative_to(base))
    # Without it the name would be taken for a home directory when it is given back to a tool.
    return format_path(f"./{relative}" if relative.startswith("~") else relative)
