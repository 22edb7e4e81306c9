"""The tools that a search finds, their order, and the reasons."""

import random

import pytest

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.search.index import IndexedTool, ToolHit, ToolIndex, build_entry
from mcp_dispatch.search.weights import SearchWeights

CATALOGUE = (
    IndexedTool("read_file", "files", "Read the complete contents of a file", (("path", ""),)),
    IndexedTool("write_file", "files", "Create a new file or overwrite an existing one"),
    IndexedTool("list_directory", "files", "List everything in a directory"),
    IndexedTool("delete_directory", "files", "Remove a directory"),
    IndexedTool(
        "get_weather", "sky", "Current temperature and conditions", (("city", "Name of a city"),)
    ),
    IndexedTool("slack__send_message", "slack", "Send a message to a channel"),
    IndexedTool("slack__list_channels", "slack", "List the channels of the workspace"),
    IndexedTool("send_email", "mailer", "Send an email to a person"),
    IndexedTool("save_presentation", "ppt", "Save the presentation"),
    IndexedTool("git_commit", "git", "Record changes to the repository"),
    IndexedTool("bing_search", "bing", "使用必应搜索指定的关键词"),
    IndexedTool("getStockPrice", "finance", "Latest quote of a ticker symbol"),
)


def found(query: str, limit: int = 5) -> list[str]:
    return [hit.entry.name for hit in ToolIndex(CATALOGUE).search(query, limit)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("directory listing", "list_directory"),
        ("get rid of a folder", "delete_directory"),
        ("do I need an umbrella today", "get_weather"),
        ("how much is one share of Apple", "getStockPrice"),
        ("save my notes to /root/notes/today.md", "write_file"),
        ("mail a letter to my boss", "send_email"),
        ("wether in Paris", "get_weather"),
        ("搜索", "bing_search"),
        ("天气", "get_weather"),
        ("search engine", "bing_search"),
        ("city", "get_weather"),
    ],
)
def test_the_right_tool_comes_first_even_if_it_uses_other_words(query: str, name: str) -> None:
    assert found(query)[0] == name


@pytest.mark.parametrize(
    "query",
    [
        "slack__send_message",
        "mcp__slack__send_message",
        "send_message",
        "SEND_MESSAGE",
        "please email and message everybody with mcp__slack__send_message now",
    ],
)
def test_a_pasted_name_comes_first(query: str) -> None:
    best = ToolIndex(CATALOGUE).search(query, 3)[0]

    assert (best.entry.name, best.reasons) == ("slack__send_message", ("exact name",))


def test_a_plain_word_in_a_sentence_is_not_taken_for_a_name() -> None:
    index = ToolIndex([*CATALOGUE, IndexedTool("message", "other", "Show a text on the screen")])

    assert index.search("send an email message", 1)[0].entry.name == "send_email"
    assert index.search("message", 1)[0].entry.name == "message"


def test_select_gives_exactly_the_named_tools_in_the_order_asked() -> None:
    assert found("select:send_email, nothing, mcp__files__read_file,send_email") == [
        "send_email",
        "read_file",
    ]


def test_a_required_word_must_be_in_the_name() -> None:
    assert found("+channel send") == ["slack__list_channels"]
    assert found("+slack text") == ["slack__send_message", "slack__list_channels"]
    assert found("+nowhere send") == []


@pytest.mark.parametrize("query", ["mcp__slack", "mcp__sla", "mcp__slack__"])
def test_a_server_prefix_lists_the_tools_of_that_server(query: str) -> None:
    hits = ToolIndex(CATALOGUE).search(query, 5)

    assert [(hit.entry.name, hit.reasons) for hit in hits] == [
        ("slack__list_channels", ("tool of slack",)),
        ("slack__send_message", ("tool of slack",)),
    ]


def test_a_server_prefix_keeps_to_that_server_and_ranks_by_the_rest() -> None:
    assert found("mcp__slack send an email")[0] == "slack__send_message"
    assert "send_email" not in found("mcp__slack send an email")


def test_the_name_of_a_server_alone_puts_its_tools_first() -> None:
    assert found("Slack", 3)[:2] == ["slack__list_channels", "slack__send_message"]


def test_a_server_that_the_query_names_is_preferred() -> None:
    twins = [
        IndexedTool("send_note", name, "Send a note to a person") for name in ("alpha", "omega")
    ]

    best = ToolIndex(twins).search("send a note with omega", 2)[0]

    assert best.entry.server == "omega"


def test_a_name_that_the_query_covers_beats_one_that_shares_a_verb() -> None:
    assert found("save the file")[0] == "write_file"


