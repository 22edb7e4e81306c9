"""The tools of an upstream as tools of ours: definition kept raw, calls routed to their server."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from mcp_dispatch.model.clients import NoClient, Respondent, Unfinished
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import rule_name
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    Interrupt,
    Sharing,
    ToolResult,
    Validator,
    error_result,
    no_progress,
)
from mcp_dispatch.results.contract import told_as_text
from mcp_dispatch.upstream.errand import resume
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.output import Advertised
from mcp_dispatch.upstream.server import ServerConfig, ToolChoice
from mcp_dispatch.upstream.supervisor import Asked, Supervisor

logger = logging.getLogger(__name__)

RESULT_LIMIT: Final = 50_000
LARGEST_RESULT_LIMIT: Final = 500_000

_PERHAPS_GONE: Final = frozenset({-32601, -32602})
"""How servers answer a call of a tool that they have no more, announced or not."""

_LIMIT_KEY: Final = "anthropic/maxResultSizeChars"

Expose = Callable[[ServerConfig, str], str]
"""The exposed name of a server's tool."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A tool that is not offered, and why. Its server is none the worse for it."""

    server: str
    tool: str
    message: str

    def __str__(self) -> str:
        return f"{self.server}: {self.tool!r}: {self.message}"


@dataclass(frozen=True, slots=True)
class UpstreamTool:
    """One tool of one server. `tool` is the name the server knows; names are never taken apart."""

    name: str
    rule_name: str
    server: str
    tool: str
    definition: JsonObject
    validator: Validator = field(repr=False)
    result_limit: int | None
    shared: bool
    alone: bool
    """Among the calls of its own server, and beside those of others."""

    supervisor: Supervisor = field(repr=False)
    interrupt: Interrupt = Interrupt.CANCEL
    output: Validator | None = field(default=None, repr=False)
    untyped: bool = False
    """Its output schema cannot be shown to clients, and so neither can its structured content."""

    def sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if self.shared else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Only the server knows what its arguments mean."""
        return Checked(arguments)

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> ToolResult | ProtocolError | Unfinished:
        try:
            answer = await self._answer(arguments, context)
        except CallFailed as error:
            return _failure(str(error))
        if isinstance(answer, ProtocolError) and answer.code in _PERHAPS_GONE:
            self.supervisor.look_again()
        if isinstance(answer, ProtocolError | Unfinished):
            return answer
        return ToolResult(told_as_text(answer) if self.untyped else answer, answer, foreign=True)

    async def _answer(
        self, arguments: JsonObject, context: CallContext
    ) -> JsonObject | ProtocolError | Unfinished:
        progress = None if context.progress is no_progress else context.progress
        respondent = context.respondent or Respondent(context.scope.id, NoClient())
        if context.resumed is not None:
            return await resume(context.resumed, respondent, progress)
        params: JsonObject = {"name": self.tool, "arguments": arguments}
        asked = Asked("tools/call", params, self.tool, context.meta, progress)
        return await self.supervisor.carry(asked, respondent, alone=self.alone)


def upstream_tools(
    supervisor: Supervisor, expose: Expose
) -> tuple[tuple[UpstreamTool, ...], tuple[HeldBack, ...]]:
    """The usable tools of the server's last known list, in its order, and those held back."""
    tools: dict[str, UpstreamTool] = {}
    held_back: list[HeldBack] = []
    for definition in supervisor.tools:
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            held_back.append(HeldBack(supervisor.name, "?", "the definition has no name"))
        elif not _chosen(name, supervisor.config.tools):
            continue
        elif name in tools:
            held_back.append(HeldBack(supervisor.name, name, "the name is listed twice"))
        else:
            made = _make(supervisor, name, definition, expose)
            if isinstance(made, UpstreamTool):
                tools[name] = made
            else:
                held_back.append(made)
    supervisor.validators.forget_all_but({*tools, *(each.tool for each in held_back)})
    supervisor.validators.outputs.forget_all_but(tools)
    return tuple(tools.values()), tuple(held_back)


def _chosen(name: str, choice: ToolChoice) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in choice.exclude):
        return False
    return choice.include is None or any(fnmatchcase(name, each) for each in choice.include)


def _make(
    supervisor: Supervisor, name: str, definition: JsonObject, expose: Expose
) -> UpstreamTool | HeldBack:
    validator = supervisor.validators.of(name, definition.get("inputSchema"))
    if isinstance(validator, str):
        return HeldBack(supervisor.name, name, f"its inputSchema {validator}")
    exposed = expose(supervisor.config, supervisor.config.tools.rename.get(name, name))
    output = _output(supervisor, name, definition)
    shown: JsonObject = {key: value for key, value in definition.items() if key != "outputSchema"}
    if output is not None:
        shown = {**definition, "outputSchema": output.schema}
    return UpstreamTool(
        name=exposed,
        rule_name=rule_name(supervisor.name, name),
        server=supervisor.name,
        tool=name,
        definition={**shown, "name": exposed},
        validator=validator,
        result_limit=_result_limit(definition),
        shared=supervisor.config.sharing != "exclusive" or _read_only(definition),
        alone=supervisor.config.sharing == "server" and not _read_only(definition),
        supervisor=supervisor,
        output=None if output is None else output.validator,
        untyped=output is None and "outputSchema" in definition,
    )


def _output(supervisor: Supervisor, name: str, definition: JsonObject) -> Advertised | None:
    """What is advertised; an unusable schema is left out and reported, the tool is not."""
    if "outputSchema" not in definition:
        return None
    output = supervisor.validators.outputs.of(name, definition["outputSchema"])
    if not isinstance(output, str):
        return output
    logger.warning(
        "%s: %r: its outputSchema %s; it is listed without one", supervisor.name, name, output
    )
    return None


def _read_only(definition: JsonObject) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def _result_limit(definition: JsonObject) -> int:
    meta = definition.get("_meta")
    stated = meta.get(_LIMIT_KEY) if isinstance(meta, dict) else None
    if type(stated) is int and stated > 0:
        return min(stated, LARGEST_RESULT_LIMIT)
    return RESULT_LIMIT


def _failure(text: str) -> ToolResult:
    return error_result(f"<tool_use_error>{text}</tool_use_error>")
