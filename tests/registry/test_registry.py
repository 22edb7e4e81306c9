"""The order of tools, their names, and which tool wins an equal name."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.registry.names import Naming, NamingStyle, build_exposed_name, fit_name
from mcp_dispatch.registry.registry import ShadowedTool, build_registry
from tests.support.stand_ins import RecordingTool


def test_built_ins_come_first_and_each_part_is_sorted_by_name() -> None:
    built_ins = [RecordingTool("Write"), RecordingTool("Bash")]
    upstream = [RecordingTool("z__a", server="z"), RecordingTool("a__z", server="a")]

    pool = build_registry(built_ins, upstream)

    assert [tool.name for tool in pool.listed] == ["Bash", "Write", "a__z", "z__a"]


def test_a_built_in_wins_over_an_upstream_tool_of_the_same_name() -> None:
    own = RecordingTool("Read")
    theirs = RecordingTool("Read", server="fs", rule="mcp__fs__Read")

    pool = build_registry([own], [theirs])

    assert pool.find("Read") is own
    assert pool.shadowed == (ShadowedTool(theirs, own),)


def test_the_server_configured_first_wins_and_the_other_tool_is_callable_by_its_rule_name() -> None:
    first = RecordingTool("echo", server="a", rule="mcp__a__echo")
    second = RecordingTool("echo", server="b", rule="mcp__b__echo")

    pool = build_registry([], [first, second])

    assert (pool.find("echo"), pool.find("mcp__b__echo")) == (first, second)


def test_the_order_in_which_servers_connect_does_not_change_the_list() -> None:
    tools = [RecordingTool(f"s{n}__t", server=f"s{n}") for n in range(5)]

    forwards, backwards = build_registry([], tools), build_registry([], reversed(tools))

    assert [t.name for t in forwards.listed] == [t.name for t in backwards.listed]


def test_the_nearest_names_are_suggested_regardless_of_case() -> None:
    pool = build_registry([RecordingTool("Read"), RecordingTool("Write")], [])

    assert pool.suggest_names("read") == ["Read"]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        (NamingStyle.SERVER, "git__log"),
        (NamingStyle.CANONICAL, "mcp__git__log"),
        (NamingStyle.BARE, "log"),
    ],
)
def test_each_naming_style_has_its_form(style: NamingStyle, expected: str) -> None:
    assert build_exposed_name("git", "log", Naming(style)) == expected


def test_other_characters_are_replaced_and_different_names_stay_different() -> None:
    dotted, spaced = fit_name("a.b", 45), fit_name("a b", 45)

    assert dotted.startswith("a_b_")
    assert spaced.startswith("a_b_")
    assert dotted != spaced


def test_the_rule_name_is_that_of_claude_code() -> None:
    assert build_rule_name("git", "log.all") == "mcp__git__log_all"


@given(st.text(max_size=200), st.integers(min_value=16, max_value=64))
def test_every_exposed_name_fits_every_client(name: str, max_length: int) -> None:
    fitted = fit_name(name or "x", max_length)

    assert re.fullmatch(r"[a-zA-Z0-9_-]+", fitted)
    assert len(fitted) <= max_length
    assert fitted == fit_name(name or "x", max_length)


def test_a_tool_is_found_by_a_name_it_once_had() -> None:
    stop = RecordingTool("TaskStop")

    pool = build_registry([stop], [], {"KillShell": "TaskStop"})

    assert pool.find("KillShell") is stop
    assert [tool.name for tool in pool.listed] == ["TaskStop"]
