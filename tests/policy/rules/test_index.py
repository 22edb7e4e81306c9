"""Rules are filed so that few are tried on a call: what is filed is found, whatever it is."""

import os
import re
from pathlib import Path
from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from mcp_dispatch.fs.resolve import folded
from mcp_dispatch.policy.commands.expand import reading, starts_of
from mcp_dispatch.policy.commands.pattern import SEPARATOR, CommandPattern, Match, command_pattern
from mcp_dispatch.policy.domains import DomainPattern, domain_pattern
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.pattern import compiled
from mcp_dispatch.policy.paths.rules import Detours, Start
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex
from mcp_dispatch.shell.ast import EXPANSION

unhurried = settings(deadline=None)
parts = st.text("ab.*?[]\\!", min_size=1, max_size=4) | st.sampled_from(["**", "a", "ab", "B"])


def _pattern(start: str, middle: list[str], end: str) -> str:
    return start + "/".join(middle) + end


def _is_usable(pattern: str) -> bool:
    return not pattern.lstrip("/").startswith("!") and pattern.count("*") < 7


patterns = st.builds(
    _pattern,
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
    index = PathIndex(texts, literally=literally, folding=folding)
    spelled = folded(path) if folding else path

    def covers(text: str) -> bool:
        pattern = compiled(folded(text) if folding else text, literally=literally, folding=folding)
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

    quick = compiled(pattern, literally=False, folding=False)

    assert plain is not None
    assert quick.covers(name) is (re.match(plain, name) is not None)


def test_no_name_makes_a_pattern_with_many_stars_slow():
    pattern = compiled("[a-z]*[a-z]*[a-z]*b", literally=False, folding=False)
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
def test_every_pattern_that_a_command_holds_is_found(texts: list[str], command: list[str]):
    made = [command_pattern(text) for text in texts]
    filed = {at: pattern for at, pattern in enumerate(made) if pattern is not None}
    read = reading("".join(command))

    found = CommandIndex(filed).matching(read)

    for at, pattern in filed.items():
        if not pattern.anchored or not read.complete:
            continue
        expected = max((_match(pattern, line) for line in read.lines), default=0)
        expected = max([expected, *(_in_run(pattern, run) for run in read.runs)])
        if pattern.exact == read.text.strip():
            expected = Match.YES.value
        assert found.get(at, Match.NO).value == expected


def _match(pattern: CommandPattern, line: str) -> int:
    return pattern.match(line).value


def _in_run(pattern: CommandPattern, run: tuple[str, ...]) -> int:
    start = starts_of(run)
    unsure = bool(start) and any(EXPANSION in token for token in start)
    whole = Match.YES.value if pattern.occurs_in(SEPARATOR.join(run)) else 0
    return max(whole, _match(pattern, SEPARATOR.join(start)) if unsure else 0)


labels = st.sampled_from(["a", "b", "com", "*", "a*"])


@unhurried
@given(
    st.lists(st.lists(labels, min_size=1, max_size=4).map(".".join), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "com", "ab"]), min_size=1, max_size=4).map(".".join),
)
def test_every_domain_rule_that_covers_a_host_is_found(texts: list[str], host: str):
    made = [domain_pattern(f"domain:{text}") for text in texts]
    filed = {at: each for at, each in enumerate(made) if isinstance(each, DomainPattern)}

    found = sorted(DomainIndex(filed).covering(host))

    assert found == [at for at, pattern in filed.items() if pattern.covers(host)]


def test_links_among_the_beginnings_of_patterns_are_found_when_they_appear(tmp_path: Path):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "dir").mkdir()
    detours = Detours(["link/a", "dir/inner", "dir/other/x", "missing/b", ""])

    assert detours.under(tmp_path) == []

    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dir" / "inner").symlink_to("../real/deep")
    (tmp_path / "real" / "a").symlink_to(tmp_path / "dir")
    os.utime(tmp_path, ns=(1, 1))  # a clock that is coarse must not hide the change from the test

    assert sorted(detours.under(tmp_path), key=lambda start: start.spelled) == [
        Start("dir/inner", str(tmp_path / "real" / "deep")),
        Start("link", str(tmp_path / "real")),
        Start("link/a", str(tmp_path / "dir")),
    ]


def test_links_that_lead_back_to_themselves_end(tmp_path: Path):
    (tmp_path / "a").symlink_to(tmp_path)

    found = Detours(["/".join("a" * 50)]).under(tmp_path)

    assert {start.place for start in found} == {str(tmp_path)}
