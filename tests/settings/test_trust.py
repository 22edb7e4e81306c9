"""Tests of the settings that workspace files can change before and after the user trusts them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mcp_dispatch.cli import app
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.settings.env_names import is_refused_to_workspaces
from mcp_dispatch.settings.layers import SettingsSources, locate_own_file
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import Settings, SettingsReader
from mcp_dispatch.settings.trust import Trust, locate_record

GUARD: dict[str, Any] = {
    "matcher": "Bash",
    "hooks": [{"type": "command", "command": "./guard.sh"}],
}
EVERYTHING: dict[str, Any] = {
    "permissions": {
        "allow": ["Bash(npm test:*)"],
        "ask": ["Bash(git push:*)"],
        "deny": ["Read(./.env)"],
        "defaultMode": "acceptEdits",
        "additionalDirectories": ["../lib"],
        "blockReadsOutsideWorkingDirectories": True,
        "blockWritesOutsideWorkingDirectories": True,
    },
    "hooks": {"PreToolUse": [GUARD]},
    "env": {"STAGE": "test"},
    "mcpServers": {"db": {"command": "./db"}},
    "dispatch": {"concurrency": {"max": 3}},
    "disableAllHooks": False,
}
SUPPORTED = frozenset({"hooks", "env", "mcpServers"})


class Project:
    """A workspace with its own settings, and a user's config directory."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.config = folder / "config"
        self.file = self.root / ".mcp-dispatch" / "settings.json"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.claude = folder / "claude"

    def write(self, content: object, file: Path | None = None) -> "Project":
        path = file or self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return self

    def read(self, root: Path | None = None, *, claude: bool = False) -> Settings:
        sources = SettingsSources(
            self.config,
            claude_dir=self.claude if claude else None,
            managed_dir=self.root.parent / "managed",
        )
        return SettingsReader(sources, supported=SUPPORTED).read(root or self.root)

    def run(self, *arguments: str, stdin: str = "", **environ: str) -> "CommandOutput":
        names = {"MCP_DISPATCH_CONFIG_DIR": str(self.config), "CLAUDE_CONFIG_DIR": str(self.claude)}
        result = CliRunner().invoke(app, [*arguments], input=stdin, env={**names, **environ})
        return CommandOutput(result.exit_code, result.output)

    def trust(self, *flags: str) -> "CommandOutput":
        return self.run("trust", str(self.root), "--yes", *flags)


class CommandOutput:
    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        self.lines = [line.strip() for line in text.splitlines()]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def list_rules(settings: Settings) -> list[tuple[Effect, str]]:
    return [(rule.effect, rule.text) for rule in settings.rules.texts]


def list_withheld(settings: Settings) -> list[tuple[str, int | None]]:
    return [(entry.key, entry.line) for entry in settings.report.trust_status.withheld]


def test_cve_2025_59536_before_trust_a_workspace_can_only_tighten(project: Project):
    settings = project.write(EVERYTHING).read()

    assert list_rules(settings) == [
        (Effect.ASK, "Bash(git push:*)"),
        (Effect.DENY, "Read(./.env)"),
    ]
    assert settings.permissions.block_reads_outside
    assert settings.permissions.block_writes_outside
    default = Settings()
    assert settings.permissions.mode is default.permissions.mode
    assert settings.dispatch == default.dispatch
    assert (settings.permissions.additional_directories, settings.hooks.sections) == ((), ())
    assert (settings.processes.env, settings.servers.sections) == ((), ())
    assert settings.report.trust_status.trust is Trust.UNTRUSTED
    assert list_withheld(settings) == [
        ("permissions.allow", 4),
        ("permissions.defaultMode", 12),
        ("permissions.additionalDirectories", 14),
        ("hooks.PreToolUse", 22),
        ("env.STAGE", 33),
        ("mcpServers.db", 37),
        ("dispatch.concurrency", 42),
        ("disableAllHooks", 45),
    ]
    assert [str(problem) for problem in settings.report.problems] == [
        f"{project.file}: 8 entries have no effect: the workspace is not trusted; look at it with "
        f"`mcp-dispatch trust {project.root}`"
    ]


def test_every_setting_of_a_trusted_workspace_has_its_effect(project: Project):
    project.write(EVERYTHING).trust()

    settings = project.read()

    assert list_rules(settings)[0] == (Effect.ALLOW, "Bash(npm test:*)")
    assert settings.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert settings.permissions.additional_directories == (project.root / "../lib",)
    assert settings.dispatch.concurrency.max == 3
    assert [section.value for section in settings.hooks.sections] == [EVERYTHING["hooks"]]
    assert settings.processes.environment == {"STAGE": "test"}
    assert [section.value for section in settings.servers.sections] == [EVERYTHING["mcpServers"]]
    assert settings.report.trust_status.trust is Trust.TRUSTED
    assert settings.report.problems == ()


