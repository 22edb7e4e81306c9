"""Tests of the settings files that apply to a workspace and their precedence."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.layers import (
    Layer,
    LayerKind,
    SettingsSources,
    build_sources,
    find_claude_state_file,
    find_repository_root,
    list_layers,
    locate_own_file,
    sort_layers,
)
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.read_file import LastGoodFiles
from mcp_dispatch.settings.settings import FileState, Settings, SettingsReader, load_settings

SUPPORTED = frozenset({"hooks", "env", "mcpServers"})


class SettingsFixture:
    """A workspace with config, managed and Claude Code directories."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.sources = SettingsSources(
            config_dir=folder / "config",
            claude_dir=folder / "claude",
            managed_dir=folder / "managed",
            claude_state_file=folder / ".claude.json",
        )
        self.root.mkdir()

    def write(self, path: Path, content: Mapping[str, Any] | str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    def write_managed(self, name: str, content: Mapping[str, Any] | str) -> Path:
        return self.write(self.sources.managed_dir / name, content)

    def write_user(self, content: Mapping[str, Any] | str) -> Path:
        return self.write(self.sources.config_dir / "settings.json", content)

    def write_own(self, content: Mapping[str, Any] | str) -> Path:
        return self.write(locate_own_file(self.sources.config_dir, self.root), content)

    def read(self) -> Settings:
        return SettingsReader(self.sources, supported=SUPPORTED).read(self.root)


@pytest.fixture
def fixture(tmp_path: Path) -> SettingsFixture:
    return SettingsFixture(tmp_path)


def test_layers_are_sorted_and_claude_code_layers_come_last(fixture: SettingsFixture):
    fixture.write_managed("settings.json", {})
    fixture.write_managed("settings.d/10.json", {})
    folder, root, config = fixture.root.parent, fixture.root, fixture.sources.config_dir

    found = [
        (layer.kind.value, layer.path) for layer in sort_layers(list_layers(fixture.sources, root))
    ]

    assert found == [
        ("managed", folder / "managed/settings.d/10.json"),
        ("managed", folder / "managed/settings.json"),
        ("local", root / ".mcp-dispatch/settings.local.json"),
        ("own", locate_own_file(config, root)),
        ("claude-own", folder / ".claude.json"),
        ("project", root / ".mcp-dispatch/settings.json"),
        ("project", root / ".mcp.json"),
        ("user", config / "settings.json"),
        ("user", config / "mcp.json"),
        ("claude-local", root / ".claude/settings.local.json"),
        ("claude-project", root / ".claude/settings.json"),
        ("claude-user", folder / ".claude.json"),
        ("claude-user", folder / "claude/settings.json"),
    ]


def test_claude_code_files_are_read_only_on_request(tmp_path: Path):
    environ = {"MCP_DISPATCH_CONFIG_DIR": str(tmp_path / "c"), "CLAUDE_CONFIG_DIR": str(tmp_path)}

    without_claude = build_sources(environ)
    with_claude = build_sources(environ, include_claude=True)

    assert without_claude == SettingsSources(tmp_path / "c")
    assert with_claude == SettingsSources(
        tmp_path / "c", claude_dir=tmp_path, claude_state_file=tmp_path / ".claude.json"
    )
    assert find_claude_state_file({}) == Path.home() / ".claude.json"
    assert not any("claude" in layer.kind.value for layer in list_layers(without_claude, tmp_path))


def test_servers_in_the_claude_code_state_file_need_no_trust(fixture: SettingsFixture):
    state: dict[str, Any] = {
        "mcpServers": {"mine": {"command": "user"}, "shared": {"command": "user"}},
        "projects": {
            str(fixture.root): {"mcpServers": {"shared": {"command": "local"}}, "allowedTools": []},
            str(fixture.root.parent): {"mcpServers": {"elsewhere": {"command": "other"}}},
        },
        "history": ["x" * 3_000_000],
        "permissions": {"allow": ["Bash"]},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]},
    }
    fixture.write(fixture.root.parent / ".claude.json", state)
    fixture.write(fixture.root / ".mcp.json", {"mcpServers": {"shared": {"command": "project"}}})

    settings = fixture.read()

    assert [
        (section.layer.value, section.value)
        for section in settings.servers.sections
        if section.value
    ] == [
        ("claude-own", {"shared": {"command": "local"}}),
        ("claude-user", {"mine": {"command": "user"}, "shared": {"command": "user"}}),
    ]
    assert (settings.rules.texts, settings.hooks.sections) == ((), ())
    assert fixture.root.parent / ".claude.json" in settings.report.files


