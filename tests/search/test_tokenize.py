"""Splitting text into words, stems and spelling correction."""

import pytest

from mcp_dispatch.search.query_terms import fix_spelling
from mcp_dispatch.search.tokenize import split_name, split_prose, stem


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_current_weather", ["get", "current", "weather"]),
        ("getStoryWithComments", ["get", "story", "with", "comments"]),
        ("HTTPServer-list.items", ["http", "server", "list", "items"]),
        ("get-9to5mac-news", ["get", "9", "to", "5", "mac", "news"]),
        ("", []),
    ],
)
def test_a_name_is_split_at_changes_of_case_signs_and_digits(name: str, words: list[str]) -> None:
    assert split_name(name) == words


def test_a_brand_stays_one_word_in_a_sentence() -> None:
    assert split_prose("Search GitHub by fileName") == ["search", "github", "by", "file", "name"]


def test_chinese_becomes_pairs_of_characters_beside_other_words() -> None:
    assert split_prose("用GitHub搜索网页") == ["用", "git", "hub", "搜索", "索网", "网页"]


def test_full_width_letters_are_plain_letters() -> None:
    assert split_prose("ＰＤＦ") == ["pdf"]  # noqa: RUF001 — the wide form is the case


def test_a_word_that_is_too_long_is_left_out() -> None:
    assert split_prose("read " + "x" * 31) == ["read"]


@pytest.mark.parametrize(
    "family",
    [
        ("file", "files"),
        ("query", "queries"),
        ("search", "searches", "searching", "searched"),
        ("planning", "plan", "planned"),
        ("create", "creating", "creation", "creator"),
        ("extract", "extraction"),
        ("save", "saves", "saving", "saved"),
        ("log", "logs", "logging", "logged"),
    ],
)
def test_the_forms_of_a_word_share_a_stem(family: tuple[str, ...]) -> None:
    assert len(set(map(stem, family))) == 1


@pytest.mark.parametrize("word", ["news", "status", "css", "analysis", "天气", "12306"])
def test_a_word_that_is_not_a_plural_does_not_change(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize("slip", ["wether", "weathre", "weathher", "weathar"])
def test_a_typo_is_corrected_to_the_word_that_tools_use_most(slip: str) -> None:
    spellings = {"weather": 9.0, "whether": 1.0, "leather": 20.0}

    assert fix_spelling(slip, spellings) == "weather"


@pytest.mark.parametrize("word", ["wthr", "xeather", "天气天气天气", "w" * 21])
def test_a_word_without_a_similar_one_does_not_change(word: str) -> None:
    assert fix_spelling(word, {"weather": 1.0}) == word
