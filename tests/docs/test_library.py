"""The examples of the page on the library run as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.support.client import BUILT_INS
from tests.support.model_api import serve_model_api, text, use
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
SETTINGS = '{"permissions": {"allow": ["Bash(tee:*)"]}}'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a user with settings of their own and nothing else."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "settings.json").write_text(SETTINGS, encoding="utf-8")
    return {
        **os.environ,
        "MCP_DISPATCH_CONFIG_DIR": str(config),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "HOME": str(tmp_path / "home"),
        "ANTHROPIC_API_KEY": "none",
        "MODEL": "scripted",
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "notes.md").write_text("tea\n", encoding="utf-8")
    return folder


def test_the_agent_of_the_page_is_the_example_and_has_thirty_lines() -> None:
    page = (DOCS / "library.md").read_text(encoding="utf-8")
    example = (EXAMPLES / "agent.py").read_text(encoding="utf-8")
    found = re.search(r"<!-- agent -->\n```python\n(.+?)```", page, re.DOTALL)

    assert found is not None
    assert found.group(1) == example
    loop = example[example.index("async def") :]
    assert len([line for line in loop.splitlines() if line.strip()]) <= 30


async def test_the_agent_calls_tools_while_the_model_is_still_writing(
    workspace: Path, environ: dict[str, str]
) -> None:
    os.mkfifo(workspace / "heard")

    async def until_the_call_runs() -> None:
        async with await anyio.open_file(workspace / "heard") as pipe:
            assert await pipe.read() == "now\n"

    async with serve_model_api(
        [
            text("Let me look."),
            use("toolu_1", "Bash", command="echo now | tee heard"),
            until_the_call_runs,
            use("toolu_2", "Read", file_path="notes.md"),
            use("toolu_3", "Nope"),
        ],
        [text("There is tea.")],
    ) as api:
        with anyio.fail_after(60):
            done = await anyio.run_process(
                [sys.executable, str(EXAMPLES / "agent.py"), "What do I need?"],
                cwd=workspace,
                env={**environ, "ANTHROPIC_BASE_URL": api.url},
            )

    assert done.stdout.decode() == "There is tea.\n"
    first, second = api.requests
    assert [tool["name"] for tool in first["tools"]] == list(BUILT_INS)
    assert first["messages"] == [{"role": "user", "content": "What do I need?"}]
    assert second["messages"][1]["content"] == [
        text("Let me look."),
        use("toolu_1", "Bash", command="echo now | tee heard"),
        use("toolu_2", "Read", file_path="notes.md"),
        use("toolu_3", "Nope"),
    ]
    results = second["messages"][2]["content"]
    assert [result["tool_use_id"] for result in results] == ["toolu_1", "toolu_2", "toolu_3"]
    assert [result.get("is_error", False) for result in results] == [False, False, True]
    assert "tea" in results[1]["content"][0]["text"]


def run(
    example: str, *arguments: str, cwd: Path, environ: dict[str, str], typed: str = ""
) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=cwd,
        env=environ,
        input=typed,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_example_of_one_message_runs(workspace: Path, environ: dict[str, str]) -> None:
    said = run("one_message.py", cwd=workspace, environ=environ)

    assert said[0].startswith("toolu_1 done: ")
    assert said[0].endswith("notes.md")
    assert said[1] == f"toolu_2 done: {workspace}"
    assert said[2].startswith("toolu_3 failed: <tool_use_error>")


@pytest.mark.parametrize(
    ("typed", "last"), [("y", "yes"), ("not today", "the user refused: not today")]
)
def test_the_example_of_an_approval_runs(
    workspace: Path, environ: dict[str, str], typed: str, last: str
) -> None:
    command = "touch made && echo yes"

    said = run("approve.py", command, cwd=workspace, environ=environ, typed=f"{typed}\n")

    assert said[0] == f"Allow Bash {{'command': '{command}'}}?"
    assert last in said[-1]
    assert (workspace / "made").exists() is (typed == "y")
