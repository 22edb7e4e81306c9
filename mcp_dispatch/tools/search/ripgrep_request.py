"""What a Grep call asks for, and the command line that says it to ripgrep."""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.tools.search.root import KERNEL, REPOSITORY_FOLDERS, Place

HEAD_LIMIT = 250
MOST_CONTEXT = 1000
LONGEST = 65536
"""Bytes of a pattern; Linux takes 131,071 in one argument."""
LONGEST_GLOB = 4096

_GLOB = re.compile(r"(?:\{[^}]*\}|\[[^\]]*\]|[^\s,])+")


class Mode(Enum):
    CONTENT = "content"
    FILES = "files_with_matches"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Request:
    """`limit` is None for all entries from `offset` on."""

    pattern: str
    mode: Mode
    globs: tuple[str, ...]
    type: str | None
    before: int
    after: int
    numbered: bool
    ignores_case: bool
    only_matching: bool
    multiline: bool
    limit: int | None
    offset: int

    @property
    def has_context(self) -> bool:
        return bool(self.before or self.after)


def request_of(arguments: JsonObject) -> Request:
    """Raises `Refused` for text that no command line can hold."""
    around = _whole(arguments.get("context"), _whole(arguments.get("-C"), 0))
    limit = _whole(arguments.get("head_limit"), HEAD_LIMIT)
    only_matching = arguments.get("-o") is True
    file_type = arguments.get("type")
    return Request(
        pattern=_passable("pattern", str(arguments["pattern"])),
        mode=Mode(arguments.get("output_mode", Mode.FILES.value)),
        globs=tuple(_globs(_passable("glob", str(arguments.get("glob", "")), LONGEST_GLOB))),
        type=None if file_type is None else _passable("type", str(file_type), LONGEST_GLOB),
        # A match alone has nothing around it.
        before=0 if only_matching else _whole(arguments.get("-B"), around),
        after=0 if only_matching else _whole(arguments.get("-A"), around),
        numbered=arguments.get("-n") is not False,
        ignores_case=arguments.get("-i") is True,
        only_matching=only_matching,
        multiline=arguments.get("multiline") is True,
        limit=limit or None,
        offset=_whole(arguments.get("offset"), 0),
    )


def options(request: Request, place: Place, directory: Path | None) -> list[str]:
    """Every value is joined to its option: none of them can be taken for another option.

    `directory` is the current one: globs that are written from there work as well.
    """
    return [
        *("--no-config", "--no-ignore-messages", "--color=never", "--hidden"),
        # A mapped file that shrinks would end ripgrep; only matches over lines need it whole.
        *(("--multiline", "--multiline-dotall", "--mmap") if request.multiline else ("--no-mmap",)),
        *_shape(request),
        *(("--ignore-case",) if request.ignores_case else ()),
        *(() if request.type is None else (f"--type={request.type}",)),
        *(f"--glob={glob}" for glob in _placed(request.globs, place, directory)),
        # Last, because the last glob that matches decides.
        *(f"--glob=!{name}" for name in sorted(REPOSITORY_FOLDERS)),
        *(f"--glob=!{name}" for name in KERNEL if place.real == name.parent),
        f"--regexp={request.pattern}",
        "--",
        place.inside,
    ]


def _shape(request: Request) -> tuple[str, ...]:
    match request.mode:
        case Mode.FILES:
            return ("--files-with-matches", "--null")
        case Mode.COUNT:
            matches = ("--only-matching",) if request.only_matching else ()
            return ("--count", "--null", "--with-filename", *matches)
        case Mode.CONTENT:
            # In the order of names, so that the next page begins where this one ends.
            return (
                *("--json", "--sort=path"),
                f"--before-context={request.before}",
                f"--after-context={request.after}",
            )


def _placed(globs: tuple[str, ...], place: Place, directory: Path | None) -> list[str]:
    """Each glob from the place on, and also from the current directory if it is written so."""
    placed = list(globs)
    for glob in globs:
        sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
        placed.extend(
            f"{sign}/{body.removeprefix(start)}"
            for start in _written_starts(place, directory)
            if body.startswith(start)
        )
    return placed


def _written_starts(place: Place, directory: Path | None) -> list[str]:
    starts = [f"{place.path}/".replace("//", "/")]
    if directory is not None and directory in place.path.parents:
        starts.append(f"{place.path.relative_to(directory)}/")
    return starts


def _globs(text: str) -> list[str]:
    """Blanks and commas divide globs, except inside braces and brackets."""
    return _GLOB.findall(text)


def _passable(field: str, text: str, longest: int = LONGEST) -> str:
    if "\0" in text:
        raise _refused(f"{field} contains a NUL character, which cannot be passed on; write \\x00")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise _refused(f"{field} contains half a surrogate pair; write the character") from error
    if size > longest:
        raise _refused(f"{field} has {size:,} bytes; at most {longest:,} are taken")
    return text


def _whole(number: Json, default: int) -> int:
    # JSON Schema takes 3.0 for an integer.
    return int(number) if isinstance(number, int | float) else default


def _refused(message: str) -> Refused:
    return Refused(RefusedBy.SEMANTIC, message)
