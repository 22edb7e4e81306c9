"""The indexed fields of a tool, and search hits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.search.tokenize import split_name, split_prose

_MAX_NAME_CHARS = 128
_MAX_DESCRIPTION_CHARS = 1_000
_MAX_PARAMETER_CHARS = 300
_MAX_INSTRUCTIONS_CHARS = 500
_MAX_PARAMETERS = 40


@dataclass(frozen=True, slots=True)
class IndexedTool:
    """The searchable text of one tool. `name` is the exposed name, with or without the server."""

    name: str
    server: str
    description: str
    parameters: tuple[tuple[str, str], ...] = ()
    instructions: str = ""
    aliases: tuple[str, ...] = ()
    """Other exact names of the tool; the first is the name to call it by."""

    @property
    def call_name(self) -> str:
        return self.aliases[0] if self.aliases else self.name

    @property
    def bare_name(self) -> str:
        """The name without the server."""
        return self.name.removeprefix("mcp__").removeprefix(f"{self.server}__")


@dataclass(frozen=True, slots=True)
class ToolHit:
    """A tool that was found. Scores are comparable only within one search."""

    entry: IndexedTool
    score: float
    reasons: tuple[str, ...]


def build_entry(server: str, definition: JsonObject, instructions: str = "") -> IndexedTool:
    """Build the entry of a `tools/list` definition; longer texts are cut and gain nothing."""
    return IndexedTool(
        _as_text(definition.get("name"))[:_MAX_NAME_CHARS],
        server,
        _build_description(definition)[:_MAX_DESCRIPTION_CHARS],
        _extract_parameters(definition),
        instructions[:_MAX_INSTRUCTIONS_CHARS],
    )


def _build_description(definition: JsonObject) -> str:
    title, description = _as_text(definition.get("title")), _as_text(definition.get("description"))
    return f"{title}. {description}" if title and title not in description else description


def _extract_parameters(definition: JsonObject) -> tuple[tuple[str, str], ...]:
    properties = _as_object(_as_object(definition.get("inputSchema")).get("properties"))
    return tuple(
        (
            name[:_MAX_NAME_CHARS],
            _as_text(_as_object(schema).get("description"))[:_MAX_PARAMETER_CHARS],
        )
        for name, schema in list(properties.items())[:_MAX_PARAMETERS]
    )


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _as_object(value: object) -> JsonObject:
    return cast(JsonObject, value) if isinstance(value, dict) else {}


_MAX_PROSE_CHARS = 600


@dataclass(frozen=True, slots=True)
class SearchField:
    """How a field counts. `weight` is the weight of one word. With a `length_penalty` of 1 a word
    in a long text counts less, with 0 it counts the same. `domain_weight` is the influence of
    the field on the domains of the tool."""

    label: str
    weight: float
    length_penalty: float
    domain_weight: float


NAME = SearchField("name", 4.0, 0.3, 2.0)
DESCRIPTION = SearchField("description", 1.0, 0.6, 1.0)
SERVER = SearchField("server", 0.6, 0.3, 1.0)
PARAMETERS = SearchField("parameters", 0.4, 0.6, 0.5)
PARAMETER_PROSE = SearchField("parameter descriptions", 0.15, 0.6, 0.0)
INSTRUCTIONS = SearchField("server's instructions", 0.15, 0.6, 0.0)
FIELDS = (NAME, DESCRIPTION, SERVER, PARAMETERS, PARAMETER_PROSE, INSTRUCTIONS)


def tokenize_fields(entry: IndexedTool) -> Iterator[tuple[SearchField, list[str]]]:
    names = " ".join(name for name, _ in entry.parameters)
    prose = " ".join(text for _, text in entry.parameters if text)
    yield NAME, split_name(entry.bare_name)
    yield DESCRIPTION, split_prose(entry.description)
    yield SERVER, split_name(entry.server)
    yield PARAMETERS, split_name(names)
    yield PARAMETER_PROSE, split_prose(prose[:_MAX_PROSE_CHARS])
    yield INSTRUCTIONS, split_prose(entry.instructions)
