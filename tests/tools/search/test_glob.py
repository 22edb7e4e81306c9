"""Glob: matching files, their order, hidden files and limits."""

import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from anyio import create_task_group, fail_after, to_thread
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import Interrupt, Sharing, ToolResult
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.tools.search.glob import GlobTool
from mcp_dispatch.tools.search.glob_pattern import GlobPattern, PatternLevel, parse_glob
from mcp_dispatch.tools.search.root import SearchFilter, SearchRoot, open_search_root
from mcp_dispatch.tools.search.walk import DirectoryWalk, WalkResult
from tests.support.depth import choose_count
from tests.support.file_scope import FileScope, extract_error, extract_result_text

EMPTY_ENVIRON: dict[str, str] = {}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = to_real_path(tmp_path) / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def tool(root: Path) -> GlobTool:
    return GlobTool(Workspace(root), EMPTY_ENVIRON)


def create_file(path: Path, *, age: int = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return str(path)


def hide_nothing(_: Path) -> bool:
    return False


async def run_glob(
    tool: GlobTool,
    pattern: str,
    path: str | None = None,
    *,
    hides: Callable[[Path], bool] = hide_nothing,
    cwd: Path | None = None,
) -> ToolResult:
    """Check and run the tool as the pipeline does: the path from `check` is judged."""
    context = replace(FileScope(cwd).context(), is_hidden=hides)
    arguments: JsonObject = (
        {"pattern": pattern} if path is None else {"pattern": pattern, "path": path}
    )
    checked = (await tool.check(arguments, context)).arguments
    judged = frozenset({to_real_path(Path(str(checked["path"])))})
    return await tool.run(checked, replace(context, judged_paths=judged))


async def list_files(tool: GlobTool, pattern: str, path: str | None = None) -> list[str]:
    return extract_result_text(await run_glob(tool, pattern, path)).split("\n")


async def check_arguments(tool: GlobTool, **arguments: Json) -> JsonObject:
    return (await tool.check(arguments, FileScope().context())).arguments


async def get_refusal(tool: GlobTool, pattern: str) -> Refusal:
    with pytest.raises(Refused) as caught:
        await run_glob(tool, pattern)
    return caught.value.refusal


async def test_files_are_listed_by_absolute_path_the_newest_first(tool: GlobTool, root: Path):
    old, new, middle = (
        create_file(root / "a.py", age=9),
        create_file(root / "z/b.py"),
        create_file(root / "c.py", age=5),
    )
    create_file(root / "other.txt")

    result = await run_glob(tool, "**/*.py")

    assert extract_result_text(result) == f"{new}\n{middle}\n{old}"
    assert isinstance(result.response, dict)
    milliseconds = result.response["durationMs"]
    assert isinstance(milliseconds, int)
    assert result.response == {
        "filenames": [new, middle, old],
        "numFiles": 3,
        "durationMs": milliseconds,
        "truncated": False,
        "totalMatches": 3,
        "countIsComplete": True,
    }


async def test_files_of_the_same_time_are_listed_by_name(tool: GlobTool, root: Path):
    paths = [create_file(root / name) for name in ("b", "a", "c")]

    assert await list_files(tool, "*") == sorted(paths)


async def test_a_pattern_without_matches_returns_no_files_found(tool: GlobTool, root: Path):
    create_file(root / "a.py")

    result = await run_glob(tool, "*.rs")

    assert extract_result_text(result) == "No files found"
    assert isinstance(result.response, dict)
    assert result.response["filenames"] == []


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("./*.py", ["a.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("src/**", ["src/b.py", "src/deep/c.py", "src/deep/d.ts"]),
        ("src/", ["src/b.py", "src/deep/c.py", "src/deep/d.ts"]),
        ("**/deep/**", ["src/deep/c.py", "src/deep/d.ts"]),
        ("**/**/**/c.py", ["src/deep/c.py"]),
        ("src//./b.py", ["src/b.py"]),
        ("./?.py", ["a.py"]),
        ("[a-b].py", ["a.py", "src/b.py"]),
        ("[!a].py", ["src/b.py", "src/deep/c.py"]),
        ("[^a].py", ["src/b.py", "src/deep/c.py"]),
        ("*.{py,ts}", ["a.py", "src/b.py", "src/deep/c.py", "src/deep/d.ts"]),
        ("{src/{b,x},a}.py", ["a.py", "src/b.py"]),
        ("src/{,deep/}*.py", ["src/b.py", "src/deep/c.py"]),
        (r"\a.py", ["a.py"]),
        (r"\*.py", ["No files found"]),
        ("{a.py", ["No files found"]),
        ("*.PY", ["No files found"]),
    ],
)
async def test_patterns_mean_what_shells_mean(
    tool: GlobTool, root: Path, pattern: str, names: list[str]
):
    for name in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.ts"):
        create_file(root / name)

    listed = await list_files(tool, pattern)

    assert [name.removeprefix(f"{root}/") for name in listed] == names


async def test_a_name_with_wildcard_characters_matches_literally(tool: GlobTool, root: Path):
    route = create_file(root / "app/[id]/page.tsx")

    assert await list_files(tool, "app/[id]/*.tsx") == [route]
    assert await list_files(tool, r"app/\[id\]/*.tsx") == [route]


async def test_hidden_and_ignored_files_are_found_by_default(tool: GlobTool, root: Path):
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    paths = [create_file(root / ".env"), create_file(root / "a.log")]

    listed = await list_files(tool, "*")

    assert sorted(listed) == [*sorted(paths)[:1], str(root / ".gitignore"), *sorted(paths)[1:]]


async def test_hidden_files_can_be_left_out(root: Path):
    create_file(root / ".env")
    create_file(root / ".config/x")
    shown = create_file(root / "a")
    tool = GlobTool(Workspace(root), {"CLAUDE_CODE_GLOB_HIDDEN": "false"})

    assert await list_files(tool, "**/*") == [shown]


async def test_gitignore_can_be_respected(root: Path):
    (root / ".git").mkdir()
    (root / ".gitignore").write_text(
        "# built\n*.log\nbuild/\n/only-here\n!keep.log\n\\#odd\n", encoding="utf-8"
    )
    (root / "sub").mkdir()
    (root / "sub/.gitignore").write_text("!again.log\nown/**/x\n", encoding="utf-8")
    for name in ("a.log", "build/b", "only-here", "#odd", "sub/own/d/x", "sub/deep/build/c"):
        create_file(root / name)
    kept = [create_file(root / name) for name in ("build.txt", "keep.log", "sub/again.log")]
    kept += [create_file(root / "sub/only-here"), create_file(root / "sub/own/y")]
    tool = GlobTool(Workspace(root), {"CLAUDE_CODE_GLOB_NO_IGNORE": "false"})

    listed = [name for name in await list_files(tool, "**/*") if not name.endswith(".gitignore")]
    below = [
        name for name in await list_files(tool, "**/*", "sub") if not name.endswith(".gitignore")
    ]

    assert sorted(listed) == sorted(kept)
    assert sorted(below) == sorted(name for name in kept if "/sub/" in name)


async def test_the_contents_of_git_are_listed_only_when_named(tool: GlobTool, root: Path):
    config, file = create_file(root / ".git/config"), create_file(root / "config")

    assert await list_files(tool, "**/config") == [file]
    assert await list_files(tool, ".g*/config") == ["No files found"]
    assert await list_files(tool, ".git/*") == [config]
    assert await list_files(tool, "*", ".git") == [config]


async def test_at_most_a_hundred_files_of_ten_thousand_are_listed_and_all_are_counted(
    tool: GlobTool, root: Path
):
    for folder in range(100):
        (root / f"d{folder:02}").mkdir()
        for number in range(100):
            (root / f"d{folder:02}/f{number:02}.txt").touch()
    newest = root / "d57/f33.txt"
    os.utime(newest, (4_000_000_000, 4_000_000_000))

    with fail_after(20):
        result = await run_glob(tool, "**/*.txt")

    lines = extract_result_text(result).split("\n")
    assert lines[0] == str(newest)
    assert len(lines) == 102
    assert lines[-1] == (
        "(Results are truncated: these are the 100 newest of 10,000 files."
        " Give a more specific path or pattern to see others.)"
    )
    assert isinstance(result.response, dict)
    assert result.response["truncated"] is True
    assert result.response["numFiles"] == 100
    assert result.response["totalMatches"] == 10_000


async def test_a_file_that_a_rule_hides_is_neither_listed_nor_counted(tool: GlobTool, root: Path):
    shown = create_file(root / "a.txt")
    create_file(root / "secret/b.txt")

    result = await run_glob(tool, "**/*.txt", hides=lambda path: "secret" in path.parts)

    assert extract_result_text(result) == shown
    assert isinstance(result.response, dict)
    assert result.response["totalMatches"] == 1


async def test_a_rule_on_the_real_path_hides_files_searched_through_a_link(
    tool: GlobTool, root: Path
):
    create_file(root / "real/a.txt")
    (root / "link").symlink_to(root / "real")

    by_real_name = await run_glob(tool, "*", "link", hides=lambda path: "real" in path.parts)
    by_given_name = await run_glob(tool, "*", "link", hides=lambda path: "link" in path.parts)

    assert extract_result_text(by_real_name) == "No files found"
    assert extract_result_text(by_given_name) == "No files found"


async def test_a_link_to_a_file_is_listed_by_its_own_name(tool: GlobTool, root: Path):
    target, link = create_file(root / "a.txt", age=3), root / "b.txt"
    link.symlink_to("a.txt")

    assert await list_files(tool, "*.txt") == [target, str(link)]


async def test_a_link_to_a_hidden_file_is_hidden_at_either_end(tool: GlobTool, root: Path):
    create_file(root / "secret")
    (root / "step").symlink_to("secret")
    (root / "link.txt").symlink_to("step")

    for end in ("secret", "step", "link.txt"):
        result = await run_glob(tool, "*.txt", hides=lambda path, end=end: path.name == end)
        assert extract_result_text(result) == "No files found"


async def test_linked_directories_are_not_entered(tool: GlobTool, root: Path):
    create_file(root.parent / "outside/a.txt")
    (root / "out").symlink_to(root.parent / "outside")
    (root / "loop").symlink_to(root)
    inside = create_file(root / "b.txt")

    assert await list_files(tool, "**/*.txt") == [inside]
    assert await list_files(tool, "*/a.txt") == ["No files found"]


async def test_link_cycles_and_dangling_links_are_left_out(tool: GlobTool, root: Path):
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("one")
    (root / "dangling").symlink_to("nowhere")

    assert await list_files(tool, "**/*") == ["No files found"]


async def test_pipes_and_sockets_are_not_listed(tool: GlobTool, root: Path):
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fsencode(root / "socket"))

        assert await list_files(tool, "*") == ["No files found"]


