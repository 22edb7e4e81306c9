"""Tests of the effect of each combination of event, output, exit code and hook type."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from tests.support.hook_server import EVENTS, HookServer, SayingUpstream, documents, printing
from tests.support.web_server import answer, redirect, serving

# The effects at exit code 0, at any other exit code, and at exit code 2. `yes` and `no` are the
# event's own allow and deny; "other event" is output for another event, "null" has a wrong type.
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
NOT_BLOCKABLE = {
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
ELICITATION = {
    **BLOCKABLE,
    "yes": ("A", "A", "D"),
    "context": ("-", "-", "D"),
    "stop": ("-", "-", "D"),
}
TABLE = {
    "PreToolUse": {**BLOCKABLE, "yes": ("A", "A", "D")},
    "PostToolUse": BLOCKABLE,
    "PostToolUseFailure": BLOCKABLE,
    # The client decides what follows a batch, so a block only asks it to stop.
    "PostToolBatch": {
        **{kind: (zero, other, "S") for kind, (zero, other, _) in BLOCKABLE.items()},
        "no": ("S", "S", "S"),
        "context": ("C", "C", "CS"),
    },
    # Exit code 2 does not block this event, but an allow with exit code 2 does not count.
    "PermissionRequest": {
        **NOT_BLOCKABLE,
        "yes": ("A", "A", "-"),
        "no": ("D", "D", "D"),
        "context": ("C", "C", "C"),
        "stop": ("S", "S", "S"),
    },
    "PermissionDenied": {**NOT_BLOCKABLE, "yes": ("R", "R", "R")},
    "SessionStart": {**NOT_BLOCKABLE, "text": ("C", "F", "F"), "context": ("C", "C", "C")},
    "SessionEnd": NOT_BLOCKABLE,
    "Elicitation": ELICITATION,
    "ElicitationResult": ELICITATION,
}


@pytest.fixture
async def children() -> AsyncIterator[ProcessGroup]:
    async with ProcessGroup() as group:
        yield group


async def collect_effects(
    desk: HookServer, event: str, cells: dict[str, JsonObject]
) -> dict[str, str]:
    """Run each handler separately and return its effect by name."""
    found: dict[str, str] = {}
    limiter = anyio.CapacityLimiter(4)

    async def run_one(name: str, handler: JsonObject) -> None:
        async with limiter:
            found[name] = await desk.effect(event, handler)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for name, handler in cells.items():
                tasks.start_soon(run_one, name, handler)
    return {name: found[name] for name in cells}


@pytest.mark.parametrize("event", EVENTS)
async def test_the_output_and_exit_code_of_a_command_determine_its_effect(
    children: ProcessGroup, tmp_path: Path, event: str
) -> None:
    codes = {0: 0, 1: 1, 127: 1, 2: 2}
    printed = documents(event)

    found = await collect_effects(
        HookServer(children, tmp_path),
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
async def test_the_body_and_status_of_an_http_response_determine_its_effect(
    children: ProcessGroup, tmp_path: Path, event: str
) -> None:
    """A body that is not a JSON object is a failure, and no status blocks."""
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
        found = await collect_effects(
            HookServer(children, tmp_path),
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
async def test_the_text_of_a_tool_result_determines_its_effect(
    children: ProcessGroup, tmp_path: Path, event: str
) -> None:
    """The text is parsed like the stdout of a command with exit code 0."""
    printed = documents(event)
    results: dict[str, JsonObject] = {}
    for kind, text in printed:
        results[kind] = {"content": [{"type": "text", "text": text}]}
        results[f"{kind} failed"] = {**results[kind], "isError": True}
    desk = HookServer(children, tmp_path, SayingUpstream(results))

    found = await collect_effects(
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

    found = await collect_effects(HookServer(children, tmp_path), event, cells)

    # Oversized text still counts as text; the model gets a file and a preview of it.
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
async def test_a_broken_hook_with_on_failure_block_blocks_every_blockable_event(
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

    found = await collect_effects(HookServer(children, tmp_path), event, guards)

    assert found == dict.fromkeys(cells, GUARDED.get(event, "F"))
