"""Where a word stands in a tool, and how much that place counts."""

from collections.abc import Iterator
from dataclasses import dataclass

from mcp_dispatch.search.document import Entry
from mcp_dispatch.search.tokenize import words_of_name, words_of_prose

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
