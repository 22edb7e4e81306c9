"""`mcp-dispatch explain`: one call, a batch of calls, and rule tests."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest


@dataclass(frozen=True)
class Machine:
    """A workspace, a settings file and an empty config directory."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "w"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    def write(self, value: dict[str, Any]) -> None:
        text = json.dumps(value, indent=2)
        self.settings.write_text(text, encoding="utf-8")

    def run(self, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(sys.executable, "-m", "mcp_dispatch", "explain"),
                *("--workspace", str(self.workspace), "--settings", str(self.settings)),
                *("--state-dir", str(self.root / "state"), *arguments),
            ],
            input=text,
            env={**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(self.root / "config")},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )

    def explain_batch(self, *entries: object) -> list[dict[str, Any]]:
        """Explain each entry as one line of a batch; a string is used as the line itself."""
        lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
        done = self.run("--batch", "-", text="".join(f"{line}\n" for line in lines))
        assert (done.stderr, done.returncode) == ("", 0)
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.workspace.mkdir()
    machine.write(
        {
            "permissions": {
                "allow": ["Bash(make:*)", "mcp__demo__get_*"],
                "ask": ["Bash(make push:*)"],
                "deny": ["Bash(rm:*)", "Read(.env)"],
            }
        }
    )
    return machine


def test_the_decision_is_printed_before_every_vote_with_its_file_and_line(machine: Machine):
    done = machine.run("Bash", json.dumps({"command": "make push; rm x"}))

    assert done.stdout == (
        "deny: a deny rule forbids it\n"
        "  Bash(rm:*)\n"
        f"  {machine.settings}:11\n"
        "  it may change something, and runs alone\n"
        "\n"
        "Votes, those that are heard first at the top:\n"
        "  deny  a deny rule forbids it\n"
        "        Bash(rm:*)\n"
        f"        {machine.settings}:11\n"
        "  ask   an ask rule wants a person to confirm it\n"
        "        Bash(make push:*)\n"
        f"        {machine.settings}:8\n"
        "  ask   no rule covers this\n"
        "        permission mode default\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_call_that_no_rule_covers_is_shown_with_the_rule_that_would_allow_it(machine: Machine):
    done = machine.run("Bash(npm run build -- --watch)")

    assert done.stdout.startswith("ask: no rule covers this\n")
    assert done.stdout.endswith('\nTo allow it: "allow": ["Bash(npm run build:*)"]\n')


def test_only_lines_with_a_path_are_longer_than_80_columns(machine: Machine):
    command = "if true; then " + "echo " + "word " * 60 + "; fi"

    done = machine.run("Bash", json.dumps({"command": command}))

    root = str(machine.root)
    assert [line for line in done.stdout.splitlines() if len(line) > 80 and root not in line] == []


def test_control_characters_of_a_rule_are_escaped(machine: Machine):
    machine.write({"permissions": {"deny": ["Bash(ls \x1b[2J\u202e)"]}})

    done = machine.run("Bash(ls)")

    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert r"\u001b[2J\u202e" in done.stdout


def test_json_output_contains_the_decision_and_all_votes(machine: Machine):
    done = machine.run("Bash(make all)", "--json")

    output = json.loads(done.stdout)
    assert output == {
        "decision": "allow",
        "by": f"Bash(make:*) in {machine.settings}:4",
        "reason": "an allow rule covers it",
        "votes": [
            {
                "effect": "allow",
                "tier": "allow",
                "reason": "an allow rule covers it",
                "source": str(machine.settings),
                "line": 4,
                "rule": "Bash(make:*)",
            },
            {
                "effect": "ask",
                "tier": "undecided",
                "reason": "no rule covers this",
                "source": "permission mode default",
                "line": None,
                "rule": None,
            },
        ],
        "read_only": False,
        "sharing": "exclusive",
    }


def test_call_tool_is_evaluated_as_the_call_that_it_wraps(machine: Machine):
    machine.write({"permissions": {"deny": ["mcp__git__push"], "allow": ["call_tool"]}})

    def decide(**arguments: Any) -> str:
        call = {"tool": "call_tool", "input": arguments}
        return str(machine.explain_batch(call)[0]["decision"])

    assert decide(name="mcp__git__push", arguments={"force": True}) == "deny"
    assert decide(name="mcp__git__commit", arguments={}) == "ask"
    assert decide(name="Bash", arguments={"command": "ls"}) == "allow"


def test_a_batch_answers_every_line_in_order(machine: Machine):
    answers = machine.explain_batch(
        {"id": 1, "tool": "Bash", "input": {"command": "rm x"}},
        {"id": "two", "tool": "Read", "input": {"file_path": "a/.env"}},
        {"id": 3, "tool": "Read", "input": {"file_path": "a.py"}},
        {"id": 4, "tool": "Write", "input": {"file_path": "/elsewhere/a", "content": ""}},
        {"id": 5, "tool": "mcp__demo__get_x", "input": {}},
        {"id": 6, "tool": "mcp__other__get_x"},
        {"id": 7, "tool": "Grep", "input": {"pattern": "x"}},
        {"id": 8, "tool": "Read", "input": {"file_path": "file:///etc/passwd"}},
        {"id": 9, "tool": "Bash", "input": {"command": "ls -l | head"}},
        {"id": 10, "tool": "Bash", "input": {"command": "cat /etc/hostname"}},
        {"id": 11, "tool": "Bash", "input": {"command": "make"}},
        {"id": 13, "tool": "Bash", "input": {"command": "ls", "run_in_background": True}},
        {"id": 12, "tool": "KillShell", "input": {"shell_id": "b1"}},
    )

    assert [(each["id"], each["decision"], each["sharing"]) for each in answers] == [
        (1, "deny", "exclusive"),
        ("two", "deny", "shared"),
        (3, "allow", "shared"),
        (4, "ask", "exclusive"),
        (5, "allow", "exclusive"),
        (6, "ask", "exclusive"),
        (7, "allow", "shared"),
        (8, "deny", "exclusive"),
        (9, "allow", "shared"),
        (10, "ask", "shared"),
        (11, "allow", "exclusive"),
        (13, "allow", "exclusive"),
        (12, "allow", "shared"),
    ]
    assert all(each["read_only"] is (each["sharing"] == "shared") for each in answers)
    keys = ["id", "decision", "by", "reason", "votes", "read_only", "sharing"]
    assert all(list(each) == keys for each in answers)


def test_an_invalid_line_of_a_batch_gets_an_error_and_the_other_lines_are_answered(
    machine: Machine,
):
    answers = machine.explain_batch(
        "garbage",
        {"id": 2, "tool": 3},
        ["a list"],
        {"id": {"any": "id"}, "tool": "Nonsense"},
        {"id": 5, "tool": "Bash", "input": []},
        "",
        '{"id": 7, "tool": "Bash", "input": {"command": NaN}}',
        "[" * 100_000,
        {"id": 9, "tool": "Bash", "input": {"command": "ls \ud800"}},
        {"id": 10, "tool": "Bash", "input": {}},
        {"id": 11, "tool": "Read", "input": {"file_path": "a\0b"}},
        {"id": 12, "tool": "Bash", "input": {"command": "make"}},
    )

    assert [(each["id"], each.get("decision"), "error" in each) for each in answers] == [
        (None, None, True),
        (2, None, True),
        (None, None, True),
        ({"any": "id"}, None, True),
        (5, None, True),
        (None, None, True),
        (None, None, True),
        (9, "ask", False),
        (10, "ask", False),
        (11, "deny", False),
        (12, "allow", False),
    ]
    assert answers[1]["error"] == 'expected {"tool": name, "input": {…}} or "Tool(…)"'
    assert answers[4]["error"] == 'expected "input" to be an object, got list'


def test_a_line_of_a_batch_file_that_is_not_utf_8_gets_an_error(machine: Machine):
    file = machine.root / "calls.jsonl"
    file.write_bytes(
        b'\xef\xbb\xbf{"id": 1, "tool": "Bash"}\n{"id": "\xff"}\n{"id": 3, "tool": "Read"}'
    )

    done = machine.run("--batch", str(file))

    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in answers] == [1, None, 3]
    assert answers[1] == {"id": None, "error": "the line is not UTF-8"}


