"""A tool as the search knows it, and a tool that was found."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.search.tokenize import words_of_name, words_of_prose

_LONGEST_NAME = 128
_LONGEST_DESCRIPTION = 1_000
_LONGEST_PARAMETER = 300
_LONGEST_INSTRUCTIONS = 500
_MOST_PARAMETERS = 40


@dataclass(frozen=True, slots=True)
class Entry:
    """What is searched of one tool. `name` is the exposed name, with or without the server."""

    name: str
    server: str
    description: str
    parameters: tuple[tuple[str, str], ...] = ()
    instructions: str = ""
    aliases: tuple[str, ...] = ()
    """Other names that are this tool's, exactly; the first is the one to call it by."""

    @property
    def called(self) -> str:
        return self.aliases[0] if self.aliases else self.name

    @property
    def tool(self) -> str:
        """The name without the server."""
        return self.name.removeprefix("mcp__").removeprefix(f"{self.server}__")


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found, how well it fits (only comparable within one search), and why."""

    entry: Entry
    score: float
    reasons: tuple[str, ...]


def entry_of(server: str, definition: JsonObject, instructions: str = "") -> Entry:
    """The entry of a `tools/list` definition, its texts cut: a longer one earns nothing."""
    return Entry(
        _text(definition.get("name"))[:_LONGEST_NAME],
        server,
        _description(definition)[:_LONGEST_DESCRIPTION],
        _parameters(definition),
        instructions[:_LONGEST_INSTRUCTIONS],
    )


def _description(definition: JsonObject) -> str:
    title, description = _text(definition.get("title")), _text(definition.get("description"))
    return f"{title}. {description}" if title and title not in description else description


def _parameters(definition: JsonObject) -> tuple[tuple[str, str], ...]:
    properties = _object(_object(definition.get("inputSchema")).get("properties"))
    return tuple(
        (name[:_LONGEST_NAME], _text(_object(schema).get("description"))[:_LONGEST_PARAMETER])
        for name, schema in list(properties.items())[:_MOST_PARAMETERS]
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


_LONGEST_PROSE = 600


@dataclass(frozen=True, slots=True)
class Field:
    """`weight` of one word; `evenness` of 1 makes a word in a long text count for less, of 0
    not at all; `aboutness` is its say in what the tool is about."""

    label: str
    weight: float
    evenness: float
    aboutness: float


NAME = Field("name", 4.0, 0.3, 2.0)
DESCRIPTION = Field("description", 1.0, 0.6, 1.0)
SERVER = Field("server", 0.6, 0.3, 1.0)
PARAMETERS = Field("parameters", 0.4, 0.6, 0.5)
PARAMETER_PROSE = Field("parameter descriptions", 0.15, 0.6, 0.0)
INSTRUCTIONS = Field("server's instructions", 0.15, 0.6, 0.0)
FIELDS = (NAME, DESCRIPTION, SERVER, PARAMETERS, PARAMETER_PROSE, INSTRUCTIONS)


def words_by_field(entry: Entry) -> Iterator[tuple[Field, list[str]]]:
    names = " ".join(name for name, _ in entry.parameters)
    prose = " ".join(text for _, text in entry.parameters if text)
    yield NAME, words_of_name(entry.tool)
    yield DESCRIPTION, words_of_prose(entry.description)
    yield SERVER, words_of_name(entry.server)
    yield PARAMETERS, words_of_name(names)
    yield PARAMETER_PROSE, words_of_prose(prose[:_LONGEST_PROSE])
    yield INSTRUCTIONS, words_of_prose(entry.instructions)