async def test_unusual_names_stay_on_one_line(tool: GlobTool, root: Path):
    create_file(root / "-dash")
    create_file(root / "new\nline")
    (root / os.fsdecode(b"bad\xff")).write_bytes(b"")
    create_file(root / "ünï")

    result = await run_glob(tool, "*")

    expected = [
        f"{root}/-dash",
        f"{root}/bad\ufffd",
        json.dumps(f"{root}/new\nline"),
        f"{root}/ünï",
    ]
    assert sorted(extract_result_text(result).split("\n")) == sorted(expected)
    json.dumps(result.response, ensure_ascii=False).encode("utf-8")


async def test_the_current_directory_is_where_a_search_starts(tool: GlobTool, root: Path):
    create_file(root / "a.txt")
    below = create_file(root / "sub/b.txt")

    assert extract_result_text(await run_glob(tool, "*", cwd=root / "sub")) == below
    assert extract_result_text(await run_glob(tool, "*", ".", cwd=root / "sub")) == below


async def test_rules_judge_exactly_the_directory_that_is_searched(tool: GlobTool, root: Path):
    (root / "sub").mkdir()
    (root / "link").symlink_to(root.parent)
    cases: list[tuple[JsonObject, JsonObject]] = [
        ({"pattern": "*.py"}, {"pattern": "*.py", "path": str(root)}),
        ({"pattern": "sub/*"}, {"pattern": "sub/*", "path": str(root)}),
        ({"pattern": "*", "path": "sub"}, {"pattern": "*", "path": f"{root}/sub"}),
        ({"pattern": "/etc/pa*"}, {"pattern": "./pa*", "path": "/etc"}),
        ({"pattern": "/**"}, {"pattern": "./**", "path": "/"}),
        ({"pattern": f"{root}*/x"}, {"pattern": "./workspace*/x", "path": str(root.parent)}),
        ({"pattern": "../*"}, {"pattern": "./*", "path": str(root.parent)}),
        ({"pattern": "sub/../../x"}, {"pattern": "./x", "path": str(root.parent)}),
        ({"pattern": "link/*"}, {"pattern": "./*", "path": f"{root}/link"}),
        ({"pattern": "~/*.txt"}, {"pattern": "./*.txt", "path": str(Path.home())}),
        ({"pattern": "~*"}, {"pattern": "**/~*", "path": str(root)}),
    ]

    for given_arguments, expected in cases:
        checked = await check_arguments(tool, **given_arguments)
        subject = Subject("Glob", "Glob", None, checked, given_arguments, cwd=root)

        assert checked == expected
        assert subject.read_paths == (expected["path"],)
        assert await check_arguments(tool, **checked) == expected


