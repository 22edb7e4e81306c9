"""Small real classes for tests: tools, callers and scopes that implement our own protocols."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.model.approval import ApprovalReply, CannotAsk, Question
from mcp_dispatch.model.client import Client, InputRequired, NoClient
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    FileSeen,
    Interrupt,
    Sharing,
    ToolAsk,
    ToolResult,
    Validator,
    build_text_result,
)

Body = Callable[[JsonObject, CallContext], Awaitable[ToolResult | ProtocolError | InputRequired]]


class AnyArguments:
    """A schema that everything fits."""

    def find_problems(self, arguments: Json) -> list[str]:
        return []


@dataclass(frozen=True)
class Forbids:
    """A schema that one argument breaks."""

    key: str

    def find_problems(self, arguments: Json) -> list[str]:
        broken = isinstance(arguments, dict) and self.key in arguments
        return [f"{self.key}: not allowed"] if broken else []


async def answer_done(_: JsonObject, __: CallContext) -> ToolResult:
    return build_text_result("done")


@dataclass
class RecordingTool:
    """A tool that remembers what it was run with."""

    name: str
    server: str | None = None
    rule: str | None = None
    body: Body = answer_done
    shared: bool = False
    interrupt: Interrupt = Interrupt.CANCEL
    ask: ToolAsk | None = None
    validator: AnyArguments | Forbids = field(default_factory=AnyArguments)
    result_limit: int | None = None
    output_validator: Validator | None = None
    calls: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def rule_name(self) -> str:
        return self.rule or self.name

    @property
    def definition(self) -> JsonObject:
        return {"name": self.name, "inputSchema": {"type": "object"}}

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if self.shared else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        return CheckResult(arguments, self.ask)

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> ToolResult | ProtocolError | InputRequired:
        self.calls.append(arguments)
        return await self.body(arguments, context)


@dataclass
class ScriptedCaller:
    """A caller who answers questions as told, and notes what reaches them."""

    reply: ApprovalReply | Callable[[Question], Awaitable[ApprovalReply]] = field(
        default_factory=CannotAsk
    )
    questions: list[Question] = field(default_factory=list[Question])
    progressed: list[JsonObject] = field(default_factory=list[JsonObject])
    client: Client = field(default_factory=NoClient)

    async def progress(self, params: JsonObject) -> None:
        self.progressed.append(params)

    async def ask(self, question: Question) -> ApprovalReply:
        self.questions.append(question)
        return await self.reply(question) if callable(self.reply) else self.reply

    async def wait_until_ready(self) -> None:
        return None


@dataclass
class PlainScope:
    """A scope as tools see it."""

    cwd: Path | None = None
    files: dict[str, FileSeen] = field(default_factory=dict[str, FileSeen])
    kept: set[str] = field(default_factory=set[str])
    id: str = "scope"

    def find_seen_file(self, path: str) -> FileSeen | None:
        return self.files.get(path)

    def is_delivered(self, path: str) -> bool:
        return path in self.kept
