"""Evaluates a described call against the rules, without a running server and its tools."""

import re
from dataclasses import dataclass

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.names import build_rule_name, parse_call_tool
from mcp_dispatch.model.tools import Sharing
from mcp_dispatch.policy.known_tools import (
    BUILT_IN_TOOLS,
    CLAUDE_CODE_TOOLS,
    READ_TOOL_PATH_FIELDS,
    RENAMED_TOOLS,
    SHORT_FORM_FIELDS,
    WRITE_TOOL_PATH_FIELDS,
)
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.analyze import is_read_only

_SHORT_FORM = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)


class InvalidCallSpec(ValueError):
    """The value does not describe a call. The message says what was expected."""


@dataclass(frozen=True, slots=True)
class CallSpec:
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """The decision about a call, and whether the call could run in parallel with others."""

    decision: Decision
    read_only: bool

    @property
    def sharing(self) -> Sharing:
        return Sharing.SHARED if self.read_only else Sharing.EXCLUSIVE


def parse_call_spec(value: Json) -> CallSpec:
    """Parse `{"tool": …, "input": {…}}` or the short form. Raise `InvalidCallSpec`."""
    if isinstance(value, str):
        return _parse_short_form(value)
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        raise InvalidCallSpec('expected {"tool": name, "input": {…}} or "Tool(…)"')
    arguments = value.get("input", {})
    if not isinstance(arguments, dict):
        raise InvalidCallSpec(f'expected "input" to be an object, got {type(arguments).__name__}')
    tool = str(value["tool"])
    # As in the dispatcher, rules apply to the call inside a `call_tool` envelope.
    tool, arguments = parse_call_tool(tool, arguments) or (tool, arguments)
    return CallSpec(tool, arguments)


def _parse_short_form(text: str) -> CallSpec:
    """Parse `Bash(npm test)`, `Read(src/a.py)`, `WebFetch(https://…)` or `mcp__server__tool`."""
    found = _SHORT_FORM.fullmatch(text.strip())
    if found is None:
        raise InvalidCallSpec(f"expected a call such as Bash(npm test), got {text!r}")
    tool, argument = found.groups()
    if argument is None:
        return CallSpec(tool, {})
    field = SHORT_FORM_FIELDS.get(tool)
    if field is None:
        raise InvalidCallSpec(
            f'{tool} has no short form; write {{"tool": "{tool}", "input": {{…}}}}'
        )
    return CallSpec(tool, {field: argument})


def evaluate_call(call: CallSpec, policy: Policy, workspace: Workspace) -> ExplainedDecision:
    """Raise `InvalidCallSpec` if no tool can have the name."""
    try:
        subject = _build_subject(call, workspace)
    except Refused as refused:
        vote = Vote(Tier.DENY, Effect.DENY, str(refused), Origin("path check"))
        return ExplainedDecision(decide([vote]), read_only=False)
    return ExplainedDecision(policy.evaluate(subject), _is_read_only(subject))


def _is_read_only(subject: Subject) -> bool:
    if subject.command is None or subject.cwd is None:
        return subject.changes_nothing
    left_running = subject.arguments.get("run_in_background") is True
    return not left_running and is_read_only(subject.command, subject.cwd)


def suggest_allow_line(call: CallSpec, policy: Policy, workspace: Workspace) -> str | None:
    """Return the line of settings.json that would allow the call, or None if no line can."""
    try:
        return policy.suggest_allow_line(_build_subject(call, workspace))
    except Refused:
        return None


def _build_subject(call: CallSpec, workspace: Workspace) -> Subject:
    name, server, exposed = _resolve_tool_name(call.tool)
    arguments = (
        call.arguments if server else _resolve_path_argument(name, call.arguments, workspace)
    )
    return Subject(name, exposed, server, arguments, call.arguments, workspace.root)


def _resolve_tool_name(tool: str) -> tuple[str, str | None, str]:
    """Return the rule name, the server and the name under which the tool is usually listed."""
    server, divider, name = tool.removeprefix("mcp__").partition("__")
    if tool.startswith("mcp__") and server and divider and name:
        return build_rule_name(server, name), server, f"{server}__{name}"
    built_in = RENAMED_TOOLS.get(tool, tool)
    if built_in in BUILT_IN_TOOLS | CLAUDE_CODE_TOOLS:
        return built_in, None, built_in
    raise InvalidCallSpec(
        f"no tool is named {tool!r}; write a tool of a server as mcp__server__tool, a built-in as "
        f"one of {', '.join(sorted(BUILT_IN_TOOLS))}"
    )


def _resolve_path_argument(name: str, arguments: JsonObject, workspace: Workspace) -> JsonObject:
    """Make the path absolute, as the tools do before a call is evaluated."""
    field = READ_TOOL_PATH_FIELDS.get(name) or WRITE_TOOL_PATH_FIELDS.get(name)
    path = arguments.get(field) if field else None
    if field is None or not isinstance(path, str):
        return arguments
    return {**arguments, field: str(workspace.resolve(path, workspace.root))}
