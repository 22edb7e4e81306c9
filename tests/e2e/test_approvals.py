"""Approval questions to real clients of both eras, and to an attached terminal."""

import json
import os
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult

from mcp_dispatch.approval.socket_client import ApprovalClient, connect_to_server
from mcp_dispatch.approval.socket_protocol import list_sockets
from mcp_dispatch.model.approval import Declined
from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.layers import locate_own_file
from tests.support.client import (
    ERAS,
    Era,
    Installation,
    RawServer,
    build_tools_call,
    extract_text,
    start_raw_server,
)
from tests.support.home import Home
from tests.support.paths import SUPPORT
from tests.support.stand_ins import ScriptedCaller

GUEST = SUPPORT / "approvals_peer.py"
TOUCH: dict[str, Any] = {"command": "touch made && echo yes"}
YES: JsonObject = {"permission": {"action": "accept", "content": {"decision": "allow once"}}}


class Person:
    """Who answers the client's form, and what else happens before they do."""

    def __init__(
        self, decision: str, before: Callable[[], Awaitable[None]] | None = None, **more: str
    ) -> None:
        self._content: dict[str, Any] = {"decision": decision, **more}
        self._before = before
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        if self._before is not None:
            await self._before()
        return ElicitResult(action="accept", content=self._content)


@asynccontextmanager
async def attach_terminal(installed: Installation) -> AsyncGenerator[ApprovalClient, None]:
    async with connect_to_server(list_sockets(installed.state / "run")[0]) as line:
        yield line


async def cli(installed: Installation, *words: str, check: bool = True) -> str:
    """`mcp-dispatch approvals …`, run by the person at this machine."""
    command = [sys.executable, "-m", "mcp_dispatch", "approvals", *words]
    where = ["--state-dir", str(installed.state)]
    with anyio.fail_after(60):
        done = await anyio.run_process([*command, *where], check=check, env=installed.environ)
    return done.stdout.decode() + done.stderr.decode()


def own(installed: Installation) -> Path:
    return locate_own_file(installed.config, installed.workspace.resolve())


async def until_denied(client: Client) -> None:
    """Returns once the server goes by the new rules, which deny reading `marker`."""
    with anyio.fail_after(30):
        while not (await client.call_tool("Read", {"file_path": "marker"})).is_error:
            pass