def test_the_instructions_of_a_server_count_for_its_tools() -> None:
    quiet = IndexedTool("run", "a", "Does it")
    told = IndexedTool("run", "b", "Does it", (), "Everything about seismology")

    hits = ToolIndex([quiet, told]).search("seismology", 5)

    assert [hit.entry for hit in hits] == [told]
    assert hits[0].reasons == ("seismology in server's instructions",)


def test_the_order_does_not_depend_on_the_order_of_the_tools() -> None:
    shuffled = random.Random(3).sample(CATALOGUE, len(CATALOGUE))

    for query in ("send", "file", "list", "weather message", "slack"):
        assert ToolIndex(shuffled).search(query, 12) == ToolIndex(CATALOGUE).search(query, 12)


def test_equal_tools_come_in_the_order_of_their_names_and_servers() -> None:
    tools = [IndexedTool("ping", server, "Answer") for server in ("c", "a", "b")]

    assert [hit.entry.server for hit in ToolIndex(tools).search("answer", 5)] == ["a", "b", "c"]


def test_a_reason_contains_the_query_words_the_tool_words_and_the_field() -> None:
    best = ToolIndex(CATALOGUE).search("get rid of the directory", 1)[0]

    assert best.entry.name == "delete_directory"
    assert best.reasons == (
        "directory in name, description",
        "get rid of as delete in name",
        "get rid of as remove in description",
    )


def test_a_tool_found_by_its_domain_has_the_domain_as_reason() -> None:
    index = ToolIndex([IndexedTool("git_commit", "git", "Record changes"), CATALOGUE[0]])

    hits = index.search("merge request", 5)

    assert [(hit.entry.name, hit.reasons) for hit in hits] == [("git_commit", ("about git",))]


def test_similar_tools_rank_below_a_different_one() -> None:
    copies = [IndexedTool("read_file", f"s{n}", "Read the contents of a file") for n in range(5)]
    other = IndexedTool("read_text_file", "x", "Returns a text file with its encoding")
    tools = [*CATALOGUE, *copies, other]

    varied = ToolIndex(tools).search("read a file", 5)
    plain = ToolIndex(tools, SearchWeights(repetition=0.0)).search("read a file", 5)

    assert varied[0].entry.name == "read_file"
    assert other in [hit.entry for hit in varied]
    assert other not in [hit.entry for hit in plain]


@pytest.mark.parametrize("query", ["", "   ", "+", "!!!", "the of and", "qqqq zzzz", "select:nope"])
def test_a_query_of_unknown_words_finds_nothing(query: str) -> None:
    assert ToolIndex(CATALOGUE).search(query, 5) == []


def test_an_empty_index_or_a_limit_of_zero_finds_nothing() -> None:
    assert ToolIndex([]).search("weather", 5) == []
    assert ToolIndex(CATALOGUE).search("weather", 0) == []
    assert ToolIndex(CATALOGUE).search("weather", -1) == []


def test_names_are_found_in_every_accepted_spelling() -> None:
    index = ToolIndex(CATALOGUE)

    for name in ("slack__send_message", "mcp__slack__send_message", "send_message"):
        assert [entry.name for entry in index.find_by_name(name)] == ["slack__send_message"]
    assert index.find_by_name("nope") == []


def test_an_entry_contains_the_searchable_text_of_a_definition() -> None:
    definition: JsonObject = {
        "name": "slack__send",
        "title": "Send a message",
        "description": "Posts it.",
        "inputSchema": {
            "type": "object",
            "properties": {"to": {"description": "Channel"}, "text": {}, "odd": True},
        },
    }

    entry = build_entry("slack", definition, "Be kind.")

    assert entry == IndexedTool(
        "slack__send",
        "slack",
        "Send a message. Posts it.",
        (("to", "Channel"), ("text", ""), ("odd", "")),
        "Be kind.",
    )
    assert entry.bare_name == "send"


@pytest.mark.parametrize(
    "definition",
    [
        {"name": "t"},
        {"name": "t", "description": 7, "inputSchema": None},
        {"name": "t", "inputSchema": {"properties": ["a"]}},
    ],
)
def test_a_malformed_definition_becomes_an_empty_entry(definition: JsonObject) -> None:
    assert build_entry("s", definition) == IndexedTool("t", "s", "")


def test_a_hit_compares_by_value() -> None:
    first, second = (ToolIndex(CATALOGUE).search("email", 1) for _ in range(2))

    assert first == second
    assert isinstance(first[0], ToolHit)
