"""What every built-in tool has in common: its declaration, its schema and its place in the list."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from mcp_dispatch.model.json import Json, JsonObject
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
    """A built-in as it is listed. `result_limit` is None for a tool that bounds itself.

    `properties` are the fields of the input schema; no others are accepted.
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


class BuiltInTool(ABC):
    """The shared part of the `Tool` protocol; a built-in adds `check` and `run`."""

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
        # Imported when first used: listing tools must not wait for the schema compiler.
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
        """Built-ins answer in text only: a client may show the model nothing beside structure."""
        return None

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        """By default what the tool is: a reader shares, anything else runs alone."""
        return Sharing.SHARED if self._declaration.read_only else Sharing.EXCLUSIVE

    @abstractmethod
    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult: ...

    @abstractmethod
    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult: ...
