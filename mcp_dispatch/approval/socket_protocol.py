"""A question as it travels to a terminal, and back into words there."""

import os
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from mcp_dispatch.approval.pending import Lying
from mcp_dispatch.approval.render import because, call_lines, one_line
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import visible

ROOM: Final = 20_000
"""Characters of a call that a terminal can page through."""

_GIST: Final = 200


@dataclass(frozen=True, slots=True)
class Told:
    """All of it can be shown as it is: nothing in it is invisible."""

    id: str
    tool: str
    gist: str
    call: tuple[str, ...]
    because: str
    rules: tuple[str, ...]
    file: str | None
    choices: tuple[str, ...]
    waits: bool
    """Whether the call waits for the answer; else the call made again will use it."""

    age: float
    server: int = 0
    workspace: str | None = None


def tell(lying: Lying, age: float) -> JsonObject:
    question = lying.question
    offer = question.offer
    return {
        "id": lying.id,
        "tool": visible(question.tool),
        "gist": one_line(question.arguments, _GIST),
        "call": [*call_lines(question.arguments, ROOM)],
        "because": because(question),
        "rules": [*map(visible, offer.rules)],
        "file": None if offer.file is None else visible(str(offer.file)),
        "choices": [*(extent.value for extent in offer.extents), "deny"],
        "waits": lying.until is None,
        "age": round(age, 1),
    }


def heard(shown: JsonObject) -> list[Told]:
    """The questions of one server's message. Raises `KeyError` or `TypeError` for anything else."""
    questions = cast("list[JsonObject]", shown["questions"])
    root = cast("str | None", shown["workspace"])
    return [_heard(question, cast(int, shown["server"]), root) for question in questions]


def _heard(question: JsonObject, server: int, root: str | None) -> Told:
    return Told(
        id=cast(str, question["id"]),
        tool=cast(str, question["tool"]),
        gist=cast(str, question["gist"]),
        call=tuple(cast("list[str]", question["call"])),
        because=cast(str, question["because"]),
        rules=tuple(cast("list[str]", question["rules"])),
        file=cast("str | None", question["file"]),
        choices=tuple(cast("list[str]", question["choices"])),
        waits=question["waits"] is True,
        age=cast(float, question["age"]),
        server=server,
        workspace=None if root is None else visible(root),
    )


LONGEST: Final = 100
"""Bytes of a socket's path: systems take 104 or 108, with a zero at the end."""

LONGEST_LINE: Final = 1_000_000
_ENDING: Final = ".approvals.sock"


def new_socket(run: Path) -> Path:
    """The name says whose it is; nobody had it before."""
    return run / f"{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"


def sockets_in(run: Path) -> list[Path]:
    return sorted(run.glob(f"*{_ENDING}"))


def server_of(path: Path) -> int | None:
    """The process that a socket's name names."""
    number = path.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def servers_in(run: Path) -> frozenset[int]:
    return frozenset(pid for path in sockets_in(run) if (pid := server_of(path)) is not None)


@contextmanager
def short_path(path: Path) -> Generator[str]:
    """A name for the socket that is not too long for the system, where there is one."""
    if len(os.fsencode(path)) <= LONGEST or sys.platform != "linux":
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def remove_stale(run: Path) -> None:
    """Takes away what servers left behind that could not end in order."""
    for path in sockets_in(run):
        if is_stale(path):
            with suppress(OSError):
                path.unlink()


def is_stale(path: Path) -> bool:
    """Whether nobody listens any more."""
    with socket.socket(socket.AF_UNIX) as probe, short_path(path) as name:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
