"""Files that a search omits, and servers that a rule denies as a whole."""

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
    configured = policy(tmp_path, Rules(deny=[f"Read({deny})"], allow=["Read"]))

    assert configured.build_hidden_paths(tmp_path)(tmp_path / path) is hidden


def test_only_a_read_deny_hides_files(tmp_path: Path):
    configured = policy(
        tmp_path, Rules(ask=["Read(a)"], deny=["Edit(a)", "Grep(a)", "Bash(cat a)"])
    )

    assert not configured.build_hidden_paths(tmp_path)(tmp_path / "a")


def test_our_own_files_are_hidden_without_a_rule(tmp_path: Path):
    configured = policy(tmp_path)

    assert configured.build_hidden_paths(None)(SETTINGS)
    assert configured.build_hidden_paths(None)(Path("/state/results/1"))
    assert not configured.build_hidden_paths(None)(tmp_path / "a")


def test_a_rule_applies_in_the_current_directory_of_a_search(tmp_path: Path):
    configured = policy(tmp_path, Rules(deny=["Read(./top/secret)"]))
    moved = tmp_path / "sub"

    assert configured.build_hidden_paths(moved)(moved / "top" / "secret")
    assert not configured.build_hidden_paths(tmp_path)(moved / "top" / "secret")


def test_a_link_to_a_hidden_file_and_the_target_of_a_denied_link_are_hidden(tmp_path: Path):
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


def test_a_link_that_cannot_be_resolved_is_hidden(tmp_path: Path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    configured = policy(tmp_path, Rules(deny=["Read(x)"]))

    assert configured.build_hidden_paths(tmp_path)(tmp_path / "loop")
    assert configured.build_hidden_paths(tmp_path)(tmp_path / "loop" / "a")


def test_files_outside_are_hidden_if_reads_outside_are_blocked(tmp_path: Path):
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


def test_a_hundred_thousand_files_are_checked_against_a_thousand_rules_in_seconds(tmp_path: Path):
    rules = [f"Read(dir{at}/*.x)" for at in range(500)] + [f"Read(*.e{at})" for at in range(500)]
    hides = policy(tmp_path, Rules(deny=rules)).build_hidden_paths(tmp_path)
    files = [tmp_path / f"d{at % 300}" / f"file{at}.py" for at in range(100_000)]

    start = process_time()
    hidden = sum(map(hides, files))

    assert hidden == 0
    # It takes half a second, and longer on a machine that runs other tests in parallel.
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
def test_a_deny_of_every_tool_of_a_server_denies_the_server(
    tmp_path: Path, deny: str, closed: bool
):
    vote = policy(tmp_path, Rules(deny=[deny])).find_server_deny("git")

    assert (vote is not None) is closed
    assert policy(tmp_path, Rules(ask=[deny], allow=[deny])).find_server_deny("git") is None


def test_the_vote_that_denies_a_server_names_its_rule(tmp_path: Path):
    vote = policy(tmp_path, Rules(deny=["Bash", "mcp__git"])).find_server_deny("git")

    origin = Origin(str(SETTINGS), 2, "mcp__git")
    assert vote == Vote(Tier.DENY, DENY, "a deny rule forbids it", origin)
