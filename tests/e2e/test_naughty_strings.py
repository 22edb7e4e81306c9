"""Strings that break programs, through every string field of every built-in: no crash, no hang, no
way out of the workspace."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, Tool

from tests.support.client import Installation, extract_raw_text, extract_text, start_raw_server
from tests.support.depth import sample

CANARY = "canary-7f3a: nobody may see this"
LISTS = ("blns", "path_traversal", "ours")
OURS = (
    *(
        "\0",
        "note.txt\0",
        "../\0",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/dev/stdin",
        "/dev/zero",
    ),
    *(
        "~",
        "~root",
        "~/etc/passwd",
        "~nobody/x",
        "file:///etc/passwd",
        "./~",
        "-rf",
        "--files",
        "-",
    ),
    *(
        "x" * 300,
        "x/" * 300 + "y",
        "../" * 300 + "etc/passwd",
        "x" * 100_000,
        "[" * 5000,
        "(" * 5000,
    ),
    *(
        "\u202enote.txt",
        "no\u200bte.txt",
        "\uff4e\uff4f\uff54\uff45.txt",
        "note.txt ",
        "note.txt/",
        "note.txt/.",
        "//",
    ),
    *(
        "{a,b}" * 200,
        "**/" * 200,
        "*" * 5000,
        "a" * 50 + "!",
        "(a+)+$",
        "\\",
        "%2e%2e%2f",
        "\U0001f600",
    ),
)
HARMLESS = {
    "file_path": "note.txt",
    "path": ".",
    "content": "note\n",
    "old_string": "note",
    "new_string": "changed",
    "command": "true",
    "pattern": "note",
    "url": "https://localhost/",
}
"""What the other fields of a call hold, so that the one under test is what matters."""

# Judged and turned down: what these would do is beyond the workspace.
ASKED = ("Bash", "WebFetch")


def load_strings(name: str, data_dir: Path) -> tuple[str, ...]:
    if name == "ours":
        return OURS
    loaded: Any = json.loads((data_dir / "strings" / f"{name}.json").read_text(encoding="utf-8"))
    rows: list[str] = loaded["strings"] if name == "path_traversal" else loaded
    return sample(rows, quick=100)


class Trap:
    """A workspace far down a tree with something to be found on every level above it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        below = folder.joinpath(*"12345")
        below.mkdir(parents=True)
        self.installed = Installation(below).add_rules(allow=["Edit(./**)"], ask=ASKED)
        for place in (below, *below.parents):
            for name in ("etc/passwd", "etc/shadow", "boot.ini", "windows/win.ini", "canary"):
                bait = place / name
                bait.parent.mkdir(exist_ok=True)
                bait.write_text(CANARY, encoding="utf-8")
            if place == folder:
                break
        for name, target in (("out", below / "etc"), ("canary-link", below / "canary")):
            (self.installed.workspace / name).symlink_to(target)

    def hash_files_outside(self) -> dict[str, str]:
        """Every file outside the workspace that is not the server's own, by its content."""
        own = (self.installed.workspace, self.installed.state, self.installed.folder / "stderr")
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "-"
            for path in sorted(self.folder.rglob("*"))
            if not any(path.is_relative_to(place) for place in own)
        }


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trap:
    trap = Trap(tmp_path)
    monkeypatch.setenv("HOME", str(trap.installed.folder))
    return trap


def list_string_fields(tool: Tool) -> Iterator[str]:
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    for name, schema in properties.items():
        if "string" in (schema.get("type"), *schema.get("type", ())):
            yield name


def build_harmless_arguments(tool: Tool) -> dict[str, Any]:
    required: list[str] = tool.input_schema.get("required", [])
    return {name: HARMLESS.get(name, "x") for name in required}


async def call_with_text(client: Client, tool: Tool, field: str, text: str) -> CallToolResult:
    with anyio.fail_after(30):
        return await client.call_tool(tool.name, {**build_harmless_arguments(tool), field: text})


def find_problem(result: CallToolResult, name: str) -> str | None:
    said = extract_text(result)
    if "failed unexpectedly" in said:
        return f"crashed: {said}"
    if CANARY in said or "root:x:0:" in said:
        return f"escaped: {said}"
    if name in ASKED and not result.is_error:
        return f"ran: {said}"
    return None


@pytest.mark.parametrize("name", LISTS)
async def test_no_string_in_any_field_crashes_hangs_or_escapes(
    trap: Trap, data_dir: Path, name: str
) -> None:
    rows, before, problems = load_strings(name, data_dir), trap.hash_files_outside(), list[str]()
    trap.installed.write_file("note.txt", "note\n")
    tried: list[str] = []

    async with trap.installed.open_client() as client:
        for tool in (await client.list_tools()).tools:
            await client.call_tool("Read", {"file_path": "note.txt"})
            for field in list_string_fields(tool):
                tried.append(f"{tool.name}.{field}")
                for text in rows:
                    result = await call_with_text(client, tool, field, text)
                    if problem := find_problem(result, tool.name):
                        problems.append(f"{tool.name}.{field} = {text!r}: {problem}")
        alive = await client.call_tool("Read", {"file_path": "note.txt"})

    assert problems == []
    assert not alive.is_error
    assert {"Read.file_path", "Write.content", "Edit.old_string", "Bash.command"} <= set(tried)
    assert trap.hash_files_outside() == before


@pytest.mark.parametrize("name", LISTS)
async def test_every_string_is_written_and_edited_in_byte_for_byte(
    trap: Trap, data_dir: Path, name: str
) -> None:
    written, edited = trap.installed.workspace / "w", trap.installed.workspace / "e"
    wrong: list[str] = []

    async with trap.installed.open_client() as client:
        for text in load_strings(name, data_dir):
            # An existing file would keep its byte order mark, which one of the strings is.
            written.unlink(missing_ok=True)
            await client.call_tool("Write", {"file_path": "w", "content": text})
            await client.call_tool("Write", {"file_path": "e", "content": "<here>"})
            await client.call_tool(
                "Edit", {"file_path": "e", "old_string": "here", "new_string": text}
            )
            if written.read_bytes() != text.encode() or edited.read_bytes() != f"<{text}>".encode():
                wrong.append(text)

    assert wrong == []


async def test_a_lone_surrogate_is_refused_in_every_field(trap: Trap) -> None:
    trap.installed.write_file("note.txt", "note\n")
    async with trap.installed.open_client() as client:
        tools = (await client.list_tools()).tools
    before = trap.hash_files_outside()

    async with start_raw_server(trap.installed) as server:
        await server.handshake()
        for tool in tools:
            for field in list_string_fields(tool):
                params = {
                    "name": tool.name,
                    "arguments": {**build_harmless_arguments(tool), field: "a\udc80b\ud800"},
                }
                call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                with anyio.fail_after(30):
                    await server.send(json.dumps(call, ensure_ascii=True).encode())
                    answer = await server.receive()
                error = answer["error"]
                assert isinstance(error, dict)
                assert error["code"] == -32700
        await server.call("alive", "Read", file_path="note.txt")
        with anyio.fail_after(30):
            alive = await server.answer("alive")

    assert extract_raw_text(alive) == "     1\tnote"
    assert trap.hash_files_outside() == before
