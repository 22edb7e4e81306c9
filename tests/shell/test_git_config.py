"""Whether the configuration of a repository makes git run a program, without running git."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mcp_dispatch.shell.analyze import is_read_only
from mcp_dispatch.shell.git_config import is_git_config_safe


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return create_repository(tmp_path / "repository")


def create_repository(directory: Path, config: str = "[core]\n\tbare = false\n") -> Path:
    (directory / ".git" / "objects").mkdir(parents=True)
    (directory / ".git" / "refs").mkdir()
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (directory / ".git" / "config").write_text(config, encoding="utf-8")
    return directory


def is_harmless(directory: Path, home: Path, environ: Mapping[str, str] | None = None) -> bool:
    return is_git_config_safe(directory, home, environ or {})


USUAL = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = true
; a comment
[remote "origin"]
\turl = git@github.com:o/r.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin # where it comes from
\tmerge = refs/heads/main
[user]
\tname = A "B" C
[extensions]
\tworktreeConfig = true
"""


@pytest.mark.parametrize("config", ["", USUAL, "[core] fsmonitor = false", "[COLOR]\nUI = auto\n"])
def test_a_usual_configuration_names_no_program(repository: Path, home: Path, config: str):
    (repository / ".git" / "config").write_text(config, encoding="utf-8")

    assert is_harmless(repository, home)


@pytest.mark.parametrize(
    "config",
    [
        *(
            "[core]\nfsmonitor = ./x",
            "[core]\nfsmonitor",
            "[core] fsmonitor = x",
            "[Core]FSMonitor=x",
        ),
        *(
            "[core]\npager = x",
            "[pager]\nlog = x",
            "[core]\nhooksPath = x",
            "[core]\nsshCommand = x",
        ),
        *(
            "[core]\neditor = x",
            "[core]\nworktree = /x",
            "[core]\nbare = true",
            "[core]\naskpass = x",
        ),
        *(
            "[diff]\nexternal = x",
            '[diff "d"]\ntextconv = x',
            '[diff "d"]\ncommand = x',
            "[diff.d]\ntextconv=x",
        ),
        *(
            '[filter "f"]\nclean = x',
            '[filter "f"]\nprocess = x',
            "[alias]\nx = !y",
            "[alias]\nst = status",
        ),
        *("[include]\npath = x", '[includeIf "gitdir:/"]\npath = x', "[gpg]\nprogram = x"),
        *("[log]\nshowSignature = true", '[hook "h"]\ncommand = x', "[credential]\nhelper = x"),
        *(
            '[remote "o"]\nuploadpack = x',
            '[remote "o"]\npromisor = true',
            "[extensions]\npartialClone = o",
        ),
        *("[unheard]\nof = x", "[core]\nunheard = x", "[submodule]\nactive = ."),
        # Lines that are not plain.
        *(
            "[core\nfsmonitor = x",
            "nothing",
            "key = value",
            "[core]\na\\\nfsmonitor = x",
            "[core]\n= x",
        ),
        *("[core]\nabbrev = 7\\\n", "\ufeff[core]\nbare = false", "[core]\nfilemode = a\x01b"),
    ],
)
def test_a_setting_that_names_a_program_or_is_unknown_is_unsafe(
    repository: Path, home: Path, config: str
):
    (repository / ".git" / "config").write_text(config, encoding="utf-8")

    assert not is_harmless(repository, home)


def test_a_directory_without_a_repository_is_safe(tmp_path: Path, home: Path):
    assert is_harmless(tmp_path, home)


def test_the_repository_of_a_parent_directory_counts(repository: Path, home: Path):
    (repository / ".git" / "config").write_text("[core]\nfsmonitor = x", encoding="utf-8")
    (repository / "a" / "b").mkdir(parents=True)

    assert not is_harmless(repository / "a" / "b", home)


def test_a_directory_that_looks_like_a_bare_repository_is_unsafe(tmp_path: Path, home: Path):
    (tmp_path / "objects").mkdir()
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")

    assert not is_harmless(tmp_path, home)


