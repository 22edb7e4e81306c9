"""Tests of Elicitation and ElicitationResult hooks, with real scripts."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.processes.children import ProcessGroup

REQUEST, RESULT = "Elicitation", "ElicitationResult"
QUESTION: JsonObject = {
    "mode": "form",
    "message": "Which one?",
    "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
}
ACCEPTED: JsonObject = {"action": "accept", "content": {"x": "mine"}}


@dataclass(frozen=True)
class HookFixture:
    """Runs commands in a folder as elicitation hooks."""

    children: ProcessGroup
    folder: Path

    @property
    def context(self) -> HookContext:
        return HookContext("s-1", self.folder / "journal.jsonl", self.folder, "default")

    def build_hooks(self, event: str, *commands: str, matcher: str = "github") -> Hooks:
        handlers: list[Json] = [{"type": "command", "command": command} for command in commands]
        raw: Json = {event: [{"matcher": matcher, "hooks": handlers}]}
        config, problems = parse_hooks([HookSource(raw, self.folder / "settings.json")])
        assert problems == ()
        return Hooks(config, self.children, os.environ)

    async def run_elicitation(self, *commands: str, server: str = "github") -> JsonObject | None:
        with anyio.fail_after(30):
            hooks = self.build_hooks(REQUEST, *commands)
            return await hooks.run_elicitation(server, QUESTION, self.context)

    async def run_elicitation_result(self, answer: JsonObject, *commands: str) -> JsonObject:
        with anyio.fail_after(30):
            hooks = self.build_hooks(RESULT, *commands)
            return await hooks.run_elicitation_result("github", QUESTION, answer, self.context)


@pytest.fixture
async def fixture(tmp_path: Path) -> AsyncIterator[HookFixture]:
    async with ProcessGroup() as children:
        yield HookFixture(children, tmp_path)


def build_print_command(event: str, code: int = 0, **fields: Json) -> str:
    document = json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})
    return f"printf '%s' '{document}'; exit {code}"


async def test_a_hook_answers_an_elicitation_instead_of_the_user(fixture: HookFixture) -> None:
    reply = await fixture.run_elicitation(
        build_print_command(REQUEST, action="accept", content={"x": "y"})
    )

    assert reply == {"action": "accept", "content": {"x": "y"}}


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_one_decline_or_cancel_wins_over_an_accept(fixture: HookFixture, action: str) -> None:
    accept = build_print_command(REQUEST, action="accept", content={"x": "y"})

    assert await fixture.run_elicitation(build_print_command(REQUEST, action=action), accept) == {
        "action": action
    }


async def test_the_last_of_several_accepts_wins(fixture: HookFixture) -> None:
    first, last = (
        build_print_command(REQUEST, action="accept", content={"x": value}) for value in "ab"
    )

    assert await fixture.run_elicitation(first, last) == {"action": "accept", "content": {"x": "b"}}


@pytest.mark.parametrize(
    "command",
    ["true", "exit 1", "kill -9 $$", "echo '{'", "echo yes", "./missing", "echo '{}'"],
)
async def test_an_elicitation_goes_to_the_user_if_no_hook_answers_it(
    fixture: HookFixture, command: str
) -> None:
    assert await fixture.run_elicitation(command) is None


async def test_exit_code_2_declines_regardless_of_stdout(fixture: HookFixture) -> None:
    accept = build_print_command(REQUEST, 2, action="accept", content={"x": "y"})

    assert await fixture.run_elicitation(accept) == {"action": "decline"}
    assert await fixture.run_elicitation_result(ACCEPTED, "exit 2") == {"action": "decline"}


async def test_a_hook_for_another_server_does_not_run(fixture: HookFixture) -> None:
    accept = build_print_command(REQUEST, action="accept", content={})

    assert await fixture.run_elicitation(f"touch ran; {accept}", server="gitlab") is None
    assert not (fixture.folder / "ran").exists()


async def test_an_elicitation_hook_receives_the_request(fixture: HookFixture) -> None:
    await fixture.run_elicitation("cat > input.json")

    assert json.loads((fixture.folder / "input.json").read_text("utf-8")) == {
        "session_id": "s-1",
        "transcript_path": str(fixture.folder / "journal.jsonl"),
        "cwd": str(fixture.folder),
        "permission_mode": "default",
        "hook_event_name": "Elicitation",
        "mcp_server_name": "github",
        "message": "Which one?",
        "mode": "form",
        "requested_schema": QUESTION["requestedSchema"],
    }


async def test_an_elicitation_result_hook_receives_the_result(fixture: HookFixture) -> None:
    assert await fixture.run_elicitation_result(ACCEPTED, "cat > input.json") == ACCEPTED

    assert json.loads((fixture.folder / "input.json").read_text("utf-8")) == {
        "session_id": "s-1",
        "transcript_path": str(fixture.folder / "journal.jsonl"),
        "cwd": str(fixture.folder),
        "permission_mode": "default",
        "hook_event_name": "ElicitationResult",
        "mcp_server_name": "github",
        "action": "accept",
        "content": {"x": "mine"},
        "mode": "form",
    }


async def test_a_hook_replaces_or_cancels_the_accepted_content(fixture: HookFixture) -> None:
    replace = build_print_command(RESULT, action="accept", content={"x": "other"})

    assert await fixture.run_elicitation_result(ACCEPTED, replace) == {
        "action": "accept",
        "content": {"x": "other"},
    }
    assert await fixture.run_elicitation_result(
        ACCEPTED, build_print_command(RESULT, action="cancel")
    ) == {"action": "cancel"}


async def test_a_hook_cannot_accept_what_the_user_declined(fixture: HookFixture) -> None:
    accept = build_print_command(RESULT, action="accept", content={"x": "y"})

    assert await fixture.run_elicitation_result({"action": "decline"}, accept) == {
        "action": "decline"
    }
