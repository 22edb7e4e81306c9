"""The tools of an upstream as tools of ours: definition kept raw, calls routed to their server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from mcp_dispatch.model.client import ClientBridge, InputRequired, NoClient
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import build_rule_name, replace_unsafe_characters
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Sharing,
    ToolResult,
    Validator,
    build_error_result,
    ignore_progress,
)
from mcp_dispatch.results.output_schema import move_structure_to_text
from mcp_dispatch.upstream.config.model import ServerConfig, ToolSelection
from mcp_dispatch.upstream.definition_diff import hash_definition
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.request import resume_request
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.sanitize import has_hidden_characters, sanitize_definition, to_one_line
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool_schemas import AdvertisedSchema

DEFAULT_RESULT_LIMIT: Final = 50_000
MAX_RESULT_LIMIT: Final = 500_000
MAX_NAME_CHARS: Final = 256
"""Characters of a tool's own name; the protocol knows 128."""

_UNKNOWN_TOOL_CODES: Final = frozenset({-32601, -32602})
"""How servers answer a call of a tool that they have no more, announced or not."""

_RESULT_LIMIT_KEY: Final = "anthropic/maxResultSizeChars"

ExposeName = Callable[[ServerConfig, str], str]
"""The exposed name of a server's tool."""


@dataclass(frozen=True, slots=True)
class RejectedTool:
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
    raw_definition: JsonObject = field(repr=False)
    """The definition as the server gave it."""

    validator: Validator = field(repr=False)
    result_limit: int | None
    shared: bool
    exclusive_on_server: bool
    """Among the calls of its own server, and beside those of others."""

    supervisor: Supervisor = field(repr=False)
    interrupt: Interrupt = Interrupt.CANCEL
    output_validator: Validator | None = field(default=None, repr=False)
    untyped: bool = False
    """Its output schema cannot be shown to clients, and so neither can its structured content."""

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if self.shared else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Only the server knows what its arguments mean."""
        return CheckResult(arguments)

    async def run(
        self, arguments: JsonObject, context: CallContext
    ) -> ToolResult | ProtocolError | InputRequired:
        try:
            answer = await self._send_call(arguments, context)
        except CallFailed as error:
            return _to_error_result(str(error))
        if isinstance(answer, ProtocolError) and answer.code in _UNKNOWN_TOOL_CODES:
            self.supervisor.refresh_list("tools")
        if isinstance(answer, ProtocolError | InputRequired):
            return answer
        return ToolResult(
            move_structure_to_text(answer) if self.untyped else answer, answer, foreign=True
        )

    async def _send_call(
        self, arguments: JsonObject, context: CallContext
    ) -> JsonObject | ProtocolError | InputRequired:
        progress = None if context.progress is ignore_progress else context.progress
        bridge = context.client_bridge or ClientBridge(context.scope.id, NoClient())
        if context.retry is not None:
            return await resume_request(context.retry, bridge, progress)
        spec = RequestSpec(
            method="tools/call",
            params={"name": self.tool, "arguments": arguments},
            label=self.tool,
            meta=context.meta,
            progress=progress,
            definition=self.raw_definition,
        )
        return await self.supervisor.send(spec, bridge, exclusive=self.exclusive_on_server)


@dataclass(frozen=True, slots=True)
class ServerTools:
    """What one server offers, sorted by its own names; what of it does not, and what is odd."""

    tools: tuple[UpstreamTool, ...] = ()
    rejected: tuple[RejectedTool, ...] = ()
    warnings: tuple[RejectedTool, ...] = ()


def build_server_tools(supervisor: Supervisor, expose_name: ExposeName) -> ServerTools:
    """Of the server's last known list. It does not depend on the order of that list."""
    listed = _group_by_name(supervisor.tools)
    tools: dict[str, UpstreamTool] = {}
    held_back: list[RejectedTool] = []
    notes: list[RejectedTool] = []
    for name in sorted(listed, key=_rank_name):
        if not _is_selected(name, supervisor.config.tools):
            continue
        made = _try_build_tool(supervisor, name, listed[name], expose_name, tools)
        if isinstance(made, str):
            held_back.append(RejectedTool(supervisor.name, _format_name(name), made))
            continue
        tool, odd = made
        tools[tool.rule_name] = tool
        notes += [RejectedTool(supervisor.name, _format_name(name), each) for each in odd]
    schemas = supervisor.schemas
    schemas.forget_except(listed)
    supervisor.cached.record_schema_problems(
        supervisor.tools, schemas.inputs.problems, schemas.outputs.problems
    )
    return ServerTools(tuple(tools.values()), tuple(held_back), tuple(notes))