@pytest.mark.parametrize("era", ERAS)
async def test_always_allow_asks_no_more_and_writes_nothing_into_the_workspace(
    installed: Installation, era: Era
) -> None:
    session, always = Person("allow for this session"), Person("always allow")
    async with installed.open_client(era, elicitation_callback=session.answer) as client:
        first = await client.call_tool("Bash", TOUCH)
        second = await client.call_tool("Bash", TOUCH)
    unwritten = own(installed).exists()
    async with installed.open_client(era, elicitation_callback=always.answer) as client:
        third = await client.call_tool("Bash", TOUCH)
        fourth = await client.call_tool("Bash", TOUCH)

    assert [extract_text(each) for each in (first, second, third, fourth)] == ["yes"] * 4
    assert (len(session.asked), len(always.asked), unwritten) == (1, 1, False)
    assert session.asked[0].endswith(
        '"allow for this session" and "always allow" add: Bash(touch made:*)\n'
        f'"always allow" writes it to {own(installed)}'
    )
    assert json.loads(own(installed).read_text(encoding="utf-8")) == {
        "permissions": {"allow": ["Bash(touch made:*)"]}
    }
    assert stat.S_IMODE(own(installed).stat().st_mode) == 0o600
    assert [path.name for path in installed.workspace.iterdir()] == ["made"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_rule_that_denies_by_the_time_of_the_answer_denies(
    installed: Installation, era: Era
) -> None:
    installed.write_file("marker", "x")
    clients: list[Client] = []

    async def the_rules_change() -> None:
        path = installed.config / "settings.json"
        rules = {"permissions": {"deny": ["Bash(touch:*)", "Read(./marker)"]}}
        path.write_text(json.dumps(rules), encoding="utf-8")
        await until_denied(clients[0])

    person = Person("always allow", before=the_rules_change)
    async with installed.open_client(era, elicitation_callback=person.answer) as client:
        clients.append(client)
        with anyio.fail_after(60):
            result = await client.call_tool("Bash", TOUCH)

    assert "a deny rule forbids it (Bash(touch:*)" in extract_text(result)
    assert not (installed.workspace / "made").exists()
    assert not own(installed).exists()


@pytest.mark.parametrize("era", ERAS)
async def test_other_calls_run_while_a_question_is_open(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    clients: list[Client] = []
    written: list[str] = []

    async def another_call() -> None:
        result = await clients[0].call_tool("Write", {"file_path": "w", "content": "w"})
        written.append(extract_text(result))

    person = Person("allow once", before=another_call)
    async with installed.open_client(era, elicitation_callback=person.answer) as client:
        clients.append(client)
        with anyio.fail_after(60):
            result = await client.call_tool("Bash", {"command": "cp w copied && echo yes"})

    assert extract_text(result) == "yes"
    assert "created" in written[0]


async def test_a_form_without_an_answer_in_time_denies(installed: Installation) -> None:
    installed.add_settings({"dispatch": {"approvals": {"timeoutSeconds": 0.3}}})
    person = Person("allow once", before=anyio.sleep_forever)

    async with installed.open_client("legacy", elicitation_callback=person.answer) as client:
        with anyio.fail_after(60):
            result = await client.call_tool("Bash", TOUCH)

    assert "nobody answered the question within 0.3 seconds" in extract_text(result)
    assert not (installed.workspace / "made").exists()


async def test_a_call_that_is_cancelled_while_a_form_is_open_runs_nothing(
    installed: Installation,
) -> None:
    asked = anyio.Event()

    async def wait() -> None:
        asked.set()
        await anyio.sleep_forever()

    person = Person("allow once", before=wait)
    async with installed.open_client("legacy", elicitation_callback=person.answer) as client:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "Bash", TOUCH)
                await asked.wait()
                tasks.cancel_scope.cancel()
            after = await client.call_tool("Bash", {"command": "pwd"})

    assert not after.is_error
    assert not (installed.workspace / "made").exists()
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled", "completed"]


def modern(id: int, command: str, *, elicits: bool = True, **more: Json) -> JsonObject:
    """A `tools/call` of 2026-07-28, as it stands on the wire."""
    call = build_tools_call(id, "Bash", command=command)
    params = call["params"]
    assert isinstance(params, dict)
    capabilities: JsonObject = {"elicitation": {"form": {}}} if elicits else {}
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    }
    params.update(more)
    return call


async def exchange(server: RawServer, call: JsonObject) -> dict[str, Any]:
    await server.send(call)
    with anyio.fail_after(60):
        return await server.answer(call["id"])


async def test_a_state_works_once_for_the_call_it_was_given_to(installed: Installation) -> None:
    """Tampered, for other arguments, used before, or left out: nothing of that runs a thing."""
    command, ran = "echo x >> ran", installed.workspace / "ran"
    async with start_raw_server(installed) as server:
        asked = await exchange(server, modern(1, command))
        state: str = asked["result"]["requestState"]
        middle = len(state) // 2
        forged = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
        tampered = await exchange(
            server, modern(2, command, requestState=forged, inputResponses=YES)
        )
        changed = await exchange(
            server, modern(3, "echo y >> ran", requestState=state, inputResponses=YES)
        )
        stateless = await exchange(server, modern(4, command, inputResponses=YES))
        before = ran.exists()
        good = await exchange(server, modern(5, command, requestState=state, inputResponses=YES))
        replayed = await exchange(
            server, modern(6, command, requestState=state, inputResponses=YES)
        )
        mute = await exchange(server, modern(7, command, elicits=False))

    assert asked["result"]["resultType"] == "input_required"
    assert [each["error"]["code"] for each in (tampered, changed)] == [-32602, -32602]
    assert stateless["result"]["resultType"] == "input_required"
    assert not before
    assert good["result"]["resultType"] == "complete"
    assert replayed["result"]["resultType"] == "input_required"
    assert "this client cannot be asked" in mute["result"]["content"][0]["text"]
    assert ran.read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize("era", ERAS)
