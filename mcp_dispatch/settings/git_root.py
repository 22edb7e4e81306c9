"""The root of the git repository around a directory, from files alone: git is never run."""

import os
import sys
from pathlib import Path

from mcp_dispatch.settings.read_file import read_regular_file

_MAX_POINTER_BYTES = 4096


def find_repository_root(directory: Path) -> Path | None:
    """The main checkout around the real path `directory`.

    None outside of git, where that checkout is the home directory, and where it belongs to
    somebody else. A worktree leads to its main checkout only if that checkout knows the worktree:
    otherwise any folder could claim to be part of any other.
    """
    if sys.platform == "win32":
        return None
    try:
        checkout = _find_checkout(directory)
        if checkout is None or checkout == Path.home().resolve():
            return None
        return checkout if checkout.stat().st_uid == os.geteuid() else None
    except (OSError, RuntimeError, ValueError):
        return None  # links in a circle, names that are none: whoever writes them gains nothing


def _find_checkout(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.is_dir():
            return place
        if git.is_file():
            return _find_main_checkout(git) or place
    return None


def _find_main_checkout(git: Path) -> Path | None:
    """Where the `.git` file of a worktree leads, and that place names the file in turn."""
    pointer = _read_pointer(git)
    if pointer is None or not pointer.startswith("gitdir:"):
        return None
    private = git.parent / pointer.removeprefix("gitdir:").strip()
    common, back = _read_pointer(private / "commondir"), _read_pointer(private / "gitdir")
    if common is None or back is None:
        return None
    repository = (private / common).resolve()
    genuine = (
        (private / back).resolve() == git.resolve()
        and private.resolve().parent == repository / "worktrees"
        and repository.name == ".git"
    )
    return repository.parent if genuine else None


def _read_pointer(file: Path) -> str | None:
    """The one line of a small file of git's."""
    try:
        content = read_regular_file(file, _MAX_POINTER_BYTES)
    except OSError:
        return None
    return None if content is None else content.decode().strip()
