"""Edit: one passage is replaced, all other bytes are kept."""

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
from tests.support.file_scope import FileScope, call, extract_error, extract_result_text

NOT_READ = "File has not been read yet. Read it first before writing to it."
MODIFIED = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


class EditSetup:
    """A file in a workspace, a scope, and the tools that use them."""

    def __init__(self, root: Path) -> None:
        self.file = root / "f"
        self.path = str(self.file)
        self.scope = FileScope()
        self.tool: Tool = EditTool(Workspace(root))
        self._read: Tool = ReadTool(Workspace(root))

    async def write_and_read(self, content: bytes, **range_: Json) -> None:
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
        return extract_result_text(result)

    async def get_refusal(self, old: str, new: str, *, every: bool = False) -> str:
        before = self.file.read_bytes() if self.file.exists() else None
        with pytest.raises(Refused) as refused:
            await self.edit(old, new, every=every)
        assert before == (self.file.read_bytes() if self.file.exists() else None)
        assert refused.value.refusal.by is RefusedBy.SEMANTIC
        return refused.value.refusal.message


@pytest.fixture
def setup(tmp_path: Path) -> EditSetup:
    return EditSetup(to_real_path(tmp_path))


async def test_an_edit_returns_a_unified_diff_and_the_new_state(setup: EditSetup):
    await setup.write_and_read(b"one\ntwo\nthree\n")

    result = await call(
        setup.tool, setup.scope, file_path=setup.path, old_string="two", new_string="2"
    )

    assert extract_result_text(result) == "\n".join(
        [
            f"The file {setup.path} has been updated.",
            f"--- {setup.path}",
            f"+++ {setup.path}",
            "@@ -1,3 +1,3 @@",
            *(" one", "-two", "+2", " three"),
        ]
    )
    assert result.response == {
        "filePath": setup.path,
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
    assert setup.file.read_bytes() == content
    seen = FileSeen(setup.file.stat().st_mtime_ns, len(content), compute_digest(content))
    assert result.changes == (FileRead(setup.path, seen),)


async def test_an_unread_file_is_not_edited(setup: EditSetup):
    setup.file.write_bytes(b"one\n")

    assert await setup.get_refusal("missing", "x") == NOT_READ


async def test_a_partial_view_is_not_a_read(setup: EditSetup):
    await setup.write_and_read(b"one\ntwo\n", limit=1)

    assert await setup.get_refusal("one", "x") == NOT_READ


async def test_a_file_too_large_to_be_seen_whole_is_edited_by_its_unique_match(setup: EditSetup):
    await setup.write_and_read(b"x\n" * 60_000 + b"needle\n", offset=60_001)

    await setup.edit("needle", "pin")
    await setup.edit("pin", "nail")

    assert setup.file.read_bytes() == b"x\n" * 60_000 + b"nail\n"
    with pytest.raises(Refused) as refused:
        await call(
            WriteTool(Workspace(setup.file.parent)), setup.scope, file_path=setup.path, content=""
        )
    assert refused.value.refusal == Refusal(RefusedBy.SEMANTIC, NOT_READ)


async def test_old_and_new_must_differ(setup: EditSetup):
    await setup.write_and_read(b"one\n")

    assert await setup.get_refusal("one", "one") == (
        "No changes to make: old_string and new_string are the same."
    )


async def test_several_matches_are_refused_with_their_lines(setup: EditSetup):
    await setup.write_and_read(b"a\nb\na\na a\n")

    assert await setup.get_refusal("a", "x") == (
        f"Found 4 matches of the string to replace in {setup.path}, at lines 1, 3, 4, 4."
        " Set replace_all to true to change every one, or give more of the text around the one"
        " you mean."
    )


async def test_many_matches_are_counted_and_the_first_lines_named(setup: EditSetup):
    await setup.write_and_read(b"a\n" * 500)

    assert await setup.get_refusal("a", "x") == (
        f"Found 500 matches of the string to replace in {setup.path}, at lines"
        " 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …. Set replace_all to true to change every one, or give"
        " more of the text around the one you mean."
    )


async def test_matches_that_overlap_are_ambiguous(setup: EditSetup):
    await setup.write_and_read(b"aaa\n")

    assert (await setup.get_refusal("aa", "x")).startswith("Found 2 matches")


async def test_replace_all_changes_every_occurrence(setup: EditSetup):
    await setup.write_and_read(b"a b a\r\na\n")

    await setup.edit("a", "aa", every=True)

    assert setup.file.read_bytes() == b"aa b aa\r\naa\n"


async def test_a_missing_string_is_refused_with_the_nearest_line(setup: EditSetup):
    await setup.write_and_read(b"def first():\n    return 1\n")

    assert await setup.get_refusal("  def frist():", "x") == (
        f"String to replace not found in {setup.path}. The nearest line is 1: def first():"
    )
    assert await setup.get_refusal("zzzzzz", "x") == (
        f"String to replace not found in {setup.path}."
        " Read the file again and copy the text from it."
    )


async def test_a_file_that_changed_is_edited_where_the_match_is_exact_and_unique(setup: EditSetup):
    await setup.write_and_read(b"one\ntwo\n")
    setup.file.write_bytes(b"zero\none\ntwo\n")

    await setup.edit("two", "2")

    assert setup.file.read_bytes() == b"zero\none\n2\n"


async def test_a_change_by_another_program_stays_unread_after_an_edit(setup: EditSetup):
    await setup.write_and_read(b"one\ntwo\n")
    setup.file.write_bytes(b"theirs\none\ntwo\n")
    await setup.edit("two", "2")

    with pytest.raises(Refused) as refused:
        await call(
            WriteTool(Workspace(setup.file.parent)), setup.scope, file_path=setup.path, content=""
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
async def test_a_changed_file_is_not_edited_without_an_exact_unique_match(
    setup: EditSetup, now: bytes, old: str, every: bool
):
    await setup.write_and_read(b'one\n"two"\n')
    setup.file.write_bytes(now)

    assert await setup.get_refusal(old, "x", every=every) == MODIFIED


async def test_a_new_mtime_without_a_change_of_content_is_no_change(setup: EditSetup):
    await setup.write_and_read(b"a\na\n")
    os.utime(setup.path, ns=(1, 1))

    await setup.edit("a", "b", every=True)

    assert setup.file.read_bytes() == b"b\nb\n"


async def test_a_formatter_after_each_edit_does_not_break_the_next(setup: EditSetup):
    await setup.write_and_read(b"a=1\nb=2\nc=3\n")

    for old, new in (("a=1", "a=10"), ("b = 2", "b=20"), ("c = 3", "c=30")):
        await setup.edit(old, new)
        formatted = setup.file.read_bytes().replace(b" = ", b"=").replace(b"=", b" = ")
        setup.file.write_bytes(formatted)

    assert setup.file.read_bytes() == b"a = 10\nb = 20\nc = 30\n"


async def test_a_change_between_check_and_run_is_noticed(setup: EditSetup):
    await setup.write_and_read(b"one\n")
    arguments: dict[str, Json] = {
        "file_path": setup.path,
        "old_string": "one",
        "new_string": "1",
    }
    checked = await setup.tool.check(arguments, setup.scope.context())
    setup.file.write_bytes(b"other\n")

    result = await setup.tool.run(checked.arguments, setup.scope.context())

    assert result == build_error_result(MODIFIED)
    assert setup.file.read_bytes() == b"other\n"


async def test_an_empty_old_string_creates_a_missing_file(setup: EditSetup):
    result = await call(
        setup.tool, setup.scope, file_path=setup.path, old_string="", new_string="new\n"
    )

    assert extract_result_text(result) == f"File created successfully at: {setup.path}"
    assert setup.file.read_bytes() == b"new\n"
    await setup.edit("new", "newer")
    assert setup.file.read_bytes() == b"newer\n"


async def test_an_empty_old_string_fills_an_empty_file(setup: EditSetup):
    await setup.write_and_read(b"")

    await setup.edit("", "text")

    assert setup.file.read_bytes() == b"text"


async def test_an_empty_old_string_is_an_error_on_a_file_with_content(setup: EditSetup):
    await setup.write_and_read(b"content")

    assert await setup.get_refusal("", "x") == (
        f"Cannot create new file: {setup.path} already exists and is not empty."
        " Give the text to replace as old_string."
    )


async def test_a_missing_file_is_not_edited(setup: EditSetup):
    assert await setup.get_refusal("a", "b") == (
        f"File does not exist: {setup.path}. Use Write to create it."
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
    setup: EditSetup, content: bytes, old: str, new: str, expected: bytes
):
    await setup.write_and_read(content)

    await setup.edit(old, new)

    assert setup.file.read_bytes() == expected


async def test_passages_that_differ_in_line_ends_only_are_ambiguous(setup: EditSetup):
    await setup.write_and_read(b"a\nb\n--\na\r\nb\r\n")

    assert (await setup.get_refusal("a\nb", "x")).startswith("Found 2 matches")


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
    setup: EditSetup, content: str, old: str, new: str, expected: str
):
    await setup.write_and_read(content.encode())

    await setup.edit(old, new)

    assert setup.file.read_text(encoding="utf-8") == expected


async def test_an_edit_that_would_change_nothing_is_refused(setup: EditSetup):
    await setup.write_and_read("“a”".encode())

    assert await setup.get_refusal('"a"', "“a”") == (
        f"No changes to make: {setup.path} has new_string there already."
    )


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")],
)
async def test_bom_and_encoding_are_kept(setup: EditSetup, mark: bytes, codec: str):
    await setup.write_and_read(mark + "eins ü\r\nzwei\r\n".encode(codec))

    await setup.edit("eins ü\nz", "1 ü 🙂\nz")

    assert setup.file.read_bytes() == mark + "1 ü 🙂\r\nzwei\r\n".encode(codec)


