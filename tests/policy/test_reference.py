"""Compares the policy with a reference implementation of its documentation on random input."""

import ast
import os
from pathlib import Path
from random import Random
from typing import Any

from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import (
    LayerKind,
    PermissionSettings,
    RuleSettings,
    RuleText,
    Settings,
)
from tests.support import policy_reference
from tests.support.policy_reference import CONFIG, HOME, WORKSPACE

PAIRS = int(os.environ.get("MCP_DISPATCH_PAIRS", "5000"))
"""The number of random pairs; set it to a million for a long run."""

SETTINGS = Path(CONFIG) / "settings.json"
PROGRAMS = [
    *(
        "make",
        "npm test",
        "npm run build",
        "git push",
        "git push origin main",
        "rm x",
        "rm -rf build",
    ),
    *(
        "rm /",
        "rm /etc",
        "rm ~",
        "rm sub/y",
        "cat .env",
        "cat src/a.py",
        "cat /elsewhere/f",
        "head a",
    ),
    *("touch a", "touch src/b", "touch .git/config", "tee .bashrc", "mkdir d", "cat ~/.ssh/id"),
    *("tee .mcp.json", "curl x.com", "/usr/bin/curl x.com", "deploy", "cd lib", "cat sub/.env"),
]
WRAPPINGS = [
    "",
    "",
    "",
    "",
    "sudo ",
    "env ",
    "timeout 5 ",
    "nohup ",
    "sudo timeout 5 ",
    "nohup sudo ",
]
ASSIGNMENTS = ["", "", "", "", "LANG=C ", "NODE_ENV=test ", "PATH=x ", "LANG=C LD_PRELOAD=y "]
REDIRECTS = [
    "",
    "",
    "",
    "",
    " > out",
    " > src/out",
    " > /elsewhere/out",
    " > .git/x",
    " > .mcp.json",
]
OPERATORS = ["; ", " && ", " || ", " | ", " & ", "\n"]
COMMAND_SPECS = [
    *(
        "make",
        "make:*",
        "npm test",
        "npm *",
        "npm run build",
        "npm run:*",
        "git push:*",
        "git * main",
    ),
    *("rm:*", "rm x", "rm *", "cat:*", "cat *", "head:*", "touch:*", "touch a", "tee:*", "curl:*"),
    *(
        "cu*",
        "* x.com",
        "* main",
        "*",
        "sudo:*",
        "sudo rm x",
        "sudo make:*",
        "timeout 5 make",
        "de*",
    ),
    *("env make:*", "mkdir *", "cd:*", "nohup:*", "make && make", "npm test | make"),
]
PATH_SPECS = [
    *(
        ".env",
        "src/**",
        "./src/**",
        "src/*.py",
        "*.py",
        "**/.env",
        "//elsewhere/**",
        "sub/**",
    ),
    *("/config.json", "/notes/**", "~/.ssh/**", "//workspace/src/**", "a", "out", "s*/a.py"),
    *("//**/.env", "src/deep/**", "d", "./out", "~/**", "**/deep/*"),
]
FILES = [
    *(
        "a",
        ".env",
        "src/a.py",
        "src/deep/b.py",
        "sub/.env",
        "sub/src/c",
        "/elsewhere/f",
        "out",
        "d/e",
    ),
    *("/config/notes/x", "~/.ssh/id", ".git/config", "src/.bashrc", ".mcp.json", "/elsewhere/.env"),
    *("../beside/x", "src/../a", "deep/x", "/config/config.json", ".mcp-dispatch/settings.json"),
]
NAMES = [
    *("mcp__git", "mcp__git__*", "mcp__git__log", "mcp__git__get_*", "mcp__github", "Read", "Edit"),
    *("Write", "Bash", "Bash(*)", "mcp__git__log(branch:main)", "mcp__git__log(branch:ma*)"),
]
STRICT_NAMES = ["mcp__*", "*", "mcp__*__log", "B*", "mcp__git(branch:main)", "Bash(timeout:7)"]
TOOLS = ["mcp__git__log", "mcp__git__get_x", "mcp__github__log", "mcp__other__log"]
MODES = [mode.value for mode in PermissionMode]


def generate_command(random: Random) -> str:
    parts = [
        random.choice(ASSIGNMENTS)
        + random.choice(WRAPPINGS)
        + random.choice(PROGRAMS)
        + random.choice(REDIRECTS)
        for _ in range(random.choice([1, 1, 1, 2, 2, 3]))
    ]
    text = parts[0]
    for part in parts[1:]:
        text += random.choice(OPERATORS) + part
    return random.choice(["{}", "{}", "{}", "{}", "({})", "echo $({})"]).format(text)


