"""Read: a file as a model can take it: numbered lines, an image, or the cells of a notebook."""

import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from itertools import islice
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_dispatch.fs.safe_open import CannotUse, TooLarge, load_from, opened
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import CallContext, Checked, Interrupt, ToolResult, error_result
from mcp_dispatch.results.locks import hold
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.files.image import (
    FILE_LIMIT,
    HEAD,
    CannotShow,
    Picture,
    format_of,
    picture_of,
)
from mcp_dispatch.tools.files.notebook import (
    NOTEBOOK_LIMIT,
    NotANotebook,
    notebook_result,
    parse_notebook,
)
from mcp_dispatch.tools.files.target import FILE_PATH, Target, target_of, with_path
from mcp_dispatch.tools.files.text_page import (
    BUDGET,
    LINES,
    TOKENS,
    WIDTH,
    Bounds,
    Folded,
    Stop,
    has_changed,
    page_result,
    read_page,
)

_DEADLINE_SECONDS = 120
# Reads that wait for each other must not take the threads that other tools need.
_THREADS = 16

_DECLARATION = Declaration(
    name="Read",
    title="Read a file",
    description=(
        "Reads a text file and returns its lines, numbered as by `cat -n`; an image comes back as"
        " an image, a Jupyter notebook (.ipynb) as its cells with their outputs.\n"
        f"- Without offset and limit: the first {LINES} lines, lines over {WIDTH} characters cut.\n"
        f"- One answer holds at most about {TOKENS} tokens; page through larger files with offset"
        " and limit.\n"
        "- A file must be read whole before Write or Edit may change it; a PARTIAL view does not"
        " count.\n"
        "- The number and tab before each line are not part of the file.\n"
        "- In a notebook, offset and limit count cells; Edit and Write change its JSON."
    ),
    properties={
        "file_path": FILE_PATH,
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "The line (of a notebook, the cell) to start from, counted from 1",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "The number of lines (of a notebook, cells) to read",
        },
    },
    required=("file_path",),
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    interrupt=Interrupt.CANCEL,
    result_limit=None,
)


