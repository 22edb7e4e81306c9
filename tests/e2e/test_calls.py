"""Every built-in and an upstream tool, called by a real MCP client over stdio, in both eras."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp_types import ElicitResult

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import encode
from tests.support.client import (
    BUILT_INS,
    ERAS,
    Era,
    Installation,
    build_tools_call,
    extract_text,
    start_raw_server,
)
from tests.support.paths import UPSTREAMS

RAW = str(UPSTREAMS / "raw.py")

pytestmark = pytest.mark.parametrize("era", ERAS)


class Person:
    """Who answers the client's form."""

    def __init__(self, action: Any = "accept", **content: Any) -> None:
        self._answer = ElicitResult(action=action, content=content or None)
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self._answer


async def test_the_list_has_built_ins_first_and_upstream_tools_after(
    installed: Installation, era: Era
) -> None:
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")

    async with installed.open_client(era) as client:
        listed = await client.list_tools()

    assert [tool.name for tool in listed.tools] == [
        *BUILT_INS,
        *("call_tool", "tool_search"),
        *("demo__count_slowly", "demo__recall", "demo__remember", "demo__roll_dice"),
    ]


async def test_a_file_is_read_edited_and_written(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    path = installed.write_file("notes.txt", "one\r\ntwo\r\n")

    async with installed.open_client(era) as client:
        read = await client.call_tool("Read", {"file_path": "notes.txt"})
        edited = await client.call_tool(
            "Edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "2"}
        )
        written = await client.call_tool(
            "Write", {"file_path": "sub/new.txt", "content": "fresh\n"}
        )

    assert extract_text(read) == "     1\tone\n     2\ttwo"
    assert "-two\n+2" in extract_text(edited)
    assert path.read_bytes() == b"one\r\n2\r\n"
    assert not written.is_error
    assert (installed.workspace / "sub/new.txt").read_text(encoding="utf-8") == "fresh\n"


async def test_a_file_that_was_not_read_is_not_overwritten(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    path = installed.write_file("a.txt", "mine")

    async with installed.open_client(era) as client:
        refused = await client.call_tool("Write", {"file_path": "a.txt", "content": "theirs"})

    assert refused.is_error
    assert extract_text(refused) == (
        "<tool_use_error>File has not been read yet. "
        "Read it first before writing to it.</tool_use_error>"
    )
    assert path.read_text(encoding="utf-8") == "mine"


async def test_a_command_runs_in_the_directory_that_the_last_one_changed_to(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Bash"])
    installed.write_file("sub/x", "")

    async with installed.open_client(era) as client:
        first = await client.call_tool("Bash", {"command": "echo out; echo err >&2; cd sub"})
        second = await client.call_tool("Bash", {"command": "ls"})
        third = await client.call_tool("Bash", {"command": "exit 3"})

    assert (extract_text(first), extract_text(second)) == ("out\nerr", "x")
    assert third.is_error
    assert extract_text(third).startswith("Exit code 3")


async def test_an_upstream_tool_is_called_with_progress(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["mcp__demo"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with installed.open_client(era) as client:
        result = await client.call_tool("demo__count_slowly", {"to": 2}, progress_callback=note)

    assert extract_text(result) == "Counted to 2."
    assert seen == [(1, 2, "counted to 1"), (2, 2, "counted to 2")]


async def test_a_protocol_error_of_an_upstream_is_returned_unchanged(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["mcp__raw"])
    installed.add_upstream("raw", sys.executable, RAW)

    async with installed.open_client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(
                "raw__fail", {"code": -32042, "message": "not like this", "data": {"why": [None]}}
            )

    error = caught.value.error
    assert (error.code, error.message, error.data) == (-32042, "not like this", {"why": [None]})


async def test_an_unknown_tool_is_answered_with_the_nearest_names(
    installed: Installation, era: Era
) -> None:
    async with installed.open_client(era) as client:
        result = await client.call_tool("Raed", {})

    assert result.is_error
    assert extract_text(result) == (
        "<tool_use_error>No such tool available: 'Raed'; did you mean Read?</tool_use_error>"
    )


async def test_invalid_arguments_are_reported_with_their_paths_and_nothing_runs(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["mcp__demo"])
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo.upstream")

    async with installed.open_client(era) as client:
        own = await client.call_tool("Read", {"file_path": 7})
        theirs = await client.call_tool("demo__remember", {"note": ""})
        notes = await client.call_tool("demo__recall", {})

    assert extract_text(own) == (
        "<tool_use_error>InputValidationError: the arguments of Read have 1 problem; "
        "correct and call again:\n- file_path: expected string, got 7</tool_use_error>"
    )
    assert theirs.is_error
    assert extract_text(notes) == "No notes yet. Make one with remember."


async def test_a_denied_call_names_the_rule_and_its_line(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Bash"], deny=["Bash(rm:*)", "Read(./.env)"])
    kept = installed.write_file(".env", "SECRET=1")

    async with installed.open_client(era) as client:
        removed = await client.call_tool("Bash", {"command": "echo ok && rm .env"})
        read = await client.call_tool("Read", {"file_path": ".env"})

    settings = installed.folder / "settings-0.json"
    assert extract_text(removed) == (
        "<tool_use_error>Permission to use Bash has been denied: a deny rule forbids it "
        f"(Bash(rm:*) in {settings}:7).</tool_use_error>"
    )
    assert extract_text(read) == (
        "<tool_use_error>Permission to use Read has been denied: a deny rule forbids it "
        f"(Read(./.env) in {settings}:8).</tool_use_error>"
    )
    assert kept.exists()


async def test_a_tool_denied_by_its_bare_name_is_not_listed(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(deny=["Bash"])

    async with installed.open_client(era) as client:
        listed = await client.list_tools()
        called = await client.call_tool("Bash", {"command": "ls"})

    assert [tool.name for tool in listed.tools] == [name for name in BUILT_INS if name != "Bash"]
    assert "a deny rule forbids it (Bash in " in extract_text(called)


async def test_a_call_runs_once_after_a_person_allows_it(installed: Installation, era: Era) -> None:
    person = Person(decision="allow once")

    async with installed.open_client(era, elicitation_callback=person.answer) as client:
        first = await client.call_tool("Bash", {"command": "touch made && echo yes"})
        second = await client.call_tool("Bash", {"command": "touch made && echo yes"})

    assert (extract_text(first), extract_text(second)) == ("yes", "yes")
    assert len(person.asked) == 2
    assert person.asked[0].startswith(
        "Allow Bash?\n\ncommand: touch made && echo yes\n\nAsked because: "
    )


async def test_a_denial_by_a_person_reaches_the_model_with_its_reason(
    installed: Installation, era: Era
) -> None:
    person = Person(decision="deny", reason="use make")

    async with installed.open_client(era, elicitation_callback=person.answer) as client:
        result = await client.call_tool("Bash", {"command": "touch ran"})

    assert result.is_error
    assert "the user refused: use make" in extract_text(result)
    assert not (installed.workspace / "ran").exists()


async def test_a_form_that_is_declined_or_dismissed_denies(
    installed: Installation, era: Era
) -> None:
    for action in ("decline", "cancel"):
        person = Person(action)
        async with installed.open_client(era, elicitation_callback=person.answer) as client:
            result = await client.call_tool("Bash", {"command": "touch ran"})

        assert result.is_error
    assert not (installed.workspace / "ran").exists()


async def test_without_a_person_to_ask_the_denial_names_the_rule_that_would_allow_the_call(
    installed: Installation, era: Era
) -> None:
    async with installed.open_client(era) as client:
        result = await client.call_tool("Bash", {"command": "npm test"})

    assert result.is_error
    assert '"allow": ["Bash(npm test:*)"]' in extract_text(result)
    assert "this client cannot be asked" in extract_text(result)


async def test_an_ask_rule_is_not_covered_by_the_client_fallback(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(ask=["Bash(touch:*)"]).add_flags("--ask-fallback", "client")

    async with installed.open_client(era) as client:
        soft = await client.call_tool("Bash", {"command": "mkdir fine && echo fine"})
        hard = await client.call_tool("Bash", {"command": "touch ran"})

    assert extract_text(soft) == "fine"
    assert "--ask-fallback client does not cover" in extract_text(hard)
    assert not (installed.workspace / "ran").exists()


async def test_a_ten_megabyte_argument_arrives_whole(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Edit(./**)"])
    content = "0123456789" * 1_000_000

    async with installed.open_client(era) as client:
        result = await client.call_tool("Write", {"file_path": "big", "content": content})

    assert not result.is_error
    assert (installed.workspace / "big").stat().st_size == len(content)


async def test_a_cancelled_call_stops_what_it_started(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Bash"])
    started = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        started.set()

    async with installed.open_client(era) as client:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:

                async def cancel_once_it_runs() -> None:
                    with anyio.fail_after(20):
                        await started.wait()
                    scope.cancel()

                tasks.start_soon(cancel_once_it_runs)
                await client.call_tool(
                    "Bash",
                    {"command": "echo $$ > pid; sleep 600; touch survived"},
                    progress_callback=note,
                )
        after = await client.call_tool("Bash", {"command": "echo next"})

    pid = (installed.workspace / "pid").read_text(encoding="utf-8").strip()
    assert extract_text(after) == "next"
    assert not Path(f"/proc/{pid}").exists()
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled", "completed"]


async def test_every_outcome_is_in_the_journal(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Bash(echo:*)"], deny=["Bash(rm:*)"])

    async with installed.open_client(era) as client:
        await client.call_tool("Bash", {"command": "echo hi"})
        await client.call_tool("Bash", {"command": "rm x"})
        await client.call_tool("Bash", {})
        await client.call_tool("Nope", {})

    told = [
        (entry["tool"], entry["outcome"], entry.get("by")) for entry in installed.read_journal()
    ]
    assert told == [
        ("Bash", "completed", None),
        ("Bash", "refused", "permission"),
        ("Bash", "refused", "schema"),
        ("Nope", "refused", "lookup"),
    ]


async def test_a_secret_in_the_arguments_does_not_reach_the_journal(
    installed: Installation, era: Era
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    async with installed.open_client(era) as client:
        await client.call_tool("Bash", {"command": f"curl -H 'Authorization: Bearer {secret}' x"})

    assert installed.read_journal()
    files = (installed.state / "journal").iterdir()
    assert all(secret not in file.read_text(encoding="utf-8") for file in files)


async def test_results_of_an_upstream_are_passed_on_unchanged(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["mcp__raw"])
    installed.add_upstream("raw", sys.executable, RAW)
    meta: JsonObject = {}
    if era != "legacy":
        meta = {
            "io.modelcontextprotocol/protocolVersion": era,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        }

    async with start_raw_server(installed) as server:
        if era == "legacy":
            await server.handshake()
        call = build_tools_call(1, "raw__vendor")
        params = call["params"]
        assert isinstance(params, dict)
        params["_meta"] = meta
        await server.send(call)
        with anyio.fail_after(20):
            answer = await server.answer(1)

    result = answer["result"]
    assert isinstance(result, dict)
    told = {key: value for key, value in result.items() if key not in {"_meta", "resultType"}}
    assert (
        encode(told)
        == (
            '{"x-top":null,"content":[{"type":"text","text":"héllo","x-block":{"k":null}},'
            '{"type":"x-new"}],"structuredContent":{"big":123456789012345678901234567890,'
            '"one":1,"real":1.0,"n":null}}'
        ).encode()
    )
    their_meta = result["_meta"]
    assert isinstance(their_meta, dict)
    assert their_meta["vendor/key"] == {"deep": None}
