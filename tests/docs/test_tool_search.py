"""The steps of the page on the tool search work as written; and `mcp-dispatch search`."""

import json
import re
import sys

from tests.support.client import Installation, extract_text
from tests.support.demo_upstream import DEMO, RAW
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "tool-search.md"


def block(name: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.+?)\n```", text, re.DOTALL)
    assert found is not None, f"docs/tool-search.md has no block {name!r}"
    return found.group(1)


def remove_scores(ranking: str) -> str:
    """Without the figures, which mean nothing outside of one search."""
    return re.sub(r"\) \d+\.\d$", ")", ranking, flags=re.MULTILINE)


async def test_the_example_finds_and_calls_a_tool(installed: Installation) -> None:
    installed.add_settings(json.loads(block("settings"))).add_rules(allow=["mcp__demo"])
    installed.add_upstream("demo", *DEMO)

    async with installed.open_client("2026-07-28") as client:
        found = await client.call_tool("tool_search", json.loads(block("query")))
        called = await client.call_tool("call_tool", json.loads(block("call")))

    assert extract_text(found) == block("answer")
    assert called.structured_content is not None
    assert set(called.structured_content) == {"rolls", "total"}


def test_the_command_shows_the_ranking_with_its_reasons(installed: Installation) -> None:
    installed.add_upstream("demo", *DEMO)

    done = installed.run("search", "-n", "1", "roll", "dice")

    assert (done.stderr, done.returncode) == ("", 0)
    assert remove_scores(done.stdout) == remove_scores(block("search") + "\n")


def test_the_command_prints_one_object(installed: Installation) -> None:
    installed.add_settings({"dispatch": {"toolSearch": {"mode": "always"}}})
    installed.add_upstream("demo", *DEMO).add_upstream("broken", sys.executable, RAW, "--exit", "3")

    done = installed.run("search", "--json", "-n", "2", "select:mcp__demo__recall,demo__recal")

    answer = json.loads(done.stdout)
    assert [(tool["name"], tool["deferred"]) for tool in answer["tools"]] == [
        ("demo__recall", True)
    ]
    assert answer["tools"][0]["reasons"] == ["exact name"]
    assert (answer["total"], answer["failed"]) == (4, ["broken"])
    assert answer["remarks"] == [
        "No tool is named 'demo__recal'; near: demo__recall, demo__remember, demo__roll_dice."
    ]


def test_a_search_without_hits_is_explained_within_eighty_columns(installed: Installation) -> None:
    name = "a" * 60
    installed.add_upstream("raw", sys.executable, RAW, "--extra", name)

    nothing = installed.run("search", "quux")
    crowded = installed.run("search", "-n", "50", "mcp__raw")

    assert nothing.returncode == 1
    assert nothing.stdout.startswith("No tool shares a word or a notion with the query.\n")
    assert crowded.returncode == 0
    assert max(map(len, crowded.stdout.splitlines())) <= 80


def test_a_missing_file_is_named(installed: Installation) -> None:
    done = installed.add_flags("--mcp-config", "/nowhere.json").run("search", "x")

    assert done.returncode == 2
    assert done.stderr.startswith("mcp-dispatch: /nowhere.json: cannot be read")
