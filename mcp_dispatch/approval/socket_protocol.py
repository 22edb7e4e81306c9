"""The messages of the approvals socket, and the names of the socket files."""

import os
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from mcp_dispatch.approval.pending import PendingApproval
from mcp_dispatch.approval.render import format_arguments, format_reason, summarize_arguments
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import escape_control_characters

MAX_CALL_CHARS: Final = 20_000
"""Characters of a call that are sent to a terminal, which pages through them."""

_MAX_SUMMARY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ApprovalMessage:
    """A question as a terminal shows it: hidden characters are escaped already."""

    id: str
    tool: str
    summary: str
    call: tuple[str, ...]
    reason: str
    rules: tuple[str, ...]
    file: str | None
    choices: tuple[str, ...]
    is_call_waiting: bool
    """Whether the call waits for the answer; else the answer is used when it is made again."""

    age: float
    server: int = 0
    workspace: str | None = None


def encode_approval(approval: PendingApproval, age: float) -> JsonObject:
    question = approval.question
    options = question.options
    return {
        "id": approval.id,
        "tool": escape_control_characters(question.tool),
        "gist": summarize_arguments(question.arguments, _MAX_SUMMARY_CHARS),
        "call": [*format_arguments(question.arguments, MAX_CALL_CHARS)],
        "because": format_reason(question),
        "rules": [*map(escape_control_characters, options.rules)],
        "file": None if options.file is None else escape_control_characters(str(options.file)),
        "choices": [*(scope.value for scope in options.scopes), "deny"],
        "waits": approval.expires_at is None,
        "age": round(age, 1),
    }


def decode_approvals(message: JsonObject) -> list[ApprovalMessage]:
    """Return the questions of a server's message. Raises `KeyError` or `TypeError`."""
    questions = cast("list[JsonObject]", message["questions"])
    server, workspace = cast(int, message["server"]), cast("str | None", message["workspace"])
    return [_decode_approval(question, server, workspace) for question in questions]


def _decode_approval(question: JsonObject, server: int, workspace: str | None) -> ApprovalMessage:
    return ApprovalMessage(
        id=cast(str, question["id"]),
        tool=cast(str, question["tool"]),
        summary=cast(str, question["gist"]),
        call=tuple(cast("list[str]", question["call"])),
        reason=cast(str, question["because"]),
        rules=tuple(cast("list[str]", question["rules"])),
        file=cast("str | None", question["file"]),
        choices=tuple(cast("list[str]", question["choices"])),
        is_call_waiting=question["waits"] is True,
        age=cast(float, question["age"]),
        server=server,
        workspace=None if workspace is None else escape_control_characters(workspace),
    )


MAX_SOCKET_PATH_BYTES: Final = 100
"""Systems accept 104 or 108 bytes with a terminating zero."""

MAX_LINE_BYTES: Final = 1_000_000
_SOCKET_SUFFIX: Final = ".approvals.sock"


def generate_socket_path(run_directory: Path) -> Path:
    """Return a new path that contains the pid of this process."""
    return run_directory / f"{os.getpid()}-{secrets.token_hex(4)}{_SOCKET_SUFFIX}"


def list_sockets(run_directory: Path) -> list[Path]:
    return sorted(run_directory.glob(f"*{_SOCKET_SUFFIX}"))


def parse_server_pid(path: Path) -> int | None:
    """Return the pid in the name of a socket, or None."""
    number = path.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def list_server_pids(run_directory: Path) -> frozenset[int]:
    return frozenset(
        pid for path in list_sockets(run_directory) if (pid := parse_server_pid(path)) is not None
    )


@contextmanager
def shorten_path(path: Path) -> Generator[str]:
    """Yield a path of the socket that is short enough for the system, if there is one."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES or sys.platform != "linux":
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def remove_stale_sockets(run_directory: Path) -> None:
    """Remove the sockets of servers that were killed."""
    for path in list_sockets(run_directory):
        if is_stale(path):
            with suppress(OSError):
                path.unlink()


def is_stale(path: Path) -> bool:
    """Whether no process listens on the socket."""
    with socket.socket(socket.AF_UNIX) as probe, shorten_path(path) as name:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
