"""Small real classes for tests: tools, callers and scopes that implement our own protocols."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.model.approval import NobodyToAsk, Question, Reply
from mcp_dispatch.model.client import Client, NoClient, Unfinished
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    FileSeen,
    Interrupt,
    Sharing,
    ToolAsk,
    ToolResult,
    Validator,
    text_result,
)

Body = Callable[[JsonObject, CallContext], Awaitable[ToolResult | ProtocolError | Unfinished]]


class AnyArguments:
    """A schema that everything fits."""

    def problems(self, arguments: Json) -> list[str]:
        return []


@dataclass(frozen=True)
class Forbids:
    """A schema that one argument breaks."""

    key: str

    def problems(self, arguments: Json) -> list[str]:
        broken = isinstance(arguments, dict) and self.key in arguments
        return [f"{self.key}: not allowed"] if broken else []


async def answer_done(_: JsonObject, __: CallContext) -> ToolResult:
    return text_result("done")


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
    output: Validator | None = None
    calls: list[JsonObject] = field(default_factory=list[JsonObject])

    @property
    def rule_name(self) -> str:
        return self.rule or self.name

    @property
    def definition(self) -> JsonObject:
        return {"name": self.name, "inputSchema": {"type": "object"}}

    def sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if self.shared else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        return Checked(arguments, self.ask)

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> ToolResult | ProtocolError | Unfinished:
        self.calls.append(arguments)
        return await self.body(arguments, context)


@dataclass
class ScriptedCaller:
    """A caller who answers questions as told, and notes what reaches them."""

    reply: Reply | Callable[[Question], Awaitable[Reply]] = field(default_factory=NobodyToAsk)
    questions: list[Question] = field(default_factory=list[Question])
    progressed: list[JsonObject] = field(default_factory=list[JsonObject])
    client: Client = field(default_factory=NoClient)

    async def progress(self, params: JsonObject) -> None:
        self.progressed.append(params)

    async def ask(self, question: Question) -> Reply:
        self.questions.append(question)
        return await self.reply(question) if callable(self.reply) else self.reply

    async def ready(self) -> None:
        return None


@dataclass
class PlainScope:
    """A scope as tools see it."""

    cwd: Path | None = None
    files: dict[str, FileSeen] = field(default_factory=dict[str, FileSeen])
    kept: set[str] = field(default_factory=set[str])
    id: str = "scope"

    def seen(self, path: str) -> FileSeen | None:
        return self.files.get(path)

    def delivered(self, path: str) -> bool:
        return path in self.kept
