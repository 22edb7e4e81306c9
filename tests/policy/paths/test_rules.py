"""Rules for files: anchors, gitignore patterns, links, and the tools that they apply to."""

import json
from pathlib import Path

import pytest

from mcp_dispatch.fs.resolve import (
    PathAnchors,
    PathResolutionError,
    is_case_insensitive,
    resolve_all_names,
)
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.paths.pattern import PathPattern, parse_path_pattern
from mcp_dispatch.policy.paths.rules import PathRules
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import LayerKind, RuleSettings, RuleText, Settings
from tests.support.policies import ALLOW, ASK, DENY, Rules, bash, on_file, policy

HOME = Path("/home/someone")


def evaluate_path(workspace: Path, rules: Rules, tool: str, path: str) -> Effect:
    """`path` is relative to the workspace unless it is absolute."""
    return policy(workspace, rules).evaluate(on_file(tool, workspace / path, workspace)).effect


@pytest.mark.parametrize(
    ("pattern", "path", "allows", "denies"),
    [
        # Relative to the working directory; a name without a slash at any depth.
        (".env", ".env", True, True),
        (".env", "a/b/.env", True, True),
        ("./.env", "a/.env", True, True),
        ("**/.env", "a/.env", True, True),
        (".env", ".envrc", False, False),
        (".env", ".ENV", False, False),
        ("*.pem", "a/key.pem", True, True),
        (".env", "/elsewhere/.env", False, False),
        # One directory: at the top in allow, at any depth in deny and ask.
        ("src/**", "src/a/b", True, True),
        ("./src/**", "src/a", True, True),
        ("src/**", "lib/src/a", False, True),
        ("src/**", "srcx/a", False, False),
        ("src/lib/**", "src/lib/a", True, True),
        ("src/lib/**", "x/src/lib/a", False, False),
        ("/src/**", "src/a", False, False),
        ("**", "a/b", True, True),
        ("./**", "a/b", True, True),
        (".", "a/b", True, True),
        ("src/*", "src/a", True, True),
        ("src/*.py", "src/a/b.py", False, False),
        ("secrets-*/config.json", "secrets-a/config.json", True, True),
        ("secrets", "secrets/a", True, True),
        ("secrets/", "secrets/a", True, True),
        ("a(b)/c", "a(b)/c", True, True),
        ("#a", "#a", True, True),
        ("a[!x]b", "acb", True, True),
        ("a[!x]b", "a/b", False, False),
        ("a[b-d]e", "ace", True, True),
        (r"a\[!x]b", "a[!x]b", True, True),
        # Other anchors.
        ("//**/.env", "/elsewhere/.env", True, True),
        ("//elsewhere/**", "/elsewhere/a", True, True),
        ("//elsewhere/**", "/elsewhere-evil/a", False, False),
        ("~/.ssh/**", "/home/someone/.ssh/id", True, True),
        ("~/.aws/", "/home/someone/.aws/credentials", True, True),
        ("~/.aws", "/home/someone/.aws", True, True),
        ("~/.ssh/**", "/home/other/.ssh/id", False, False),
        ("~", "/home/someone/a", True, True),
        ("/rules/**", "/config/rules/a", True, True),
        ("/Users/x", "/Users/x", False, False),
        ("../other/**", "../other/a", False, True),
        # Invalid patterns: an allow covers nothing, a deny the path that is its text.
        ("a[b", "a[b", False, True),
        ("a[b", "c", False, False),
        ("[z-a]/x", "[z-a]/x", False, True),
    ],
)
def test_a_pattern_matches_as_in_gitignore_from_its_anchor(
    tmp_path: Path, pattern: str, path: str, allows: bool, denies: bool
):
    compiled = parse_path_pattern(pattern, Path("/config"))
    anchors = PathAnchors(HOME, (tmp_path,))
    names = resolve_all_names(path, tmp_path, HOME)

    assert isinstance(compiled, PathPattern)
    allowing = PathRules({1: compiled}, wide=False).find_covering_all(names, anchors)
    denying = PathRules({1: compiled}, wide=True).find_covering_any([names], anchors)
    assert (allowing == {1}, denying == {1}) == (allows, denies)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a/../b", "a pattern cannot contain '..' after its start"),
        ("~bob/x", "another user's home directory cannot be named; write //home/name/…"),
        ("!a", "exceptions with '!' are not supported"),
        ("*a*a*a*a*b", "more than 3 wildcards in a row"),
        ("**/a/**/b/**/c/**", "more than 3 wildcards in a row"),
    ],
)
def test_an_unsafe_pattern_is_refused_with_a_reason(pattern: str, reason: str):
    assert parse_path_pattern(pattern, Path("/")) == reason