class Read(BuiltIn):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        # One image at a time: each may take hundreds of megabytes while it is decoded.
        self._decoding = threading.Lock()
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Looks at no file: whether there is one is told only to who may read it."""
        return Checked(with_path(arguments, target_of(self._workspace, arguments, context)))

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target = target_of(self._workspace, arguments, context)
        stop = threading.Event()
        look = partial(self._look, target, arguments, stop, context.scope.delivered(target.key))
        try:
            with anyio.fail_after(_DEADLINE_SECONDS):
                return await to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._threads)
        except CannotUse as problem:
            return error_result(str(problem))
        except TimeoutError:
            return error_result(f"{target.path} could not be read in {_DEADLINE_SECONDS} seconds.")
        finally:
            stop.set()

    def _look(self, target: Target, arguments: JsonObject, stop: Stop, kept: bool) -> ToolResult:
        """Blocks. What a file is, its bytes say; only a notebook needs its name as well."""
        if problem := _problem_before_opening(target):
            raise CannotUse(problem)
        with opened(target.real) as descriptor:
            if kept:
                hold(descriptor)
            image_format = format_of(os.pread(descriptor, HEAD, 0))
            if image_format is not None:
                return self._image(target, descriptor, image_format, stop)
            if target.path.suffix.lower() == ".ipynb":
                return self._notebook(target, descriptor, arguments, stop)
            folded = Folded(WIDTH) if kept else None
            return _text(target, descriptor, arguments, stop, folded=folded)

    @contextmanager
    def _turn(self, target: Target, stop: Stop) -> Generator[None, None, None]:
        with self._decoding:
            if stop.is_set():
                raise CannotUse(f"Reading {target.path} was stopped.")
            yield

    def _image(self, target: Target, descriptor: int, image_format: str, stop: Stop) -> ToolResult:
        try:
            content = load_from(descriptor, FILE_LIMIT).content
            with self._turn(target, stop):
                picture = picture_of(content, image_format)
        except TooLarge as problem:
            raise CannotUse(
                f"{target.path} is a {image_format} image of {problem.size} bytes; images over"
                f" {FILE_LIMIT} bytes are not read. Make it smaller with Bash."
            ) from problem
        except CannotShow as problem:
            raise CannotUse(
                f"{target.path} is a {image_format} image that cannot be shown: {problem}."
            ) from problem
        return _image_result(target, picture, len(content))

    def _notebook(
        self, target: Target, descriptor: int, arguments: JsonObject, stop: Stop
    ) -> ToolResult:
        try:
            loaded = load_from(descriptor, NOTEBOOK_LIMIT)
            with self._turn(target, stop):
                notebook = parse_notebook(loaded.content)
                changed = has_changed(descriptor, loaded.status)
                return notebook_result(target, notebook, bounds_of(arguments), loaded, changed)
        except TooLarge as problem:
            raise CannotUse(
                f"{target.path} is a notebook of {problem.size} bytes; notebooks over"
                f" {NOTEBOOK_LIMIT} bytes are not read. Use Bash, for example with `jq`."
            ) from problem
        except NotANotebook as problem:
            os.lseek(descriptor, 0, os.SEEK_SET)
            notice = f"Warning: this is not a valid notebook ({problem}); it is shown as text."
            return _text(target, descriptor, arguments, stop, notice)


def _text(
    target: Target,
    descriptor: int,
    arguments: JsonObject,
    stop: Stop,
    *notices: str,
    folded: Folded | None = None,
) -> ToolResult:
    page = read_page(target, descriptor, bounds_of(arguments), stop, folded)
    if folded is not None and folded.folds:
        notices = (*notices, f"Lines of more than {WIDTH} characters are shown as several lines.")
    return page_result(target, page, chosen=_is_chosen(arguments), notices=notices)


def _image_result(target: Target, picture: Picture, size: int) -> ToolResult:
    """No change of context: who has seen a picture has not read the bytes that a write replaces."""
    text = f"{target.path}: {picture} ({size} bytes in the file)."
    block = picture.block()
    response: JsonObject = {
        "type": "image",
        "file": {
            "filePath": str(target.path),
            "base64": block["data"],
            "type": picture.mime_type,
            "originalSize": size,
            "dimensions": {
                "originalWidth": picture.original_size[0],
                "originalHeight": picture.original_size[1],
                "displayWidth": picture.size[0],
                "displayHeight": picture.size[1],
            },
        },
    }
    return ToolResult({"content": [{"type": "text", "text": text}, block]}, response)


def bounds_of(arguments: JsonObject) -> Bounds:
    """A range that was asked for shows its lines whole: there is no other way to see them."""
    return Bounds(
        first=max(1, _whole(arguments.get("offset"), 1)),
        count=_whole(arguments.get("limit"), LINES),
        width=None if _is_chosen(arguments) else WIDTH,
        budget=BUDGET,
    )


def _is_chosen(arguments: JsonObject) -> bool:
    return "offset" in arguments or "limit" in arguments


def _whole(number: object, default: int) -> int:
    # JSON Schema takes 3.0 for an integer.
    return int(number) if isinstance(number, int | float) else default


def _problem_before_opening(target: Target) -> str:
    """The two mistakes made most often, with what to do next; `opened` finds all others."""
    try:
        mode = target.real.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return _missing(target)
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return f"{target.path} is a directory, not a file. List it with `ls` in Bash."
    return ""


def _missing(target: Target) -> str:
    if target.path.is_symlink():
        return f"File does not exist: {target.path} is a link to {target.real}."
    message = f"File does not exist: {target.path}."
    similar = _similar_names(target.path)
    return f"{message} Did you mean {' or '.join(similar)}?" if similar else message


def _similar_names(path: Path) -> list[str]:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 1000) if entry.name.isprintable()]
    except OSError:
        return []
    same_stem = [name for name in sorted(names) if Path(name).stem == path.stem]
    close = get_close_matches(path.name, names, n=3, cutoff=0.7)
    return [str(path.parent / name) for name in dict.fromkeys([*close, *same_stem])][:3]