def _rank_name(name: str) -> tuple[bool, str]:
    """Of two tools that are one to rules, the one that bears that name keeps it."""
    return replace_unsafe_characters(name) != name, name


def _format_name(name: str) -> str:
    return to_one_line(name[:MAX_NAME_CHARS]) or "?"


def _group_by_name(definitions: Iterable[JsonObject]) -> dict[str, list[JsonObject]]:
    """Several with one name in an order that does not depend on who came first."""
    found: dict[str, list[JsonObject]] = {}
    for definition in definitions:
        name = definition.get("name")
        found.setdefault(name if isinstance(name, str) else "", []).append(definition)
    for several in found.values():
        if len(several) > 1:
            several.sort(key=hash_definition)
    return found


def _find_name_problem(name: str) -> str | None:
    if not name:
        return "the definition has no name"
    if len(name) > MAX_NAME_CHARS:
        return f"its name has {len(name)} characters; at most {MAX_NAME_CHARS} are taken"
    if has_hidden_characters(name) or any(char in name for char in "\n\r\t"):
        return "its name has control or invisible characters"
    return None


def _is_selected(name: str, selection: ToolSelection) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in selection.exclude):
        return False
    return selection.include is None or any(fnmatchcase(name, each) for each in selection.include)


def _try_build_tool(
    supervisor: Supervisor,
    name: str,
    definitions: Sequence[JsonObject],
    expose_name: ExposeName,
    tools: Mapping[str, UpstreamTool],
) -> tuple[UpstreamTool, tuple[str, ...]] | str:
    """The tool, and what is odd about it; or why there is none."""
    problem = _find_name_problem(name)
    if problem is not None:
        return problem
    other = tools.get(build_rule_name(supervisor.name, name))
    if other is not None:
        return f"rules would take it for {other.tool!r}: both are {other.rule_name} to them"
    definition, odd = sanitize_definition(definitions[0])
    if len(definitions) > 1:
        odd = (*odd, f"the name is listed {len(definitions)} times; one of them is offered")
    validator = supervisor.schemas.inputs.compile(name, definition.get("inputSchema"))
    if isinstance(validator, str):
        return f"its inputSchema {validator}"
    output = _compile_output_schema(supervisor, name, definition)
    if isinstance(output, str):
        odd = (*odd, f"its outputSchema {output}; it is listed without one")
        output = None
    tool = _build_tool(supervisor, name, definition, expose_name, validator, output)
    return replace(tool, raw_definition=definitions[0]), odd


def _build_tool(
    supervisor: Supervisor,
    name: str,
    definition: JsonObject,
    expose_name: ExposeName,
    validator: Validator,
    output: AdvertisedSchema | None,
) -> UpstreamTool:
    config = supervisor.config
    exposed = expose_name(config, config.tools.rename.get(name, name))
    read_only = _is_read_only(definition)
    shown: JsonObject = {key: value for key, value in definition.items() if key != "outputSchema"}
    if output is not None:
        shown = {**definition, "outputSchema": output.schema}
    return UpstreamTool(
        name=exposed,
        rule_name=build_rule_name(config.name, name),
        server=config.name,
        tool=name,
        definition={**shown, "name": exposed},
        raw_definition=definition,
        validator=validator,
        result_limit=_read_result_limit(definition),
        shared=config.sharing != "exclusive" or read_only,
        exclusive_on_server=config.sharing == "server" and not read_only,
        supervisor=supervisor,
        output_validator=None if output is None else output.validator,
        untyped=output is None and "outputSchema" in definition,
    )


def _compile_output_schema(
    supervisor: Supervisor, name: str, definition: JsonObject
) -> AdvertisedSchema | str | None:
    """What is advertised, or what is wrong with it: that costs the tool nothing but its schema."""
    if "outputSchema" not in definition:
        return None
    return supervisor.schemas.outputs.compile(name, definition["outputSchema"])


def _is_read_only(definition: JsonObject) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


def _read_result_limit(definition: JsonObject) -> int:
    meta = definition.get("_meta")
    stated = meta.get(_RESULT_LIMIT_KEY) if isinstance(meta, dict) else None
    if type(stated) is int and stated > 0:
        return min(stated, MAX_RESULT_LIMIT)
    return DEFAULT_RESULT_LIMIT


def _to_error_result(text: str) -> ToolResult:
    return build_error_result(f"<tool_use_error>{text}</tool_use_error>")