def test_workspace_servers_need_trust_and_a_changed_command_needs_it_again(
    project: Project,
):
    file = project.root / ".mcp.json"
    project.write({"mcpServers": {"db": {"command": "good"}}}, file)
    before = project.read().servers.sections
    project.trust()
    trusted = project.read().servers.sections

    # CVE-2025-54136: the name stays, the command changes.
    project.write({"mcpServers": {"db": {"command": "evil"}}}, file)
    after = project.read()

    assert before == ()
    assert [section.value for section in trusted] == [{"db": {"command": "good"}}]
    assert after.servers.sections == ()
    assert list_withheld(after) == [("mcpServers.db", 4)]


def test_an_entry_added_after_trust_has_no_effect_and_the_others_keep_theirs(project: Project):
    project.write({"permissions": {"allow": ["Bash(a)"]}}).trust()
    project.write({"permissions": {"allow": ["Bash(a)", "Bash(b)"], "deny": ["Bash(c)"]}})

    settings = project.read()

    assert list_rules(settings) == [(Effect.ALLOW, "Bash(a)"), (Effect.DENY, "Bash(c)")]
    assert settings.report.trust_status.trust is Trust.CHANGED
    assert [str(problem) for problem in settings.report.problems] == [
        f"{project.file}: 1 entry has no effect: the workspace was trusted without it; look at it "
        f"with `mcp-dispatch trust {project.root}`"
    ]


@pytest.mark.parametrize(
    "remaining",
    [
        {"permissions": {"allow": ["Bash(a)"], "ask": ["Bash(c)"]}, "hooks": {"Stop": [GUARD]}},
        {"permissions": {"allow": ["Bash(a)"], "deny": ["Bash(b)"], "ask": ["Bash(c)"]}},
    ],
)
def test_a_workspace_that_removes_a_guard_loses_all_its_grants(project: Project, remaining: object):
    rules = {"allow": ["Bash(a)"], "deny": ["Bash(b)"], "ask": ["Bash(c)"]}
    project.write({"permissions": rules, "hooks": {"Stop": [GUARD]}}).trust()
    project.write(remaining)

    settings = project.read()

    assert settings.report.trust_status.trust is Trust.LOOSENED
    assert all(effect is not Effect.ALLOW for effect, _ in list_rules(settings))
    assert settings.hooks.sections == ()


def test_reordered_keys_and_lines_do_not_change_trust(project: Project):
    project.write(EVERYTHING).trust()
    reordered = {key: EVERYTHING[key] for key in reversed(EVERYTHING)}
    project.file.write_text(json.dumps(reordered), encoding="utf-8")

    assert project.read().report.trust_status.trust is Trust.TRUSTED


def test_cve_2026_33068_a_workspace_cannot_choose_a_mode_without_prompts(project: Project):
    for mode in ("bypassPermissions", "auto"):
        project.write({"permissions": {"defaultMode": mode}}).trust()

        settings = project.read()

        assert settings.permissions.mode is PermissionMode.DEFAULT
        assert [str(problem) for problem in settings.report.problems] == [
            f"{project.file}:3: permissions.defaultMode: a workspace cannot choose this mode; use "
            "--permission-mode; it has no effect"
        ]


