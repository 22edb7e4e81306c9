"""Which files are read for a workspace, and which of them decides."""

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

EVERYTHING = frozenset({"hooks", "env", "mcpServers"})


class Machine:
    """A config directory, a managed directory, a workspace and Claude Code's own directory."""

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

    def managed(self, name: str, content: Mapping[str, Any] | str) -> Path:
        return self.write(self.sources.managed_dir / name, content)

    def user(self, content: Mapping[str, Any] | str) -> Path:
        return self.write(self.sources.config_dir / "settings.json", content)

    def own(self, content: Mapping[str, Any] | str) -> Path:
        return self.write(locate_own_file(self.sources.config_dir, self.root), content)

    def read(self) -> Settings:
        return SettingsReader(self.sources, supported=EVERYTHING).read(self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_layers_stand_in_their_order_and_claude_codes_stand_below_ours(machine: Machine):
    machine.managed("settings.json", {})
    machine.managed("settings.d/10.json", {})
    folder, root, config = machine.root.parent, machine.root, machine.sources.config_dir

    found = [
        (layer.kind.value, layer.path) for layer in sort_layers(list_layers(machine.sources, root))
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


def test_claude_codes_files_are_left_alone_unless_they_are_asked_for(tmp_path: Path):
    environ = {"MCP_DISPATCH_CONFIG_DIR": str(tmp_path / "c"), "CLAUDE_CONFIG_DIR": str(tmp_path)}

    without = build_sources(environ)
    asked = build_sources(environ, include_claude=True)

    assert without == SettingsSources(tmp_path / "c")
    assert asked == SettingsSources(
        tmp_path / "c", claude_dir=tmp_path, claude_state_file=tmp_path / ".claude.json"
    )
    assert find_claude_state_file({}) == Path.home() / ".claude.json"
    assert not any("claude" in layer.kind.value for layer in list_layers(without, tmp_path))


def test_servers_that_claude_code_keeps_for_a_person_and_a_place_need_no_trust(machine: Machine):
    notes: dict[str, Any] = {
        "mcpServers": {"mine": {"command": "user"}, "shared": {"command": "user"}},
        "projects": {
            str(machine.root): {"mcpServers": {"shared": {"command": "local"}}, "allowedTools": []},
            str(machine.root.parent): {"mcpServers": {"elsewhere": {"command": "other"}}},
        },
        "history": ["x" * 3_000_000],
        "permissions": {"allow": ["Bash"]},
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "x"}]}]},
    }
    machine.write(machine.root.parent / ".claude.json", notes)
    machine.write(machine.root / ".mcp.json", {"mcpServers": {"shared": {"command": "project"}}})

    settings = machine.read()

    assert [(kept.layer.value, kept.value) for kept in settings.servers.sections if kept.value] == [
        ("claude-own", {"shared": {"command": "local"}}),
        ("claude-user", {"mine": {"command": "user"}, "shared": {"command": "user"}}),
    ]
    assert (settings.rules.texts, settings.hooks.sections) == ((), ())
    assert machine.root.parent / ".claude.json" in settings.report.files


@pytest.mark.parametrize("projects", [[], {"x": 1}, "text"])
def test_notes_of_claude_code_that_are_not_as_expected_name_no_server_of_the_place(
    projects: Any, machine: Machine
):
    machine.write(machine.root.parent / ".claude.json", {"projects": projects})

    settings = machine.read()

    assert [kept for kept in settings.servers.sections if kept.value] == []
    assert settings.report.problems == ()


def test_in_the_directory_that_holds_claude_codes_own_files_they_stand_once_as_the_users(
    tmp_path: Path,
):
    sources = SettingsSources(tmp_path / "config", claude_dir=tmp_path / ".claude")

    kinds = {layer.kind for layer in list_layers(sources, tmp_path)}

    assert LayerKind.CLAUDE_USER in kinds
    assert not kinds & {LayerKind.CLAUDE_PROJECT, LayerKind.CLAUDE_LOCAL}


