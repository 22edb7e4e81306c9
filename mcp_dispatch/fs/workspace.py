"""The directories a server works in, and the resolution of paths in arguments."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.model.errors import Refused, StartError
from mcp_dispatch.model.outcome import RefusedBy

# The kernel's own limit for one path (Linux: MAXSYMLINKS).
_MAX_LINKS = 40

_SYSTEM_DIRECTORIES = tuple(
    Path(name)
    for name in (
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin"),
        *("/sys", "/usr", "/var", "/snap", "/lost+found"),
        *("/Applications", "/Library", "/System", "/cores", "/private/etc", "/private/var"),
    )
)
# Directories below a system directory that hold files of users.
_USER_DIRECTORIES = tuple(
    Path(name) for name in ("/var/tmp", "/private/var/tmp", "/private/var/folders")
)
# Shared parents: a directory below one is a workspace, the parent itself never is.
_SHARED_PARENTS = tuple(
    Path(name)
    for name in (
        *("/home", "/Users", "/tmp", "/private", "/private/tmp", "/opt", "/srv", "/mnt"),
        *("/media", "/Volumes", *map(str, _USER_DIRECTORIES)),
    )
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The working directory of a server (a real path) and those added to it.

    Without a root, `unset_reason` explains why, and `require` raises.
    """

    root: Path | None
    additional: tuple[Path, ...] = ()
    unset_reason: str = ""

    @staticmethod
    def choose(flag: Path | None, roots: Sequence[Path], cwd: Path) -> "Workspace":
        """Choose the flag, else the client's first root, else `cwd`.

        Only the flag can choose a directory that is shared or belongs to the system.
        """
        if flag is not None:
            return Workspace(_resolve_flag(flag, cwd))
        try:
            candidate = to_real_path(roots[0] if roots else cwd)
        except Refused as refused:
            return Workspace(None, unset_reason=str(refused))
        reason = _explain_unfit(candidate)
        return Workspace(None, unset_reason=reason) if reason else Workspace(candidate)

    def with_directories(self, directories: Sequence[Path]) -> "Workspace":
        return replace(self, additional=tuple(to_real_path(path) for path in directories))

    def require(self) -> Path:
        if self.root is None:
            raise _build_refusal(
                f"no workspace: {self.unset_reason}; start the server with --workspace DIR"
            )
        return self.root

    @property
    def directories(self) -> tuple[Path, ...]:
        return self.additional if self.root is None else (self.root, *self.additional)

    def contains(self, path: Path) -> bool:
        """Return whether the real path of `path` is in one of the directories."""
        try:
            real = to_real_path(path)
        except Refused:
            return False
        return any(real.is_relative_to(directory) for directory in self.directories)

    def resolve(self, text: str, cwd: Path | None) -> Path:
        """Return `text` as an absolute path without `~`, `.` or `..`; links are kept.

        A relative path starts at `cwd`, or at the root if `cwd` is None.
        """
        _refuse_invalid_path(text)
        path = _expand_home(text)
        if not path.is_absolute():
            path = (cwd or self.require()) / path
        return _remove_parent_parts(path)


def to_real_path(path: Path) -> Path:
    """Return the real path of an absolute `path`. Components that do not exist are kept."""
    return resolve_links(path)[-1]


def resolve_links(path: Path) -> tuple[Path, ...]:
    """Return the absolute `path` first, the real path last, and each link's step in between.

    A path without links gives one element. Raise `Refused` if links form a circle or a directory
    cannot be searched, since rules cannot be applied to an unresolved path.
    """
    if not path.is_absolute():
        raise _build_refusal(f"{path}: not an absolute path")
    ends = [_remove_parent_parts(path)]
    for step in _iter_link_steps(ends[0]):
        if step != ends[-1]:
            ends.append(step)
    return tuple(ends)


def _iter_link_steps(path: Path) -> Iterator[Path]:
    """Yield the path after each resolved link, except those that still contain `..`."""
    done, pending, links, moved = _normalize_anchor(path), list(path.parts[1:]), 0, False
    while pending:
        part = pending.pop(0)
        if part == "..":
            done = done.parent
        elif (target := _read_link_target(done / part)) is None:
            done = done / part
        else:
            links, moved = links + 1, True
            if links > _MAX_LINKS:
                raise _build_refusal(f"{path}: too many symbolic links, or links in a circle")
            done = _normalize_anchor(target) if target.is_absolute() else done
            pending = [*(target.parts[1:] if target.is_absolute() else target.parts), *pending]
        if moved and ".." not in pending:
            moved = False
            yield done.joinpath(*pending)


def _read_link_target(path: Path) -> Path | None:
    try:
        return path.readlink() if stat.S_ISLNK(path.lstat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _build_refusal(f"{path}: cannot be resolved: {error.strerror}") from error


def _remove_parent_parts(path: Path) -> Path:
    """Remove `..` like the kernel: the parent of a link is the parent of its target."""
    done = _normalize_anchor(path)
    for part in path.parts[1:]:
        if part != "..":
            done = done / part
        else:
            done = (done if _read_link_target(done) is None else to_real_path(done)).parent
    return done


def _normalize_anchor(path: Path) -> Path:
    # POSIX allows a special meaning for two leading slashes; no supported system has one.
    return Path("/") if path.anchor == "//" else Path(path.anchor)


def _refuse_invalid_path(text: str) -> None:
    if not text:
        raise _build_refusal("the path is empty; give the path of a file")
    if "\0" in text:
        raise _build_refusal(f"{text!r}: a path cannot contain a NUL character")
    if text.lower().startswith("file://"):
        raise _build_refusal(f"{text!r} is a URL; give the path alone, as in /home/me/notes.txt")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise _build_refusal(f"{text!r}: a path cannot contain half a surrogate pair") from error


def _expand_home(text: str) -> Path:
    try:
        # Path drops a leading "./", which is how a name that begins with ~ is written.
        return Path(text).expanduser() if text.startswith("~") else Path(text)
    except RuntimeError as error:
        raise _build_refusal(
            f"{text!r}: no such home directory; for a file whose name begins with ~ write ./~…"
        ) from error


def _resolve_flag(flag: Path, cwd: Path) -> Path:
    try:
        real = to_real_path(cwd / _expand_home(str(flag)))
    except Refused as refused:
        raise StartError(f"--workspace {flag}: {refused}") from refused
    if not real.is_dir():
        raise StartError(f"--workspace {flag}: not a directory")
    return real


def _explain_unfit(candidate: Path) -> str:
    """Return why `candidate` is no default workspace, or an empty string."""
    if candidate == Path(candidate.anchor):
        return f"{candidate} is the root of the file system, which is never taken by default"
    if _find_home().is_relative_to(candidate):
        return f"{candidate} is or holds the home directory, which is never taken by default"
    if _is_system(candidate):
        return f"{candidate} is a system directory, which is never taken by default"
    if not candidate.is_dir():
        return f"{candidate} is not a directory"
    return ""


def _is_system(candidate: Path) -> bool:
    if candidate in _SHARED_PARENTS:
        return True
    if any(candidate.is_relative_to(place) for place in _USER_DIRECTORIES):
        return False
    return any(candidate.is_relative_to(place) for place in _SYSTEM_DIRECTORIES)


def _find_home() -> Path:
    try:
        return to_real_path(Path.home())
    except (RuntimeError, Refused):
        return Path("/")


def _build_refusal(message: str) -> Refused:
    return Refused(RefusedBy.SEMANTIC, message)