def test_cve_2026_21852_a_trusted_workspace_never_sets_endpoints_proxies_or_loaders(
    project: Project,
):
    names = ("ANTHROPIC_BASE_URL", "HTTPS_PROXY", "LD_PRELOAD", "PATH", "BASH_ENV", "STAGE")
    project.write({"env": dict.fromkeys(names, "x")}).trust()

    settings = project.read()

    assert settings.processes.environment == {"STAGE": "x"}
    assert [refusal.entry.key for refusal in settings.report.refused] == [
        f"env.{name}" for name in names[:-1]
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "Path", "path", "CDPATH", "PYTHONPATH", "NODE_PATH", "CLASSPATH", "GOPATH"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"),
        *("BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "IFS", "BASH_FUNC_ls%%", "SHELLOPTS"),
        *("NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "RUBYOPT", "PERL5OPT", "PERL5LIB"),
        *("PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT", "MAVEN_OPTS", "MAKEFLAGS", "GOFLAGS"),
        *("GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_EXTERNAL_DIFF", "SSH_ASKPASS", "LESSOPEN"),
        *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "TERMINAL", "SHELL", "COMSPEC"),
        *("HTTP_PROXY", "https_proxy", "ALL_PROXY", "NO_PROXY", "ANTHROPIC_BASE_URL"),
        *("OPENAI_API_BASE", "AWS_ENDPOINT_URL", "MY_SERVICE_ENDPOINT", "DOCKER_HOST"),
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_HOME"),
        *("NPM_CONFIG_REGISTRY", "npm_config_registry", "PIP_INDEX_URL", "UV_INDEX", "CARGO_HOME"),
        *("HOME", "TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", "KUBECONFIG", "CLAUDE_CONFIG_DIR"),
        *("MCP_DISPATCH_CONFIG_DIR", "MCP_TIMEOUT", "OTEL_EXPORTER_OTLP_ENDPOINT", "USER"),
        *("RUSTC_WRAPPER", "CC", "LD", "CMAKE_TOOLCHAIN_FILE", "GRADLE_USER_HOME", "DOTNET_ROOT"),
        *("PYTEST_PLUGINS", "DJANGO_SETTINGS_MODULE", "GOOGLE_APPLICATION_CREDENTIALS", ""),
    ],
)
def test_a_workspace_cannot_set_a_variable_that_selects_programs_or_hosts(name: str):
    assert is_refused_to_workspaces(name)


@pytest.mark.parametrize(
    "name",
    [
        *("STAGE", "FOO", "NODE_ENV", "APP_ENV", "RAILS_ENV", "DEBUG", "LOG_LEVEL", "CI", "TZ"),
        *("PORT", "LANG", "LC_ALL", "NO_COLOR", "FORCE_COLOR", "RUST_LOG", "RUST_BACKTRACE"),
        *("PYTHONUNBUFFERED", "MYAPP_FEATURE_X", "MYAPP_WORKERS", "VERBOSE", "MY_VAR"),
    ],
)
def test_a_trusted_workspace_can_set_an_ordinary_variable(name: str):
    assert not is_refused_to_workspaces(name)


def test_a_workspace_cannot_disable_prompts_or_set_the_allowed_hosts(project: Project):
    project.write(
        {
            "permissions": {"denyInsteadOfPrompting": True},
            "dispatch": {"naming": "bare", "http": {"allowedHosts": ["evil.example"]}},
        }
    ).trust()

    settings = project.read()

    assert not settings.permissions.deny_instead_of_prompting
    assert settings.dispatch.naming.style == "bare"
    assert settings.dispatch.http == Settings().dispatch.http
    assert [refusal.entry.key for refusal in settings.report.refused] == [
        "permissions.denyInsteadOfPrompting",
        "dispatch.http",
    ]


def test_cve_2026_40068_trust_belongs_to_a_real_directory_and_is_not_inherited(
    project: Project, tmp_path: Path
):
    project.write(EVERYTHING).trust()
    inner = Project(project.root)
    inner.config = project.config
    inner.write(EVERYTHING)
    forged = tmp_path / "forged"
    (forged / ".mcp-dispatch").mkdir(parents=True)
    project.write(EVERYTHING, forged / ".mcp-dispatch" / "settings.json")
    (forged / ".git").write_text(f"gitdir: {project.root}/.git\n", encoding="utf-8")

    assert inner.read().report.trust_status.trust is Trust.UNTRUSTED
    assert project.read(forged).report.trust_status.trust is Trust.UNTRUSTED


def test_trust_given_through_a_symlink_applies_to_its_target_at_that_time(
    project: Project, tmp_path: Path
):
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(project.root)
    project.write(EVERYTHING, other / ".mcp-dispatch" / "settings.json").write(EVERYTHING)
    project.run("trust", str(link), "--yes")

    link.unlink()
    link.symlink_to(other)

    assert project.read().report.trust_status.trust is Trust.TRUSTED
    assert project.read(link.resolve()).report.trust_status.trust is Trust.UNTRUSTED


def test_the_trust_command_lists_every_entry_with_its_line_and_the_refused_entries(
    project: Project,
):
    project.write(
        {
            "permissions": {"allow": ["Bash(a)"], "deny": ["Bash(b)"]},
            "env": {"STAGE": "t\u202est", "PATH": "."},
        }
    )

    output = project.run("trust", str(project.root), "--yes")

    own = locate_own_file(project.config, project.root)
    assert output.text == (
        f"Workspace {project.root}\n"
        "\n"
        "  asks for this, which is off:\n"
        '    .mcp-dispatch/settings.json:4  permissions.allow  "Bash(a)"\n'
        '    .mcp-dispatch/settings.json:11  env.STAGE  "t\\u202est"\n'
        "\n"
        "  cannot have this, trusted or not:\n"
        '    .mcp-dispatch/settings.json:12  env.PATH  "."\n'
        "        a workspace cannot set this variable; set it in a file of your own\n"
        f"  Your own settings for this workspace:\n    {own}\n"
        "\n"
        "Trusted. A server that is running takes it over within seconds.\n"
    )
    assert output.code == 0


