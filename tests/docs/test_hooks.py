"""The steps of the page on hooks work as written, with a real client in both eras."""

import json
import re
from pathlib import Path

import pytest

from mcp_dispatch.hooks.config import HookSource, parse_hooks
from tests.support.client import ERAS, Era, Installation, extract_text
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    """The code behind the comment `<!-- name -->`."""
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.+?)\n```", PAGE, re.DOTALL)
    assert found is not None, f"docs/hooks.md has no block {name!r}"
    return found.group(1)


@pytest.mark.parametrize("era", ERAS)
async def test_the_first_example_guards_every_call_of_bash(
    installed: Installation, era: Era
) -> None:
    installed.add_settings(json.loads(block("settings")))
    installed.write_file("no-secrets.py", block("script"))

    async with installed.open_client(era) as client:
        refused = await client.call_tool("Bash", {"command": "echo my password is hunter2"})
        done = await client.call_tool("Bash", {"command": "echo hello"})

    shown = re.sub(r"in \S+\.json", "in settings.json", extract_text(refused))
    assert (shown, refused.is_error) == (block("answer"), True)
    assert (extract_text(done), done.is_error) == ("hello", False)
    events = [entry["event"] for entry in installed.read_journal() if "event" in entry]
    assert events == ["hook_permission_decision", "stop_hook_summary", "stop_hook_summary"]


@pytest.mark.parametrize("text", re.findall(r"```json\n(.+?)\n```", PAGE, re.DOTALL))
def test_every_example_is_parsed_without_a_problem(text: str) -> None:
    config, problems = parse_hooks([HookSource(json.loads(text)["hooks"], Path("settings.json"))])

    assert problems == ()
    assert config.hooks