async def test_ascii_is_edited_in_an_unknown_encoding_and_the_rest_kept(setup: EditSetup):
    await setup.write_and_read(b"caf\xe9 = 1\n")

    result = await call(
        setup.tool, setup.scope, file_path=setup.path, old_string="= 1", new_string="= 2"
    )

    assert setup.file.read_bytes() == b"caf\xe9 = 2\n"
    assert extract_result_text(result).split("\n")[-2:] == ["-caf\ufffd = 1", "+caf\ufffd = 2"]


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        (b"caf\xe9 = 1\n", "= 1", "= é"),
        ("表".encode("shift_jis") + b" and more \n", "\\ and", "/ and"),
    ],
)
async def test_an_edit_that_could_corrupt_an_unknown_encoding_is_refused(
    setup: EditSetup, content: bytes, old: str, new: str
):
    await setup.write_and_read(content)

    assert await setup.get_refusal(old, new) == (
        f"{setup.path} is not valid UTF-8, and this edit could corrupt it."
        " Convert it first, for example with `iconv` in Bash."
    )


async def test_half_a_surrogate_pair_is_refused(setup: EditSetup):
    await setup.write_and_read(b"a")

    assert await setup.get_refusal("a", "\udc80") == (
        "new_string contains half a surrogate pair at position 0; send whole characters."
    )