def test_managed_files_are_taken_by_name_and_hidden_or_other_files_are_not(machine: Machine):
    machine.managed("settings.json", {"permissions": {"defaultMode": "plan", "deny": ["Bash(a)"]}})
    machine.managed("settings.d/20-b.json", {"permissions": {"deny": ["Bash(c)"]}})
    machine.managed(
        "settings.d/10-a.json", {"permissions": {"defaultMode": "dontAsk", "deny": ["Bash(b)"]}}
    )
    machine.managed("settings.d/.hidden.json", "{")
    machine.managed("settings.d/notes.txt", "{")
    machine.user({"permissions": {"defaultMode": "acceptEdits", "deny": ["Bash(d)"]}})

    settings = machine.read()

    assert settings.permissions.mode is PermissionMode.DONT_ASK
    assert [rule.text for rule in settings.rules.texts] == [
        "Bash(c)",
        "Bash(b)",
        "Bash(a)",
        "Bash(d)",
    ]
    assert settings.report.problems == ()


@pytest.mark.parametrize("name", ["settings.json", "settings.d/50.json"])
def test_a_broken_managed_file_stops_the_start_with_one_line(machine: Machine, name: str):
    file = machine.managed(name, "{")

    with pytest.raises(ConfigError) as raised:
        machine.read()

    assert str(raised.value) == (
        f"{file}: not JSON: Expecting property name enclosed in double quotes at line 1, column 2"
    )


@pytest.mark.parametrize("name", ["settings.json", "settings.d/50.json"])
def test_a_managed_link_that_leads_nowhere_stops_the_start(machine: Machine, name: str):
    file = machine.managed(name, "")
    file.unlink()
    file.symlink_to(machine.root / "gone.json")

    with pytest.raises(ConfigError) as raised:
        machine.read()

    assert str(raised.value) == f"{file}: no such file"


def test_the_users_file_for_one_workspace_counts_there_and_nowhere_else(
    machine: Machine, tmp_path: Path
):
    content = {"permissions": {"allow": ["Edit(/a)"], "defaultMode": "acceptEdits"}}
    machine.own(content)
    other = tmp_path / "other"
    other.mkdir()

    here = machine.read()
    there = SettingsReader(machine.sources).read(other)

    assert here.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert [(rule.text, rule.layer, rule.anchor) for rule in here.rules.texts] == [
        ("Edit(/a)", LayerKind.OWN, machine.root)
    ]
    assert there.rules.texts == ()


def test_of_a_file_for_servers_nothing_but_its_servers_is_read(machine: Machine):
    servers = {"db": {"command": "db-server"}}
    content = {"mcpServers": servers, "permissions": {"allow": ["Bash"]}, "env": {"A": "b"}}
    machine.write(machine.sources.config_dir / "mcp.json", content)

    settings = machine.read()

    assert [kept.value for kept in settings.servers.sections] == [servers]
    assert (settings.rules.texts, settings.processes.env) == ((), ())


def test_every_file_that_could_count_is_known_whether_it_is_there_or_not(machine: Machine):
    settings = machine.read()

    assert set(settings.report.files) == {
        layer.path for layer in list_layers(machine.sources, machine.root)
    }
    assert {source.state for source in settings.report.layer_statuses} == {FileState.ABSENT}