@pytest.mark.parametrize(
    "pattern",
    ["*/../x", "{../x,y}", "{a,.}./b", r"*/\../x", "{/etc,x}/*", "x{,/../..}/*", ".."],
)
async def test_a_pattern_that_leads_out_behind_a_wildcard_is_refused(tool: GlobTool, pattern: str):
    assert await get_refusal(tool, pattern) == Refusal(
        RefusedBy.SEMANTIC,
        f"{pattern!r}: '/' at the start of an alternative and '..' after a wildcard lead out of"
        " the directory; give that directory as path instead",
    )


async def test_patterns_that_cannot_be_used_are_refused(tool: GlobTool):
    messages = [
        (await get_refusal(tool, pattern)).message
        for pattern in ("a\0b", "\ud800", "x" * 5000, "{a,b}" * 9, "{a,b}" * 8 + "/x" * 2000, "")
    ]

    assert messages == [
        "'a\\x00b': a pattern cannot contain a NUL character",
        "'\\ud800': a pattern cannot contain half a surrogate pair",
        "the pattern has 5,000 characters; at most 4,096 are taken",
        f"{'{a,b}' * 9!r} has too many alternatives; search in several calls",
        f"{'{a,b}' * 8 + '/x' * 2000!r} has too many alternatives; search in several calls",
        "the pattern is empty; write **/* for every file",
    ]


