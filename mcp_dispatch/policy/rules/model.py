"""Rules of settings.json: the tools that a rule targets, and which of their calls."""

import unicodedata
from dataclasses import dataclass
from typing import TypeAlias

from mcp_dispatch.model.decision import Effect, Origin
from mcp_dispatch.policy.commands.pattern import CommandPattern, Wildcard
from mcp_dispatch.policy.domains import DomainPattern
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.settings import RuleText

_ANY_TOOL = "\0"
"""A name that no pattern contains, so that only a `*` matches it."""


@dataclass(frozen=True, slots=True)
class ToolTarget:
    name: str

    def covers(self, subject: Subject, *, strict: bool) -> bool:
        if self.name == subject.rule_name:
            return True
        normalized = unicodedata.normalize("NFKC", self.name)
        names = (subject.rule_name, subject.exposed_name)
        return not strict and normalized in (unicodedata.normalize("NFKC", name) for name in names)

    def covers_server(self, server: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class WildcardTarget:
    """A tool name with `*`, which only deny and ask rules may have."""

    names: Wildcard

    def covers(self, subject: Subject, *, strict: bool) -> bool:
        names = (subject.rule_name,) if strict else (subject.rule_name, subject.exposed_name)
        return any(self.names.matches(name) for name in names)

    def covers_server(self, server: str) -> bool:
        """Return whether the pattern matches every tool of the server."""
        return self.names.matches(f"mcp__{server}__{_ANY_TOOL}")


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """The tools of one server, which is identified by its registered name."""

    server: str
    tools: Wildcard

    def covers(self, subject: Subject, *, strict: bool) -> bool:
        if not strict and self.full_name == subject.exposed_name:
            return True
        tool = subject.rule_name.removeprefix(f"mcp__{self.server}__")
        return subject.server == self.server and self.tools.matches(tool)

    def covers_server(self, server: str) -> bool:
        return server == self.server and self.tools.matches(_ANY_TOOL)

    @property
    def full_name(self) -> str:
        return f"mcp__{self.server}__{self.tools}"


Target: TypeAlias = ToolTarget | WildcardTarget | ServerTarget


@dataclass(frozen=True, slots=True)
class ParameterPattern:
    """`Tool(field:value)`: one top-level field of the arguments that the client sent."""

    name: str
    value: Wildcard

    def matches(self, subject: Subject) -> bool:
        argument = subject.literal_arguments.get(self.name)
        if argument is None or isinstance(argument, dict | list):
            return False
        text = str(argument).lower() if isinstance(argument, bool) else str(argument)
        return self.value.matches(text)


@dataclass(frozen=True, slots=True)
class UnmatchablePattern:
    """A specifier that no call can match."""


Specifier: TypeAlias = (
    CommandPattern | PathPattern | DomainPattern | ParameterPattern | UnmatchablePattern | None
)


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """A rule that can be applied. Without a specifier it matches every call of its target.

    `advice` explains an effect that its author may not expect.
    """

    text: RuleText
    target: Target
    specifier: Specifier
    advice: str | None = None

    @property
    def effect(self) -> Effect:
        return self.text.effect


@dataclass(frozen=True, slots=True)
class MalformedRule:
    """A rule that cannot be parsed. As deny or ask it matches every call of its target."""

    text: RuleText
    target: Target | None
    reason: str

    @property
    def effect(self) -> Effect:
        return self.text.effect


ParsedRule: TypeAlias = PermissionRule | MalformedRule


def build_origin(rule: ParsedRule) -> Origin:
    return Origin(str(rule.text.file), rule.text.line or None, rule.text.text)
