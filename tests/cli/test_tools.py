"""`mcp-dispatch tools`: every tool with its state and its token cost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio

from mcp_dispatch.journal.reader import find_activated_tools
from tests.support.client import Installation, start_raw_server
from tests.support.demo_upstream import ALWAYS, DEMO, RAW, listed_bytes


async def test_every_tool_is_shown_with_its_state(installed: Installation) -> None:
    installed.add_settings({"dispatch": {**ALWAYS["dispatch"], "naming": "bare"}})
    installed.add_rules(deny=["mcp__demo__remember"])
    installed.add_upstream("demo", *DEMO).add_upstream("other", *DEMO)
    installed.add_upstream("broken", sys.executable, RAW, "--exit", "3")

    async with start_raw_server(installed) as server:
        await server.handshake()
        with anyio.fail_after(120):
            await listed_bytes(server, "list")
            await server.call("found", "tool_search", query="select:recall")
            await server.answer("found")
            overview: dict[str, Any] = json.loads(
                (await anyio.to_thread.run_sync(installed.run, "tools", "--json")).stdout
            )
    by_server = {source["server"]: source for source in overview["servers"]}
    states = {
        name: {tool["name"]: tool["state"] for tool in source["tools"]}
        for name, source in by_server.items()
    }

    assert states[None]["Read"] == states[None]["tool_search"] == "loaded"
    assert states["demo"] == {
        "count_slowly": "deferred",
        "recall": "activated",
        "roll_dice": "deferred",
        "remember": "hidden",
    }
    assert set(states["other"].values()) == {"shadowed"}
    assert (by_server["broken"]["state"], states["broken"]) == ("down", {})
    assert "exited with code 3" in by_server["broken"]["problem"]
    assert by_server["demo"]["tokens"] == sum(t["tokens"] for t in by_server["demo"]["tools"])
    assert overview["listed_tokens"] < overview["all_tokens"]
    assert overview["saved"] == round(1 - overview["listed_tokens"] / overview["all_tokens"], 3)


def test_the_table_fits_80_columns_and_ends_with_the_saved_share(installed: Installation) -> None:
    installed.add_settings(ALWAYS).add_rules(deny=["mcp__demo__remember"]).add_upstream(
        "demo", *DEMO
    )
    installed.add_upstream(
        "a-server-with-a-name-that-is-too-long", sys.executable, RAW, "--exit", "3"
    )

    table = installed.run("tools").stdout
    one_server = installed.run("tools", "demo")
    unknown = installed.run("tools", "nobody")

    assert max(map(len, table.splitlines())) <= 80
    assert [line.split() for line in table.splitlines()][:2] == [
        ["server", "state", "tools", "loaded", "deferred", "tokens"],
        ["(built", "in)", "ready", "10", "10", "0", table.splitlines()[1].split()[-1]],
    ]
    assert "    1 hidden\n" in table
    assert "    it exited with code 3" in table
    assert table.splitlines()[-1].endswith("saved.")
    shown = [line.split()[1:4] for line in one_server.stdout.partition("\n\n")[2].splitlines()]
    assert [words for words in shown if len(words) == 3] == [
        ["deferred", "shared", "demo__count_slowly"],
        ["deferred", "shared", "demo__recall"],
        ["deferred", "shared", "demo__roll_dice"],
        ["hidden", "exclusive", "demo__remember"],
    ]
    assert unknown.returncode == 2
    assert "no server is named 'nobody'; there are: (built in), demo, " in unknown.stderr


def test_activated_tools_are_read_only_from_journals_of_running_servers(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    line = '{"activated": ["mcp__s__t", 7]}\n'
    own_journal = tmp_path / f"2026-11-18-{os.getpid()}-0123456789abcdef.jsonl"
    own_journal.write_text(
        f'{line}{{"arguments": {{"activated": ["no"]}}}}\n"activated" [\n', "utf-8"
    )
    (tmp_path / f"2026-11-18-{child.pid}-0123456789abcdef.jsonl").write_text(
        line.replace("t", "u"), "utf-8"
    )
    (tmp_path / "activated.jsonl").write_text(line, "utf-8")

    assert find_activated_tools(tmp_path) == {"mcp__s__t"}