async def test_a_path_that_is_no_directory_is_an_error_that_names_it(tool: GlobTool, root: Path):
    file = create_file(root / "a.txt")
    os.mkfifo(root / "pipe")

    assert (
        extract_error(await run_glob(tool, "*", "nowhere"))
        == f"Path does not exist: {root}/nowhere"
    )
    assert (
        extract_error(await run_glob(tool, "*", "a.txt/b"))
        == f"Path does not exist: {root}/a.txt/b"
    )
    assert extract_error(await run_glob(tool, "*", "a.txt")) == (
        f"{file} is a file, and Glob searches directories. Use Read or Grep."
    )
    assert extract_error(await run_glob(tool, "*", "pipe")) == (
        f"{root}/pipe is neither a directory nor a regular file."
    )
    assert extract_error(await run_glob(tool, "*", "/proc/self")) == (
        "/proc/self belongs to the kernel and has no ordinary files. Use Bash."
    )


async def test_a_root_that_was_not_judged_is_not_searched(tool: GlobTool, root: Path):
    context = replace(FileScope().context(), judged_paths=frozenset({root}))
    (root / "link").symlink_to(root.parent)

    with pytest.raises(Refused) as caught:
        await tool.run({"pattern": "*", "path": f"{root}/link"}, context)

    assert caught.value.refusal.by is RefusedBy.PERMISSION


