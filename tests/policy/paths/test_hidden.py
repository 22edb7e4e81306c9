"""Files that a search leaves out, and servers that are closed as a whole."""

from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_dispatch.model.decision import Origin, Tier, Vote
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import PermissionSettings, RuleSettings, Settings
from tests.support.policies import DENY, SETTINGS, Rules, on_file, policy

WORKSPACE = Path("/workspace")
PATTERNS = [
    *(".env", "*.pem", "secrets/**", "secrets/", "src/*.py", "/conf/a", "//workspace/b/**", "~/x"),
    *("**/deep/**", "a[bc]d", "s*t", "**", "?*", "//**/.env", "../up/**", "a[b", "?x", "src/**/z"),
]
NAMES = ["a", "b", ".env", "k.pem", "secrets", "src", "deep", "abd", "start", "x", "ax", "a[b", "z"]


@pytest.mark.parametrize(
    ("deny", "path", "hidden"),
    [
        (".env", ".env", True),
        (".env", "a/b/.env", True),
        (".env", "a/b/.envrc", False),
        ("secrets/**", "a/secrets/b/c", True),
        ("secrets/**", "secretsx/b", False),
        ("*.pem", "certs/key.pem", True),
        ("*.pem", "certs/key.pen", False),
        ("**", "anything", True),
        ("//elsewhere/**", "/elsewhere/a", True),
        ("/rules/*", "/config/rules/a", True),
        (".env", "/elsewhere/.env", False),
    ],
)
def test_a_read_deny_hides_the_files_that_it_covers(
    tmp_path: Path, deny: str, path: str, hidden: bool
):
    judged = policy(tmp_path, Rules(deny=[f"Read({deny})"], allow=["Read"]))

    assert judged.build_hidden_paths(tmp_path)(tmp_path / path) is hidden


def test_only_a_read_deny_hides_files(tmp_path: Path):
    judged = policy(tmp_path, Rules(ask=["Read(a)"], deny=["Edit(a)", "Grep(a)", "Bash(cat a)"]))

    assert not judged.build_hidden_paths(tmp_path)(tmp_path / "a")


def test_our_own_files_are_hidden_although_no_rule_says_so(tmp_path: Path):
    judged = policy(tmp_path)

    assert judged.build_hidden_paths(None)(SETTINGS)
    assert judged.build_hidden_paths(None)(Path("/state/results/1"))
    assert not judged.build_hidden_paths(None)(tmp_path / "a")


def test_a_rule_for_the_directory_that_a_search_moved_to_hides_there(tmp_path: Path):
    judged = policy(tmp_path, Rules(deny=["Read(./top/secret)"]))
    moved = tmp_path / "sub"

    assert judged.build_hidden_paths(moved)(moved / "top" / "secret")
    assert not judged.build_hidden_paths(tmp_path)(moved / "top" / "secret")


def test_a_link_to_a_hidden_file_is_hidden_and_so_is_what_a_denied_link_leads_to(tmp_path: Path):
    (tmp_path / "vault").mkdir()
    for name in ("key", "other"):
        (tmp_path / "vault" / name).write_text("k", encoding="utf-8")
    (tmp_path / "to_key").symlink_to(tmp_path / "vault" / "key")
    (tmp_path / "to_vault").symlink_to(tmp_path / "vault")
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "link").symlink_to(tmp_path / "vault" / "other")
    hides = policy(
        tmp_path, Rules(deny=["Read(vault/key)", "Read(./named/link)"])
    ).build_hidden_paths(tmp_path)

    found = {
        name: hides(tmp_path / name)
        for name in (
            *("vault/key", "to_key", "to_vault/key", "named/link", "vault/other", "to_vault/new"),
            "vault/third",
        )
    }

    assert found == {
        "vault/key": True,
        "to_key": True,
        "to_vault/key": True,
        "named/link": True,
        "vault/other": True,
        "to_vault/new": False,
        "vault/third": False,
    }


def test_what_cannot_be_followed_is_hidden(tmp_path: Path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    judged = policy(tmp_path, Rules(deny=["Read(x)"]))

    assert judged.build_hidden_paths(tmp_path)(tmp_path / "loop")
    assert judged.build_hidden_paths(tmp_path)(tmp_path / "loop" / "a")


def test_files_outside_are_hidden_where_reading_them_is_blocked(tmp_path: Path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "out").symlink_to(tmp_path / "beside")
    blocked = policy(
        tmp_path / "w", settings=Settings(permissions=PermissionSettings(block_reads_outside=True))
    )

    assert blocked.build_hidden_paths(None)(tmp_path / "beside")
    assert blocked.build_hidden_paths(None)(tmp_path / "w" / "out")
    assert not blocked.build_hidden_paths(None)(tmp_path / "w" / "in")


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(PATTERNS), max_size=5),
    st.lists(
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join),
        min_size=1,
        max_size=6,
    ),
)
def test_a_file_is_hidden_exactly_when_reading_it_is_denied(patterns: list[str], paths: list[str]):
    rules = Rules(deny=[f"Read({pattern})" for pattern in patterns]).texts()
    made = Policy(
        Settings(rules=RuleSettings(texts=rules)),
        [WORKSPACE],
        [],
        PermissionMode.DEFAULT,
        home=Path("/h"),
    )
    hides = made.build_hidden_paths(WORKSPACE)

    for path in paths:
        denied = made.evaluate(on_file("Read", WORKSPACE / path, WORKSPACE)).effect is DENY
        assert hides(WORKSPACE / path) is denied, path


def test_a_hundred_thousand_files_are_looked_at_in_seconds_against_a_thousand_rules(tmp_path: Path):
    rules = [f"Read(dir{at}/*.x)" for at in range(500)] + [f"Read(*.e{at})" for at in range(500)]
    hides = policy(tmp_path, Rules(deny=rules)).build_hidden_paths(tmp_path)
    files = [tmp_path / f"d{at % 300}" / f"file{at}.py" for at in range(100_000)]

    start = process_time()
    hidden = sum(map(hides, files))

    assert hidden == 0
    # It takes half a second; a machine that runs other tests meanwhile takes longer.
    assert process_time() - start < 10


@pytest.mark.parametrize(
    ("deny", "closed"),
    [
        ("mcp__git", True),
        ("mcp__git__*", True),
        ("mcp__*", True),
        ("mcp__g*", True),
        ("*", True),
        ("mcp__git__*__*", False),
        ("mcp__git__get_*", False),
        ("mcp__git__log", False),
        ("mcp__*__log", False),
        ("mcp__github", False),
        ("mcp__gi", False),
        ("git", False),
        ("mcp__git(branch:main)", False),
        ("mcp__git(", True),
    ],
)
def test_a_deny_of_every_tool_of_a_server_closes_the_server(
    tmp_path: Path, deny: str, closed: bool
):
    vote = policy(tmp_path, Rules(deny=[deny])).find_server_deny("git")

    assert (vote is not None) is closed
    assert policy(tmp_path, Rules(ask=[deny], allow=[deny])).find_server_deny("git") is None


def test_the_vote_that_closes_a_server_names_its_rule(tmp_path: Path):
    vote = policy(tmp_path, Rules(deny=["Bash", "mcp__git"])).find_server_deny("git")

    origin = Origin(str(SETTINGS), 2, "mcp__git")
    assert vote == Vote(Tier.DENY, DENY, "a deny rule forbids it", origin)