def test_repeated_double_stars_are_one():
    deep = resolve_all_names("/" + "a/" * 250 + "x", None, HOME)
    compiled = parse_path_pattern("//" + "**/" * 50 + "x", Path("/"))

    assert isinstance(compiled, PathPattern)
    assert PathRules({1: compiled}, wide=False).find_covering_all(deep, PathAnchors(HOME, ())) == {
        1
    }


DIFFERENT_FROM_GITIGNORE = {
    ("foo/", "foo"): "a deny of a directory also guards a file in its place",
    ("foo/**", "foo"): "a deny of what is in a directory also closes the directory to searches",
    ("#foo", "#foo"): "a rule is no comment",
    ("*.rs\n!src/main.rs", "src/main.rs"): "a deny has no exceptions",
    ("*\n!**/", "foo"): "a deny has no exceptions",
}


def test_patterns_agree_with_a_corpus_of_gitignore_cases(data_dir: Path):
    text = (data_dir / "permissions" / "gitignore.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]

    differing = {
        (row["gitignore"], row["path"]) for row in rows if _is_denied(row) != row["ignored"]
    }

    assert len(rows) > 60
    assert differing == set(DIFFERENT_FROM_GITIGNORE)


def _is_denied(row: dict[str, str]) -> bool:
    """Each line is a deny rule. A relative root is relative to the directory of the path."""
    start = Path("/start") if row["root"].startswith(".") else Path(row["root"])
    root = start / row["root"]
    found = [
        parse_path_pattern(line.strip(), root) for line in row["gitignore"].split("\n") if line
    ]
    patterns = {at: each for at, each in enumerate(found) if isinstance(each, PathPattern)}
    names = (start / row["path"],)
    return bool(
        PathRules(patterns, wide=True).find_covering_any([names], PathAnchors(HOME, (root,)))
    )


@pytest.mark.parametrize(
    ("rules", "tool", "path", "expected"),
    [
        # Reads inside need no rule; writes, and reads outside, do.
        (Rules(), "Read", "a", ALLOW),
        (Rules(), "Edit", "a", ASK),
        (Rules(), "Write", "a", ASK),
        (Rules(), "Read", "/elsewhere/a", ASK),
        (Rules(), "Read", "../beside", ASK),
        (Rules(allow=["Read(//elsewhere/**)"]), "Read", "/elsewhere/a", ALLOW),
        (Rules(allow=["Read(//elsewhere/**)"]), "Edit", "/elsewhere/a", ASK),
        # An Edit rule covers Write and also allows the read.
        (Rules(allow=["Edit(src/**)"]), "Edit", "src/a", ALLOW),
        (Rules(allow=["Edit(src/**)"]), "Write", "src/a", ALLOW),
        (Rules(allow=["Edit(src/**)"]), "Write", "a", ASK),
        (Rules(allow=["Edit(//elsewhere/**)"]), "Read", "/elsewhere/a", ALLOW),
        (Rules(allow=["Edit"]), "Edit", "a", ALLOW),
        (Rules(allow=["Edit"]), "Write", "a", ASK),
        (Rules(allow=["Write"]), "Write", "a", ALLOW),
        (Rules(allow=["Write(src/**)"]), "Write", "src/a", ASK),
        (Rules(allow=["Edit", "Write"], deny=["Edit(src/**)"]), "Write", "src/a", DENY),
        (Rules(allow=["Edit", "Write"], deny=["Write(src/**)"]), "Write", "src/a", ALLOW),
        # A read deny also denies edits of the file; an ask does not.
        (Rules(deny=["Read(.env)"]), "Read", ".env", DENY),
        (Rules(allow=["Edit"], deny=["Read(.env)"]), "Edit", ".env", DENY),
        (Rules(allow=["Write"], deny=["Read(.env)"]), "Write", "a/.env", DENY),
        (Rules(allow=["Edit"], ask=["Read(.env)"]), "Edit", ".env", ALLOW),
        (Rules(ask=["Read(.env)"]), "Read", ".env", ASK),
        (Rules(deny=["Edit(.env)"]), "Read", ".env", ALLOW),
        # Specificity does not matter.
        (Rules(allow=["Read(src/a)"], deny=["Read(src/**)"]), "Read", "src/a", DENY),
        (Rules(allow=["Edit(src/a)"], ask=["Edit"]), "Edit", "src/a", ASK),
        # Malformed: a deny covers the whole tool; an allow and an exception cover nothing.
        (Rules(deny=["Read("]), "Read", "a", DENY),
        (Rules(deny=["Read()"]), "Read", "a", DENY),
        (Rules(deny=["Read(a/../b)"]), "Read", "c", DENY),
        (Rules(ask=["Read(a/../b)"]), "Read", "c", ASK),
        (Rules(allow=["Edit("]), "Edit", "a", ASK),
        (Rules(allow=["Edit(a/../b)"]), "Edit", "b", ASK),
        (Rules(deny=["Read(.env.*)", "Read(!.env.example)"]), "Read", ".env.example", DENY),
        (Rules(deny=["Read(!a)"]), "Read", "a", ALLOW),
        # Spellings of one path.
        (Rules(deny=["Read(secrets/**)"]), "Read", "a/../secrets/x", DENY),
        (Rules(deny=["Read(secrets/**)"]), "Read", ".//secrets/./x", DENY),
        (Rules(deny=["Read(//etc/**)"]), "Read", "//etc/passwd", DENY),
        (Rules(deny=["Read(//etc/**)"]), "Read", "/proc/self/root/etc/passwd", DENY),
        (Rules(allow=["Edit(src/**)"]), "Edit", "src/../a", ASK),
    ],
)
def test_file_rules_decide_about_paths(
    tmp_path: Path, rules: Rules, tool: str, path: str, expected: Effect
):
    assert evaluate_path(tmp_path, rules, tool, path) is expected


def test_a_directory_that_only_shares_a_name_prefix_is_outside(tmp_path: Path):
    """CVE-2025-54794: the restriction compared strings."""
    workspace = tmp_path / "app"
    (tmp_path / "app_evil").mkdir()
    workspace.mkdir()

    assert evaluate_path(workspace, Rules(), "Read", str(tmp_path / "app_evil" / "x")) is ASK
    rules = Rules(allow=[f"Edit(/{workspace}/**)"])
    assert evaluate_path(workspace, rules, "Edit", str(tmp_path / "app_evil" / "x")) is ASK


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A workspace with links to a directory of secrets beside it."""
    workspace = tmp_path / "work"
    secrets = tmp_path / "secrets"
    for folder in (workspace / "src", workspace / "vault", secrets):
        folder.mkdir(parents=True)
    (secrets / "key").write_text("k", encoding="utf-8")
    (workspace / "vault" / "key").write_text("k", encoding="utf-8")
    (workspace / "src" / "key").symlink_to(secrets / "key")
    (workspace / "src" / "folder").symlink_to(secrets)
    (workspace / "src" / "hop").symlink_to(workspace / "src" / "key")
    (workspace / "src" / "inner").symlink_to(workspace / "vault")
    (workspace / "src" / "dangling").symlink_to(secrets / "new")
    (workspace / "src" / "loop").symlink_to(workspace / "src" / "loop")
    return workspace


@pytest.mark.parametrize("path", ["src/key", "src/folder/key", "src/hop", "src/dangling"])
def test_an_allow_must_cover_a_link_and_its_target(linked: Path, path: str):
    """CVE-2025-59829, CVE-2026-25724, CVE-2025-53110: a link led out of the allowed directory."""
    assert evaluate_path(linked, Rules(), "Read", path) is ASK
    assert evaluate_path(linked, Rules(allow=["Edit(src/**)"]), "Write", path) is ASK
    assert evaluate_path(linked, Rules(allow=[f"Edit(/{linked}/src/**)"]), "Edit", path) is ASK
    both = Rules(allow=["Edit(src/**)", f"Edit(/{linked.parent}/**)"])
    assert evaluate_path(linked, both, "Edit", path) is ALLOW


@pytest.mark.parametrize("path", ["src/key", "src/folder/key", "src/hop", "src/folder/new"])
def test_a_deny_of_a_link_or_of_its_target_is_enough(linked: Path, path: str):
    by_target = Rules(allow=["Read"], deny=[f"Read(/{linked.parent}/secrets/**)"])
    by_link = Rules(allow=["Read"], deny=[f"Read({path})"])

    assert evaluate_path(linked, by_target, "Read", path) is DENY
    assert evaluate_path(linked, by_link, "Read", path) is DENY


def test_a_deny_of_a_link_covers_its_target(linked: Path):
    rules = Rules(allow=["Read"], deny=["Read(src/inner/**)"])

    assert evaluate_path(linked, rules, "Read", "vault/key") is DENY
    assert evaluate_path(linked, rules, "Read", "src/inner/key") is DENY


def test_a_new_file_below_a_linked_directory_is_checked_at_its_real_path(linked: Path):
    rules = Rules(allow=["Edit(src/**)"])

    assert evaluate_path(linked, rules, "Write", "src/new") is ALLOW
    assert evaluate_path(linked, rules, "Write", "src/folder/new") is ASK
    assert evaluate_path(linked, rules, "Write", "src/inner/new") is ASK


def test_links_in_a_circle_are_denied(linked: Path):
    decision = policy(linked, Rules(allow=["Read"])).evaluate(on_file("Read", linked / "src/loop"))

    assert decision.effect is DENY
    assert "too many symbolic links" in decision.by.reason


@pytest.mark.parametrize("path", ["/a\0b", "", "/" + "a/" * 300 + "b", "/\ud800"])
def test_an_invalid_path_is_denied(tmp_path: Path, path: str):
    with pytest.raises(PathResolutionError):
        resolve_all_names(path, None, HOME)
    rules = Rules(allow=["Read", "Edit(//**)"])
    assert policy(tmp_path, rules).evaluate(on_file("Read", path)).effect is DENY


def test_a_workspace_behind_a_link_is_inside_under_both_its_names(tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    rules = Rules(allow=["Edit(src/**)"])

    assert evaluate_path(link, rules, "Read", "a") is ALLOW
    assert evaluate_path(link, rules, "Edit", "src/a") is ALLOW
    assert evaluate_path(real, rules, "Edit", str(link / "src/a")) is ASK


def test_the_slash_anchor_is_the_folder_of_the_settings_file(tmp_path: Path):
    file = tmp_path / "conf" / "settings.json"
    text = RuleText(ALLOW, "Edit(/notes/**)", file, 1, LayerKind.FLAG, file.parent)
    built = Policy(
        Settings(rules=RuleSettings(texts=(text,))),
        [tmp_path / "work"],
        [],
        PermissionMode.DEFAULT,
        home=HOME,
    )

    assert built.evaluate(on_file("Edit", tmp_path / "conf" / "notes" / "a")).effect is ALLOW
    assert built.evaluate(on_file("Edit", tmp_path / "work" / "notes" / "a")).effect is ASK


def test_a_deny_applies_in_every_directory_of_the_shell(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    rules = Rules(allow=["Bash"], deny=["Read(.env)", "Read(top/secret)"])
    moved = policy(tmp_path, rules)

    assert moved.evaluate(bash("cat ../.env", tmp_path / "sub")).effect is DENY
    assert moved.evaluate(bash("cat ../top/secret", tmp_path / "sub")).effect is DENY


def test_without_a_workspace_a_deny_by_name_applies_and_an_allow_does_not():
    rules = Rules(allow=["Edit(./**)"], deny=["Read(.env)"]).texts()
    nowhere = Policy(
        Settings(rules=RuleSettings(texts=rules)), [], [], PermissionMode.DEFAULT, home=HOME
    )

    assert nowhere.evaluate(on_file("Read", "/a/.env")).effect is DENY
    assert nowhere.evaluate(on_file("Edit", "/a/b")).effect is ASK
    assert nowhere.evaluate(on_file("Read", "/a/b")).effect is ASK


def test_case_matters_only_if_the_file_system_distinguishes_it(tmp_path: Path):
    (tmp_path / "File").write_text("", encoding="utf-8")
    folds = (tmp_path / "fILE").exists()

    assert is_case_insensitive(tmp_path / "File") is folds
    rules = Rules(deny=["Read(file)"])
    assert evaluate_path(tmp_path, rules, "Read", "File") is (DENY if folds else ALLOW)


def test_a_file_is_inside_only_if_all_its_names_are():
    anchors = PathAnchors(HOME, ())

    assert anchors.contains_all((Path("/w/a"), Path("/w/b")), [Path("/w")])
    assert not anchors.contains_all((Path("/w/a"), Path("/x/b")), [Path("/w")])
    assert not anchors.contains_all((), [Path("/w")])


@pytest.mark.parametrize(
    "command",
    [
        *("cat .env", "cat ./.env", "cat a/../.env", "head -n 1 .env", "grep x .env"),
        *("grep -e x .env", "sed -n 1p .env", "cp .env b", "mv .env b", "cat < .env", "sort <.env"),
        *("timeout 5 cat .env", "bash -c 'cat .env'", "(cat .env)", "if cat .env; then a; fi"),
        *(
            "cd sub && cat .env",
            "cat sub/.env | head",
            "dd if=.env of=b",
            "base64 .env",
            "a > .env",
        ),
        *("cat $HOME/../someone/secret", "cat ~/secret", "LANG=C cat .env", "tee .env", "rm .env"),
    ],
)
def test_a_read_deny_covers_the_known_readers_of_the_shell(tmp_path: Path, command: str):
    rules = Rules(allow=["Bash"], deny=["Read(.env)", "Read(~/secret)"])

    assert policy(tmp_path, rules).evaluate(bash(command, tmp_path)).effect is DENY


@pytest.mark.parametrize(
    "command",
    [
        *("echo x > locked/a", "echo x >> locked/a", "echo x 2> locked/a", "echo x &> locked/a"),
        *(
            "touch locked/a",
            "cp a locked/b",
            "cp a locked",
            "mv a locked/",
            "sed -i s/a/b/ locked/a",
        ),
        *("echo x | tee locked/a", "a && (echo x > locked/a)", "rm -r locked/a", "dd of=locked/a"),
        *("cd locked && echo x > a", "truncate -s 0 locked/a", "ln -s a locked/b"),
    ],
)
def test_an_edit_deny_covers_redirects_and_the_known_writers_of_the_shell(
    tmp_path: Path, command: str
):
    (tmp_path / "locked").mkdir()
    rules = Rules(allow=["Bash"], deny=["Edit(locked/**)", "Edit(locked)"])

    assert policy(tmp_path, rules).evaluate(bash(command, tmp_path)).effect is DENY


@pytest.mark.parametrize(
    ("tool", "path", "line"),
    [
        ("Edit", "/elsewhere/dir/file", '"allow": ["Edit(//elsewhere/dir/**)"]'),
        ("Write", "/elsewhere/dir/file", '"allow": ["Edit(//elsewhere/dir/**)"]'),
        ("Read", "/elsewhere/a[b]/file", '"allow": ["Read(//elsewhere/a\\\\[b\\\\]/**)"]'),
        ("Read", "/file", '"allow": ["Read(//**)"]'),
    ],
)
def test_the_suggested_line_would_allow_the_file(tmp_path: Path, tool: str, path: str, line: str):
    assert policy(tmp_path).suggest_allow_line(on_file(tool, path)) == line
    assert (
        evaluate_path(tmp_path, Rules(allow=json.loads("{" + line + "}")["allow"]), tool, path)
        is ALLOW
    )
