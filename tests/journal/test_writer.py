"""Every call is recorded as one line, and a failure to record never fails a call."""

import json
import logging
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.journal.records import build_call_record
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import (
    CheckedCall,
    Completed,
    Executed,
    Outcome,
    PermittedCall,
    PreHookResult,
    ResolvedCall,
    ReviewedCall,
    ToolCall,
    ValidCall,
)
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    CancelReason,
    ProtocolError,
    Refusal,
    RefusedBy,
    Suspended,
)
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Replacement,
    ReplacementReason,
    Sharing,
    ToolResult,
    Validator,
    build_text_result,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and limits are POSIX")
CALL = ToolCall("call-1", "toolu_1", "read_file", {"path": "/a"})
ALLOWED = decide(
    [Vote(Tier.ALLOW, Effect.ALLOW, "allowed", Origin("settings.json", 3, "mcp__files"))]
)
COMMON: JsonObject = {
    "time": "2026-11-18T02:09:03.250Z",
    "scope": "scope-1",
    "call": "call-1",
    "tool_use_id": "toolu_1",
    "tool": "mcp__files__read_file",
    "name": "read_file",
    "arguments": {"path": "/a"},
}
DECISION: JsonObject = {
    "effect": "allow",
    "tier": "allow",
    "reason": "allowed",
    "origin": "mcp__files in settings.json:3",
}


@dataclass(frozen=True)
class AnyTool:
    """A tool that is not run in these tests."""

    name: str = "read_file"
    rule_name: str = "mcp__files__read_file"
    server: str | None = "files"
    interrupt: Interrupt = Interrupt.CANCEL
    result_limit: int | None = None
    output_validator: Validator | None = None

    @property
    def definition(self) -> JsonObject:
        return {"name": self.name, "inputSchema": {"type": "object"}}

    @property
    def validator(self) -> Validator:
        return AnyArguments()

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        return build_text_result("")


class AnyArguments:
    def find_problems(self, arguments: Json) -> list[str]:
        return []


def build_completed(wire: JsonObject, arguments: JsonObject, *replaced: Replacement) -> Completed:
    valid = ValidCall(ResolvedCall(CALL, AnyTool()), arguments, Sharing.EXCLUSIVE)
    checked = CheckedCall(valid, arguments, None)
    permitted = PermittedCall(ReviewedCall(checked, checked, PreHookResult()), ALLOWED)
    return Completed(Executed(permitted, ToolResult(wire), 0.1), wire, replaced)


def build_record(outcome: Outcome, call: ToolCall = CALL) -> JsonObject:
    return build_call_record(
        call,
        outcome,
        scope="scope-1",
        started=1_794_967_743.25,
        seconds=0.25,
        tool="mcp__files__read_file",
    )


@pytest.mark.parametrize(
    ("outcome", "ending"),
    [
        (
            build_completed({"content": []}, {"path": "/a"}),
            {"outcome": "completed", "decision": DECISION},
        ),
        (
            build_completed(
                {"content": [], "isError": True},
                {"path": "/b"},
                Replacement(ReplacementReason.SIZE, "text", 60_000, "/state/results/a.txt"),
                Replacement(
                    ReplacementReason.BATCH, "structure", 9_000, problem="No space left on device"
                ),
            ),
            {
                "outcome": "error",
                "ran_with": {"path": "/b"},
                "replaced": [
                    {
                        "reason": "over the limit of its tool",
                        "what": "text",
                        "bytes": 60_000,
                        "file": "/state/results/a.txt",
                    },
                    {
                        "reason": "over the budget of its batch",
                        "what": "structure",
                        "bytes": 9_000,
                        "problem": "No space left on device",
                    },
                ],
                "decision": DECISION,
            },
        ),
        (
            Refusal(RefusedBy.SCHEMA, "path: expected a string, got 'password=hunter2'"),
            {
                "outcome": "refused",
                "by": "schema",
                "message": "path: expected a string, got 'password=[redacted:password]'",
            },
        ),
        (
            Suspended({"approve": {"method": "elicitation/create"}}, "sealed"),
            {"outcome": "suspended", "asks": ["approve"]},
        ),
        (
            ProtocolError(-32000, "upstream: token=abc1234567", {"secret": "x"}),
            {
                "outcome": "protocol_error",
                "code": -32000,
                "message": "upstream: token=[redacted:token]",
            },
        ),
        (
            Cancelled(CancelReason.SIBLING_ERROR, "Bash failed"),
            {"outcome": "cancelled", "reason": "sibling_error", "message": "Bash failed"},
        ),
    ],
)
def test_each_outcome_is_recorded_with_its_fields(outcome: Outcome, ending: JsonObject) -> None:
    assert build_record(outcome) == {**COMMON, **ending, "seconds": 0.25}


