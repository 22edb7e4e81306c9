"""Read: returns the numbered lines of a text file, an image, or the cells of a notebook."""

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

from mcp_dispatch.fs.safe_open import FileError, FileTooLargeError, load_from, open_regular_file
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    ToolResult,
    build_error_result,
    build_text_block,
)
from mcp_dispatch.results.locks import lock_open_file
from mcp_dispatch.tools.base import BuiltInTool, declare_read_only_tool, parse_integer
from mcp_dispatch.tools.files.encoding import SIGNATURE_BYTES, detect_image_format
from mcp_dispatch.tools.files.image import (
    MAX_SOURCE_BYTES,
    CannotShowImage,
    Picture,
    render_picture,
)
from mcp_dispatch.tools.files.notebook import (
    MAX_NOTEBOOK_BYTES,
    NotANotebook,
    build_notebook_result,
    parse_notebook,
)
from mcp_dispatch.tools.files.target import FILE_PATH_SCHEMA, FileTarget, resolve_target, with_path
from mcp_dispatch.tools.files.text_page import (
    DEFAULT_LINES,
    MAX_LINE_CHARS,
    MAX_PAGE_CHARS,
    MAX_TOKENS,
    Bounds,
    LineWrapper,
    StopSignal,
    build_page_result,
    has_changed,
    read_page,
)

_DEADLINE_SECONDS = 120
# A limiter of its own: reads that wait for each other must not block the threads of other tools.
_MAX_THREADS = 16

