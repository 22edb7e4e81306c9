"""Tools of upstream servers: definitions stay raw, calls are sent to their server."""

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
"""Characters of the server's name for a tool; the protocol allows 128."""

_UNKNOWN_TOOL_CODES: Final = frozenset({-32601, -32602})
"""Error codes with which servers answer a call of a tool that they have removed."""

_RESULT_LIMIT_KEY: Final = "anthropic/maxResultSizeChars"

ExposeName = Callable[[ServerConfig, str], str]
"""Returns the exposed name of a server's tool."""


@dataclass(frozen=True, slots=True)
class RejectedTool:
    """A tool that is not offered, or is odd, and why. Other tools of its server are unaffected."""

    server: str
    tool: str
    message: str

    def __str__(self) -> str:
        return f"{self.server}: {self.tool!r}: {self.message}"


@dataclass(frozen=True, slots=True)
class UpstreamTool:
    """One tool of one server; `tool` is the server's name for it. Names are never split again."""

    name: str
    rule_name: str
    server: str
    tool: str
    definition: JsonObject
    raw_definition: JsonObject = field(repr=False)
    """The definition as the server sent it."""

    validator: Validator = field(repr=False)
    result_limit: int | None
    shared: bool
    exclusive_on_server: bool
    """Its calls exclude other calls of the same server, but not those of other servers."""

    supervisor: Supervisor = field(repr=False)
    interrupt: Interrupt = Interrupt.CANCEL
    output_validator: Validator | None = field(default=None, repr=False)
    untyped: bool = False
    """Its output schema is unusable, so clients get structured content as text."""

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.SHARED if self.shared else Sharing.EXCLUSIVE

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Accept any arguments: only the server knows their meaning."""
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
    """The tools of one server, sorted by the server's names; rejected tools, and warnings."""

    tools: tuple[UpstreamTool, ...] = ()
    rejected: tuple[RejectedTool, ...] = ()
    warnings: tuple[RejectedTool, ...] = ()


def build_server_tools(supervisor: Supervisor, expose_name: ExposeName) -> ServerTools:
    """Build the tools of the server's last known list; the order of that list has no effect."""
    listed = _group_by_name(supervisor.tools)
    tools: dict[str, UpstreamTool] = {}
    rejected: list[RejectedTool] = []
    warnings: list[RejectedTool] = []
    for name in sorted(listed, key=_rank_name):
        if not _is_selected(name, supervisor.config.tools):
            continue
        built = _try_build_tool(supervisor, name, listed[name], expose_name, tools)
        if isinstance(built, str):
            rejected.append(RejectedTool(supervisor.name, _format_name(name), built))
            continue
        tool, oddities = built
        tools[tool.rule_name] = tool
        warnings += [RejectedTool(supervisor.name, _format_name(name), each) for each in oddities]
    schemas = supervisor.schemas
    schemas.forget_except(listed)
    supervisor.cached.record_schema_problems(
        supervisor.tools, schemas.inputs.problems, schemas.outputs.problems
    )
    return ServerTools(tuple(tools.values()), tuple(rejected), tuple(warnings))


def _rank_name(name: str) -> tuple[bool, str]:
    """Sort key: of two tools with one rule name, the one with exactly that name comes first."""
    return replace_unsafe_characters(name) != name, name


def _format_name(name: str) -> str:
    return to_one_line(name[:MAX_NAME_CHARS]) or "?"


def _group_by_name(definitions: Iterable[JsonObject]) -> dict[str, list[JsonObject]]:
    """Group by name; definitions with one name are in an order that the list does not affect."""
    found: dict[str, list[JsonObject]] = {}
    for definition in definitions:
        name = definition.get("name")
        found.setdefault(name if isinstance(name, str) else "", []).append(definition)
    for definitions_of_one in found.values():
        if len(definitions_of_one) > 1:
            definitions_of_one.sort(key=hash_definition)
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
    """Return the tool and warnings about it, or why it is rejected."""
    problem = _find_name_problem(name)
    if problem is not None:
        return problem
    other = tools.get(build_rule_name(supervisor.name, name))
    if other is not None:
        return f"rules would take it for {other.tool!r}: both are {other.rule_name} to them"
    definition, oddities = sanitize_definition(definitions[0])
    if len(definitions) > 1:
        oddities = (
            *oddities,
            f"the name is listed {len(definitions)} times; one of them is offered",
        )
    validator = supervisor.schemas.inputs.compile(name, definition.get("inputSchema"))
    if isinstance(validator, str):
        return f"its inputSchema {validator}"
    output = _compile_output_schema(supervisor, name, definition)
    if isinstance(output, str):
        oddities = (*oddities, f"its outputSchema {output}; it is listed without one")
        output = None
    tool = _build_tool(supervisor, name, definition, expose_name, validator, output)
    return replace(tool, raw_definition=definitions[0]), oddities


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
    listed: JsonObject = {key: value for key, value in definition.items() if key != "outputSchema"}
    if output is not None:
        listed = {**definition, "outputSchema": output.schema}
    return UpstreamTool(
        name=exposed,
        rule_name=build_rule_name(config.name, name),
        server=config.name,
        tool=name,
        definition={**listed, "name": exposed},
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
    """Return the advertised schema, or its problem. A tool without usable schema is still offered."""
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