@pytest.mark.parametrize("projects", [[], {"x": 1}, "text"])
def test_an_invalid_claude_code_state_file_adds_no_servers_and_no_problems(
    projects: Any, fixture: SettingsFixture
):
    fixture.write(fixture.root.parent / ".claude.json", {"projects": projects})

    settings = fixture.read()

    assert [section for section in settings.servers.sections if section.value] == []
    assert settings.report.problems == ()


def test_claude_code_files_in_the_workspace_are_user_layers_if_it_contains_the_claude_directory(
    tmp_path: Path,
):
    sources = SettingsSources(tmp_path / "config", claude_dir=tmp_path / ".claude")

    kinds = {layer.kind for layer in list_layers(sources, tmp_path)}

    assert LayerKind.CLAUDE_USER in kinds
    assert not kinds & {LayerKind.CLAUDE_PROJECT, LayerKind.CLAUDE_LOCAL}


def test_managed_files_apply_in_name_order_and_hidden_or_other_files_are_ignored(
    fixture: SettingsFixture,
):
    fixture.write_managed(
        "settings.json", {"permissions": {"defaultMode": "plan", "deny": ["Bash(a)"]}}
    )
    fixture.write_managed("settings.d/20-b.json", {"permissions": {"deny": ["Bash(c)"]}})
    fixture.write_managed(
        "settings.d/10-a.json", {"permissions": {"defaultMode": "dontAsk", "deny": ["Bash(b)"]}}
    )
    fixture.write_managed("settings.d/.hidden.json", "{")
    fixture.write_managed("settings.d/notes.txt", "{")
    fixture.write_user({"permissions": {"defaultMode": "acceptEdits", "deny": ["Bash(d)"]}})

    settings = fixture.read()

    assert settings.permissions.mode is PermissionMode.DONT_ASK
    assert [rule.text for rule in settings.rules.texts] == [
        "Bash(c)",
        "Bash(b)",
        "Bash(a)",
        "Bash(d)",
    ]
    assert settings.report.problems == ()


@pytest.mark.parametrize("name", ["settings.json", "settings.d/50.json"])
def test_an_invalid_managed_file_raises_a_one_line_config_error(
    fixture: SettingsFixture, name: str
):
    file = fixture.write_managed(name, "{")

    with pytest.raises(ConfigError) as raised:
        fixture.read()

    assert str(raised.value) == (
        f"{file}: not JSON: Expecting property name enclosed in double quotes at line 1, column 2"
    )


@pytest.mark.parametrize("name", ["settings.json", "settings.d/50.json"])
def test_a_broken_managed_symlink_raises_a_config_error(fixture: SettingsFixture, name: str):
    file = fixture.write_managed(name, "")
    file.unlink()
    file.symlink_to(fixture.root / "gone.json")

    with pytest.raises(ConfigError) as raised:
        fixture.read()

    assert str(raised.value) == f"{file}: no such file"


def test_the_own_file_of_a_workspace_applies_only_to_that_workspace(
    fixture: SettingsFixture, tmp_path: Path
):
    content = {"permissions": {"allow": ["Edit(/a)"], "defaultMode": "acceptEdits"}}
    fixture.write_own(content)
    other = tmp_path / "other"
    other.mkdir()

    here = fixture.read()
    there = SettingsReader(fixture.sources).read(other)

    assert here.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert [(rule.text, rule.layer, rule.anchor) for rule in here.rules.texts] == [
        ("Edit(/a)", LayerKind.OWN, fixture.root)
    ]
    assert there.rules.texts == ()


