"""Where files are: every name of a file, and what the file system says of a place."""

import os
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from mcp_dispatch.fs.workspace import both_ends
from mcp_dispatch.model.errors import Refused

DEEPEST = 256
"""Directories in a path over which it is not judged, so that matching stays quick."""


class Unresolvable(Exception):
    """A path that cannot be followed to its end, so that no rule can be trusted on it."""


class Places:
    """Where the anchors of path rules are now; `directories` are what `./` means.

    It lives as long as one decision: what it has asked of the file system it does not ask again.
    """

    def __init__(self, home: Path, directories: Sequence[Path]) -> None:
        self.home = home
        self.directories = tuple(directories)
        self._ends: dict[Path, tuple[Path, ...]] = {}
        self._folds: dict[Path, bool] = {}
        self._tops: dict[str, Path] | None = None

    def seen_from(self, directories: Sequence[Path]) -> "Places":
        """The same places where `./` means other directories; both remember for each other."""
        other = Places(self.home, directories)
        other._ends, other._folds = self._ends, self._folds
        return other

    def ends(self, path: Path) -> tuple[Path, ...]:
        """Every name of a place of our own choosing; itself alone where it cannot be followed."""
        found = self._ends.get(path)
        if found is None:
            found = self._ends[path] = ends_of(path)
        return found

    def folds(self, path: Path) -> bool:
        found = self._folds.get(path)
        if found is None:
            found = self._folds[path] = folds_case(path)
        return found

    def tops(self) -> dict[str, Path]:
        """The links directly under the root, which only the administrator can change."""
        if self._tops is None:
            with os.scandir("/") as entries:
                linked = [entry.path for entry in entries if entry.is_symlink()]
            self._tops = {link[1:]: self.ends(Path(link))[-1] for link in linked}
        return self._tops

    def all_inside(self, names: Sequence[Path], directories: Sequence[Path]) -> bool:
        """Whether every name lies in one of the directories, compared component by component."""
        ends = [end for directory in directories for end in self.ends(directory)]
        return bool(names) and all(any(name.is_relative_to(end) for end in ends) for name in names)


def ends_of(path: Path) -> tuple[Path, ...]:
    """Every name of a place; itself alone where it cannot be followed."""
    try:
        return _ends(path)
    except Refused:
        return (path,)


def relative(name: str, anchor: str) -> str | None:
    """`name` from `anchor` on, compared directory by directory; None where it lies elsewhere."""
    start = anchor.rstrip("/")
    if name in (start, anchor):
        return ""
    return name[len(start) + 1 :] if name.startswith(f"{start}/") else None


def folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def folds_case(path: Path) -> bool:
    """Whether the file system takes another case of this name for the same file."""
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


def names_of(path: str, directory: Path | None, home: Path) -> tuple[Path, ...]:
    """Every absolute name of the file: as given, each step of its links, and where it really is.

    Raises `Unresolvable`.
    """
    text = f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path
    if "\0" in text or not text:
        raise Unresolvable(f"{path!r} is not a path")
    whole = Path(text) if text.startswith("/") else (directory or Path("/")) / text
    if directory is None and not text.startswith("/"):
        raise Unresolvable(f"{path!r} is relative, and there is no working directory")
    if len(whole.parts) > DEEPEST:
        raise Unresolvable(f"{path!r} has more than {DEEPEST} directories")
    try:
        names = _ends(whole)
    except Refused as refused:
        raise Unresolvable(str(refused)) from refused
    except UnicodeEncodeError as error:
        raise Unresolvable(f"{path!r} is not a path") from error
    lexical = without_dots(whole)
    return names if lexical in names else (lexical, *names)


def _ends(path: Path) -> tuple[Path, ...]:
    """As `both_ends`, which is only needed where there is a link or a `..` on the way."""
    return (path,) if _is_real_as_it_stands(str(path)) else both_ends(path)


def _is_real_as_it_stands(text: str) -> bool:
    """Whether nothing on the way is a link; what is missing cannot be one."""
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


def without_dots(path: Path) -> Path:
    """`.` and `..` taken out as text, and of two leading slashes one."""
    text = str(path)
    if not text.startswith("//") and "/.." not in text:
        return path
    text = os.path.normpath(path)
    return Path(text[1:] if text.startswith("//") else text)
