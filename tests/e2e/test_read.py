"""Every kind of file that Read can meet, through a real MCP client over stdio, in both eras."""

import base64
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from mcp_types import CallToolResult, ImageContent
from PIL import Image

from tests.support.client import ERAS, Era, Installation, extract_text

GIGABYTE = 1024**3
ONLY_REGULAR = "only regular files can be read or written."

each_era = pytest.mark.parametrize("era", ERAS)


def reminder(text: str) -> str:
    return f"<system-reminder>{text}</system-reminder>"


def read_bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def sparse(head: bytes, size: int) -> Callable[[Path], object]:
    """A file of `size` bytes that takes no room: what follows its head is a hole."""

    def make(path: Path) -> None:
        with path.open("wb") as file:
            file.write(head)
            file.truncate(size)

    return make


def create_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)


@dataclass(frozen=True)
class Case:
    """A file, how it is read, and what is said of it; `{path}` and `{folder}` are where it is."""

    name: str
    make: Callable[[Path], object]
    said: str
    error: bool = False
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


def directory(path: Path) -> None:
    path.mkdir()


CASES = [
    Case("plain", read_bytes(b"one\ntwo\n"), "     1\tone\n     2\ttwo"),
    Case("no-newline", read_bytes(b"one\ntwo"), "     1\tone\n     2\ttwo"),
    Case("crlf", read_bytes(b"one\r\ntwo\r\n"), "     1\tone\n     2\ttwo"),
    Case(
        "empty", read_bytes(b""), reminder("Warning: the file exists but the contents are empty.")
    ),
    Case(
        "past-the-end",
        read_bytes(b"one\ntwo\n"),
        reminder(
            "Warning: the file exists but is shorter than the provided offset (9)."
            " The file has 2 lines."
        ),
        arguments={"offset": 9},
    ),
    Case(
        "a-page",
        read_bytes(b"1\n2\n3\n4\n"),
        "     2\t2\n     3\t3\n"
        + reminder(
            "PARTIAL view of {path}: lines 2-3 of 4. Use offset and limit to read the rest."
            " This does not count as reading the file."
        ),
        arguments={"offset": 2, "limit": 2},
    ),
    Case(
        "latin-1",
        read_bytes(b"caf\xe9\n"),
        "     1\tcaf\ufffd\n"
        + reminder(
            "Warning: the file is not valid UTF-8; bytes that could not be read are shown as"
            " \ufffd."
        ),
    ),
    Case("utf-16", read_bytes("\ufeffé\n".encode("utf-16-le")), "     1\té"),
    Case(
        "binary",
        read_bytes(b"\x7fELF\0\0"),
        "{path} is a binary file; Read shows text, notebooks and images (PNG, JPEG, GIF, WebP,"
        " BMP, TIFF). Use Bash with a program that knows its format, such as `file` or `xxd`.",
        error=True,
    ),
    Case(
        "directory",
        directory,
        "{path} is a directory, not a file. List it with `ls` in Bash.",
        error=True,
    ),
    Case("fifo", os.mkfifo, f"{{path}} is a FIFO (named pipe); {ONLY_REGULAR}", error=True),
    Case("socket", create_socket, f"{{path}} is a socket; {ONLY_REGULAR}", error=True),
    Case(
        "link-to-zero",
        lambda path: path.symlink_to("/dev/zero"),
        f"/dev/zero is a character device; {ONLY_REGULAR}",
        error=True,
    ),
    Case("link", lambda path: path.symlink_to("plain"), "     1\tone\n     2\ttwo"),
    Case(
        "dangling",
        lambda path: path.symlink_to("nowhere-at-all"),
        "File does not exist: {path} is a link to {folder}/nowhere-at-all.",
        error=True,
    ),
    Case(
        "gigabyte-of-nothing",
        sparse(b"", GIGABYTE),
        "{path} is a binary file; Read shows text, notebooks and images (PNG, JPEG, GIF, WebP,"
        " BMP, TIFF). Use Bash with a program that knows its format, such as `file` or `xxd`.",
        error=True,
    ),
    Case(
        "gigabyte-of-text",
        sparse(b"line\n" * 4000, GIGABYTE),
        "  3999\tline\n  4000\tline\n"
        + reminder(
            "PARTIAL view of {path}: lines 3999-4000 of 4001. Use offset and limit to read the"
            " rest. This does not count as reading the file."
        ),
        arguments={"offset": 3999, "limit": 2},
    ),
]