def test_the_scripts_that_hooks_name_are_known_also_of_hooks_that_are_off(machine: Machine):
    def hook(**keys: object) -> Mapping[str, Any]:
        return {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", **keys}]}]}}

    machine.write(machine.root / "plain.sh", "")
    machine.user(
        hook(command='"$CLAUDE_PROJECT_DIR"/.hooks/a.sh --config=etc/b.toml && sh plain.sh')
    )
    machine.own(hook(command="/usr/bin/python3", args=["${CLAUDE_PROJECT_DIR}/c.py", "-x"]))
    machine.write(
        machine.root / ".mcp-dispatch/settings.json", hook(command="/opt/guard/d 'unclosed")
    )

    settings = machine.read()

    root = machine.root
    assert set(settings.hooks.scripts) == {
        *(root / ".hooks/a.sh", root / "etc/b.toml", root / "plain.sh", root / "c.py"),
        Path("/opt/guard/d"),
    }
    assert len(settings.hooks.sections) == 2


def test_of_variables_the_highest_file_decides_one_by_one(machine: Machine):
    machine.user({"env": {"A": "user", "B": "user"}})
    machine.own({"env": {"B": "own", "C": "own"}})
    machine.managed("settings.json", {"env": {"C": "managed"}})

    assert machine.read().processes.environment == {"A": "user", "B": "own", "C": "managed"}


def test_variables_that_no_child_can_have_are_skipped_without_their_values(machine: Machine):
    file = machine.user(
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

    settings = machine.read()

    assert settings.processes.environment == {"OK": "1"}
    assert [str(problem) for problem in settings.report.problems] == [
        f'{file}: env."MCP_DISPATCH_CONFIG_DIR": variables of mcp-dispatch itself reach no child; '
        "it is skipped",
        f'{file}: env."A=B": expected the name of an environment variable; it is skipped',
        f'{file}: env."N": a value cannot contain a NUL character; it is skipped',
        f'{file}: env."U": half a surrogate pair cannot stand in the environment; it is skipped',
    ]


def test_directories_that_are_added_start_at_the_workspace_and_must_be_names(machine: Machine):
    machine.user({"permissions": {"additionalDirectories": ["../lib", "/abs", "a\0b", "", "~/x"]}})

    settings = machine.read()

    root = machine.root
    assert settings.permissions.additional_directories == (
        root / "../lib",
        Path("/abs"),
        Path.home() / "x",
    )
    assert [problem.message for problem in settings.report.problems] == [
        'not the name of a directory: "a\\u0000b"; it is skipped',
        'not the name of a directory: ""; it is skipped',
    ]


def test_any_file_can_take_the_bypass_mode_away(machine: Machine):
    machine.user({"permissions": {"defaultMode": "bypassPermissions"}})
    machine.write(
        machine.root / ".mcp-dispatch/settings.json",
        {"permissions": {"disableBypassPermissionsMode": "disable"}},
    )

    settings = machine.read()

    assert settings.permissions.mode is PermissionMode.DEFAULT
    assert (
        settings.permissions.resolve_mode(PermissionMode.BYPASS_PERMISSIONS)
        is PermissionMode.DEFAULT
    )
    assert settings.permissions.resolve_mode(PermissionMode.PLAN) is PermissionMode.PLAN


def test_hooks_are_switched_off_by_the_highest_file_and_managed_ones_only_by_a_managed_file(
    machine: Machine,
):
    hooks: dict[str, Any] = {"hooks": {"PreToolUse": [{"hooks": []}]}}
    machine.user({**hooks, "disableAllHooks": False})
    machine.own({**hooks, "disableAllHooks": True})
    managed = machine.managed("settings.json", hooks)

    by_user = [kept.file for kept in machine.read().hooks.sections]
    machine.managed("settings.json", {**hooks, "disableAllHooks": True})
    by_manager = machine.read().hooks.sections

    assert by_user == [managed]
    assert by_manager == ()


@pytest.mark.parametrize("value", [True, "yes"])
def test_a_managed_file_can_keep_hooks_and_allow_rules_to_itself(machine: Machine, value: object):
    content: dict[str, Any] = {
        "hooks": {"Stop": [{}]},
        "permissions": {"allow": ["Read"], "deny": ["Bash(x)"]},
    }
    machine.user(content)
    keys = {"allowManagedHooksOnly": value, "allowManagedPermissionRulesOnly": value}
    managed = machine.managed("settings.json", {**content, **keys})

    settings = machine.read()

    assert [kept.file for kept in settings.hooks.sections] == [managed]
    assert [(rule.text, rule.layer.value) for rule in settings.rules.texts] == [
        ("Read", "managed"),
        ("Bash(x)", "managed"),
        ("Bash(x)", "user"),
    ]


def test_what_only_a_managed_file_can_say_has_no_effect_elsewhere(machine: Machine):
    file = machine.user({"allowManagedHooksOnly": True, "hooks": {"Stop": [{}]}})

    settings = machine.read()

    assert len(settings.hooks.sections) == 1
    assert [str(problem) for problem in settings.report.problems] == [
        f"{file}: allowManagedHooksOnly: only a managed file can set this; it has no effect"
    ]


def test_examples_of_rules_are_collected_from_all_files(machine: Machine):
    def example(command: str) -> Mapping[str, Any]:
        return {"dispatch": {"ruleTests": [{"call": f"Bash({command})", "expect": "deny"}]}}

    low, high = machine.user(example("a")), machine.own(example("b"))

    settings = machine.read()

    assert [(test.call, test.file) for test in settings.rules.tests] == [
        ("Bash(b)", high),
        ("Bash(a)", low),
    ]
    assert [test.call for test in settings.dispatch.rule_tests] == ["Bash(b)", "Bash(a)"]


@pytest.mark.parametrize("kind", [LayerKind.FLAG, LayerKind.MANAGED, LayerKind.USER])
def test_a_file_that_breaks_while_the_server_runs_holds_as_it_was(tmp_path: Path, kind: LayerKind):
    file, shelf = tmp_path / "settings.json", LastGoodFiles()
    file.write_text('{"permissions": {"deny": ["Bash(rm:*)"]}}', encoding="utf-8")
    good = load_settings([Layer(kind, file)], last_good=shelf)
    file.write_text('{"permissions": {"deny": ["Bash', encoding="utf-8")

    broken = load_settings([Layer(kind, file)], last_good=shelf)

    assert broken.rules.texts == good.rules.texts
    assert broken.report.layer_statuses[0].state is FileState.KEPT
    (problem,) = broken.report.problems
    assert problem.message.startswith("not JSON: ")
    assert problem.message.endswith("; what it said before stays in force")


def test_a_file_that_is_taken_away_takes_its_rules_along_unless_a_flag_named_it(tmp_path: Path):
    shelf = LastGoodFiles()
    layers = [Layer(kind, tmp_path / kind.value) for kind in (LayerKind.FLAG, LayerKind.USER)]
    for layer in layers:
        layer.path.write_text('{"permissions": {"deny": ["Bash"]}}', encoding="utf-8")
    load_settings(layers, last_good=shelf)
    for layer in layers:
        layer.path.unlink()

    settings = load_settings(layers, last_good=shelf)

    assert [rule.layer for rule in settings.rules.texts] == [LayerKind.FLAG]
    assert [source.state for source in settings.report.layer_statuses] == [
        FileState.KEPT,
        FileState.ABSENT,
    ]


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """A repository with one commit and a worktree beside it."""
    if shutil.which("git") is None:
        pytest.skip("no git on this machine")
    main = tmp_path / "main"
    plain = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (
        ["init", "-q", str(main)],
        ["-C", str(main), *name, "commit", "-q", "--allow-empty", "-m", "first"],
        ["-C", str(main), "worktree", "add", "-q", str(tmp_path / "tree")],
    ):
        subprocess.run(["git", *command], check=True, env=plain, capture_output=True, timeout=30)
    return main


def test_a_repository_is_found_from_below_and_from_its_worktrees(git: Path):
    inside, tree = git / "a" / "b", git.parent / "tree"
    inside.mkdir(parents=True)

    assert find_repository_root(inside) == git
    assert find_repository_root(tree) == git
    assert find_repository_root(git.parent) is None


def test_claude_codes_local_file_is_read_at_the_repositorys_root_and_where_it_used_to_be(
    git: Path,
):
    tree = git.parent / "tree"
    sources = SettingsSources(git.parent / "config", claude_dir=git.parent / "claude")

    layers = [each for each in list_layers(sources, tree) if each.kind is LayerKind.CLAUDE_LOCAL]

    assert [(layer.path, layer.rule_anchor) for layer in sort_layers(layers)] == [
        (git / ".claude/settings.local.json", git),
        (tree / ".claude/settings.local.json", tree),
    ]


def test_cve_2026_40068_a_folder_that_claims_to_be_a_worktree_of_another_is_not_believed(
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


def test_a_git_file_that_is_a_pipe_or_no_text_holds_nobody_up(tmp_path: Path):
    private = tmp_path / "private"
    private.mkdir()
    (tmp_path / ".git").write_text(f"gitdir: {private}\n", encoding="utf-8")
    os.mkfifo(private / "commondir")
    (private / "gitdir").write_bytes(b"\xff\0")

    assert find_repository_root(tmp_path) is None
