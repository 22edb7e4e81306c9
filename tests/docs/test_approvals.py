"""The steps of the page on approvals work as written."""

import re
import subprocess
import sys

import anyio
from anyio import to_thread

from mcp_dispatch.settings.layers import locate_own_file
from tests.support.client import Installation, extract_text
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "approvals.md"


def dialogue() -> list[tuple[str, str]]:
    """The commands of the page's first block, each with what it prints."""
    found = re.search(r"<!-- terminal -->\n```console\n(.+?)```", PAGE.read_text("utf-8"), re.S)
    assert found is not None
    parts = re.split(r"^\$ (.+)\n", found.group(1), flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def typed(installed: Installation, command: str) -> str:
    words = command.split()[1:]
    argv = [sys.executable, "-m", "mcp_dispatch", *words, "--state-dir", str(installed.state)]
    done = subprocess.run(
        argv, capture_output=True, encoding="utf-8", env=installed.environ, timeout=60, check=True
    )
    return done.stdout


async def test_the_terminal_works_as_the_page_describes(installed: Installation) -> None:
    (listing, listed), (answering, answered) = dialogue()
    async with installed.open_client() as client:
        refused = await client.call_tool("Bash", {"command": "npm test"})
        with anyio.fail_after(120):
            seen = await to_thread.run_sync(typed, installed, listing)
            id = seen.split()[0]
            pid = re.search(r"server (\d+)", seen)
            said = await to_thread.run_sync(typed, installed, answering.replace("b4f2c1", id))
        again = await client.call_tool("Bash", {"command": "npm test"})
        once_more = await client.call_tool("Bash", {"command": "npm test"})

    assert refused.is_error
    assert pid is not None
    root = installed.workspace.resolve()
    expected = (
        listed.replace("b4f2c1", id)
        .replace(
            "/home/ada/.config/mcp-dispatch/workspaces/0f3a.json",
            str(locate_own_file(installed.config, root)),
        )
        .replace("/home/ada/project", str(root))
        .replace("4711", pid.group(1))
    )
    assert seen == expected
    assert said == answered.replace("b4f2c1", id)
    assert "cannot be asked" not in extract_text(again)
    assert "cannot be asked" not in extract_text(once_more)