_DECLARATION = declare_read_only_tool(
    name="Read",
    title="Read a file",
    description=(
        "Reads a text file and returns its lines, numbered as by `cat -n`; an image comes back as"
        " an image, a Jupyter notebook (.ipynb) as its cells with their outputs.\n"
        f"- Without offset and limit: the first {DEFAULT_LINES} lines, lines over {MAX_LINE_CHARS}"
        " characters cut.\n"
        f"- One answer holds at most about {MAX_TOKENS} tokens; page through larger files with offset"
        " and limit.\n"
        "- A file must be read whole before Write or Edit may change it; a PARTIAL view does not"
        " count.\n"
        "- The number and tab before each line are not part of the file.\n"
        "- In a notebook, offset and limit count cells; Edit and Write change its JSON."
    ),
    properties={
        "file_path": FILE_PATH_SCHEMA,
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
    result_limit=None,
)


class ReadTool(BuiltInTool):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        # One image or notebook at a time: decoding one may take hundreds of megabytes.
        self._decode_lock = threading.Lock()
        self._threads = anyio.CapacityLimiter(_MAX_THREADS)

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Open no file: whether it exists is disclosed only after the call is permitted."""
        return CheckResult(
            with_path(arguments, resolve_target(self._workspace, arguments, context))
        )

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target = resolve_target(self._workspace, arguments, context)
        stop = threading.Event()
        read = partial(
            self._read_file, target, arguments, stop, context.scope.is_delivered(target.key)
        )
        try:
            with anyio.fail_after(_DEADLINE_SECONDS):
                return await to_thread.run_sync(read, abandon_on_cancel=True, limiter=self._threads)
        except FileError as problem:
            return build_error_result(str(problem))
        except TimeoutError:
            return build_error_result(
                f"{target.path} could not be read in {_DEADLINE_SECONDS} seconds."
            )
        finally:
            stop.set()

    def _read_file(
        self, target: FileTarget, arguments: JsonObject, stop: StopSignal, is_stored_result: bool
    ) -> ToolResult:
        """Detect the kind of the file by its content, or a notebook by its suffix. Blocks."""
        if problem := _find_path_problem(target):
            raise FileError(problem)
        with open_regular_file(target.real) as descriptor:
            if is_stored_result:
                lock_open_file(descriptor)
            image_format = detect_image_format(os.pread(descriptor, SIGNATURE_BYTES, 0))
            if image_format is not None:
                return self._read_image(target, descriptor, image_format, stop)
            if target.path.suffix.lower() == ".ipynb":
                return self._read_notebook(target, descriptor, arguments, stop)
            wrapper = LineWrapper(MAX_LINE_CHARS) if is_stored_result else None
            return _read_text(target, descriptor, arguments, stop, wrapper=wrapper)

    @contextmanager
    def _hold_decode_lock(
        self, target: FileTarget, stop: StopSignal
    ) -> Generator[None, None, None]:
        with self._decode_lock:
            if stop.is_set():
                raise FileError(f"Reading {target.path} was stopped.")
            yield

    def _read_image(
        self, target: FileTarget, descriptor: int, image_format: str, stop: StopSignal
    ) -> ToolResult:
        try:
            content = load_from(descriptor, MAX_SOURCE_BYTES).content
            with self._hold_decode_lock(target, stop):
                picture = render_picture(content, image_format)
        except FileTooLargeError as problem:
            raise FileError(
                f"{target.path} is a {image_format} image of {problem.size} bytes; images over"
                f" {MAX_SOURCE_BYTES} bytes are not read. Make it smaller with Bash."
            ) from problem
        except CannotShowImage as problem:
            raise FileError(
                f"{target.path} is a {image_format} image that cannot be shown: {problem}."
            ) from problem
        return _build_image_result(target, picture, len(content))

    def _read_notebook(
        self, target: FileTarget, descriptor: int, arguments: JsonObject, stop: StopSignal
    ) -> ToolResult:
        try:
            loaded = load_from(descriptor, MAX_NOTEBOOK_BYTES)
            with self._hold_decode_lock(target, stop):
                notebook = parse_notebook(loaded.content)
                changed = has_changed(descriptor, loaded.status)
                return build_notebook_result(
                    target, notebook, parse_bounds(arguments), loaded, changed
                )
        except FileTooLargeError as problem:
            raise FileError(
                f"{target.path} is a notebook of {problem.size} bytes; notebooks over"
                f" {MAX_NOTEBOOK_BYTES} bytes are not read. Use Bash, for example with `jq`."
            ) from problem
        except NotANotebook as problem:
            os.lseek(descriptor, 0, os.SEEK_SET)
            notice = f"Warning: this is not a valid notebook ({problem}); it is shown as text."
            return _read_text(target, descriptor, arguments, stop, notice)


def _read_text(
    target: FileTarget,
    descriptor: int,
    arguments: JsonObject,
    stop: StopSignal,
    *notices: str,
    wrapper: LineWrapper | None = None,
) -> ToolResult:
    page = read_page(target, descriptor, parse_bounds(arguments), stop, wrapper)
    if wrapper is not None and wrapper.added_breaks:
        notices = (
            *notices,
            f"Lines of more than {MAX_LINE_CHARS} characters are shown as several lines.",
        )
    return build_page_result(target, page, has_range=_has_range(arguments), notices=notices)


def _build_image_result(target: FileTarget, picture: Picture, size: int) -> ToolResult:
    """Return the image. It does not count as reading the file: Write would replace unseen bytes."""
    text = f"{target.path}: {picture} ({size} bytes in the file)."
    block = picture.to_content_block()
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
    return ToolResult({"content": [build_text_block(text), block]}, response)


def parse_bounds(arguments: JsonObject) -> Bounds:
    """Return the lines to show. Lines of a requested range are not truncated."""
    return Bounds(
        first=max(1, parse_integer(arguments.get("offset"), 1)),
        count=parse_integer(arguments.get("limit"), DEFAULT_LINES),
        width=None if _has_range(arguments) else MAX_LINE_CHARS,
        budget=MAX_PAGE_CHARS,
    )


def _has_range(arguments: JsonObject) -> bool:
    return "offset" in arguments or "limit" in arguments


def _find_path_problem(target: FileTarget) -> str:
    """Return advice for a missing file and for a directory, the two most common mistakes.

    Return "" otherwise; `open_regular_file` detects all other problems.
    """
    try:
        mode = target.real.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return _describe_missing_file(target)
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return f"{target.path} is a directory, not a file. List it with `ls` in Bash."
    return ""


def _describe_missing_file(target: FileTarget) -> str:
    if target.path.is_symlink():
        return f"File does not exist: {target.path} is a link to {target.real}."
    message = f"File does not exist: {target.path}."
    similar = _find_similar_names(target.path)
    return f"{message} Did you mean {' or '.join(similar)}?" if similar else message


def _find_similar_names(path: Path) -> list[str]:
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, 1000) if entry.name.isprintable()]
    except OSError:
        return []
    same_stem = [name for name in sorted(names) if Path(name).stem == path.stem]
    close = get_close_matches(path.name, names, n=3, cutoff=0.7)
    return [str(path.parent / name) for name in dict.fromkeys([*close, *same_stem])][:3]
