"""The choice of the workspace directory, and the resolution of paths in it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_dispatch.fs.workspace import Workspace, resolve_links, to_real_path
from mcp_dispatch.model.errors import Refused, StartError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


def expect_refusal(workspace: Workspace, text: str, cwd: Path | None = None) -> str:
    with pytest.raises(Refused) as refused:
        workspace.resolve(text, cwd)
    return str(refused.value)


def explain_unset_workspace(roots: Sequence[Path], cwd: Path) -> str:
    workspace = Workspace.choose(None, roots, cwd)
    assert workspace.root is None
    return workspace.unset_reason


def test_the_flag_wins_over_roots_and_the_current_directory(root: Path):
    for name in ("flag", "client", "cwd"):
        (root / name).mkdir()

    chosen = Workspace.choose(root / "flag", [root / "client"], root / "cwd")

    assert chosen == Workspace(root / "flag")


def test_the_clients_first_root_wins_over_the_current_directory(root: Path):
    for name in ("first", "second", "cwd"):
        (root / name).mkdir()

    chosen = Workspace.choose(None, [root / "first", root / "second"], root / "cwd")

    assert chosen == Workspace(root / "first")


def test_without_flag_and_roots_the_current_directory_is_taken_by_its_real_path(root: Path):
    (root / "project").mkdir()
    (root / "link").symlink_to("project")

    assert Workspace.choose(None, [], root / "link") == Workspace(root / "project")


def test_a_relative_flag_starts_at_the_current_directory(root: Path):
    (root / "project").mkdir()

    assert Workspace.choose(Path("project"), [], root) == Workspace(root / "project")


@pytest.mark.parametrize(
    "directory", ["/etc", "/usr", "/bin", "/var", "/var/lib", "/usr/local", "/tmp"]
)
def test_a_system_directory_is_not_taken_by_default(directory: str):
    real = to_real_path(Path(directory))

    assert explain_unset_workspace([], Path(directory)) == (
        f"{real} is a system directory, which is never taken by default"
    )


def test_the_root_of_the_file_system_is_not_taken_by_default():
    assert explain_unset_workspace([Path("/")], Path("/srv/project")) == (
        "/ is the root of the file system, which is never taken by default"
    )


def test_neither_home_nor_a_parent_of_it_is_taken_by_default(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    (root / "people" / "me" / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(root / "people" / "me"))

    for directory in (root / "people" / "me", root / "people"):
        assert explain_unset_workspace([], directory) == (
            f"{directory} is or holds the home directory, which is never taken by default"
        )
    project = root / "people" / "me" / "project"
    assert Workspace.choose(None, [], project) == Workspace(project)


def test_the_flag_can_choose_a_directory_that_is_never_a_default(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(root))

    assert Workspace.choose(Path("~"), [], Path("/")) == Workspace(root)
    assert Workspace.choose(Path("/etc"), [], root) == Workspace(to_real_path(Path("/etc")))


def test_a_flag_that_names_no_directory_prevents_the_start(root: Path):
    with pytest.raises(StartError) as error:
        Workspace.choose(root / "missing", [], root)

    assert str(error.value) == f"--workspace {root / 'missing'}: not a directory"


def test_requiring_an_unset_workspace_is_refused_with_the_flag_to_add():
    workspace = Workspace.choose(None, [], Path("/"))

    with pytest.raises(Refused) as refused:
        workspace.require()

    assert str(refused.value) == (
        "no workspace: / is the root of the file system, which is never taken by default;"
        " start the server with --workspace DIR"
    )
    assert workspace.directories == ()
    assert not workspace.contains(Path("/etc/passwd"))


def test_a_directory_whose_name_starts_with_the_workspace_name_is_outside(root: Path):
    (root / "app").mkdir()
    (root / "app_evil").mkdir()
    workspace = Workspace.choose(root / "app", [], root)

    assert workspace.contains(root / "app" / "x")
    assert workspace.contains(root / "app")
    assert not workspace.contains(root / "app_evil" / "x")
    assert not workspace.contains(root)


def test_a_link_in_the_workspace_that_leads_out_is_outside(root: Path):
    (root / "app").mkdir()
    (root / "secret").mkdir()
    (root / "app" / "file").symlink_to(root / "secret" / "key")
    (root / "app" / "folder").symlink_to("../secret")
    workspace = Workspace.choose(root / "app", [], root)

    assert not workspace.contains(root / "app" / "file")
    assert not workspace.contains(root / "app" / "folder" / "new.txt")


def test_circular_links_are_outside_and_cannot_be_resolved(root: Path):
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")

    with pytest.raises(Refused) as refused:
        resolve_links(root / "a")

    assert str(refused.value) == f"{root / 'a'}: too many symbolic links, or links in a circle"
    assert not Workspace(root).contains(root / "a")


def test_a_link_to_itself_through_its_parent_is_refused(root: Path):
    (root / "a").symlink_to("a/../b")

    with pytest.raises(Refused):
        resolve_links(root / "a")


def test_additional_directories_count_as_inside(root: Path):
    (root / "app").mkdir()
    (root / "lib").mkdir()

    workspace = Workspace(root / "app").with_directories([root / "lib"])

    assert workspace.directories == (root / "app", root / "lib")
    assert workspace.contains(root / "lib" / "x")


def test_a_path_without_links_resolves_to_itself(root: Path):
    assert resolve_links(root / "new" / "file") == (root / "new" / "file",)


def test_resolving_links_returns_every_path_on_the_way(root: Path):
    (root / "real").mkdir()
    (root / "real" / "file").touch()
    (root / "folder").symlink_to("real")
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("folder/file")

    assert resolve_links(root / "one") == (
        root / "one",
        root / "two",
        root / "folder" / "file",
        root / "real" / "file",
    )


def test_a_dangling_link_resolves_to_its_missing_target(root: Path):
    (root / "elsewhere").mkdir()
    (root / "link").symlink_to("elsewhere/new")

    assert resolve_links(root / "link") == (root / "link", root / "elsewhere" / "new")


def test_a_new_file_resolves_to_its_real_parent(root: Path):
    (root / "real").mkdir()
    (root / "link").symlink_to("real")

    assert to_real_path(root / "link" / "a" / "b") == root / "real" / "a" / "b"


def test_resolving_the_links_of_a_relative_path_is_refused():
    with pytest.raises(Refused) as refused:
        resolve_links(Path("a/b"))

    assert str(refused.value) == "a/b: not an absolute path"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/../secrets/x", "secrets/x"),
        (".//secrets/x", "secrets/x"),
        ("secrets/./x", "secrets/x"),
        ("missing/../x", "x"),
        ("a b\t.txt", "a b\t.txt"),
        ("a$(id).txt", "a$(id).txt"),
    ],
)
def test_every_spelling_of_a_path_becomes_the_same_path(root: Path, text: str, expected: str):
    (root / "a").mkdir()

    assert Workspace(root).resolve(text, None) == root / expected


def test_parents_beyond_the_root_are_ignored(root: Path):
    assert Workspace(root).resolve("../" * 50 + "etc/passwd", None) == Path("/etc/passwd")


def test_two_leading_slashes_count_as_one(root: Path):
    assert Workspace(root).resolve("//etc/passwd", None) == Path("/etc/passwd")
    assert resolve_links(Path("//nowhere/x")) == (Path("/nowhere/x"),)


def test_the_parent_of_a_link_is_the_parent_of_its_target(root: Path):
    (root / "far" / "away").mkdir(parents=True)
    (root / "link").symlink_to("far/away")

    assert Workspace(root).resolve("link/../x", None) == root / "far" / "x"
    assert Workspace(root).resolve("link/sub/../x", None) == root / "link" / "x"


def test_a_relative_path_starts_at_the_current_directory(root: Path):
    assert Workspace(root).resolve("x", root / "sub") == root / "sub" / "x"


def test_a_tilde_is_the_home_directory(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/me")

    assert Workspace(root).resolve("~/x", None) == Path("/home/me/x")
    assert Workspace(root).resolve("./~/x", None) == root / "~" / "x"


def test_text_that_is_not_a_path_is_refused(root: Path):
    workspace = Workspace(root)

    assert expect_refusal(workspace, "") == "the path is empty; give the path of a file"
    assert expect_refusal(workspace, "a\0b") == "'a\\x00b': a path cannot contain a NUL character"
    assert expect_refusal(workspace, "file:///etc/passwd") == (
        "'file:///etc/passwd' is a URL; give the path alone, as in /home/me/notes.txt"
    )
    assert expect_refusal(workspace, "a\ud800") == (
        "'a\\ud800': a path cannot contain half a surrogate pair"
    )
    assert expect_refusal(workspace, "~no such person/x") == (
        "'~no such person/x': no such home directory;"
        " for a file whose name begins with ~ write ./~…"
    )


def test_a_relative_path_needs_a_workspace_and_an_absolute_one_does_not():
    unset = Workspace(None, unset_reason="nobody chose one")

    assert unset.resolve("/srv/x", None) == Path("/srv/x")
    assert expect_refusal(unset, "x") == (
        "no workspace: nobody chose one; start the server with --workspace DIR"
    )


def test_a_name_that_is_too_long_is_refused(root: Path):
    name = "x" * 300

    assert expect_refusal(Workspace(root), f"{name}/../y") == (
        f"{root / name}: cannot be resolved: File name too long"
    )