def test_a_directory_that_became_a_link_is_not_entered(root: Path):
    (root / "sub").symlink_to(root.parent)
    place = SearchRoot(root / "sub/x", root / "sub/x", is_file=False)
    (root.parent / "x").mkdir()

    with pytest.raises(FileError), open_search_root(place):
        pass


def run_walk(
    root: Path,
    pattern: str,
    expired: Callable[[], bool],
    hides: Callable[[Path], bool] = hide_nothing,
) -> WalkResult:
    place = SearchRoot(root, root, is_file=False)
    with open_search_root(place) as descriptor:
        return DirectoryWalk(parse_glob(pattern), SearchFilter(place, hides), 100, expired).run(
            descriptor
        )


def test_a_directory_swapped_for_a_link_during_the_walk_is_not_followed(root: Path):
    outside = root.parent / "outside"
    create_file(outside / "secret.txt")
    (root / "sub").mkdir()
    create_file(root / "a.txt")

    def swap(_: Path) -> bool:
        if (root / "sub").is_dir() and not (root / "sub").is_symlink():
            (root / "sub").rmdir()
            (root / "sub").symlink_to(outside)
        return False

    result = run_walk(root, "**/*.txt", lambda: False, swap)

    assert result == WalkResult(("a.txt",), 1, result.unreadable, complete=True)
    assert (root / "sub").is_symlink()


def test_a_file_that_disappears_during_the_walk_is_left_out(root: Path):
    create_file(root / "a.txt")
    create_file(root / "b.txt")

    def remove(path: Path) -> bool:
        path.unlink()
        return False

    assert run_walk(root, "*", lambda: False, remove) == WalkResult((), 0, 0, complete=True)


def test_a_walk_that_times_out_returns_what_it_found(root: Path):
    for number in range(50):
        create_file(root / f"f{number}")
    looks = iter([False] * 10 + [True] * 100)

    result = run_walk(root, "*", lambda: next(looks))

    assert (len(result.newest), result.total, result.complete) == (10, 10, False)


async def test_a_glob_that_times_out_returns_partial_results_with_a_note(root: Path):
    paths = [create_file(root / "a"), create_file(root / "b")]
    asked: list[Path] = []
    tool = GlobTool(Workspace(root), EMPTY_ENVIRON, clock=lambda: 20.0 * len(asked))

    def take_all_the_time(path: Path) -> bool:
        asked.append(path)
        return False

    result = await run_glob(tool, "**/*", hides=take_all_the_time)

    first, _, note = extract_result_text(result).split("\n")
    assert first in paths
    assert note == (
        "(The search was stopped after 20 seconds: there may be more files."
        " Give a narrower path or pattern.)"
    )
    assert result.response == {
        "filenames": [first],
        "numFiles": 1,
        "durationMs": 20_000,
        "truncated": True,
        "totalMatches": 1,
        "countIsComplete": False,
        "timedOut": True,
    }


async def test_a_glob_that_times_out_without_results_is_an_error(root: Path):
    create_file(root / "a")
    tool = GlobTool(Workspace(root), EMPTY_ENVIRON, seconds=0)

    assert extract_error(await run_glob(tool, "*")) == (
        "Nothing was found in 0 seconds, and the search was not over."
        " Give a narrower path or pattern."
    )


async def test_a_cancelled_search_stops_its_walk(tool: GlobTool, root: Path):
    for number in range(100):
        create_file(root / f"f{number}")
    inside, go_on, again = threading.Event(), threading.Event(), threading.Event()

    def hold(_: Path) -> bool:
        if inside.is_set():
            again.set()
        inside.set()
        go_on.wait(5)
        return False

    with fail_after(5):
        async with create_task_group() as tasks:

            async def search() -> None:
                await run_glob(tool, "*", hides=hold)

            tasks.start_soon(search)
            await to_thread.run_sync(inside.wait, 5)
            tasks.cancel_scope.cancel()
    go_on.set()

    # The walk runs in an abandoned thread; only the absence of further calls shows that it ended.
    assert not await to_thread.run_sync(again.wait, 0.3)