def test_only_the_servers_of_an_mcp_json_file_are_read(fixture: SettingsFixture):
    servers = {"db": {"command": "db-server"}}
    content = {"mcpServers": servers, "permissions": {"allow": ["Bash"]}, "env": {"A": "b"}}
    fixture.write(fixture.sources.config_dir / "mcp.json", content)

    settings = fixture.read()

    assert [section.value for section in settings.servers.sections] == [servers]
    assert (settings.rules.texts, settings.processes.env) == ((), ())


def test_the_report_lists_every_possible_file_even_if_it_is_absent(fixture: SettingsFixture):
    settings = fixture.read()

    assert set(settings.report.files) == {
        layer.path for layer in list_layers(fixture.sources, fixture.root)
    }
    assert {source.state for source in settings.report.layer_statuses} == {FileState.ABSENT}


def test_hook_scripts_are_listed_even_for_hooks_without_effect(fixture: SettingsFixture):
    def build_hook(**keys: object) -> Mapping[str, Any]:
        return {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", **keys}]}]}}

    fixture.write(fixture.root / "plain.sh", "")
    fixture.write_user(
        build_hook(command='"$CLAUDE_PROJECT_DIR"/.hooks/a.sh --config=etc/b.toml && sh plain.sh')
    )
    fixture.write_own(
        build_hook(command="/usr/bin/python3", args=["${CLAUDE_PROJECT_DIR}/c.py", "-x"])
    )
    fixture.write(
        fixture.root / ".mcp-dispatch/settings.json", build_hook(command="/opt/guard/d 'unclosed")
    )

    settings = fixture.read()

    root = fixture.root
    assert set(settings.hooks.scripts) == {
        *(root / ".hooks/a.sh", root / "etc/b.toml", root / "plain.sh", root / "c.py"),
        Path("/opt/guard/d"),
    }
    assert len(settings.hooks.sections) == 2


def test_each_variable_comes_from_the_highest_layer_that_sets_it(fixture: SettingsFixture):
    fixture.write_user({"env": {"A": "user", "B": "user"}})
    fixture.write_own({"env": {"B": "own", "C": "own"}})
    fixture.write_managed("settings.json", {"env": {"C": "managed"}})

    assert fixture.read().processes.environment == {"A": "user", "B": "own", "C": "managed"}


def test_invalid_variables_are_skipped_and_their_values_are_not_reported(fixture: SettingsFixture):
    file = fixture.write_user(
        {
            "env": {
                "MCP_DISPATCH_CONFIG_DIR": "/x",
                "A=B": "s3",
                "N": "s3\0",
                "U": "\ud800",
                "OK": "1",
            }
        }
    )

    settings = fixture.read()

    assert settings.processes.environment == {"OK": "1"}
    assert [str(problem) for problem in settings.report.problems] == [
        f'{file}: env."MCP_DISPATCH_CONFIG_DIR": variables of mcp-dispatch itself reach no child; '
        "it is skipped",
        f'{file}: env."A=B": expected the name of an environment variable; it is skipped',
        f'{file}: env."N": a value cannot contain a NUL character; it is skipped',
        f'{file}: env."U": half a surrogate pair cannot stand in the environment; it is skipped',
    ]


def test_additional_directories_are_relative_to_the_workspace_and_invalid_names_are_skipped(
    fixture: SettingsFixture,
):
    fixture.write_user(
        {"permissions": {"additionalDirectories": ["../lib", "/abs", "a\0b", "", "~/x"]}}
    )

    settings = fixture.read()

    root = fixture.root
    assert settings.permissions.additional_directories == (
        root / "../lib",
        Path("/abs"),
        Path.home() / "x",
    )
    assert [problem.message for problem in settings.report.problems] == [
        'not the name of a directory: "a\\u0000b"; it is skipped',
        'not the name of a directory: ""; it is skipped',
    ]


def test_any_file_can_disable_the_bypass_mode(fixture: SettingsFixture):
    fixture.write_user({"permissions": {"defaultMode": "bypassPermissions"}})
    fixture.write(
        fixture.root / ".mcp-dispatch/settings.json",
        {"permissions": {"disableBypassPermissionsMode": "disable"}},
    )

    settings = fixture.read()

    assert settings.permissions.mode is PermissionMode.DEFAULT
    assert (
        settings.permissions.resolve_mode(PermissionMode.BYPASS_PERMISSIONS)
        is PermissionMode.DEFAULT
    )
    assert settings.permissions.resolve_mode(PermissionMode.PLAN) is PermissionMode.PLAN


def test_the_highest_file_disables_hooks_and_only_a_managed_file_disables_managed_hooks(
    fixture: SettingsFixture,
):
    hooks: dict[str, Any] = {"hooks": {"PreToolUse": [{"hooks": []}]}}
    fixture.write_user({**hooks, "disableAllHooks": False})
    fixture.write_own({**hooks, "disableAllHooks": True})
    managed = fixture.write_managed("settings.json", hooks)

    by_user = [section.file for section in fixture.read().hooks.sections]
    fixture.write_managed("settings.json", {**hooks, "disableAllHooks": True})
    by_managed_file = fixture.read().hooks.sections

    assert by_user == [managed]
    assert by_managed_file == ()


@pytest.mark.parametrize("value", [True, "yes"])
def test_a_managed_file_can_exclude_hooks_and_allow_rules_of_other_files(
    fixture: SettingsFixture, value: object
):
    content: dict[str, Any] = {
        "hooks": {"Stop": [{}]},
        "permissions": {"allow": ["Read"], "deny": ["Bash(x)"]},
    }
    fixture.write_user(content)
    keys = {"allowManagedHooksOnly": value, "allowManagedPermissionRulesOnly": value}
    managed = fixture.write_managed("settings.json", {**content, **keys})

    settings = fixture.read()

    assert [section.file for section in settings.hooks.sections] == [managed]
    assert [(rule.text, rule.layer.value) for rule in settings.rules.texts] == [
        ("Read", "managed"),
        ("Bash(x)", "managed"),
        ("Bash(x)", "user"),
    ]


def test_a_managed_only_setting_has_no_effect_in_a_user_file(fixture: SettingsFixture):
    file = fixture.write_user({"allowManagedHooksOnly": True, "hooks": {"Stop": [{}]}})

    settings = fixture.read()

    assert len(settings.hooks.sections) == 1
    assert [str(problem) for problem in settings.report.problems] == [
        f"{file}: allowManagedHooksOnly: only a managed file can set this; it has no effect"
    ]


def test_rule_tests_are_collected_from_all_files(fixture: SettingsFixture):
    def build_rule_test(command: str) -> Mapping[str, Any]:
        return {"dispatch": {"ruleTests": [{"call": f"Bash({command})", "expect": "deny"}]}}

    low, high = fixture.write_user(build_rule_test("a")), fixture.write_own(build_rule_test("b"))

    settings = fixture.read()

    assert [(test.call, test.file) for test in settings.rules.tests] == [
        ("Bash(b)", high),
        ("Bash(a)", low),
    ]
    assert [test.call for test in settings.dispatch.rule_tests] == ["Bash(b)", "Bash(a)"]


@pytest.mark.parametrize("kind", [LayerKind.FLAG, LayerKind.MANAGED, LayerKind.USER])
def test_a_file_that_becomes_invalid_keeps_its_last_valid_content(tmp_path: Path, kind: LayerKind):
    file, last_good = tmp_path / "settings.json", LastGoodFiles()
    file.write_text('{"permissions": {"deny": ["Bash(rm:*)"]}}', encoding="utf-8")
    good = load_settings([Layer(kind, file)], last_good=last_good)
    file.write_text('{"permissions": {"deny": ["Bash', encoding="utf-8")

    broken = load_settings([Layer(kind, file)], last_good=last_good)

    assert broken.rules.texts == good.rules.texts
    assert broken.report.layer_statuses[0].state is FileState.KEPT
    (problem,) = broken.report.problems
    assert problem.message.startswith("not JSON: ")
    assert problem.message.endswith("; what it said before stays in force")


def test_the_rules_of_a_deleted_file_are_dropped_unless_a_flag_names_the_file(tmp_path: Path):
    last_good = LastGoodFiles()
    layers = [Layer(kind, tmp_path / kind.value) for kind in (LayerKind.FLAG, LayerKind.USER)]
    for layer in layers:
        layer.path.write_text('{"permissions": {"deny": ["Bash"]}}', encoding="utf-8")
    load_settings(layers, last_good=last_good)
    for layer in layers:
        layer.path.unlink()

    settings = load_settings(layers, last_good=last_good)

    assert [rule.layer for rule in settings.rules.texts] == [LayerKind.FLAG]
    assert [source.state for source in settings.report.layer_statuses] == [
        FileState.KEPT,
        FileState.ABSENT,
    ]


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """Create a repository with one commit and a worktree next to it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    main = tmp_path / "main"
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (
        ["init", "-q", str(main)],
        ["-C", str(main), *identity, "commit", "-q", "--allow-empty", "-m", "first"],
        ["-C", str(main), "worktree", "add", "-q", str(tmp_path / "tree")],
    ):
        subprocess.run(["git", *command], check=True, env=environ, capture_output=True, timeout=30)
    return main


def test_the_repository_root_is_found_from_subfolders_and_worktrees(git: Path):
    inside, tree = git / "a" / "b", git.parent / "tree"
    inside.mkdir(parents=True)

    assert find_repository_root(inside) == git
    assert find_repository_root(tree) == git
    assert find_repository_root(git.parent) is None


def test_the_local_claude_code_file_is_read_in_the_repository_root_and_in_the_worktree(
    git: Path,
):
    tree = git.parent / "tree"
    sources = SettingsSources(git.parent / "config", claude_dir=git.parent / "claude")

    layers = [layer for layer in list_layers(sources, tree) if layer.kind is LayerKind.CLAUDE_LOCAL]

    assert [(layer.path, layer.rule_anchor) for layer in sort_layers(layers)] == [
        (git / ".claude/settings.local.json", git),
        (tree / ".claude/settings.local.json", tree),
    ]


def test_cve_2026_40068_a_folder_with_a_forged_worktree_link_is_its_own_repository(
    git: Path,
):
    forged = git.parent / "forged"
    private = forged / "private"
    private.mkdir(parents=True)
    (forged / ".git").write_text(f"gitdir: {private}\n", encoding="utf-8")
    (private / "commondir").write_text(f"{git / '.git'}\n", encoding="utf-8")
    (private / "gitdir").write_text(f"{forged / '.git'}\n", encoding="utf-8")
    stolen = git.parent / "stolen"
    stolen.mkdir()
    (stolen / ".git").write_text(f"gitdir: {git / '.git/worktrees/tree'}\n", encoding="utf-8")

    assert find_repository_root(forged) == forged
    assert find_repository_root(stolen) == stolen


def test_a_git_file_that_is_a_pipe_or_not_text_does_not_block(tmp_path: Path):
    private = tmp_path / "private"
    private.mkdir()
    (tmp_path / ".git").write_text(f"gitdir: {private}\n", encoding="utf-8")
    os.mkfifo(private / "commondir")
    (private / "gitdir").write_bytes(b"\xff\0")

    assert find_repository_root(tmp_path) is None
