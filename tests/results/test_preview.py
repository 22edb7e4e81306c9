"""Sizes of results, and previews of long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.results.preview import build_preview, encode_utf8, format_size
from mcp_dispatch.results.size import measure_result


@given(st.text(), st.integers(-5, 200))
def test_a_preview_is_a_prefix_within_its_limit_on_a_character_boundary(
    text: str, limit: int
) -> None:
    head = build_preview(text, limit)

    assert text.startswith(head)
    assert len(encode_utf8(head)) <= max(limit, 0)


@given(st.text(alphabet="aé😀\n\x1b[0m\ud800", max_size=60), st.integers(0, 120))
def test_a_text_that_fits_is_its_own_preview(text: str, limit: int) -> None:
    assert (build_preview(text, limit) == text) == (len(encode_utf8(text)) <= limit)


def test_a_preview_ends_before_the_last_newline_in_its_second_half() -> None:
    assert build_preview("one\ntwo\nthree\nfour", 15) == "one\ntwo\nthree"


def test_a_newline_in_the_first_half_does_not_shorten_a_preview() -> None:
    assert build_preview("a\n" + "b" * 50, 20) == "a\n" + "b" * 18


def test_a_wide_character_is_not_cut_in_half() -> None:
    assert build_preview("ab😀😀", 7) == "ab😀"


def test_a_colour_code_is_not_cut_in_half() -> None:
    assert build_preview("plain \x1b[38;5;1mred", 12) == "plain "


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1KB"),
        (2000, "2KB"),
        (37_683, "36.8KB"),
        (1_048_575, "1MB"),
        (1_572_864, "1.5MB"),
        (5 * 1024**3, "5GB"),
        (3 * 1024**4, "3072GB"),
    ],
)
def test_a_size_is_formatted_with_a_readable_unit(count: int, words: str) -> None:
    assert format_size(count) == words


@pytest.mark.parametrize(
    ("wire", "characters"),
    [
        ({}, 0),
        ({"content": []}, 0),
        ({"content": [{"type": "text", "text": "héllo"}, {"type": "text", "text": "!"}]}, 6),
        ({"content": [{"type": "image", "data": "A" * 900, "mimeType": "image/png"}]}, 0),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "abc"}}]}, 3),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "abc"}}]}, 0),
        ({"content": [], "structuredContent": {"a": "é"}}, 9),
        ({"content": [], "structuredContent": None}, 0),
        ({"content": "not a list"}, 0),
        ({"content": [{"type": "resource_link", "uri": "x:y"}]}, 36),
        ({"content": [None, 3, {"type": "text"}]}, 4 + 1 + 15),
    ],
)
def test_only_what_the_model_reads_is_measured(wire: JsonObject, characters: int) -> None:
    assert measure_result(wire) == characters
