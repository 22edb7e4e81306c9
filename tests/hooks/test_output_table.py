"""Every cell of what a hook can say: event, what is printed, how it ends, and how it is run."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from tests.support.hook_server import EVENTS, HookDesk, SayingUpstream, documents, printing
from tests.support.web_server import answer, redirect, serving

# What comes of it at exit 0, at any other exit, and at exit 2. `yes` and `no` are what the event
# understands as such; "other event" is an answer to another event, "null" one of a wrong type.
BLOCKABLE = {
    "empty": ("-", "F", "D"),
    "text": ("-", "F", "D"),
    "broken": ("F", "F", "D"),
    "{}": ("-", "-", "D"),
    "yes": ("-", "-", "D"),
    "no": ("D", "D", "D"),
    "context": ("C", "C", "DC"),
    "stop": ("S", "S", "DS"),
    "other event": ("F", "F", "D"),
    "null": ("F", "F", "D"),
}
SILENT = {
    "empty": ("-", "F", "F"),
    "text": ("-", "F", "F"),
    "broken": ("F", "F", "F"),
    "{}": ("-", "-", "-"),
    "yes": ("-", "-", "-"),
    "no": ("-", "-", "-"),
    "context": ("-", "-", "-"),
    "stop": ("-", "-", "-"),
    "other event": ("F", "F", "F"),
    "null": ("F", "F", "F"),
}
ANSWERING = {
    **BLOCKABLE,
    "yes": ("A", "A", "D"),
    "context": ("-", "-", "D"),
    "stop": ("-", "-", "D"),
}
TABLE = {
    "PreToolUse": {**BLOCKABLE, "yes": ("A", "A", "D")},
    "PostToolUse": BLOCKABLE,
    "PostToolUseFailure": BLOCKABLE,
    # What would come next is the client's: a block is the wish to stop.
    "PostToolBatch": {
        **{kind: (zero, one, "S") for kind, (zero, one, _) in BLOCKABLE.items()},
        "no": ("S", "S", "S"),
        "context": ("C", "C", "CS"),
    },
    # Exit 2 is no block here; an allow that comes with it does not count.
    "PermissionRequest": {
        **SILENT,
        "yes": ("A", "A", "-"),
        "no": ("D", "D", "D"),
        "context": ("C", "C", "C"),
        "stop": ("S", "S", "S"),
    },
    "PermissionDenied": {**SILENT, "yes": ("R", "R", "R")},
    "SessionStart": {**SILENT, "text": ("C", "F", "F"), "context": ("C", "C", "C")},
    "SessionEnd": SILENT,
    "Elicitation": ANSWERING,
    "ElicitationResult": ANSWERING,
}


@pytest.fixture
async def children() -> AsyncIterator[ProcessGroup]:
    async with ProcessGroup() as every:
        yield every


async def effects(desk: HookDesk, event: str, cells: dict[str, JsonObject]) -> dict[str, str]:
    """What comes of each handler on its own."""
    found: dict[str, str] = {}
    few = anyio.CapacityLimiter(4)

    async def one(name: str, handler: JsonObject) -> None:
        async with few:
            found[name] = await desk.effect(event, handler)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for name, handler in cells.items():
                tasks.start_soon(one, name, handler)
    return {name: found[name] for name in cells}


@pytest.mark.parametrize("event", EVENTS)
async def test_a_command(children: ProcessGroup, tmp_path: Path, event: str) -> None:
    codes = {0: 0, 1: 1, 127: 1, 2: 2}
    printed = documents(event)

    found = await effects(
        HookDesk(children, tmp_path),
        event,
        {f"{kind} {code}": printing(text, code) for kind, text in printed for code in codes},
    )

    assert found == {
        f"{kind} {code}": TABLE[event][kind][column]
        for kind, _ in printed
        for code, column in codes.items()
    }
    assert kill_tree.find_processes(set(), kill_tree.build_run_marker(children.run_id)) == set()


@pytest.mark.parametrize("event", EVENTS)
async def test_a_post(children: ProcessGroup, tmp_path: Path, event: str) -> None:
    """A body that is no JSON object is a failure, and a status cannot block."""
    printed = documents(event)
    statuses = {"200 OK": True, "201 Created": True, "403 Forbidden": False, "500 Oh": False}
    pages = {
        f"/{at}/{status[:3]}": answer(text, "application/json", status)
        for at, (_, text) in enumerate(printed)
        for status in statuses
    }
    expected = {kind: TABLE[event][kind][0] for kind, _ in printed} | {"text": "F"}
    async with serving({**pages, "/moved": redirect("/0/200", "307 Moved")}) as server:
        cells: dict[str, JsonObject] = {
            f"{kind} {status}": {"type": "http", "url": server.url(f"/{at}/{status[:3]}")}
            for at, (kind, _) in enumerate(printed)
            for status in statuses
        }
        found = await effects(
            HookDesk(children, tmp_path),
            event,
            {**cells, "moved": {"type": "http", "url": server.url("/moved")}},
        )

    assert found == {
        **{
            f"{kind} {status}": expected[kind] if good else "F"
            for kind, _ in printed
            for status, good in statuses.items()
        },
        "moved": "F",
    }


@pytest.mark.parametrize("event", EVENTS)
async def test_a_tool(children: ProcessGroup, tmp_path: Path, event: str) -> None:
    """Its text is read like that of a command that exits with 0."""
    printed = documents(event)
    results: dict[str, JsonObject] = {}
    for kind, text in printed:
        results[kind] = {"content": [{"type": "text", "text": text}]}
        results[f"{kind} failed"] = {**results[kind], "isError": True}
    desk = HookDesk(children, tmp_path, SayingUpstream(results))

    found = await effects(
        desk,
        event,
        {name: {"type": "mcp_tool", "server": "s", "tool": name} for name in (*results, "missing")},
    )

    assert found == {
        **{kind: TABLE[event][kind][0] for kind, _ in printed},
        **{f"{kind} failed": "F" for kind, _ in printed},
        "missing": "F",
    }


BROKEN: dict[str, JsonObject] = {
    "hangs": {"command": "sleep 1000", "timeout": 0.3},
    "prints and hangs": {"command": "echo '{}'; sleep 1000", "timeout": 0.3},
    "floods": {"command": "head -c 100000000 /dev/zero"},
    "leaves a child": {"command": "sleep 1000 & exit 1"},
    "is missing": {"command": "./missing"},
    "cannot be started": {"command": "/nowhere", "args": []},
    "is killed": {"command": "kill -9 $$"},
}


@pytest.mark.parametrize("event", EVENTS)
async def test_a_broken_command_decides_nothing_and_leaves_no_process(
    children: ProcessGroup, tmp_path: Path, event: str
) -> None:
    cells: dict[str, JsonObject] = {
        name: {"type": "command", **options} for name, options in BROKEN.items()
    }

    found = await effects(HookDesk(children, tmp_path), event, cells)

    # A flood of text is text; of it the model gets a file and a preview.
    flood = "C" if event == "SessionStart" else "-"
    assert found == {**dict.fromkeys(cells, "F"), "floods": flood}
    assert kill_tree.find_processes(set(), kill_tree.build_run_marker(children.run_id)) == set()


GUARDED = {
    **dict.fromkeys(("PreToolUse", "PermissionRequest"), "DF"),
    **dict.fromkeys(("PostToolUse", "PostToolUseFailure"), "DF"),
    **dict.fromkeys(("Elicitation", "ElicitationResult"), "DF"),
    "PostToolBatch": "SF",
}


@pytest.mark.parametrize("event", EVENTS)
async def test_a_broken_hook_that_shall_block_blocks_what_can_be_blocked(
    children: ProcessGroup, tmp_path: Path, event: str
) -> None:
    cells: dict[str, JsonObject] = {
        "command": {"type": "command", "command": "./missing"},
        "late": {"type": "command", "command": "sleep 1000", "timeout": 0.3},
        "invalid": {"type": "command", "command": "echo '{'"},
        "unreachable": {"type": "http", "url": "http://127.0.0.1:1/"},
        "tool": {"type": "mcp_tool", "server": "s", "tool": "missing"},
    }
    guards: dict[str, JsonObject] = {
        name: {**cell, "onFailure": "block"} for name, cell in cells.items()
    }

    found = await effects(HookDesk(children, tmp_path), event, guards)

    assert found == dict.fromkeys(cells, GUARDED.get(event, "F"))