def test_a_worktree_is_checked_with_its_repository(repository: Path, tmp_path: Path, home: Path):
    place = repository / ".git" / "worktrees" / "w"
    place.mkdir(parents=True)
    (place / "HEAD").write_text("ref: refs/heads/w\n", encoding="utf-8")
    (place / "commondir").write_text("../..\n", encoding="utf-8")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text(f"gitdir: {place}\n", encoding="utf-8")

    assert is_harmless(tmp_path / "w", home)
    (place / "config.worktree").write_text("[core]\nfsmonitor = x", encoding="utf-8")
    assert not is_harmless(tmp_path / "w", home)
    (place / "config.worktree").unlink()
    (repository / ".git" / "config").write_text("[core]\nfsmonitor = x", encoding="utf-8")
    assert not is_harmless(tmp_path / "w", home)


@pytest.mark.parametrize("text", ["gitdir: missing", "elsewhere", "gitdir: a\nb"])
def test_a_git_file_without_a_target_is_unsafe(tmp_path: Path, home: Path, text: str):
    (tmp_path / ".git").write_text(text, encoding="utf-8")

    assert not is_harmless(tmp_path, home)


def test_a_link_in_place_of_a_repository_is_unsafe(repository: Path, tmp_path: Path, home: Path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").symlink_to(repository / ".git")

    assert not is_harmless(tmp_path / "w", home)


def test_submodules_and_repositories_in_the_index_are_unsafe(repository: Path, home: Path):
    index = repository / ".git" / "index"
    index.write_bytes(b"DIRC" + b"\x00" * 32 + b"\x00\x00\x81\xa4" + b"\x01" * 20)
    assert is_harmless(repository, home)

    index.write_bytes(b"DIRC" + b"\x01" * 32 + b"\x00\x00\xe0\x00" + b"\x01" * 20)
    assert not is_harmless(repository, home)

    index.unlink()
    (repository / ".gitmodules").write_text("", encoding="utf-8")
    assert not is_harmless(repository, home)


def test_only_a_hook_that_a_read_only_command_runs_is_unsafe(repository: Path, home: Path):
    hooks = repository / ".git" / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("x", encoding="utf-8")
    assert is_harmless(repository, home)

    (hooks / "post-index-change").write_text("x", encoding="utf-8")
    assert not is_harmless(repository, home)


def test_a_configuration_that_cannot_be_read_is_unsafe(repository: Path, home: Path):
    (repository / ".git" / "config").write_bytes(b"[core]\nabbrev = \xff")

    assert not is_harmless(repository, home)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("[alias]\nst = status\n[core]\npager = delta\n[user]\nname = x", True),
        ('[filter "lfs"]\nclean = git-lfs clean -- %f\nrequired = true', True),
        ('[filter "lfs"]\nclean = other', False),
        ('[filter "f"]\nclean = x', False),
        ("[core]\nfsmonitor = true", True),
        ("[core]\nfsmonitor = x", False),
        ("[diff]\nexternal = x", False),
        ('[diff "d"]\ntextconv = x', False),
        ("[core]\nhooksPath = x", False),
        ("[include]\npath = more", False),
        ("[include]\npath = missing", True),
        ("[include]\npath = ~/more", False),
        ("[include]\npath = .gitconfig", False),
    ],
)
def test_only_user_settings_that_a_read_only_command_triggers_are_unsafe(
    tmp_path: Path, home: Path, config: str, expected: bool
):
    (home / ".gitconfig").write_text(config, encoding="utf-8")
    (home / "more").write_text("[diff]\nexternal = x", encoding="utf-8")

    assert is_harmless(tmp_path, home) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GIT_AUTHOR_NAME", True),
        ("PATH", True),
        ("GIT_DIR", False),
        ("GIT_CONFIG_COUNT", False),
        ("GIT_EXTERNAL_DIFF", False),
        ("GIT_PAGER", False),
    ],
)
def test_all_but_a_few_git_variables_are_unsafe(
    repository: Path, home: Path, name: str, expected: bool
):
    assert is_harmless(repository, home, {name: "x"}) is expected


def test_a_command_is_read_only_in_one_repository_and_not_in_another(
    repository: Path, tmp_path: Path
):
    evil = create_repository(tmp_path / "evil", "[core]\nfsmonitor = ./x")

    assert is_read_only("git status", repository)
    assert not is_read_only("git status", evil)
    assert is_read_only("ls", evil)
    assert not is_read_only("cd src && ls", repository)
    assert not is_read_only("ls > out", repository)