@each_era
async def test_every_kind_of_file_gets_its_answer(installed: Installation, era: Era) -> None:
    folder = installed.workspace.resolve()
    for case in CASES:
        case.make(folder / case.name)
    installed.add_rules(allow=["Read(//**)"])
    answers: dict[str, tuple[bool, str]] = {}

    async with installed.open_client(era) as client:
        for case in CASES:
            with anyio.fail_after(60):
                result = await client.call_tool("Read", {"file_path": case.name, **case.arguments})
            answers[case.name] = (bool(result.is_error), extract_text(result))

    assert answers == {
        case.name: (case.error, case.said.format(path=folder / case.name, folder=folder))
        for case in CASES
    }


@each_era
async def test_kernel_files_are_refused_even_if_a_rule_allows_them(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Read(//**)"])
    device = f" is a character device; {ONLY_REGULAR}"
    kernel = " belongs to the kernel and is not an ordinary file. Use Bash."
    ends = {
        **dict.fromkeys(("/dev/null", "/dev/zero", "/dev/stdin", "/dev/fd/0"), device),
        **dict.fromkeys(("/proc/self/environ", "/proc/self/mem", "/proc/kmsg"), kernel),
        "/sys/kernel/notes": kernel,
    }
    answers: dict[str, CallToolResult] = {}

    async with installed.open_client(era) as client:
        for path in ends:
            with anyio.fail_after(20):
                answers[path] = await client.call_tool("Read", {"file_path": path})

    for path, end in ends.items():
        assert answers[path].is_error
        assert extract_text(answers[path]).endswith(end), path


@each_era
async def test_a_file_outside_the_workspace_is_not_read_through_dots_or_a_link(
    installed: Installation, era: Era
) -> None:
    secret = installed.folder / "secret"
    secret.write_text("secret", encoding="utf-8")
    (installed.workspace / "link").symlink_to(secret)
    (installed.workspace / "up").symlink_to("..")

    async with installed.open_client(era) as client:
        results = [
            await client.call_tool("Read", {"file_path": path})
            for path in ("../secret", "link", "up/secret", "up/workspace/../secret", str(secret))
        ]

    assert all(result.is_error for result in results)
    refused = "<tool_use_error>Permission to use Read was not given: "
    assert all(extract_text(result).startswith(refused) for result in results)


@each_era
async def test_a_change_of_a_file_while_it_is_read_is_reported(
    installed: Installation, era: Era
) -> None:
    path = installed.workspace / "growing"
    sparse(b"line\n" * 4000, GIGABYTE // 4)(path)
    done, results = anyio.Event(), list[CallToolResult]()

    async def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not done.is_set():
                file.write(b"x")
                await checkpoint()

    async with installed.open_client(era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(grow)
        with anyio.fail_after(60):
            results.append(await client.call_tool("Read", {"file_path": "growing", "limit": 1}))
        done.set()

    [result] = results
    assert not result.is_error
    assert extract_text(result).startswith("     1\tline\n")
    assert extract_text(result).endswith(
        reminder("Warning: the file changed while it was read. Read it again.")
    )


@each_era
async def test_an_image_and_a_notebook_arrive_as_blocks(installed: Installation, era: Era) -> None:
    stream = BytesIO()
    Image.new("RGB", (4, 3)).save(stream, "PNG")
    encoded = base64.b64encode(stream.getvalue()).decode("ascii")
    plot = {"output_type": "display_data", "metadata": {}, "data": {"image/png": encoded}}
    cell = {"cell_type": "code", "source": "plot()", "outputs": [plot]}
    installed.write_file("a.png", stream.getvalue())
    installed.write_file("a.ipynb", json.dumps({"cells": [cell]}))

    async with installed.open_client(era) as client:
        image = await client.call_tool("Read", {"file_path": "a.png"})
        notebook = await client.call_tool("Read", {"file_path": "a.ipynb"})

    picture = ImageContent(type="image", data=encoded, mime_type="image/png")
    assert image.content[1:] == [picture]
    assert notebook.content[1] == picture
    assert extract_text(notebook) == (
        '<cell number="1" type="code">\nplot()\n[PNG image, 4 x 3 pixels]\n</cell>'
    )
