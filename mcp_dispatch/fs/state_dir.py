"""The state directory: private to its owner, with one room for each kind of file."""

import errno
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_state_dir

from mcp_dispatch.model.errors import StartError

_PRIVATE_MODE = 0o700
_OTHERS_MASK = 0o077


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """What outlives a call. Several processes share it: per-process files or locks inside."""

    path: Path
    results: Path
    journal: Path
    catalogue: Path
    logs: Path
    run: Path

    @classmethod
    def open(cls, path: Path | None = None) -> "StateDirectory":
        """The directory at `path`, or the platform's own place, made where it is missing.

        Raises `StartError` where it cannot be made private: others could read what tools answered.
        """
        root = _create_private_directory(
            path or Path(user_state_dir("mcp-dispatch", appauthor=False))
        )
        rooms = {
            name: _create_private_directory(root / name)
            for name in ("results", "journal", "catalogue", "logs", "run")
        }
        return cls(root, **rooms)


def _create_private_directory(path: Path) -> Path:
    """`path`, absolute and without a symlink at its end, ours and closed to others."""
    place = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100  (Path.resolve follows links)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=_PRIVATE_MODE, exist_ok=True)
        real = place.resolve(strict=True)
        _restrict_to_owner(place, real)
    except OSError as problem:
        raise _build_start_error(place, problem.strerror or str(problem)) from problem
    return real


def _restrict_to_owner(path: Path, real: Path) -> None:
    """Checks and tightens through one descriptor, so that nobody can swap the directory between."""
    if sys.platform == "win32":
        return
    descriptor = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid():
            raise _build_owner_error(path, real)
        if stat.S_IMODE(status.st_mode) & _OTHERS_MASK:
            _restrict_mode(path, descriptor)
    finally:
        os.close(descriptor)


def _restrict_mode(path: Path, descriptor: int) -> None:
    try:
        os.fchmod(descriptor, _PRIVATE_MODE)
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTSUP):
            raise
        reason = f"others may open it and it cannot be made private ({problem.strerror})"
        raise _build_start_error(path, reason) from problem


def _build_owner_error(path: Path, real: Path) -> StartError:
    if path.is_symlink():
        return _build_start_error(
            path, f"it is a link to {str(real)!r}, which belongs to another user"
        )
    return _build_start_error(path, "it belongs to another user")


def _build_start_error(path: Path, reason: str) -> StartError:
    advice = "remove it, or name another directory with --state-dir"
    return StartError(f"cannot use the state directory {str(path)!r}: {reason}; {advice}")
