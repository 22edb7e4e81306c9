"""What a Grep call asks for, and the command line that says it to ripgrep."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.tools.search.root import KERNEL_PATHS, REPOSITORY_FOLDERS, SearchRoot

DEFAULT_HEAD_LIMIT = 250
MAX_CONTEXT_LINES = 1000
MAX_PATTERN_BYTES = 65536
"""Bytes of a pattern; Linux takes 131,071 in one argument."""
MAX_GLOB_BYTES = 4096

_GLOB = re.compile(r"(?:\{[^}]*\}|\[[^\]]*\]|[^\s,])+")


class GrepOutputMode(Enum):
    CONTENT = "content"
    FILES = "files_with_matches"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """`limit` is None for all entries from `offset` on."""

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
    """Raises `Refused` for text that no command line can hold."""
    around = _parse_integer(arguments.get("context"), _parse_integer(arguments.get("-C"), 0))
    limit = _parse_integer(arguments.get("head_limit"), DEFAULT_HEAD_LIMIT)
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
        # A match alone has nothing around it.
        lines_before=0 if only_matching else _parse_integer(arguments.get("-B"), around),
        lines_after=0 if only_matching else _parse_integer(arguments.get("-A"), around),
        line_numbers=arguments.get("-n") is not False,
        ignore_case=arguments.get("-i") is True,
        only_matching=only_matching,
        multiline=arguments.get("multiline") is True,
        limit=limit or None,
        offset=_parse_integer(arguments.get("offset"), 0),
    )


def build_options(request: GrepRequest, root: SearchRoot, directory: Path | None) -> list[str]:
    """Every value is joined to its option: none of them can be taken for another option.

    `directory` is the current one: globs that are written from there work as well.
    """
    return [
        *("--no-config", "--no-ignore-messages", "--color=never", "--hidden"),
        # A mapped file that shrinks would end ripgrep; only matches over lines need it whole.
        *(("--multiline", "--multiline-dotall", "--mmap") if request.multiline else ("--no-mmap",)),
        *_build_mode_options(request),
        *(("--ignore-case",) if request.ignore_case else ()),
        *(() if request.type is None else (f"--type={request.type}",)),
        *(f"--glob={glob}" for glob in _expand_globs(request.globs, root, directory)),
        # Last, because the last glob that matches decides.
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
            # In the order of names, so that the next page begins where this one ends.
            return (
                *("--json", "--sort=path"),
                f"--before-context={request.lines_before}",
                f"--after-context={request.lines_after}",
            )


def _expand_globs(globs: tuple[str, ...], root: SearchRoot, directory: Path | None) -> list[str]:
    """Each glob from the place on, and also from the current directory if it is written so."""
    placed = list(globs)
    for glob in globs:
        sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        placed.extend(
            f"{sign}/{body.removeprefix(start)}"
            for start in _list_root_prefixes(root, directory)
            if body.startswith(start)
        )
    return placed


def _list_root_prefixes(root: SearchRoot, directory: Path | None) -> list[str]:
    starts = [f"{root.path}/".replace("//", "/")]
    if directory is not None and directory in root.path.parents:
        starts.append(f"{root.path.relative_to(directory)}/")
    return starts


def _split_globs(text: str) -> list[str]:
    """Blanks and commas divide globs, except inside braces and brackets."""
    return _GLOB.findall(text)


def _require_passable(field: str, text: str, max_bytes: int = MAX_PATTERN_BYTES) -> str:
    if "\0" in text:
        raise _build_refusal(
            f"{field} contains a NUL character, which cannot be passed on; write \\x00"
        )
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise _build_refusal(
            f"{field} contains half a surrogate pair; write the character"
        ) from error
    if size > max_bytes:
        raise _build_refusal(f"{field} has {size:,} bytes; at most {max_bytes:,} are taken")
    return text


def _parse_integer(value: Json, default: int) -> int:
    # JSON Schema takes 3.0 for an integer.
    return int(value) if isinstance(value, int | float) else default


def _build_refusal(message: str) -> Refused:
    return Refused(RefusedBy.SEMANTIC, message)
