"""The base class of the built-in tools, and helpers that several of them use."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial

from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Sharing,
    ToolResult,
    Validator,
)


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """The static description of a built-in tool, as `tools/list` shows it.

    `properties` are the fields of the input schema, which accepts no others. `result_limit` is in
    characters; None means that the tool limits its results itself.
    """

    name: str
    title: str
    description: str
    properties: JsonObject
    required: tuple[str, ...]
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    interrupt: Interrupt
    result_limit: int | None

    def build_input_schema(self) -> JsonObject:
        required: list[Json] = list(self.required)
        return {
            "type": "object",
            "properties": self.properties,
            "required": required,
            "additionalProperties": False,
        }

    def build_annotations(self) -> JsonObject:
        return {
            "title": self.title,
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


declare_read_only_tool = partial(
    ToolDeclaration,
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    interrupt=Interrupt.CANCEL,
)


class BuiltInTool(ABC):
    """Implements the `Tool` protocol from a declaration; subclasses add `run`, often `check`."""

    def __init__(self, declaration: ToolDeclaration) -> None:
        self._declaration = declaration

    @property
    def name(self) -> str:
        return self._declaration.name

    @property
    def rule_name(self) -> str:
        return self._declaration.name

    @property
    def server(self) -> str | None:
        return None

    @property
    def definition(self) -> JsonObject:
        return {
            "name": self._declaration.name,
            "title": self._declaration.title,
            "description": self._declaration.description,
            "inputSchema": self._declaration.build_input_schema(),
            "annotations": self._declaration.build_annotations(),
        }

    @property
    def validator(self) -> Validator:
        return self._validator

    @cached_property
    def _validator(self) -> Validator:
        # Imported on first use: listing tools must not wait for the schema compiler.
        from mcp_dispatch.schema.validator import compile_schema

        return compile_schema(self._declaration.build_input_schema())

    @property
    def interrupt(self) -> Interrupt:
        return self._declaration.interrupt

    @property
    def result_limit(self) -> int | None:
        return self._declaration.result_limit

    @property
    def output_validator(self) -> Validator | None:
        """None: a client may show the model only structured content, so built-ins return text."""
        return None

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        """Return SHARED for a read-only tool; any other tool runs alone."""
        return Sharing.SHARED if self._declaration.read_only else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Accept the arguments as they are."""
        return CheckResult(arguments)

    @abstractmethod
    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult: ...


def build_refusal(message: str) -> Refused:
    """Return the refusal of a call whose arguments a tool cannot use."""
    return Refused(RefusedBy.SEMANTIC, message)


def parse_integer(value: object, default: int) -> int:
    """Return an integer argument; JSON Schema accepts 3.0 as an integer, too."""
    return int(value) if isinstance(value, int | float) else default
