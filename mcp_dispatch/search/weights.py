"""How much each kind of evidence counts. The figures come from `benchmarks/tool_search.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchWeights:
    saturation: float = 1.2
    """How soon a word that comes up again in a tool stops adding to its score."""

    concept: float = 0.6
    """A shared notion, where a shared word counts 1."""

    action: float = 0.7
    """A verb, where what it acts on counts 1."""

    compound: float = 0.5
    """Two words of a question that are one word in a tool."""

    domain: float = 1.5
    """All that a question is about, shared among its domains."""

    server_share: float = 0.3
    """How much of what a tool is about comes from the other tools of its server."""

    coverage: float = 0.4
    """What a name gains that the question accounts for completely."""

    mention: float = 0.2
    """What the tools of a server gain that the question names."""

    repetition: float = 0.4
    """What a tool loses that is the very image of one already chosen."""

    crowding: float = 0.1
    """What a tool loses whose server already has several among those chosen."""


DEFAULT_WEIGHTS = SearchWeights()