async def test_a_link_stays_and_its_target_is_edited(setup: EditSetup):
    await setup.write_and_read(b"one\n")
    link = setup.file.with_name("link")
    link.symlink_to("f")

    await call(setup.tool, setup.scope, file_path=str(link), old_string="one", new_string="1")

    assert link.is_symlink()
    assert setup.file.read_bytes() == b"1\n"


async def test_the_check_discloses_nothing_outside_the_workspace(setup: EditSetup):
    (setup.file.parent / "work").mkdir()
    setup.file.write_bytes(b"secret")
    tool = EditTool(Workspace(setup.file.parent / "work"))

    result = await call(
        tool, FileScope(), file_path=setup.path, old_string="secret", new_string="x"
    )

    assert extract_error(result) == NOT_READ


def test_edit_runs_alone_and_is_not_interrupted(setup: EditSetup):
    assert (setup.tool.name, setup.tool.interrupt) == ("Edit", Interrupt.BLOCK)
    assert setup.tool.decide_sharing({}) is Sharing.EXCLUSIVE
    assert setup.tool.definition["annotations"] == {
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


def test_a_diff_that_is_too_long_is_truncated_with_a_note():
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
    setup = EditSetup(to_real_path(tmp_path))
    text = f"{before}<{old}>{after}\nend\n"
    content = text.replace("\n", "\r\n" if crlf else "\n").encode(encoding)
    assume(old != new)
    await setup.write_and_read(content)

    await setup.edit(f"<{old}>", f"<{new}>")
    await setup.edit(f"<{new}>", f"<{old}>")

    assert setup.file.read_bytes() == content


@settings(deadline=None)
@given(
    around=st.tuples(st.text("ab\r\n", max_size=20), st.text("ab\r\n", max_size=20)),
    old=st.text("ab\n", min_size=1, max_size=3),
    new=st.text("ab\n", max_size=3),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_editing_the_shown_text_equals_showing_the_edited_text(
    around: tuple[str, str], old: str, new: str, end: str
):
    before, after = (text.replace("\r", "\r\n") for text in around)
    text = before + old.replace("\n", end) + after

    edited = replace_matches(find_matches(text, old), old, new, replace_all=True)

    assert edited.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, new)
    assert edited.count("\r") == edited.count("\r\n")