def test_trust_without_a_terminal_needs_the_yes_flag(project: Project):
    project.write(EVERYTHING)

    output = project.run("trust", str(project.root), stdin="y\n")

    assert output.code == 1
    assert output.lines[-1] == (
        "mcp-dispatch: nothing was changed: there is no terminal to ask on; add --yes once you "
        "have read it"
    )
    assert project.read().report.trust_status.trust is Trust.UNTRUSTED


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_the_trust_command_prompts_on_a_terminal_and_defaults_to_no(
    project: Project, answer: bytes, code: int
):
    project.write(EVERYTHING)
    controller, terminal = os.openpty()
    os.write(controller, answer)

    command = [sys.executable, "-m", "mcp_dispatch", "trust", str(project.root)]
    environ = {**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(project.config)}
    process = subprocess.run(
        command, stdin=terminal, capture_output=True, env=environ, timeout=30, check=False
    )
    os.close(controller)
    os.close(terminal)

    assert process.returncode == code
    assert b"Trust this workspace with everything above? [y/N]:" in process.stdout
    assert (project.read().report.trust_status.trust is Trust.TRUSTED) == (code == 0)


def test_the_trust_command_lists_added_confirmed_and_removed_entries(project: Project):
    project.write({"permissions": {"allow": ["Bash(a)", "Bash(b)"], "deny": ["Bash(x)"]}}).trust()
    project.write({"permissions": {"allow": ["Bash(b)", "Bash(c)"], "deny": ["Bash(x)"]}})

    changed = project.trust()
    again = project.run("trust", str(project.root))

    file = ".mcp-dispatch/settings.json"
    assert changed.lines[2:11] == [
        "asks for this since you trusted it; it is off:",
        f'{file}:5  permissions.allow  "Bash(c)"',
        "",
        "has this, as you confirmed:",
        f'{file}:4  permissions.allow  "Bash(b)"',
        "",
        "no longer asks for:",
        f'{file}  permissions.allow  "Bash(a)"',
        "",
    ]
    assert project.read().report.trust_status.trust is Trust.TRUSTED
    assert again.lines[-1] == "It is trusted as it is; nothing has changed."
    assert again.code == 0


def test_the_trust_command_lists_removed_guards(project: Project):
    project.write({"permissions": {"allow": ["Bash(a)"], "deny": ["Bash(x)"]}}).trust()
    project.write({"permissions": {"allow": ["Bash(a)"]}})

    output = project.trust()

    assert output.lines[2:9] == [
        "asks for this; all of it is off, because guards are gone:",
        '.mcp-dispatch/settings.json:4  permissions.allow  "Bash(a)"',
        "",
        "no longer has these guards:",
        '.mcp-dispatch/settings.json  permissions.deny  "Bash(x)"',
        "",
        "Trusted. A server that is running takes it over within seconds.",
    ]
    assert list_rules(project.read()) == [(Effect.ALLOW, "Bash(a)")]


def test_claude_code_files_of_the_workspace_are_trusted_separately(project: Project):
    claude_file = project.root / ".claude" / "settings.json"
    project.write({"permissions": {"allow": ["Bash(theirs)"]}}, claude_file)
    project.write({"permissions": {"allow": ["Bash(ours)"]}}).trust()
    ours_only = list_rules(project.read(claude=True))
    project.trust("--claude-settings")

    project.trust()

    assert ours_only == [(Effect.ALLOW, "Bash(ours)")]
    assert list_rules(project.read(claude=True)) == [
        (Effect.ALLOW, "Bash(ours)"),
        (Effect.ALLOW, "Bash(theirs)"),
    ]


def test_a_workspace_with_only_deny_rules_needs_no_trust(project: Project):
    project.write({"permissions": {"deny": ["Bash"]}})

    output = project.run("trust", str(project.root))

    assert output.code == 0
    assert output.lines[-1] == (
        "It asks for nothing that needs trust. Its deny and ask rules hold anyway."
    )
    assert not locate_record(project.config, project.root).exists()


