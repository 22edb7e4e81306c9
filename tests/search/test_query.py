"""The forms of a query."""

import pytest

from mcp_dispatch.search.query import (
    MAX_QUERY_CHARS,
    ToolSearchQuery,
    parse_query,
    replace_pasted_text,
)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("send a message", ToolSearchQuery("send a message")),
        ("select:Read,slack__send", ToolSearchQuery(names=("Read", "slack__send"))),
        (" Select: Read , Read ,, Edit ", ToolSearchQuery(names=("Read", "Edit"))),
        ("select:", ToolSearchQuery()),
        ("+slack send", ToolSearchQuery("slack send", required=("slack",))),
        (
            "send +slack +message",
            ToolSearchQuery("send slack message", required=("slack", "message")),
        ),
        ("mcp__slack", ToolSearchQuery(server="slack")),
        ("mcp__slack__", ToolSearchQuery(server="slack")),
        ("MCP__my_slack send", ToolSearchQuery("send", server="my_slack")),
        ("mcp__slack +send text", ToolSearchQuery("send text", required=("send",), server="slack")),
        ("mcp__slack__send", ToolSearchQuery("mcp__slack__send")),
        ("create file + write content", ToolSearchQuery("create file + write content")),
        ("2 +2", ToolSearchQuery("2 +2")),
        ("", ToolSearchQuery()),
    ],
)
def test_every_form_of_a_query_is_parsed(text: str, query: ToolSearchQuery) -> None:
    assert parse_query(text) == query


def test_an_over_long_query_is_cut_to_its_beginning_and_end() -> None:
    query = parse_query("first " + "x" * 1_000_000 + " last")

    assert len(query.text) <= MAX_QUERY_CHARS + 1
    assert query.text.startswith("first ")
    assert query.text.endswith(" last")


def test_names_and_required_words_are_bounded() -> None:
    assert len(parse_query("select:" + ",".join(f"t{n}" for n in range(1_000))).names) == 50
    assert len(parse_query(" ".join(f"+t{n}" for n in range(300))).required) == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("read https://example.org/stock/price.html now", "read url now"),
        ("save it to /root/markdown/report.md", "save it to file"),
        ("open ~/talks/apple_news.pptx", "open presentation slide"),
        (r"read C:\data\people.XLSX", "read excel sheet"),
        ("summarise paper.pdf please", "summarise pdf document please"),
        ("what does this mean? " + "iVBORw0KGgo" * 20, "what does this mean?"),
        ("version 1.2 and/or later", "version 1.2 and/or later"),
    ],
)
def test_urls_paths_and_blobs_are_replaced_by_their_kind(text: str, words: str) -> None:
    assert " ".join(replace_pasted_text(text).split()) == words
