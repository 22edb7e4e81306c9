"""The forms of a query."""

import pytest

from mcp_dispatch.search.query import LONGEST_QUERY, Query, parse, readable


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("send a message", Query("send a message")),
        ("select:Read,slack__send", Query(names=("Read", "slack__send"))),
        (" Select: Read , Read ,, Edit ", Query(names=("Read", "Edit"))),
        ("select:", Query()),
        ("+slack send", Query("slack send", required=("slack",))),
        ("send +slack +message", Query("send slack message", required=("slack", "message"))),
        ("mcp__slack", Query(server="slack")),
        ("mcp__slack__", Query(server="slack")),
        ("MCP__my_slack send", Query("send", server="my_slack")),
        ("mcp__slack +send text", Query("send text", required=("send",), server="slack")),
        ("mcp__slack__send", Query("mcp__slack__send")),
        ("create file + write content", Query("create file + write content")),
        ("2 +2", Query("2 +2")),
        ("", Query()),
    ],
)
def test_every_form_is_read(text: str, query: Query) -> None:
    assert parse(text) == query


def test_an_over_long_query_is_its_beginning_and_its_end() -> None:
    query = parse("first " + "x" * 1_000_000 + " last")

    assert len(query.text) <= LONGEST_QUERY + 1
    assert query.text.startswith("first ")
    assert query.text.endswith(" last")


def test_names_and_required_words_are_bounded() -> None:
    assert len(parse("select:" + ",".join(f"t{n}" for n in range(1_000))).names) == 50
    assert len(parse(" ".join(f"+t{n}" for n in range(300))).required) == 8


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
def test_addresses_paths_and_blobs_give_way_to_their_kind(text: str, words: str) -> None:
    assert " ".join(readable(text).split()) == words
