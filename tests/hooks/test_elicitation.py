"""Hooks around a question of an upstream's: real scripts answer in place of a person, or after."""

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

ASKED, ANSWERED = "Elicitation", "ElicitationResult"
QUESTION: JsonObject = {
    "mode": "form",
    "message": "Which one?",
    "requestedSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
}
ACCEPTED: JsonObject = {"action": "accept", "content": {"x": "mine"}}


@dataclass(frozen=True)
class Desk:
    """Scripts in a folder that are told of questions."""

    children: ProcessGroup
    folder: Path

    @property
    def circumstances(self) -> HookContext:
        return HookContext("s-1", self.folder / "journal.jsonl", self.folder, "default")

    def hooks(self, event: str, *commands: str, matcher: str = "github") -> Hooks:
        listed: list[Json] = [{"type": "command", "command": command} for command in commands]
        raw: Json = {event: [{"matcher": matcher, "hooks": listed}]}
        config, problems = parse_hooks([HookSource(raw, self.folder / "settings.json")])
        assert problems == ()
        return Hooks(config, self.children, os.environ)

    async def asked(self, *commands: str, server: str = "github") -> JsonObject | None:
        with anyio.fail_after(30):
            hooks = self.hooks(ASKED, *commands)
            return await hooks.run_elicitation(server, QUESTION, self.circumstances)

    async def answered(self, answer: JsonObject, *commands: str) -> JsonObject:
        with anyio.fail_after(30):
            hooks = self.hooks(ANSWERED, *commands)
            return await hooks.run_elicitation_result(
                "github", QUESTION, answer, self.circumstances
            )


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with ProcessGroup() as children:
        yield Desk(children, tmp_path)


def says(event: str, code: int = 0, **fields: Json) -> str:
    document = json.dumps({"hookSpecificOutput": {"hookEventName": event, **fields}})
    return f"printf '%s' '{document}'; exit {code}"


async def test_a_hook_answers_in_place_of_a_person(desk: Desk) -> None:
    reply = await desk.asked(says(ASKED, action="accept", content={"x": "y"}))

    assert reply == {"action": "accept", "content": {"x": "y"}}


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_one_no_among_several_answers_is_a_no(desk: Desk, action: str) -> None:
    yes = says(ASKED, action="accept", content={"x": "y"})

    assert await desk.asked(says(ASKED, action=action), yes) == {"action": action}


async def test_of_several_yeses_the_last_stands(desk: Desk) -> None:
    first, last = (says(ASKED, action="accept", content={"x": each}) for each in "ab")

    assert await desk.asked(first, last) == {"action": "accept", "content": {"x": "b"}}


@pytest.mark.parametrize(
    "command",
    ["true", "exit 1", "kill -9 $$", "echo '{'", "echo yes", "./missing", "echo '{}'"],
)
async def test_a_hook_that_does_not_answer_leaves_the_question_to_a_person(
    desk: Desk, command: str
) -> None:
    assert await desk.asked(command) is None


async def test_exit_2_declines_whatever_was_printed(desk: Desk) -> None:
    yes = says(ASKED, 2, action="accept", content={"x": "y"})

    assert await desk.asked(yes) == {"action": "decline"}
    assert await desk.answered(ACCEPTED, "exit 2") == {"action": "decline"}


async def test_a_hook_for_another_server_is_not_asked(desk: Desk) -> None:
    yes = says(ASKED, action="accept", content={})

    assert await desk.asked(f"touch ran; {yes}", server="gitlab") is None
    assert not (desk.folder / "ran").exists()


async def test_a_hook_is_told_the_question(desk: Desk) -> None:
    await desk.asked("cat > told")

    assert json.loads((desk.folder / "told").read_text("utf-8")) == {
        "session_id": "s-1",
        "transcript_path": str(desk.folder / "journal.jsonl"),
        "cwd": str(desk.folder),
        "permission_mode": "default",
        "hook_event_name": "Elicitation",
        "mcp_server_name": "github",
        "message": "Which one?",
        "mode": "form",
        "requested_schema": QUESTION["requestedSchema"],
    }


async def test_a_hook_is_told_the_answer(desk: Desk) -> None:
    assert await desk.answered(ACCEPTED, "cat > told") == ACCEPTED

    assert json.loads((desk.folder / "told").read_text("utf-8")) == {
        "session_id": "s-1",
        "transcript_path": str(desk.folder / "journal.jsonl"),
        "cwd": str(desk.folder),
        "permission_mode": "default",
        "hook_event_name": "ElicitationResult",
        "mcp_server_name": "github",
        "action": "accept",
        "content": {"x": "mine"},
        "mode": "form",
    }


async def test_a_hook_changes_what_a_person_accepted_or_takes_it_back(desk: Desk) -> None:
    other = says(ANSWERED, action="accept", content={"x": "other"})

    assert await desk.answered(ACCEPTED, other) == {"action": "accept", "content": {"x": "other"}}
    assert await desk.answered(ACCEPTED, says(ANSWERED, action="cancel")) == {"action": "cancel"}


async def test_no_hook_accepts_what_a_person_refused(desk: Desk) -> None:
    yes = says(ANSWERED, action="accept", content={"x": "y"})

    assert await desk.answered({"action": "decline"}, yes) == {"action": "decline"}
