"""Read before write: a file is changed only by who has seen it as it is."""

from mcp_dispatch.fs.safe_open import CannotUse, Loaded, exists, load
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import FileSeen
from mcp_dispatch.tools.files.target import Target

NOT_READ = "File has not been read yet. Read it first before writing to it."
MODIFIED = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


def load_seen(target: Target, seen: FileSeen | None) -> Loaded | None:
    """The file as it is now; None where there is none. Raises `CannotUse` for an unread one.

    Whether a partial view is enough, and whether the file may have changed, the tool decides.
    """
    if not exists(target.real):
        return None
    if seen is None:
        raise CannotUse(NOT_READ)
    return load(target.real)


def is_stale(loaded: Loaded, seen: FileSeen) -> bool:
    """By content alone: a newer time on the same bytes is no change, an old one no proof."""
    return loaded.digest != seen.digest


def refuse_half_characters(field: str, text: str) -> None:
    """A lone surrogate is no text in any encoding."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(
            RefusedBy.SEMANTIC,
            f"{field} contains half a surrogate pair at position {error.start}; send whole"
            " characters.",
        ) from error
