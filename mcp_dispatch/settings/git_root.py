"""Finds the root of a git repository by reading files, without running git."""

import os
import sys
from pathlib import Path

from mcp_dispatch.settings.read_file import read_regular_file

_MAX_POINTER_BYTES = 4096


def find_repository_root(directory: Path) -> Path | None:
    """Return the main checkout that contains the real path `directory`.

    Return None outside of git, if the checkout is the home directory, or if another user owns it. A
    worktree leads to its main checkout only if that checkout lists the worktree: otherwise any
    folder could claim to be part of any other.
    """
    if sys.platform == "win32":
        return None
    try:
        checkout = _find_checkout(directory)
        if checkout is None or checkout == Path.home().resolve():
            return None
        return checkout if checkout.stat().st_uid == os.geteuid() else None
    except (OSError, RuntimeError, ValueError):
        return None  # circular links or invalid names


def _find_checkout(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.is_dir():
            return place
        if git.is_file():
            return _find_main_checkout(git) or place
    return None


def _find_main_checkout(git: Path) -> Path | None:
    """Return the checkout that a worktree's `.git` file points to, if it points back."""
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
    """Return the content of one of git's one-line files."""
    try:
        content = read_regular_file(file, _MAX_POINTER_BYTES)
    except OSError:
        return None
    return None if content is None else content.decode().strip()
