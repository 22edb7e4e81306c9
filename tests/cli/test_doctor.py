"""`mcp-dispatch doctor`: the reported files, settings, errors and warnings."""

import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mcp_dispatch import __version__
from mcp_dispatch.app.settings_options import SettingsOptions
from mcp_dispatch.cli import app
from mcp_dispatch.cli.doctor_checks import DoctorReport, run_checks
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.settings.layers import locate_own_file
from mcp_dispatch.settings.problems import Severity
from mcp_dispatch.settings.settings import Settings
from mcp_dispatch.upstream.cache import CachedServer, CatalogueCache
from mcp_dispatch.upstream.config.load import read_file_entries
from mcp_dispatch.upstream.config.select import ServerFile, select_servers
from mcp_dispatch.upstream.pagination import Listing


class Home:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "workspace"
        self.config = folder / "config"
        self.state = folder / "state"
        self.project = self.root / ".mcp-dispatch" / "settings.json"
        self.user = self.config / "settings.json"
        for each in (self.root, self.config):
            each.mkdir(mode=0o700)

    def write(self, path: Path, content: Mapping[str, Any] | str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def flags(self) -> list[str]:
        return ["--workspace", str(self.root), "--state-dir", str(self.state)]

    def run_doctor(self, *flags: str) -> tuple[int, str]:
        environ = {"MCP_DISPATCH_CONFIG_DIR": str(self.config)}
        result = CliRunner().invoke(app, ["doctor", *self.flags, *flags], env=environ)
        return result.exit_code, result.output

    def check(self, **more: Any) -> DoctorReport:
        environ = {"MCP_DISPATCH_CONFIG_DIR": str(self.config), "PATH": os.environ["PATH"]}
        return run_checks(
            SettingsOptions(
                workspace=self.root,
                state_dir=self.state,
                environ=environ,
                managed_dir=self.root.parent / "managed",
                **more,
            )
        )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def list_errors(report: DoctorReport) -> list[str]:
    return report.list_texts(Severity.ERROR)


def list_warnings(report: DoctorReport) -> list[str]:
    return report.list_texts(Severity.WARNING)


def test_without_settings_files_there_are_no_errors_and_no_warnings(home: Home):
    code, text = home.run_doctor()

    assert code == 0
    assert text.splitlines()[-1] == "No errors, no warnings."
    assert "  project        absent  " in text


def test_the_report_lists_files_layers_and_withheld_entries(home: Home, tmp_path: Path):
    home.write(home.user, {"permissions": {"deny": ["Bash(rm:*)"]}})
    home.write(home.project, {"permissions": {"allow": ["Bash(a)"]}, "env": {"STAGE": "secret"}})

    code, text = home.run_doctor("--permission-mode", "plan")

    start = text.index("\nworkspace")
    own = locate_own_file(home.config, home.root)
    # Line breaks depend on the length of the paths, so compare the words.
    words = " ".join(text[start:].split())
    assert words == " ".join(
        f"""
        workspace {home.root}
        config {home.config}
        state {home.state}
        mode plan
        Settings files, the one that counts most first
        managed absent /etc/mcp-dispatch/settings.json
        local absent {home.root}/.mcp-dispatch/settings.local.json
        own absent {own}
        project read {home.project}
        project absent {home.root}/.mcp.json
        user read {home.user}
        user absent {home.config}/mcp.json
        Off: the workspace is not trusted
        - {home.project}:4: permissions.allow "Bash(a)"
        - {home.project}:8: env.STAGE
        Warnings
        - {home.project}: 2 entries have no effect: the workspace is not trusted; look at it with
        `mcp-dispatch trust {home.root}`
        No errors, 1 warning.
        """.split()
    )
    assert "secret" not in text
    assert code == 0


def test_only_lines_with_a_path_are_longer_than_80_columns(home: Home):
    long = "Bash(" + "word " * 40 + ")"
    home.write(home.project, {"permissions": {"allow": [long], "deny": ["Read("]}})

    _, text = home.run_doctor()

    too_long = [line for line in text.splitlines() if len(line) > 80]
    assert all("/" in line for line in too_long)


def test_json_output_has_the_same_content(home: Home):
    home.write(home.project, {"permissions": {"allow": ["Bash(a)"], "defaultMode": "auto"}})

    code, text = home.run_doctor("--json")

    report = json.loads(text)
    file = str(home.project)
    assert code == 0
    assert report["versions"] == {
        "mcp-dispatch": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "mcp": version("mcp"),
        "platform": sys.platform,
    }
    assert report["programs"].keys() == {"bash", "ripgrep"}
    assert (report["workspace"], report["trust"]) == (str(home.root), "untrusted")
    assert (report["mode"], report["rules"]) == ("default", 0)
    assert {"layer": "project", "path": file, "state": "read"} in report["files"]
    assert report["withheld"] == [
        {"file": file, "line": 4, "key": "permissions.allow", "value": "Bash(a)"}
    ]
    assert report["refused"] == [
        {
            "file": file,
            "line": 6,
            "key": "permissions.defaultMode",
            "value": "auto",
            "reason": "a workspace cannot choose this mode; use --permission-mode",
        }
    ]
    assert (report["errors"], len(report["warnings"])) == ([], 2)


def test_a_settings_file_that_is_not_json_is_an_error(home: Home):
    home.write(home.user, "{")

    code, text = home.run_doctor()

    assert code == 1
    assert "user           ignored " in text
    assert text.splitlines()[-1] == "1 error, no warnings."


def test_a_problem_that_prevents_the_start_is_an_error_with_the_same_message(home: Home):
    managed = home.write(home.root.parent / "managed" / "settings.json", "{")

    report = home.check(mcp_config=(home.root / "no.json",))

    assert report.settings is None
    assert list_errors(report) == [
        f"{managed}: not JSON: Expecting property name enclosed in double quotes at line 1, "
        "column 2",
        f"{home.root / 'no.json'}: cannot be read: No such file or directory",
    ]


def test_invalid_rules_hooks_and_servers_are_reported(home: Home, tmp_path: Path):
    home.write(
        home.user,
        {"permissions": {"deny": ["Read("]}, "hooks": {"PreToolUse": [{"hooks": [{"type": "x"}]}]}},
    )
    servers = home.write(tmp_path / "servers.json", {"mcpServers": {"a__b": {"command": "x"}}})

    report = home.check(mcp_config=(servers,))

    assert [each.split(":")[0] for each in list_errors(report)] == [str(home.user)]
    assert "permissions.deny" in list_errors(report)[0]
    files = sorted(each.split(":")[0] for each in list_warnings(report))
    assert files == sorted([str(home.user), str(servers)])


def test_a_rule_test_that_fails_is_an_error(home: Home):
    home.write(
        home.user,
        {
            "permissions": {"deny": ["Bash(rm:*)"]},
            "dispatch": {
                "ruleTests": [
                    {"call": "Bash(rm -r build)", "expect": "deny"},
                    {"call": "Bash(rm -r build)", "expect": "allow"},
                ]
            },
        },
    )

    (error,) = list_errors(home.check())

    assert error.startswith(
        f"{home.user}:14: dispatch.ruleTests: Bash(rm -r build): expected allow"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_files_and_directories_that_others_can_write_are_reported(home: Home):
    home.write(home.user, {}).chmod(0o666)
    home.config.chmod(0o770)
    home.state.mkdir()
    home.state.chmod(0o755)

    report = home.check()

    assert list_errors(report) == [
        f"the settings file {home.user}: everybody can write it; run chmod o-w"
    ]
    assert list_warnings(report) == [
        f"the config directory {home.config}: its group can write it; run chmod g-w",
        f"the state directory {home.state}: others can read it; the server will close it",
    ]


def test_missing_programs_are_reported(home: Home):
    environ = {"MCP_DISPATCH_CONFIG_DIR": str(home.config), "PATH": str(home.root)}

    report = run_checks(SettingsOptions(workspace=home.root, state_dir=home.state, environ=environ))

    assert report.programs["bash"] is None
    assert "bash was not found; the Bash tool needs it" in list_warnings(report)


def test_doctor_creates_no_file_and_starts_no_process(home: Home, tmp_path: Path):
    hook = {"type": "command", "command": f"touch {tmp_path}/ran"}
    home.write(home.user, {"hooks": {"PreToolUse": [{"hooks": [hook]}]}})
    before = sorted(tmp_path.rglob("*"))

    home.run_doctor()

    assert sorted(tmp_path.rglob("*")) == before


def test_upstreams_are_checked_without_being_started(home: Home) -> None:
    servers = home.write(
        home.root / "servers.json",
        {
            "mcpServers": {
                "gone": {"command": "no-such-program-anywhere"},
                "one": {"command": "sh", "prefix": ""},
                "two": {"command": "sh", "prefix": "", "args": ["2"]},
            }
        },
    )
    chosen = select_servers([ServerFile(servers, read_file_entries(servers))], Settings(), None, {})
    cache = CatalogueCache(StateDirectory.open(home.state).catalogue, clock=lambda: 0.0)
    for config in chosen.servers[1:]:
        cached_server = CachedServer(config, cache)
        cached_server.record_listing(Listing(({"name": "log", "description": "reads"},)))
    cached_server = CachedServer(chosen.servers[2], cache)
    cached_server.record_listing(Listing(({"name": "log", "description": "writes"},)))
    cached_server.record_failure("exited with code 3")

    report = home.check(mcp_config=(servers,))

    assert list_errors(report) == [
        f"{servers}: mcpServers.gone.command: no program 'no-such-program-anywhere' can be found; "
        "install it, or name it by its whole path"
    ]
    log = home.state / "logs" / "two.stderr.log"
    assert list_warnings(report)[-3:] == [
        f"server two: when it was last tried it exited with code 3; see {log}",
        'server two: log changed on 1970-01-01: description: "reads" → "writes"',
        "mcp__two__log is not listed: mcp__one__log has the name log; call it as mcp__two__log",
    ]
