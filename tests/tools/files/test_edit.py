"""Edit: one passage changed, everything else byte for byte as it was."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mcp_dispatch.fs.safe_open import compute_digest
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    FileRead,
    FileSeen,
    Interrupt,
    Sharing,
    Tool,
    build_error_result,
)
from mcp_dispatch.tools.files.diff import compute_hunks, format_unified_diff
from mcp_dispatch.tools.files.edit import EditTool
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.text_match import find_matches, replace_matches
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.file_scope import FileScope, call, error_of, text_of

NOT_READ = "File has not been read yet. Read it first before writing to it."
MODIFIED = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


class Desk:
    """One file in a workspace, a scope, and the tools on it."""

    def __init__(self, root: Path) -> None:
        self.file = root / "f"
        self.path = str(self.file)
        self.scope = FileScope()
        self.tool: Tool = EditTool(Workspace(root))
        self._read: Tool = ReadTool(Workspace(root))

    async def given(self, content: bytes, **range_: Json) -> None:
        self.file.write_bytes(content)
        await call(self._read, self.scope, file_path=self.path, **range_)

    async def edit(self, old: str, new: str, *, every: bool = False) -> str:
        result = await call(
            self.tool,
            self.scope,
            file_path=self.path,
            old_string=old,
            new_string=new,
            replace_all=every,
        )
        return text_of(result)

    async def refusal(self, old: str, new: str, *, every: bool = False) -> str:
        before = self.file.read_bytes() if self.file.exists() else None
        with pytest.raises(Refused) as refused:
            await self.edit(old, new, every=every)
        assert before == (self.file.read_bytes() if self.file.exists() else None)
        assert refused.value.refusal.by is RefusedBy.SEMANTIC
        return refused.value.refusal.message


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(to_real_path(tmp_path))


async def test_an_edit_answers_with_a_unified_diff_and_the_new_state(desk: Desk):
    await desk.given(b"one\ntwo\nthree\n")

    result = await call(
        desk.tool, desk.scope, file_path=desk.path, old_string="two", new_string="2"
    )

    assert text_of(result) == "\n".join(
        [
            f"The file {desk.path} has been updated.",
            f"--- {desk.path}",
            f"+++ {desk.path}",
            "@@ -1,3 +1,3 @@",
            *(" one", "-two", "+2", " three"),
        ]
    )
    assert result.response == {
        "filePath": desk.path,
        "oldString": "two",
        "newString": "2",
        "originalFile": "one\ntwo\nthree\n",
        "structuredPatch": [
            {
                "oldStart": 1,
                "oldLines": 3,
                "newStart": 1,
                "newLines": 3,
                "lines": [" one", "-two", "+2", " three"],
            }
        ],
        "userModified": False,
        "replaceAll": False,
    }
    content = b"one\n2\nthree\n"
    assert desk.file.read_bytes() == content
    seen = FileSeen(desk.file.stat().st_mtime_ns, len(content), compute_digest(content))
    assert result.changes == (FileRead(desk.path, seen),)


async def test_an_unread_file_is_not_edited(desk: Desk):
    desk.file.write_bytes(b"one\n")

    assert await desk.refusal("missing", "x") == NOT_READ


async def test_a_partial_view_is_not_a_read(desk: Desk):
    await desk.given(b"one\ntwo\n", limit=1)

    assert await desk.refusal("one", "x") == NOT_READ


async def test_a_file_too_large_to_be_seen_whole_is_edited_by_its_unique_match(desk: Desk):
    await desk.given(b"x\n" * 60_000 + b"needle\n", offset=60_001)

    await desk.edit("needle", "pin")
    await desk.edit("pin", "nail")

    assert desk.file.read_bytes() == b"x\n" * 60_000 + b"nail\n"
    with pytest.raises(Refused) as refused:
        await call(
            WriteTool(Workspace(desk.file.parent)), desk.scope, file_path=desk.path, content=""
        )
    assert refused.value.refusal == Refusal(RefusedBy.SEMANTIC, NOT_READ)


async def test_old_and_new_must_differ(desk: Desk):
    await desk.given(b"one\n")

    assert await desk.refusal("one", "one") == (
        "No changes to make: old_string and new_string are the same."
    )


async def test_several_matches_are_refused_with_their_lines(desk: Desk):
    await desk.given(b"a\nb\na\na a\n")

    assert await desk.refusal("a", "x") == (
        f"Found 4 matches of the string to replace in {desk.path}, at lines 1, 3, 4, 4."
        " Set replace_all to true to change every one, or give more of the text around the one"
        " you mean."
    )


async def test_many_matches_are_counted_and_the_first_lines_named(desk: Desk):
    await desk.given(b"a\n" * 500)

    assert await desk.refusal("a", "x") == (
        f"Found 500 matches of the string to replace in {desk.path}, at lines"
        " 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …. Set replace_all to true to change every one, or give"
        " more of the text around the one you mean."
    )


async def test_matches_that_overlap_are_ambiguous(desk: Desk):
    await desk.given(b"aaa\n")

    assert (await desk.refusal("aa", "x")).startswith("Found 2 matches")


async def test_replace_all_changes_every_occurrence(desk: Desk):
    await desk.given(b"a b a\r\na\n")

    await desk.edit("a", "aa", every=True)

    assert desk.file.read_bytes() == b"aa b aa\r\naa\n"


async def test_a_string_that_is_not_there_is_refused_with_the_nearest_line(desk: Desk):
    await desk.given(b"def first():\n    return 1\n")

    assert await desk.refusal("  def frist():", "x") == (
        f"String to replace not found in {desk.path}. The nearest line is 1: def first():"
    )
    assert await desk.refusal("zzzzzz", "x") == (
        f"String to replace not found in {desk.path}."
        " Read the file again and copy the text from it."
    )


async def test_a_file_that_changed_is_edited_where_the_match_is_exact_and_unique(desk: Desk):
    await desk.given(b"one\ntwo\n")
    desk.file.write_bytes(b"zero\none\ntwo\n")

    await desk.edit("two", "2")

    assert desk.file.read_bytes() == b"zero\none\n2\n"


async def test_what_someone_else_changed_stays_unread_after_an_edit(desk: Desk):
    await desk.given(b"one\ntwo\n")
    desk.file.write_bytes(b"theirs\none\ntwo\n")
    await desk.edit("two", "2")

    with pytest.raises(Refused) as refused:
        await call(
            WriteTool(Workspace(desk.file.parent)), desk.scope, file_path=desk.path, content=""
        )

    assert refused.value.refusal == Refusal(RefusedBy.SEMANTIC, MODIFIED)


@pytest.mark.parametrize(
    ("now", "old", "every"),
    [
        (b"gone\n", "two", False),
        (b"two\ntwo\n", "two", False),
        (b"two\ntwo\n", "two", True),
        ("“two”\n".encode(), '"two"', False),
    ],
)
async def test_a_file_that_changed_is_not_edited_on_a_guess(
    desk: Desk, now: bytes, old: str, every: bool
):
    await desk.given(b'one\n"two"\n')
    desk.file.write_bytes(now)

    assert await desk.refusal(old, "x", every=every) == MODIFIED


async def test_a_newer_time_without_a_change_is_no_change(desk: Desk):
    await desk.given(b"a\na\n")
    os.utime(desk.path, ns=(1, 1))

    await desk.edit("a", "b", every=True)

    assert desk.file.read_bytes() == b"b\nb\n"


async def test_a_formatter_after_each_edit_does_not_break_the_next(desk: Desk):
    await desk.given(b"a=1\nb=2\nc=3\n")

    for old, new in (("a=1", "a=10"), ("b = 2", "b=20"), ("c = 3", "c=30")):
        await desk.edit(old, new)
        formatted = desk.file.read_bytes().replace(b" = ", b"=").replace(b"=", b" = ")
        desk.file.write_bytes(formatted)

    assert desk.file.read_bytes() == b"a = 10\nb = 20\nc = 30\n"


async def test_a_change_between_check_and_run_is_noticed(desk: Desk):
    await desk.given(b"one\n")
    arguments: dict[str, Json] = {
        "file_path": desk.path,
        "old_string": "one",
        "new_string": "1",
    }
    checked = await desk.tool.check(arguments, desk.scope.context())
    desk.file.write_bytes(b"other\n")

    result = await desk.tool.run(checked.arguments, desk.scope.context())

    assert result == build_error_result(MODIFIED)
    assert desk.file.read_bytes() == b"other\n"


async def test_an_empty_old_string_creates_a_missing_file(desk: Desk):
    result = await call(
        desk.tool, desk.scope, file_path=desk.path, old_string="", new_string="new\n"
    )

    assert text_of(result) == f"File created successfully at: {desk.path}"
    assert desk.file.read_bytes() == b"new\n"
    await desk.edit("new", "newer")
    assert desk.file.read_bytes() == b"newer\n"


async def test_an_empty_old_string_fills_an_empty_file(desk: Desk):
    await desk.given(b"")

    await desk.edit("", "text")

    assert desk.file.read_bytes() == b"text"


async def test_an_empty_old_string_is_an_error_on_a_file_with_content(desk: Desk):
    await desk.given(b"content")

    assert await desk.refusal("", "x") == (
        f"Cannot create new file: {desk.path} already exists and is not empty."
        " Give the text to replace as old_string."
    )


async def test_a_missing_file_is_not_edited(desk: Desk):
    assert await desk.refusal("a", "b") == (
        f"File does not exist: {desk.path}. Use Write to create it."
    )


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc", "c", "c\nd", b"a\r\nb\r\nc\r\nd"),
        (b"a\nb\r\nc\n", "a\nb\nc", "a\nB\nc", b"a\nB\r\nc\n"),
        (b"a\nb\r\nc\n", "b", "x\ny", b"a\nx\r\ny\r\nc\n"),
        (b"a\r\nb\n", "a\r\nb", "a\nb", b"a\nb\n"),
        (b"a\nb\n", "a\r\nb", "a\r\nx\r\nb", b"a\nx\nb\n"),
        (b"a\nb\n", "a", "a\r\nx", b"a\r\nx\nb\n"),
        (b"a\r\nb\r\n", "a\n", "a\r\n\n", b"a\r\n\r\nb\r\n"),
        (b"a\r\nb", "b", "x", b"a\r\nx"),
    ],
)
async def test_line_ends_stay_as_the_file_has_them(
    desk: Desk, content: bytes, old: str, new: str, expected: bytes
):
    await desk.given(content)

    await desk.edit(old, new)

    assert desk.file.read_bytes() == expected


async def test_passages_that_differ_in_line_ends_only_are_ambiguous(desk: Desk):
    await desk.given(b"a\nb\n--\na\r\nb\r\n")

    assert (await desk.refusal("a\nb", "x")).startswith("Found 2 matches")


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        ("say “hi”", 'say "hi"', 'say "hello"', "say “hello”"),
        ("say “hi”", 'say "hi"', 'tell "me" "hi" now', "tell “me” “hi” now"),
        ("it\u2019s", "it's", "it's John's", "it\u2019s John\u2019s"),
        ("\u2018a\u2019", "'a'", "'b' ('c')", "\u2018b\u2019 (\u2018c\u2019)"),
        ('say "hi"', "say “hi”", "say “hello” “you”", 'say "hello" "you"'),
        ("“it's”", '"it\'s"', '"it\'s" "his"', "“it's” “his”"),
        ('"exact" “other”', '"exact"', "“exact”", "“exact” “other”"),
    ],
)
async def test_quotes_match_in_either_style_and_the_files_own_is_kept(
    desk: Desk, content: str, old: str, new: str, expected: str
):
    await desk.given(content.encode())

    await desk.edit(old, new)

    assert desk.file.read_text(encoding="utf-8") == expected


async def test_an_edit_that_would_change_nothing_is_refused(desk: Desk):
    await desk.given("“a”".encode())

    assert await desk.refusal('"a"', "“a”") == (
        f"No changes to make: {desk.path} has new_string there already."
    )


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")],
)
async def test_mark_and_encoding_are_kept(desk: Desk, mark: bytes, codec: str):
    await desk.given(mark + "eins ü\r\nzwei\r\n".encode(codec))

    await desk.edit("eins ü\nz", "1 ü 🙂\nz")

    assert desk.file.read_bytes() == mark + "1 ü 🙂\r\nzwei\r\n".encode(codec)


async def test_ascii_is_edited_in_an_unknown_encoding_and_the_rest_kept(desk: Desk):
    await desk.given(b"caf\xe9 = 1\n")

    result = await call(
        desk.tool, desk.scope, file_path=desk.path, old_string="= 1", new_string="= 2"
    )

    assert desk.file.read_bytes() == b"caf\xe9 = 2\n"
    assert text_of(result).split("\n")[-2:] == ["-caf\ufffd = 1", "+caf\ufffd = 2"]


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        (b"caf\xe9 = 1\n", "= 1", "= é"),
        ("表".encode("shift_jis") + b" and more \n", "\\ and", "/ and"),
    ],
)
async def test_an_edit_that_could_corrupt_an_unknown_encoding_is_refused(
    desk: Desk, content: bytes, old: str, new: str
):
    await desk.given(content)

    assert await desk.refusal(old, new) == (
        f"{desk.path} is not valid UTF-8, and this edit could corrupt it."
        " Convert it first, for example with `iconv` in Bash."
    )


async def test_half_a_surrogate_pair_is_refused(desk: Desk):
    await desk.given(b"a")

    assert await desk.refusal("a", "\udc80") == (
        "new_string contains half a surrogate pair at position 0; send whole characters."
    )


async def test_a_link_stays_and_its_target_is_edited(desk: Desk):
    await desk.given(b"one\n")
    link = desk.file.with_name("link")
    link.symlink_to("f")

    await call(desk.tool, desk.scope, file_path=str(link), old_string="one", new_string="1")

    assert link.is_symlink()
    assert desk.file.read_bytes() == b"1\n"


async def test_outside_the_workspace_the_check_tells_nothing(desk: Desk):
    (desk.file.parent / "work").mkdir()
    desk.file.write_bytes(b"secret")
    tool = EditTool(Workspace(desk.file.parent / "work"))

    result = await call(tool, FileScope(), file_path=desk.path, old_string="secret", new_string="x")

    assert error_of(result) == NOT_READ


def test_edit_runs_alone_and_is_not_interrupted(desk: Desk):
    assert (desk.tool.name, desk.tool.interrupt) == ("Edit", Interrupt.BLOCK)
    assert desk.tool.decide_sharing({}) is Sharing.EXCLUSIVE
    assert desk.tool.definition["annotations"] == {
        "title": "Edit a file",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_a_rename_all_over_a_long_file_is_a_diff_of_single_lines():
    old = "".join(f"{n} name\n" for n in range(5000))

    hunks = compute_hunks(old, old.replace("9 name", "9 title"))

    assert (len(hunks), len(hunks[0].lines)) == (500, 8)


def test_a_diff_that_is_too_long_is_cut_and_says_so():
    hunks = compute_hunks("", "x\n" * 20_000)

    lines = format_unified_diff("/f", hunks).split("\n")

    assert lines[:3] == ["--- /f", "+++ /f", "@@ -0,0 +1,20000 @@"]
    assert lines[-1] == f"… {20_001 - (len(lines) - 3)} more lines of this diff are not shown"
    assert len(lines) < 7000


ALPHABET = "ab \n\"'\u201c\u2019"


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None
)
@given(
    before=st.text(ALPHABET),
    old=st.text(ALPHABET, min_size=1),
    new=st.text(ALPHABET, min_size=1),
    after=st.text(ALPHABET),
    crlf=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
async def test_an_edit_and_its_reverse_give_the_original_bytes(
    tmp_path: Path, before: str, old: str, new: str, after: str, crlf: bool, encoding: str
):
    desk = Desk(to_real_path(tmp_path))
    text = f"{before}<{old}>{after}\nend\n"
    content = text.replace("\n", "\r\n" if crlf else "\n").encode(encoding)
    assume(old != new)
    await desk.given(content)

    await desk.edit(f"<{old}>", f"<{new}>")
    await desk.edit(f"<{new}>", f"<{old}>")

    assert desk.file.read_bytes() == content


@settings(deadline=None)
@given(
    around=st.tuples(st.text("ab\r\n", max_size=20), st.text("ab\r\n", max_size=20)),
    old=st.text("ab\n", min_size=1, max_size=3),
    new=st.text("ab\n", max_size=3),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_shown_after_an_edit_is_the_edit_of_what_was_shown(
    around: tuple[str, str], old: str, new: str, end: str
):
    before, after = (text.replace("\r", "\r\n") for text in around)
    text = before + old.replace("\n", end) + after

    edited = replace_matches(find_matches(text, old), old, new, replace_all=True)

    assert edited.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, new)
    assert edited.count("\r") == edited.count("\r\n")