def test_untrust_revokes_trust(project: Project):
    project.write(EVERYTHING).trust()

    first = project.run("untrust", str(project.root))
    second = project.run("untrust", str(project.root))

    assert (first.code, first.text) == (0, f"{project.root} is no longer trusted.\n")
    assert (second.code, second.text) == (0, f"{project.root} was not trusted.\n")
    assert project.read().report.trust_status.trust is Trust.UNTRUSTED


@pytest.mark.parametrize("command", [("trust", "--yes"), ("untrust",)])
def test_a_process_started_by_the_server_cannot_give_or_revoke_trust(
    project: Project, command: tuple[str, ...]
):
    project.write(EVERYTHING)

    refused = project.run(*command, str(project.root), MCP_DISPATCH_RUN="0123.4")

    assert refused.code == 1
    assert refused.text == (
        f"mcp-dispatch: `{command[0]}` is for a person, and this is a process that mcp-dispatch "
        "started\n"
    )
    assert project.read().report.trust_status.trust is Trust.UNTRUSTED


def test_a_path_that_is_not_a_directory_cannot_be_trusted(project: Project):
    missing = project.run("trust", str(project.root / "no"), "--yes")
    file = project.write({}).run("trust", str(project.file), "--yes")

    assert (missing.code, file.code) == (1, 1)
    assert missing.text == f"mcp-dispatch: {project.root / 'no'}: No such file or directory\n"
    assert file.text == f"mcp-dispatch: {project.file}: not a directory\n"


def test_the_trust_record_is_private_and_the_only_file_in_its_folder(project: Project):
    project.write(EVERYTHING).trust()

    path = locate_record(project.config, project.root)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def _change_workspace(record: dict[str, Any]) -> None:
    record["workspace"] = "/elsewhere"


def _add_grant(record: dict[str, Any]) -> None:
    record["grants"].append({**record["grants"][0], "value": "Bash"})


def _change_version(record: dict[str, Any]) -> None:
    record["version"] = 2


@pytest.mark.parametrize("change", [_change_workspace, _add_grant, _change_version])
def test_a_modified_trust_record_is_ignored(project: Project, change: Any):
    project.write(EVERYTHING).trust()
    path = locate_record(project.config, project.root)
    record = json.loads(path.read_text(encoding="utf-8"))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")

    settings = project.read()

    assert settings.report.trust_status.trust is Trust.UNTRUSTED
    assert str(settings.report.problems[-1]) == (
        f"{path}: not a record of this workspace as `mcp-dispatch trust` writes it; the workspace "
        "is not trusted. Run `mcp-dispatch trust` again"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_a_trust_record_that_other_users_can_write_is_ignored(project: Project):
    project.write(EVERYTHING).trust()
    path = locate_record(project.config, project.root)
    path.chmod(0o666)

    settings = project.read()

    assert settings.report.trust_status.trust is Trust.UNTRUSTED
    assert settings.report.problems[-1].message.startswith("other users can write it; ")


def test_a_trust_record_inside_the_workspace_is_ignored(project: Project):
    project.write(EVERYTHING).trust()
    record = locate_record(project.config, project.root).read_text(encoding="utf-8")
    project.run("untrust", str(project.root))

    project.write(json.loads(record), project.root / ".mcp-dispatch" / "trust.json")

    assert project.read().report.trust_status.trust is Trust.UNTRUSTED


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = (
    *("permissions", "hooks", "env", "mcpServers", "dispatch", "disableAllHooks"),
    *("allowManagedHooksOnly", "apiKeyHelper"),
)
PERMISSION_KEYS = (
    *("allow", "additionalDirectories", "defaultMode", "denyInsteadOfPrompting", "unknown"),
)


@given(
    top=st.dictionaries(st.sampled_from(KEYS), JSON_VALUES),
    permissions=st.dictionaries(st.sampled_from(PERMISSION_KEYS), JSON_VALUES),
)
def test_an_untrusted_workspace_without_deny_and_ask_rules_changes_no_setting(
    top: dict[str, Any], permissions: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
):
    project = Project(tmp_path_factory.getbasetemp() / "any-workspace")

    settings = project.write({**top, "permissions": permissions}).read()

    assert list_trusted_settings(settings) == list_trusted_settings(Settings())


def list_trusted_settings(settings: Settings) -> list[object]:
    permissions = settings.permissions
    return [
        settings.rules.texts,
        permissions.mode,
        permissions.additional_directories,
        permissions.block_reads_outside,
        permissions.block_writes_outside,
        permissions.deny_instead_of_prompting,
        settings.dispatch,
        settings.hooks.sections,
        settings.processes.env,
        settings.servers.sections,
    ]
