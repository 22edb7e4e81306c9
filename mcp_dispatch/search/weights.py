"""The weights of the ranking. The values come from `benchmarks/tool_search.py`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchWeights:
    saturation: float = 1.2
    """How soon repetitions of a word in a tool stop adding to its score."""

    concept: float = 0.6
    """A shared concept; a shared word counts 1."""

    action: float = 0.7
    """A verb; a noun counts 1."""

    compound: float = 0.5
    """Two words of a query that are one word in a tool."""

    domain: float = 1.5
    """All domains of a query together."""

    server_share: float = 0.3
    """The share of a tool's domains that comes from the other tools of its server."""

    coverage: float = 0.4
    """The gain of a tool whose name the query covers completely."""

    mention: float = 0.2
    """The gain of the tools of a server that the query names."""

    repetition: float = 0.4
    """The loss of a tool with the same words as a tool already chosen."""

    crowding: float = 0.1
    """The loss of a tool whose server already has several chosen tools."""


DEFAULT_WEIGHTS = SearchWeights()
