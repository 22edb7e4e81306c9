"""A call that nobody makes: what rules would see of it, found without a server and its tools."""

import re
from dataclasses import dataclass

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.names import inside, rule_name
from mcp_dispatch.model.tools import Sharing
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.lint import BUILT_INS, ELSEWHERE
from mcp_dispatch.policy.subject import READING_TOOLS, WRITING_TOOLS, Subject
from mcp_dispatch.shell.analyze import is_read_only

_OLD_NAMES = {"KillShell": "TaskStop", "KillBash": "TaskStop"}
_SHORT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)
_SHORT_FIELDS = {**READING_TOOLS, **WRITING_TOOLS, "Bash": "command", "WebFetch": "url"}


class NoSuchCall(ValueError):
    """What was given describes no call: says what was expected."""


@dataclass(frozen=True, slots=True)
class Call:
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would become of the call, and whether it could run beside others."""

    decision: Decision
    read_only: bool

    @property
    def sharing(self) -> Sharing:
        return Sharing.SHARED if self.read_only else Sharing.EXCLUSIVE


def call_of(value: Json) -> Call:
    """From `{"tool": …, "input": {…}}`, or from the short form. Raises `NoSuchCall`."""
    if isinstance(value, str):
        return _short(value)
    if not isinstance(value, dict) or not isinstance(value.get("tool"), str):
        raise NoSuchCall('expected {"tool": name, "input": {…}} or "Tool(…)"')
    arguments = value.get("input", {})
    if not isinstance(arguments, dict):
        raise NoSuchCall(f'expected "input" to be an object, got {type(arguments).__name__}')
    # As the dispatcher does: rules are about what is in the envelope.
    return Call(*(inside(str(value["tool"]), arguments) or (str(value["tool"]), arguments)))


def _short(text: str) -> Call:
    """`Bash(npm test)`, `Read(src/a.py)`, `WebFetch(https://…)`, `mcp__server__tool`."""
    found = _SHORT.fullmatch(text.strip())
    if found is None:
        raise NoSuchCall(f"expected a call such as Bash(npm test), got {text!r}")
    tool, argument = found.groups()
    if argument is None:
        return Call(tool, {})
    field = _SHORT_FIELDS.get(tool)
    if field is None:
        raise NoSuchCall(f'{tool} has no short form; write {{"tool": "{tool}", "input": {{…}}}}')
    return Call(tool, {field: argument})


def judge(call: Call, policy: Policy, workspace: Workspace) -> Verdict:
    """Raises `NoSuchCall` where no tool can have the name."""
    try:
        subject = _subject(call, workspace)
    except Refused as refused:
        vote = Vote(Tier.DENY, Effect.DENY, str(refused), Origin("path check"))
        return Verdict(decide([vote]), read_only=False)
    return Verdict(policy.judge(subject), _reads_only(subject))


def _reads_only(subject: Subject) -> bool:
    if subject.command is None or subject.cwd is None:
        return subject.reads
    left_running = subject.arguments.get("run_in_background") is True
    return not left_running and is_read_only(subject.command, subject.cwd)


def allow_line(call: Call, policy: Policy, workspace: Workspace) -> str | None:
    """The line of settings.json that would allow it; None where no line can."""
    try:
        return policy.suggestion(_subject(call, workspace))
    except Refused:
        return None


def _subject(call: Call, workspace: Workspace) -> Subject:
    name, server, exposed = _named(call.tool)
    arguments = call.arguments if server else _canonical(name, call.arguments, workspace)
    return Subject(name, exposed, server, arguments, call.arguments, workspace.root)


def _named(tool: str) -> tuple[str, str | None, str]:
    """The rule name, the server and the name in the list, as far as it can be known here."""
    server, divider, name = tool.removeprefix("mcp__").partition("__")
    if tool.startswith("mcp__") and server and divider and name:
        return rule_name(server, name), server, f"{server}__{name}"
    built_in = _OLD_NAMES.get(tool, tool)
    if built_in in BUILT_INS | ELSEWHERE:
        return built_in, None, built_in
    raise NoSuchCall(
        f"no tool is named {tool!r}; write a tool of a server as mcp__server__tool, a built-in as "
        f"one of {', '.join(sorted(BUILT_INS))}"
    )


def _canonical(name: str, arguments: JsonObject, workspace: Workspace) -> JsonObject:
    """Paths absolute, as the tools make them before anyone judges."""
    field = READING_TOOLS.get(name) or WRITING_TOOLS.get(name)
    path = arguments.get(field) if field else None
    if field is None or not isinstance(path, str):
        return arguments
    return {**arguments, field: str(workspace.resolve(path, workspace.root))}