async def test_without_elicitation_a_person_answers_on_the_command_line(
    installed: Installation, era: Era
) -> None:
    async with installed.open_client(era) as client:
        first = await client.call_tool("Bash", TOUCH)
        listed = json.loads(await cli(installed, "--json"))["questions"]
        said = await cli(installed, "answer", listed[0]["id"], "allow")
        second = await client.call_tool("Bash", TOUCH)
        third = await client.call_tool("Bash", TOUCH)

    assert extract_text(first) == (
        "<tool_use_error>Permission to use Bash was not given: no rule covers this (permission "
        "mode default); this client cannot be asked. The user can answer with `mcp-dispatch "
        f"approvals --state-dir {installed.state}` in a terminal within 10 minutes; make exactly "
        'the same call again after that. To allow it, add to "permissions" in settings.json: '
        '"allow": ["Bash(touch made:*)", "Bash(echo yes:*)"].</tool_use_error>'
    )
    assert [(each["tool"], each["call"], each["choices"], each["waits"]) for each in listed] == [
        (
            "Bash",
            ["command: touch made && echo yes"],
            ["allow", "session", "always", "deny"],
            False,
        )
    ]
    assert said == f"{listed[0]['id']}: allowed (once)\n"
    assert extract_text(second) == "yes"
    assert "this client cannot be asked" in extract_text(third)


async def test_a_denial_on_the_command_line_reaches_the_model_with_its_reason(
    installed: Installation,
) -> None:
    async with installed.open_client() as client:
        await client.call_tool("Bash", TOUCH)
        shown = await cli(installed, "--once")
        id = shown.split()[0]
        said = await cli(installed, "answer", id, "deny", "--reason", "use make")
        twice = await cli(installed, "answer", id, "allow", check=False)
        result = await client.call_tool("Bash", TOUCH)

    assert "  command: touch made && echo yes\n" in shown
    assert shown.endswith(f"  mcp-dispatch approvals answer {id} allow|session|always|deny\n")
    assert said == f"{id}: denied\n"
    assert "no server asks this" in twice
    assert "the user refused: use make" in extract_text(result)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_waits_for_an_attached_terminal(installed: Installation, era: Era) -> None:
    results, answers, waited = list[str](), list[str | None](), list[bool]()
    async with installed.open_client(era) as client:
        await client.list_tools()

        async def call() -> None:
            results.append(extract_text(await client.call_tool("Bash", TOUCH)))

        with anyio.fail_after(60):
            async with (
                attach_terminal(installed) as watching,
                attach_terminal(installed) as answering,
            ):
                changes = watching.watch()
                waited += [question.is_call_waiting for question in await anext(changes)]
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    [question] = await anext(changes)
                    waited.append(question.is_call_waiting)
                    answers.append(await answering.answer(question.id, "always"))
                    answers.append(await answering.answer(question.id, "deny"))
                await changes.aclose()
        again = await client.call_tool("Bash", TOUCH)

    assert waited == [True]
    assert answers[0] is None
    assert answers[1] is not None
    assert [entry.get("approved") for entry in installed.read_journal()] == [
        {"by": "terminal", "extent": "always"},
        None,
    ]
    assert (results, extract_text(again)) == (["yes"], "yes")
    assert own(installed).exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_removes_its_question_from_the_terminal(
    installed: Installation, era: Era
) -> None:
    ids: list[str] = []
    async with installed.open_client(era) as client:
        await client.list_tools()
        with anyio.fail_after(60):
            async with (
                attach_terminal(installed) as watching,
                attach_terminal(installed) as answering,
            ):
                changes = watching.watch()
                await anext(changes)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "Bash", TOUCH)
                    ids += [question.id for question in await anext(changes)]
                    tasks.cancel_scope.cancel()
                withdrawn = await anext(changes)
                late = await answering.answer(ids[0], "once")
                await changes.aclose()

    assert withdrawn == []
    assert late == "the question is gone: it was answered, withdrawn or too old"
    assert not (installed.workspace / "made").exists()
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled"]


