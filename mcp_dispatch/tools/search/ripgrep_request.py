"""The arguments of a Grep call, and the command line of ripgrep for them."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.tools.base import build_refusal, parse_integer
from mcp_dispatch.tools.search.root import KERNEL_PATHS, REPOSITORY_FOLDERS, SearchRoot

DEFAULT_HEAD_LIMIT = 250
MAX_CONTEXT_LINES = 1000
MAX_PATTERN_BYTES = 65536
"""Well below the longest argument that Linux accepts, 131,071 bytes."""
MAX_GLOB_BYTES = 4096

_GLOB = re.compile(r"(?:\{[^}]*\}|\[[^\]]*\]|[^\s,])+")


class GrepOutputMode(Enum):
    CONTENT = "content"
    FILES = "files_with_matches"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """A `limit` of None means all entries from `offset` on."""

    pattern: str
    mode: GrepOutputMode
    globs: tuple[str, ...]
    type: str | None
    lines_before: int
    lines_after: int
    line_numbers: bool
    ignore_case: bool
    only_matching: bool
    multiline: bool
    limit: int | None
    offset: int

    @property
    def has_context(self) -> bool:
        return bool(self.lines_before or self.lines_after)


def parse_request(arguments: JsonObject) -> GrepRequest:
    """Raise `Refused` for text that cannot be passed on a command line."""
    around = parse_integer(arguments.get("context"), parse_integer(arguments.get("-C"), 0))
    limit = parse_integer(arguments.get("head_limit"), DEFAULT_HEAD_LIMIT)
    only_matching = arguments.get("-o") is True
    file_type = arguments.get("type")
    return GrepRequest(
        pattern=_require_passable("pattern", str(arguments["pattern"])),
        mode=GrepOutputMode(arguments.get("output_mode", GrepOutputMode.FILES.value)),
        globs=tuple(
            _split_globs(_require_passable("glob", str(arguments.get("glob", "")), MAX_GLOB_BYTES))
        ),
        type=None
        if file_type is None
        else _require_passable("type", str(file_type), MAX_GLOB_BYTES),
        # With -o only the match is shown, without context.
        lines_before=0 if only_matching else parse_integer(arguments.get("-B"), around),
        lines_after=0 if only_matching else parse_integer(arguments.get("-A"), around),
        line_numbers=arguments.get("-n") is not False,
        ignore_case=arguments.get("-i") is True,
        only_matching=only_matching,
        multiline=arguments.get("multiline") is True,
        limit=limit or None,
        offset=parse_integer(arguments.get("offset"), 0),
    )


def build_options(request: GrepRequest, root: SearchRoot, directory: Path | None) -> list[str]:
    """Return the arguments of ripgrep.

    Each value is joined to its option, so that it cannot be parsed as another option. Globs may
    also be relative to `directory`, the current directory.
    """
    return [
        *("--no-config", "--no-ignore-messages", "--color=never", "--hidden"),
        # A mapped file that shrinks would crash ripgrep; only multiline search needs mapping.
        *(("--multiline", "--multiline-dotall", "--mmap") if request.multiline else ("--no-mmap",)),
        *_build_mode_options(request),
        *(("--ignore-case",) if request.ignore_case else ()),
        *(() if request.type is None else (f"--type={request.type}",)),
        *(f"--glob={glob}" for glob in _expand_globs(request.globs, root, directory)),
        # At the end, because the last matching glob decides.
        *(f"--glob=!{name}" for name in sorted(REPOSITORY_FOLDERS)),
        *(f"--glob=!{name}" for name in KERNEL_PATHS if root.real == name.parent),
        f"--regexp={request.pattern}",
        "--",
        root.search_argument,
    ]


def _build_mode_options(request: GrepRequest) -> tuple[str, ...]:
    match request.mode:
        case GrepOutputMode.FILES:
            return ("--files-with-matches", "--null")
        case GrepOutputMode.COUNT:
            matches = ("--only-matching",) if request.only_matching else ()
            return ("--count", "--null", "--with-filename", *matches)
        case GrepOutputMode.CONTENT:
            # Sorted by path, so that the next page begins where this one ends.
            return (
                *("--json", "--sort=path"),
                f"--before-context={request.lines_before}",
                f"--after-context={request.lines_after}",
            )


def _expand_globs(globs: tuple[str, ...], root: SearchRoot, directory: Path | None) -> list[str]:
    """Return the globs, and those that include the path of the root relative to the root, too."""
    expanded = list(globs)
    for glob in globs:
        sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        expanded.extend(
            f"{sign}/{body.removeprefix(prefix)}"
            for prefix in _list_root_prefixes(root, directory)
            if body.startswith(prefix)
        )
    return expanded


def _list_root_prefixes(root: SearchRoot, directory: Path | None) -> list[str]:
    prefixes = [f"{root.path}/".replace("//", "/")]
    if directory is not None and directory in root.path.parents:
        prefixes.append(f"{root.path.relative_to(directory)}/")
    return prefixes


def _split_globs(text: str) -> list[str]:
    """Split at blanks and commas that are not inside braces or brackets."""
    return _GLOB.findall(text)


def _require_passable(field: str, text: str, max_bytes: int = MAX_PATTERN_BYTES) -> str:
    if "\0" in text:
        raise build_refusal(
            f"{field} contains a NUL character, which cannot be passed on; write \\x00"
        )
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise build_refusal(
            f"{field} contains half a surrogate pair; write the character"
        ) from error
    if size > max_bytes:
        raise build_refusal(f"{field} has {size:,} bytes; at most {max_bytes:,} are taken")
    return text