def test_a_missing_batch_file_is_named(machine: Machine):
    done = machine.run("--batch", "/no/such/file")

    expected = "mcp-dispatch: --batch /no/such/file: No such file or directory\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", expected, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a tool with its arguments, or --batch FILE, or --test; and only one of them"),
        (
            ("Bash", "{}", "--test"),
            "give a tool with its arguments, or --batch FILE, or --test; and only one of them",
        ),
        (("Bash", "[]"), 'expected "input" to be an object, got list'),
        (
            ("Bash(", "{}"),
            "no tool is named 'Bash('; write a tool of a server as mcp__server__tool",
        ),
        (
            ("mcp__a__b(x)",),
            'mcp__a__b has no short form; write {"tool": "mcp__a__b", "input": {…}}',
        ),
        (("Bash(ls)", "--workspace", "/no/such"), "--workspace /no/such: not a directory"),
    ],
)
def test_a_usage_error_is_one_line(machine: Machine, arguments: tuple[str, ...], message: str):
    done = machine.run(*arguments)

    assert (done.stdout, done.returncode) == ("", 2)
    assert done.stderr.startswith(f"mcp-dispatch: {message}")
    assert done.stderr.count("\n") == 1


def test_explain_accepts_the_flags_of_serve(machine: Machine):
    done = machine.run("Bash(npm test)", "--permission-mode", "dontAsk", "--json")

    assert json.loads(done.stdout)["reason"] == "no rule covers this (nobody is asked: dontAsk)"