def test_directories_below_the_maximum_depth_count_as_unreadable(root: Path):
    here = os.open(root, os.O_RDONLY)
    for _ in range(210):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    assert run_walk(root, "**/*", lambda: False) == WalkResult((), 0, 1, complete=True)


async def test_directories_that_cannot_be_read_are_counted(tool: GlobTool, root: Path):
    path = create_file(root / "a")
    deep = root
    for _ in range(201):
        deep = deep / "d"
    deep.mkdir(parents=True)

    assert extract_result_text(await run_glob(tool, "**/*")) == (
        f"{path}\n\n(Directories that could not be read: 1.)"
    )


def test_only_directories_that_can_match_are_entered(root: Path):
    create_file(root / "src/a.py")
    deep = root / "other"
    for _ in range(201):
        deep = deep / "d"
    deep.mkdir(parents=True)

    assert run_walk(root, "src/*.py", lambda: False) == WalkResult(
        ("src/a.py",), 1, 0, complete=True
    )
    assert run_walk(root, "**/*.py", lambda: False).unreadable == 1


def test_hostile_patterns_match_quickly(root: Path):
    name = "a" * 255
    for pattern in ("*a" * 120 + "b", "?*" * 100 + "b", "[a-z]*" * 80 + "!", "**/" * 1000 + "x"):
        parsed = parse_glob(pattern)

        with_time = PatternLevel(parsed, parsed.find_start_positions())

        assert not with_time.matches(name)


def parse_unless_refused(pattern: str) -> GlobPattern | None:
    try:
        return parse_glob(pattern)
    except Refused:
        return None


@settings(max_examples=choose_count(quick=100, deep=3000), deadline=None)
@given(st.text("ab*?[]!{},\\./~", min_size=1, max_size=40), st.text("ab.", min_size=1))
def test_no_parsed_pattern_contains_a_parent_segment(pattern: str, name: str):
    parsed = parse_unless_refused(pattern) or parse_glob("*")

    below = PatternLevel(parsed, parsed.find_start_positions()).enter_directory(name)

    assert all(position in range(len(parsed.alternatives[one])) for one, position in below)
    assert not any(one.text == ".." for segments in parsed.alternatives for one in segments)


async def test_hostile_strings_never_lead_out_of_the_workspace(
    tool: GlobTool, root: Path, data_dir: Path
):
    naughty = json.loads((data_dir / "strings/blns.json").read_text(encoding="utf-8"))
    traversal = json.loads((data_dir / "strings/path_traversal.json").read_text(encoding="utf-8"))
    create_file(root / "a.txt")
    context = replace(FileScope().context(), judged_paths=frozenset({root}))

    async def run(arguments: JsonObject) -> ToolResult | None:
        try:
            return await tool.run((await tool.check(arguments, context)).arguments, context)
        except Refused:
            return None

    for text in [*naughty, *traversal["strings"]]:
        for arguments in ({"pattern": text}, {"pattern": "**", "path": text}):
            if text and (result := await run(arguments)) is not None and not result.is_error:
                assert isinstance(result.response, dict)
                assert result.response["filenames"] in ([], [f"{root}/a.txt"])


async def test_glob_needs_a_workspace(root: Path):
    tool = GlobTool(Workspace(None, unset_reason="nobody chose one"), EMPTY_ENVIRON)

    assert (await get_refusal(tool, "*")).message == (
        "no workspace: nobody chose one; start the server with --workspace DIR"
    )


def test_glob_shares_and_changes_nothing(tool: GlobTool):
    assert tool.decide_sharing({}) is Sharing.SHARED
    assert tool.interrupt is Interrupt.CANCEL
    assert tool.result_limit == 100_000
    annotations = tool.definition["annotations"]
    assert annotations == {
        "title": "Find files by name",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool.validator.find_problems({"pattern": "*", "path": "src"}) == []
    assert tool.validator.find_problems({"path": "src"}) != []