async def test_a_command_that_a_model_runs_cannot_answer_questions(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["Bash"])
    guest = f"{sys.executable} {GUEST} {installed.state}/run/*.sock"
    async with installed.open_client() as client:
        command = await client.call_tool("Bash", {"command": "mcp-dispatch approvals --once"})
        script = installed.write_file("answer.sh", guest)
        tried = await client.call_tool("Bash", {"command": f"sh {script.name}"})
        hidden = await client.call_tool(
            "Bash", {"command": f"env -i PATH=$PATH setsid sh {script.name}"}
        )
        sneaked = installed.write_file(
            "sneak.sh", f"{sys.executable} -m mcp_dispatch approvals --once"
        )
        ran = await client.call_tool("Bash", {"command": f"sh {sneaked.name}"})

    assert "the command runs mcp-dispatch itself" in extract_text(command)
    assert '"refused":"it was started by an mcp-dispatch server"' in extract_text(tried)
    assert '"refused":"it was started by an mcp-dispatch server"' in extract_text(hidden)
    assert "`approvals` is for a person" in extract_text(ran)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere an orphan's line is lost")
async def test_a_detached_command_without_its_environment_mark_is_rejected(
    installed: Installation,
) -> None:
    installed.add_rules(allow=["Bash"])
    said = installed.workspace / "said"
    os.mkfifo(said)
    guest = f"{sys.executable} {GUEST} {installed.state}/run/*.sock > {said}"
    installed.write_file("leave.sh", f"(setsid env -i sh -c '{guest}' > /dev/null 2>&1 &)")
    async with installed.open_client() as client:
        left = await client.call_tool("Bash", {"command": "sh leave.sh"})
        with anyio.fail_after(60):
            heard = await anyio.Path(said).read_text(encoding="utf-8")

    assert not left.is_error
    assert json.loads(heard) == {"refused": "it was started by an mcp-dispatch server"}


async def test_the_questions_of_a_killed_server_disappear(installed: Installation) -> None:
    async with start_raw_server(installed) as server:
        await server.handshake()
        await server.call(1, "Bash", command="touch a")
        with anyio.fail_after(60):
            await server.answer(1)
        [question] = json.loads(await cli(installed, "--json"))["questions"]
        server.child.kill()
        await server.child.wait()
    [left] = list_sockets(installed.state / "run")
    async with start_raw_server(installed) as server:
        await server.handshake()
        [fresh] = list_sockets(installed.state / "run")
        gone = await cli(installed, "answer", question["id"], "allow", check=False)

    assert fresh != left
    assert "no server asks this: it was answered, withdrawn or too old" in gone
    assert list_sockets(installed.state / "run") == []


async def test_always_allow_ends_when_the_definition_of_the_tool_changes(
    installed: Installation,
) -> None:
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")
    path = own(installed)
    path.parent.mkdir(parents=True)
    rules = ["mcp__demo__recall", "mcp__demo__roll_dice"]
    path.write_text(
        json.dumps(
            {
                "permissions": {"allow": rules},
                "approvedDefinitions": {"mcp__demo__roll_dice": "of another tool"},
            }
        ),
        encoding="utf-8",
    )
    person = Person("always allow")
    async with installed.open_client(elicitation_callback=person.answer) as client:
        recalled = await client.call_tool("demo__recall", {})
        rolled = await client.call_tool("demo__roll_dice", {"sides": 6})
        again = await client.call_tool("demo__roll_dice", {"sides": 6})

    assert not recalled.is_error
    assert not rolled.is_error
    assert not again.is_error
    assert len(person.asked) == 1
    assert person.asked[0].startswith("Allow mcp__demo__roll_dice?")
    assert json.loads(path.read_text(encoding="utf-8"))["permissions"]["allow"] == rules


async def test_always_allow_is_not_offered_with_managed_rules_only(tmp_path: Path) -> None:
    home, caller = Home(tmp_path), ScriptedCaller(reply=Declined("no"))
    call = ToolCall("call", "call", "Bash", {"command": "make"})
    async with home.app() as running:
        await running.app.dispatcher.dispatch(call, running.app.scope, caller)
    home.write(home.managed / "settings.json", {"allowManagedPermissionRulesOnly": True})
    async with home.app() as running:
        await running.app.dispatcher.dispatch(call, running.app.scope, caller)

    free, managed = [question.options for question in caller.questions]
    assert (free.rules, managed.rules) == (("Bash(make:*)",), ("Bash(make:*)",))
    assert free.file == locate_own_file(home.user.parent, home.root.resolve())
    assert managed.file is None
