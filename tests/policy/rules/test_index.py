"""Indexes of rules find every rule that matches."""

import os
import re
from pathlib import Path
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from mcp_dispatch.fs.resolve import fold_case
from mcp_dispatch.policy.commands.expand import parse_command, skip_to_program
from mcp_dispatch.policy.commands.pattern import (
    SEPARATOR,
    CommandPattern,
    RuleMatch,
    parse_command_pattern,
)
from mcp_dispatch.policy.domains import DomainPattern, parse_domain_pattern
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.pattern import compile_pattern
from mcp_dispatch.policy.paths.rules import PatternStart, SymlinkIndex
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex
from mcp_dispatch.shell.ast import EXPANSION

unhurried = settings(deadline=None)
parts = st.text("ab.*?[]\\!", min_size=1, max_size=4) | st.sampled_from(["**", "a", "ab", "B"])


def _join_pattern(start: str, middle: list[str], end: str) -> str:
    return start + "/".join(middle) + end


def _is_usable(pattern: str) -> bool:
    return not pattern.lstrip("/").startswith("!") and pattern.count("*") < 7


patterns = st.builds(
    _join_pattern,
    st.sampled_from(["", "/"]),
    st.lists(parts, min_size=1, max_size=4),
    st.sampled_from(["", "/", "/**"]),
).filter(_is_usable)
paths = st.lists(st.text("abB.*[]", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@unhurried
@given(
    st.lists(patterns, min_size=1, max_size=6), paths | st.just(""), st.booleans(), st.booleans()
)
def test_every_pattern_that_covers_a_path_is_found(
    texts: list[str], path: str, literally: bool, folding: bool
):
    index = PathIndex(texts, wide=literally, ignore_case=folding)
    spelled = fold_case(path) if folding else path

    def covers(text: str) -> bool:
        pattern = compile_pattern(
            fold_case(text) if folding else text, literal_fallback=literally, fold_case=folding
        )
        return pattern.covers(spelled) or (literally and pattern.covers(f"{spelled}/"))

    assert sorted(index.find(path)) == [at for at, text in enumerate(texts) if covers(text)]


@unhurried
@given(
    st.text("ab*?", min_size=1, max_size=8)
    | st.lists(st.sampled_from(["*", "a", "[ab]", "[!a]", "?", r"\*", "b"]), max_size=9).map(
        "".join
    ),
    st.text("abc*", min_size=1, max_size=9),
)
def test_a_match_in_linear_time_is_the_same_match(pattern: str, name: str):
    pattern = re.sub(r"(?<!\\)\*{2,}", "*", pattern) or "x"
    plain, _ = GitIgnoreSpecPattern.pattern_to_regex(pattern)

    quick = compile_pattern(pattern, literal_fallback=False, fold_case=False)

    assert plain is not None
    assert quick.covers(name) is (re.match(plain, name) is not None)


def test_no_name_makes_a_pattern_with_many_stars_slow():
    pattern = compile_pattern("[a-z]*[a-z]*[a-z]*b", literal_fallback=False, fold_case=False)
    path = "/".join(["a" * 5_000] * 20)

    start = process_time()

    assert not pattern.covers(path)
    assert process_time() - start < 2


words = st.sampled_from(["a", "b", "a b", "ab", "*", "a*", "*b", "$x", "c d e", "c d e f", "A=1 a"])
command_patterns = (
    st.lists(words, min_size=1, max_size=3)
    .map(" ".join)
    .flatmap(lambda text: st.sampled_from([text, f"{text} *", f"{text}:*", f"{text} | b"]))
)
pieces = st.sampled_from(
    [*("a", "b", "c", "d", "e", " ", "; ", " | ", "$x", "*", "A=1 ", "'", '"', "(", ")"), "sudo "]
)


@unhurried
@given(st.lists(command_patterns, min_size=1, max_size=6), st.lists(pieces, max_size=8))
def test_every_pattern_that_matches_a_command_is_found(texts: list[str], command: list[str]):
    made = [parse_command_pattern(text) for text in texts]
    filed = {at: pattern for at, pattern in enumerate(made) if pattern is not None}
    read = parse_command("".join(command))

    found = CommandIndex(filed).find_matches(read)

    for at, pattern in filed.items():
        if not pattern.anchored or not read.complete:
            continue
        expected = max((_match_line(pattern, line) for line in read.lines), default=0)
        expected = max([expected, *(_match_token_run(pattern, run) for run in read.token_runs)])
        if pattern.exact_text == read.text.strip():
            expected = RuleMatch.YES.value
        assert found.get(at, RuleMatch.NO).value == expected


def _match_line(pattern: CommandPattern, line: str) -> int:
    return pattern.match_line(line).value


def _match_token_run(pattern: CommandPattern, run: tuple[str, ...]) -> int:
    start = skip_to_program(run)
    unsure = bool(start) and any(EXPANSION in token for token in start)
    whole = RuleMatch.YES.value if pattern.matches_anywhere(SEPARATOR.join(run)) else 0
    return max(whole, _match_line(pattern, SEPARATOR.join(start)) if unsure else 0)


labels = st.sampled_from(["a", "b", "com", "*", "a*"])


@unhurried
@given(
    st.lists(st.lists(labels, min_size=1, max_size=4).map(".".join), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "com", "ab"]), min_size=1, max_size=4).map(".".join),
)
def test_every_domain_rule_that_covers_a_host_is_found(texts: list[str], host: str):
    made = [parse_domain_pattern(f"domain:{text}") for text in texts]
    filed = {at: each for at, each in enumerate(made) if isinstance(each, DomainPattern)}

    found = sorted(DomainIndex(filed).find_covering(host))

    assert found == [at for at, pattern in filed.items() if pattern.covers(host)]


def test_new_links_in_the_prefixes_of_patterns_are_found(tmp_path: Path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "dir").mkdir()
    detours = SymlinkIndex(["link/a", "dir/inner", "dir/other/x", "missing/b", ""])

    assert detours.find_links(tmp_path) == []

    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dir" / "inner").symlink_to("../real/deep")
    (tmp_path / "real" / "a").symlink_to(tmp_path / "dir")
    os.utime(tmp_path, ns=(1, 1))  # A coarse clock must not hide the change from the test.

    assert sorted(detours.find_links(tmp_path), key=lambda start: start.pattern_prefix) == [
        PatternStart("dir/inner", str(tmp_path / "real" / "deep")),
        PatternStart("link", str(tmp_path / "real")),
        PatternStart("link/a", str(tmp_path / "dir")),
    ]


def test_links_that_form_a_cycle_are_followed_a_limited_number_of_times(tmp_path: Path):
    (tmp_path / "a").symlink_to(tmp_path)

    found = SymlinkIndex(["/".join("a" * 50)]).find_links(tmp_path)

    assert {start.directory for start in found} == {str(tmp_path)}
