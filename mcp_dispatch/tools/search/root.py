"""Where a search begins: the directory or file that was judged, entered without following a link."""

import json
import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.safe_open import CannotUse
from mcp_dispatch.fs.workspace import both_ends, real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.tools import CallContext
from mcp_dispatch.tools.files.target import Target, refuse_unless_judged

REPOSITORY_FOLDERS = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
"""What version control keeps for itself: searched only where a call names it."""

KERNEL = (Path("/proc"), Path("/sys"))
"""Files here look regular, and may be endless, block, or tell of our own process."""

# For reading, as a search lists what it enters; the directories on the way need less.
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASSED = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


@dataclass(frozen=True, slots=True)
class Place:
    """`path` is the name that was given, `real` where it leads."""

    path: Path
    real: Path
    is_file: bool

    @property
    def directory(self) -> Path:
        """The real directory that is entered."""
        return self.real.parent if self.is_file else self.real

    @property
    def inside(self) -> str:
        """What is searched, seen from that directory. It never looks like an option."""
        return f"./{self.real.name}" if self.is_file else "./"

    def named(self, relative: str) -> Path:
        """A file that was found, by the name the caller knows."""
        return self.path if self.is_file else self.path / relative

    def really(self, relative: str) -> Path:
        return self.real if self.is_file else self.real / relative


def place_at(path: Path, context: CallContext) -> Place:
    """Raises `CannotUse` for what cannot be searched, `Refused` for what was not judged."""
    real = real_path(path)
    refuse_unless_judged(Target(path, real), context)
    if in_kernel(real):
        raise CannotUse(f"{path} belongs to the kernel and has no ordinary files. Use Bash.")
    with _explained(path):
        mode = real.lstat().st_mode
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise CannotUse(f"{path} is neither a directory nor a regular file.")
    return Place(path, real, stat.S_ISREG(mode))


@contextmanager
def entered(place: Place) -> Generator[int, None, None]:
    """A descriptor of the place's directory. A component that became a link since is an error."""
    parts = place.directory.parts
    with _explained(place.path):
        descriptor = os.open(parts[0], _PASSED if parts[1:] else _LISTED)
        for position, part in enumerate(parts[1:], 2):
            flags = _LISTED if position == len(parts) else _PASSED
            try:
                below = os.open(part, flags, dir_fd=descriptor)
            finally:
                os.close(descriptor)
            descriptor = below
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def below(descriptor: int, name: str) -> int:
    """A descriptor of the directory `name`, which is no link."""
    return os.open(name, _LISTED, dir_fd=descriptor)


def in_kernel(real: Path) -> bool:
    return any(real.is_relative_to(place) for place in KERNEL)


class Sight:
    """Which files of a place the caller may see. A rule hides a file by any of its names."""

    def __init__(self, place: Place, hides: Callable[[Path], bool]) -> None:
        self._place = place
        self._hides = hides
        self._holds_kernel = any(one.is_relative_to(place.directory) for one in KERNEL)
        self._two_names = place.path != place.real
        self._unmoved: set[Path] = set()

    def enters(self, relative: str) -> bool:
        """Whether there can be a file to show in that directory."""
        return not (self._holds_kernel and in_kernel(self._place.really(relative)))

    def shows(self, relative: str) -> bool:
        if not self.enters(relative) or self._hides(self._place.named(relative)):
            return False
        return not (self._two_names and self._hides(self._place.really(relative)))

    def shows_link(self, relative: str) -> bool:
        """Both what is linked and where it leads, and every step between."""
        try:
            ends = both_ends(self._place.really(relative))
        except Refused:
            return False
        return self.shows(relative) and not any(in_kernel(end) or self._hides(end) for end in ends)

    def status(self, relative: str) -> os.stat_result | None:
        """None for a file that is hidden, has gone, or is not the regular file it was.

        The search ran in another process, which opens files by their names: a link that was put
        in the place of a file or directory meanwhile must not show what it leads to.
        """
        real = self._place.really(relative)
        if not self.shows(relative) or not self._stands(real.parent):
            return None
        try:
            status = real.lstat()
        except OSError:
            return None
        return status if stat.S_ISREG(status.st_mode) else None

    def _stands(self, directory: Path) -> bool:
        if directory not in self._unmoved:
            try:
                if real_path(directory) != directory:
                    return False
            except Refused:
                return False
            self._unmoved.add(directory)
        return True


@contextmanager
def _explained(path: Path) -> Generator[None, None, None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CannotUse(f"Path does not exist: {path}") from error
    except PermissionError as error:
        raise CannotUse(f"{path}: permission denied by the file system.") from error
    except OSError as error:
        raise CannotUse(f"{path}: {error.strerror}.") from error


_BREAKS_THE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def shown(path: str) -> str:
    """A name that would break its line is quoted as in JSON; bytes that are no text become U+FFFD."""
    text = os.fsencode(path).decode("utf-8", "replace")
    return json.dumps(text) if _BREAKS_THE_LINE.search(text) else text


def shown_from(directory: Path | None, path: Path) -> str:
    """The name from `directory` on where it lies in it, so that answers stay short."""
    if directory is None or not path.is_relative_to(directory):
        return shown(str(path))
    relative = str(path.relative_to(directory))
    # Without it the name would be taken for a home directory when it is given back to a tool.
    return shown(f"./{relative}" if relative.startswith("~") else relative)