def generate_call(random: Random) -> dict[str, Any]:
    kind = random.choice(["Bash", "Bash", "Bash", "file", "file", "mcp"])
    if kind == "Bash":
        timeout = random.choice([{}, {}, {"timeout": 7}])
        return {"tool": "Bash", "input": {"command": generate_command(random), **timeout}}
    if kind == "file":
        tool = random.choice(["Read", "Edit", "Write"])
        return {"tool": tool, "input": {"file_path": random.choice(FILES)}}
    arguments = random.choice([{}, {"branch": "main"}, {"branch": "other"}, {"branch": 3}])
    return {"tool": random.choice(TOOLS), "input": arguments}


def generate_rule(random: Random, effect: str) -> str:
    kind = random.choice(["Bash", "Bash", "Read", "Edit", "name"])
    if kind == "Bash":
        return f"Bash({random.choice(COMMAND_SPECS)})"
    if kind != "name":
        # The reference does not decide about a `cd` into a directory that must not be read.
        whole = effect == "allow" or kind == "Edit"
        return f"{kind}({random.choice([*PATH_SPECS, '**', '//**'] if whole else PATH_SPECS)})"
    return random.choice(NAMES if effect == "allow" else [*NAMES, *STRICT_NAMES])


def generate_settings(random: Random) -> dict[str, Any]:
    sizes = {"allow": [0, 1, 2, 4], "ask": [0, 0, 0, 1], "deny": [0, 0, 0, 1, 2]}
    lists = {
        effect: [generate_rule(random, effect) for _ in range(random.choice(counts))]
        for effect, counts in sizes.items()
    }
    flags = {
        name: True for name in ("blockReads", "blockWrites", "quiet") if random.random() < 0.07
    }
    return {**lists, **flags, "mode": random.choice(["default", "default", *MODES])}


def build_policy(chosen: dict[str, Any]) -> Policy:
    rules = [
        RuleText(Effect[effect.upper()], text, SETTINGS, 1, LayerKind.USER, Path(CONFIG))
        for effect in ("allow", "ask", "deny")
        for text in chosen[effect]
    ]
    found = Settings(
        rules=RuleSettings(texts=tuple(rules)),
        permissions=PermissionSettings(
            block_reads_outside=chosen.get("blockReads", False),
            block_writes_outside=chosen.get("blockWrites", False),
            deny_instead_of_prompting=chosen.get("quiet", False),
        ),
    )
    mode = PermissionMode(chosen["mode"])
    return Policy(found, [Path(WORKSPACE)], [], mode, home=Path(HOME))


def build_subject(made: dict[str, Any]) -> Subject:
    tool, arguments = made["tool"], dict(made["input"])
    if "file_path" in arguments:
        arguments["file_path"] = policy_reference.absolute(arguments["file_path"])
    server = tool.split("__")[1] if tool.startswith("mcp__") else None
    return Subject(tool, tool, server, arguments, made["input"], Path(WORKSPACE))


def build_hook_vote(effect: str) -> Vote:
    return Vote(Tier.ALLOW, Effect[effect.upper()], "a hook", Origin("hook"))


def test_policy_and_reference_agree_on_random_settings_and_calls():
    seed = int(os.environ.get("MCP_DISPATCH_SEED", "20261118"))
    random = Random(seed)
    differing: list[tuple[str, str, object, object, list[str]]] = []
    told: dict[str, int] = {}

    for _ in range(PAIRS // 10):
        chosen = generate_settings(random)
        policy = build_policy(chosen)
        for _ in range(10):
            made, hooks = (
                generate_call(random),
                random.choice([[], [], [], ["allow"], ["ask"], ["deny"]]),
            )
            ours = policy.evaluate(
                build_subject(made), hook_votes=map(build_hook_vote, hooks)
            ).effect
            theirs = policy_reference.decide(chosen, made, hooks)
            told[theirs] = told.get(theirs, 0) + 1
            if ours.name.lower() != theirs:
                differing.append((ours.name.lower(), theirs, made, chosen, hooks))

    assert differing[:3] == []
    assert min(told.values()) > PAIRS / 20
    assert set(told) == {"allow", "ask", "deny"}


def test_the_reference_is_short_and_shares_no_code():
    text = Path(policy_reference.__file__).read_text(encoding="utf-8")
    imported = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom | ast.Import)
    ]

    assert imported == ["re", "collections.abc", "dataclasses", "posixpath", "typing"]
    assert _count_lines_of_code(text) <= 150


def _count_lines_of_code(text: str) -> int:
    """Count lines without blank lines and docstrings."""
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    said = [
        len((ast.get_docstring(node, clean=False) or "").splitlines())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented)
    ]
    blank_in_docstring = 1
    return sum(1 for line in text.splitlines() if line.strip()) - sum(said) + blank_in_docstring
