"""The state directory: private to its owner, with a subdirectory for each kind of file."""

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
    """The directory of files that outlive a call. Processes share it, so files have locks or are
    per process.
    """

    path: Path
    results: Path
    journal: Path
    catalogue: Path
    logs: Path
    run: Path

    @classmethod
    def open(cls, path: Path | None = None) -> "StateDirectory":
        """Open the directory at `path`, or the default of the platform, and create it if missing.

        Raise `StartError` if it cannot be made private, since others could read tool results.
        """
        root = _create_private_directory(
            path or Path(user_state_dir("mcp-dispatch", appauthor=False))
        )
        directories = {
            name: _create_private_directory(root / name)
            for name in ("results", "journal", "catalogue", "logs", "run")
        }
        return cls(root, **directories)


def _create_private_directory(path: Path) -> Path:
    """Create the directory and return its real path; it is accessible only to its owner."""
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
    """Check and restrict through one descriptor, so the directory cannot be swapped between."""
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
