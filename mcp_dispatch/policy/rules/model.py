"""What a rule of settings.json is: tools it is about, and which of their calls."""

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
"""A name that no pattern spells, so that only a `*` fits it."""


@dataclass(frozen=True, slots=True)
class ToolTarget:
    name: str

    def covers(self, subject: Subject, *, strict: bool) -> bool:
        if self.name == subject.rule_name:
            return True
        plain = unicodedata.normalize("NFKC", self.name)
        names = (subject.rule_name, subject.exposed_name)
        return not strict and plain in (unicodedata.normalize("NFKC", name) for name in names)

    def covers_server(self, server: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class WildcardTarget:
    """`*` in the name of the tool. Only for deny and ask."""

    names: Wildcard

    def covers(self, subject: Subject, *, strict: bool) -> bool:
        names = (subject.rule_name,) if strict else (subject.rule_name, subject.exposed_name)
        return any(self.names.matches(name) for name in names)

    def covers_server(self, server: str) -> bool:
        """Whether every name that a tool of the server can have is meant."""
        return self.names.matches(f"mcp__{server}__{_ANY_TOOL}")


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """The tools of one server, known by its registered name, never by how a name begins."""

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
    """`Tool(param:value)`: one top-level field of the arguments as the client sent them."""

    name: str
    value: Wildcard

    def matches(self, subject: Subject) -> bool:
        given = subject.literal_arguments.get(self.name)
        if given is None or isinstance(given, dict | list):
            return False
        text = str(given).lower() if isinstance(given, bool) else str(given)
        return self.value.matches(text)


@dataclass(frozen=True, slots=True)
class UnmatchablePattern:
    """A specifier that no call can match."""


Specifier: TypeAlias = (
    CommandPattern | PathPattern | DomainPattern | ParameterPattern | UnmatchablePattern | None
)


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """A rule that can be applied. Without a specifier it is about every call of its target.

    `advice` says what its author may not expect of it.
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
    """A rule that cannot be read. As deny or ask it stands for every call of its target."""

    text: RuleText
    target: Target | None
    reason: str

    @property
    def effect(self) -> Effect:
        return self.text.effect


def build_origin(rule: PermissionRule | MalformedRule) -> Origin:
    return Origin(str(rule.text.file), rule.text.line or None, rule.text.text)
