"""The tools of an upstream as tools of ours: definition kept raw, calls routed to their server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from mcp_dispatch.model.client import NoClient, Respondent, Unfinished
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import in_common_alphabet, rule_name
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
from mcp_dispatch.results.output_schema import told_as_text
from mcp_dispatch.upstream.config.model import ServerConfig, ToolChoice
from mcp_dispatch.upstream.definition_diff import digest
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.request import resume
from mcp_dispatch.upstream.requests.send import Asked
from mcp_dispatch.upstream.sanitize import hides_something, one_line, readable
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool_schemas import Advertised

RESULT_LIMIT: Final = 50_000
LARGEST_RESULT_LIMIT: Final = 500_000
LONGEST_NAME: Final = 256
"""Characters of a tool's own name; the protocol knows 128."""

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
    told: JsonObject = field(repr=False)
    """The definition as the server gave it."""

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
        asked = Asked(
            *("tools/call", params, self.tool, context.meta, progress), definition=self.told
        )
        return await self.supervisor.carry(asked, respondent, alone=self.alone)


@dataclass(frozen=True, slots=True)
class Offer:
    """What one server offers, sorted by its own names; what of it does not, and what is odd."""

    tools: tuple[UpstreamTool, ...] = ()
    held_back: tuple[HeldBack, ...] = ()
    notes: tuple[HeldBack, ...] = ()


def offer_of(supervisor: Supervisor, expose: Expose) -> Offer:
    """Of the server's last known list. It does not depend on the order of that list."""
    listed = _by_name(supervisor.tools)
    tools: dict[str, UpstreamTool] = {}
    held_back: list[HeldBack] = []
    notes: list[HeldBack] = []
    for name in sorted(listed, key=_plain_first):
        if not _chosen(name, supervisor.config.tools):
            continue
        made = _made(supervisor, name, listed[name], expose, tools)
        if isinstance(made, str):
            held_back.append(HeldBack(supervisor.name, _shown(name), made))
            continue
        tool, odd = made
        tools[tool.rule_name] = tool
        notes += [HeldBack(supervisor.name, _shown(name), each) for each in odd]
    supervisor.validators.forget_all_but(listed)
    supervisor.validators.outputs.forget_all_but(listed)
    judged = supervisor.validators
    supervisor.dossier.judged(supervisor.tools, judged.refused, judged.outputs.refused)
    return Offer(tuple(tools.values()), tuple(held_back), tuple(notes))


def _plain_first(name: str) -> tuple[bool, str]:
    """Of two tools that are one to rules, the one that bears that name keeps it."""
    return in_common_alphabet(name) != name, name


def _shown(name: str) -> str:
    return one_line(name[:LONGEST_NAME]) or "?"


def _by_name(definitions: Iterable[JsonObject]) -> dict[str, list[JsonObject]]:
    """Several with one name in an order that does not depend on who came first."""
    found: dict[str, list[JsonObject]] = {}
    for definition in definitions:
        name = definition.get("name")
        found.setdefault(name if isinstance(name, str) else "", []).append(definition)
    for several in found.values():
        if len(several) > 1:
            several.sort(key=digest)
    return found


def _name_problem(name: str) -> str | None:
    if not name:
        return "the definition has no name"
    if len(name) > LONGEST_NAME:
        return f"its name has {len(name)} characters; at most {LONGEST_NAME} are taken"
    if hides_something(name) or any(char in name for char in "\n\r\t"):
        return "its name has control or invisible characters"
    return None


def _chosen(name: str, choice: ToolChoice) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in choice.exclude):
        return False
    return choice.include is None or any(fnmatchcase(name, each) for each in choice.include)


def _made(
    supervisor: Supervisor,
    name: str,
    definitions: Sequence[JsonObject],
    expose: Expose,
    tools: Mapping[str, UpstreamTool],
) -> tuple[UpstreamTool, tuple[str, ...]] | str:
    """The tool, and what is odd about it; or why there is none."""
    problem = _name_problem(name)
    if problem is not None:
        return problem
    other = tools.get(rule_name(supervisor.name, name))
    if other is not None:
        return f"rules would take it for {other.tool!r}: both are {other.rule_name} to them"
    definition, odd = readable(definitions[0])
    if len(definitions) > 1:
        odd = (*odd, f"the name is listed {len(definitions)} times; one of them is offered")
    validator = supervisor.validators.of(name, definition.get("inputSchema"))
    if isinstance(validator, str):
        return f"its inputSchema {validator}"
    output = _output(supervisor, name, definition)
    if isinstance(output, str):
        odd = (*odd, f"its outputSchema {output}; it is listed without one")
        output = None
    tool = _tool(supervisor, name, definition, expose, validator, output)
    return replace(tool, told=definitions[0]), odd


def _tool(
    supervisor: Supervisor,
    name: str,
    definition: JsonObject,
    expose: Expose,
    validator: Validator,
    output: Advertised | None,
) -> UpstreamTool:
    config = supervisor.config
    exposed = expose(config, config.tools.rename.get(name, name))
    read_only = _read_only(definition)
    shown: JsonObject = {key: value for key, value in definition.items() if key != "outputSchema"}
    if output is not None:
        shown = {**definition, "outputSchema": output.schema}
    return UpstreamTool(
        name=exposed,
        rule_name=rule_name(config.name, name),
        server=config.name,
        tool=name,
        definition={**shown, "name": exposed},
        told=definition,
        validator=validator,
        result_limit=_result_limit(definition),
        shared=config.sharing != "exclusive" or read_only,
        alone=config.sharing == "server" and not read_only,
        supervisor=supervisor,
        output=None if output is None else output.validator,
        untyped=output is None and "outputSchema" in definition,
    )


def _output(supervisor: Supervisor, name: str, definition: JsonObject) -> Advertised | str | None:
    """What is advertised, or what is wrong with it: that costs the tool nothing but its schema."""
    if "outputSchema" not in definition:
        return None
    return supervisor.validators.outputs.of(name, definition["outputSchema"])


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
