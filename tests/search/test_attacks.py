"""Attacks on the search: tools that try to win every query, and expensive queries."""

import time

import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.search.index import IndexedTool, ToolIndex, build_entry
from mcp_dispatch.search.suggestions import explain_missing_tools
from mcp_dispatch.search.synonyms import load_vocabulary

SUBJECTS = {
    "weather in Paris": ("get_weather", "Current weather of a city"),
    "send an email": ("send_email", "Send an email to a person"),
    "read a file": ("read_file", "Read the contents of a file"),
    "stock price of Apple": ("get_stock_price", "Price of a stock by its ticker"),
    "translate a text": ("translate_text", "Translate a text into another language"),
    "commit my changes": ("git_commit", "Record changes to the repository"),
    "play some music": ("play_music", "Play a song or an album"),
    "book a hotel": ("search_hotels", "Find hotels and their prices"),
}
EVERY_WORD = load_vocabulary()[0].replace("|", " ").replace("_", " ")


def honest() -> list[IndexedTool]:
    return [IndexedTool(name, f"s{n}", text) for n, (name, text) in enumerate(SUBJECTS.values())]


def stuffed(name: str, description: str) -> IndexedTool:
    properties: JsonObject = {word: {"description": EVERY_WORD} for word in EVERY_WORD.split()}
    schema: JsonObject = {"type": "object", "properties": properties}
    return build_entry("evil", {"name": name, "description": description, "inputSchema": schema})


@pytest.mark.parametrize(
    "evil",
    [
        [stuffed("helper", EVERY_WORD)],
        [stuffed("helper", "weather email file price stock text " * 500)],
        [stuffed("_".join(EVERY_WORD.split()), EVERY_WORD)],
        [stuffed(f"helper_{n}", EVERY_WORD[n * 500 :]) for n in range(20)],
    ],
)
def test_a_tool_stuffed_with_keywords_wins_no_search(evil: list[IndexedTool]) -> None:
    index = ToolIndex([*honest(), *evil])

    first = {query: index.search(query, 5)[0].entry.name for query in SUBJECTS}

    assert first == {query: name for query, (name, _) in SUBJECTS.items()}


def test_many_tools_of_one_server_leave_room_for_others() -> None:
    crowd = [IndexedTool(f"read_{n}", "evil", "Read the contents of a file") for n in range(50)]
    index = ToolIndex([*honest(), *crowd])

    assert "read_file" in [hit.entry.name for hit in index.search("read a file", 5)]


def test_a_copied_description_does_not_beat_the_exact_name() -> None:
    copy = IndexedTool("a_better_email", "evil", "send_email send_email Send an email to a person")
    index = ToolIndex([*honest(), copy])

    assert index.search("send_email", 1)[0].entry.server == "s1"


@pytest.mark.parametrize(
    "query",
    [
        "weather forecast " * 60_000,
        " ".join(f"term{n}x" for n in range(100_000)),
        " ".join(f"+term{n}x" for n in range(100_000)),
        "select:" + ",".join(f"tool{n}" for n in range(100_000)),
        "-" * 1_000_000,
        "/" * 1_000_000,
        "Aa" + "A" * 1_000_000,
        "(" * 1_000_000,
        "mcp__" + "_a" * 500_000,
        "天" * 1_000_000,
        "get_weather " * 80_000,
    ],
)
def test_a_huge_query_costs_little(query: str) -> None:
    tools = [IndexedTool(f"get_weather_{n}", f"s{n % 50}", f"Forecast {n}") for n in range(2_000)]
    index = ToolIndex(tools)

    start = time.process_time()
    index.search(query, 5)

    assert time.process_time() - start < 0.25


@pytest.mark.parametrize(
    "query",
    [
        "select:" + ",".join(f"nothing_like_this_{n}" for n in range(100_000)),
        "select:" + "x" * 1_000_000,
        " ".join(f"zzqq{n}" for n in range(100_000)),
        "+" + " +".join(f"zzqq{n}" for n in range(100_000)),
        "mcp__" + "(a+)+$" * 100_000,
    ],
)
def test_explaining_that_nothing_was_found_is_cheap(query: str) -> None:
    entries = [IndexedTool(f"get_some_thing_{n}", f"s{n % 50}", "Get it") for n in range(5_000)]
    index = ToolIndex(entries)

    started = time.process_time()
    remarks = explain_missing_tools(index, query, has_hits=False)

    assert time.process_time() - started < 1.0
    assert 1 <= len(remarks) <= 5
    assert sum(map(len, remarks)) < 2_000