def test_a_refusal_records_the_decision_and_the_requested_name_of_an_unknown_tool() -> None:
    denied = decide([Vote(Tier.DENY, Effect.DENY, "no", Origin("hook.sh"))])

    record = build_call_record(
        ToolCall("c", "t", "nobody", {}),
        Refusal(RefusedBy.PERMISSION, "no", denied),
        scope="s",
        started=0,
        seconds=1,
        result_chars=7,
    )

    assert record == {
        "time": "1970-01-01T00:00:00.000Z",
        "scope": "s",
        "call": "c",
        "tool_use_id": "t",
        "tool": "nobody",
        "name": "nobody",
        "arguments": {},
        "outcome": "refused",
        "by": "permission",
        "message": "no",
        "decision": {"effect": "deny", "tier": "deny", "reason": "no", "origin": "hook.sh"},
        "seconds": 1,
        "result_chars": 7,
    }


def test_arguments_are_redacted_and_long_ones_shortened() -> None:
    call = ToolCall("c", "t", "Write", {"api_key": "abc", "content": "x" * 5_000})

    record = build_record(Refusal(RefusedBy.HOOK, ""), call)

    assert record["arguments"] == {
        "api_key": "[redacted:api-key]",
        "content": "x" * 2_000 + "… [5,000 characters in all]",
    }


def test_a_huge_call_leaves_a_small_record() -> None:
    many: list[Json] = [{"text": "word " * 400} for _ in range(5_000)]

    record = build_record(Refusal(RefusedBy.HOOK, "no"), ToolCall("c", "t", "n", {"all": many}))

    assert len(json.dumps(record)) < 100_000


async def test_records_are_appended_one_to_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    hostile = "a\nb\r\x1b]52;c;aGk=\x07\u202e\u2028\ud800 \x00"

    await journal.record({"n": 1, "name": hostile})
    await journal.record({"n": 2})
    journal.close()

    raw = journal.path.read_bytes()
    assert [json.loads(line) for line in raw.splitlines()] == [{"n": 1, "name": hostile}, {"n": 2}]
    assert raw.count(b"\n") == 2
    assert raw.replace(b"\n", b"").decode("ascii").isprintable()


@posix
async def test_each_journal_has_a_private_file_of_its_own(tmp_path: Path) -> None:
    first, second = Journal(tmp_path), Journal(tmp_path)

    await first.record({"from": "first"})
    await second.record({"from": "second"})
    first.close()
    second.close()

    assert set(tmp_path.iterdir()) == {first.path, second.path}
    assert first.path.read_bytes() == b'{"from":"first"}\n'
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert f"-{os.getpid()}-" in first.path.name


async def test_a_cancelled_call_is_recorded(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.record({"n": 1})
    journal.close()

    assert journal.path.read_bytes() == b'{"n":1}\n'


async def test_a_journal_that_cannot_write_logs_once_and_counts_lost_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "missing")

    await journal.record({"n": 1})
    await journal.record({"n": 2})

    assert journal.lost == 2
    assert caplog.record_tuples == [
        (
            "mcp_dispatch.journal.writer",
            logging.WARNING,
            f"calls are not recorded: cannot write {journal.path}: No such file or directory",
        )
    ]


async def test_a_journal_recovers_when_its_directory_is_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "late")
    (tmp_path / "late").mkdir()

    await journal.record({"n": 1})
    journal.close()

    assert journal.path.read_bytes() == b'{"n":1}\n'
    assert journal.lost == 0


async def test_a_record_that_is_not_json_is_lost_and_the_next_one_is_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)

    await journal.record({"n": float("nan")})
    await journal.record({"n": 10**5000})
    await journal.record({"n": 1})
    journal.close()

    assert journal.lost == 2
    assert journal.path.read_bytes() == b'{"n":1}\n'


FULL_DISK = """
import resource, sys
from pathlib import Path
import anyio
from mcp_dispatch.journal.writer import Journal
async def main():
    journal = Journal(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    for number in range(20):
        await journal.record({"n": number, "text": "x" * 90})
    print(journal.lost)
anyio.run(main)
"""


@posix
def test_a_full_disk_leaves_no_partial_line(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    (path,) = tmp_path.iterdir()
    numbers = [json.loads(line)["n"] for line in path.read_bytes().splitlines()]
    assert numbers == list(range(9))
    assert ended.stdout == "11\n"


@posix
def test_journals_of_more_than_30_days_are_removed_and_nothing_else(tmp_path: Path) -> None:
    old = tmp_path / "2026-01-01-12-0123456789abcdef.jsonl"
    young = tmp_path / "2026-01-01-13-0123456789abcdef.jsonl"
    notes = tmp_path / "notes.jsonl"
    for path in (old, young, notes):
        path.write_text("{}\n", encoding="utf-8")
    os.utime(old, (1, 1))
    os.utime(notes, (1, 1))
    link = tmp_path / "2026-01-01-14-0123456789abcdef.jsonl"
    link.symlink_to(notes)
    os.utime(link, (1, 1), follow_symlinks=False)

    journal = Journal(tmp_path)
    journal.close()

    assert set(tmp_path.iterdir()) == {young, notes, link, journal.path}