def test_an_untrusted_workspace_can_add_deny_rules_but_no_allow_rules(machine: Machine):
    folder = machine.workspace / ".mcp-dispatch"
    folder.mkdir()
    rules = {"permissions": {"allow": ["Bash(npm:*)"], "deny": ["Bash(make)"]}}
    (folder / "settings.json").write_text(json.dumps(rules), encoding="utf-8")

    answers = machine.explain_batch(
        {"id": 1, "tool": "Bash", "input": {"command": "npm test"}},
        {"id": 2, "tool": "Bash", "input": {"command": "make"}},
    )

    assert [each["decision"] for each in answers] == ["ask", "deny"]


def test_explain_starts_no_process_and_creates_no_file(machine: Machine):
    marker = machine.root / "marker"
    hook = {"type": "command", "command": f"touch {marker}"}
    machine.write({"hooks": {"PreToolUse": [{"hooks": [hook]}]}})
    servers = machine.root / "mcp.json"
    start = {"command": "touch", "args": [str(marker)]}
    servers.write_text(json.dumps({"mcpServers": {"demo": start}}), encoding="utf-8")

    done = machine.run("mcp__demo__x", "{}", "--mcp-config", str(servers))

    assert done.stdout.startswith("ask: no rule covers this\n")
    assert not marker.exists()
    assert sorted(path.name for path in machine.root.iterdir()) == [
        "mcp.json",
        "settings.json",
        "w",
    ]


def test_explain_imports_no_protocol_library():
    code = (
        "import sys, mcp_dispatch.cli, mcp_dispatch.cli.explanation; "
        "print([name for name in ('mcp', 'anyio', 'pathspec') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=30
    )

    assert (done.stdout, done.returncode) == ("[]\n", 0)


def test_a_thousand_commands_are_evaluated_within_ten_seconds(machine: Machine):
    calls = [
        {
            "id": number,
            "tool": "Bash",
            "input": {"command": f"git log -n {number} src/f{number}.py | head"},
        }
        for number in range(1_000)
    ]

    start = perf_counter()
    answers = machine.explain_batch(*calls)
    seconds = perf_counter() - start

    assert [each["id"] for each in answers] == list(range(1_000))
    # It takes two seconds on an idle machine, and longer while other tests run.
    assert seconds < 10


# --- rule tests -------------------------------------------------------------------------------


def test_rule_tests_that_pass_are_counted(machine: Machine):
    machine.write(
        {
            "permissions": {"deny": ["Bash(rm:*)", "Read(.env)"], "allow": ["mcp__a"]},
            "dispatch": {
                "ruleTests": [
                    {"call": "Bash(rm -rf x)", "expect": "deny"},
                    {"call": "Read(sub/.env)", "expect": "deny"},
                    {"call": "mcp__a__b", "expect": "allow"},
                    {
                        "call": {"tool": "Write", "input": {"file_path": "a", "content": ""}},
                        "expect": "ask",
                    },
                ]
            },
        }
    )

    done = machine.run("--test")

    assert (done.stdout, done.returncode) == ("4 of 4 rule tests hold.\n", 0)


def test_a_rule_test_that_fails_names_the_deciding_vote(machine: Machine):
    machine.write(
        {
            "permissions": {"allow": ["Bash(git:*)"], "ask": ["Bash(git push:*)"]},
            "dispatch": {
                "ruleTests": [
                    {"call": "Bash(git push)", "expect": "deny"},
                    {"call": "Bash(git log)", "expect": "allow"},
                    {"call": "Nonsense(x)", "expect": "ask"},
                ]
            },
        }
    )

    done = machine.run("--test", "--json")
    output = json.loads(done.stdout)

    assert done.returncode == 1
    assert output["tests"] == 3
    first, second = output["failed"]
    assert first == {
        "file": str(machine.settings),
        "line": 13,
        "call": "Bash(git push)",
        "expected": "deny",
        "reason": "Bash(git push): expected deny, got ask: an ask rule wants a person to confirm "
        f"it (Bash(git push:*) in {machine.settings}:7)",
        "by": {
            "effect": "ask",
            "tier": "ask",
            "reason": "an ask rule wants a person to confirm it",
            "source": str(machine.settings),
            "line": 7,
            "rule": "Bash(git push:*)",
        },
    }
    assert second["reason"].startswith("Nonsense has no short form")
    readable = machine.run("--test")
    assert readable.returncode == 1
    assert readable.stdout.endswith("1 of 3 rule tests hold.\n")


def test_without_rule_tests_the_command_succeeds(machine: Machine):
    done = machine.run("--test")

    assert (done.stdout, done.returncode) == ("0 of 0 rule tests hold.\n", 0)
