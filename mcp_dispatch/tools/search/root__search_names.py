"""File names as a search shows them: one line of valid text each."""

import json
import os
import re
from pathlib import Path

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
