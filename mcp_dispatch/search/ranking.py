"""Ranks the tools that share terms with a query."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from mcp_dispatch.search.postings import InvertedIndex, Posting
from mcp_dispatch.search.query_terms import WeightedQuery
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.weights import SearchWeights

_MIN_CANDIDATES = 60
_DIVERSIFIED_HITS = 10
_MIN_SIMILARITY = 0.3
_UNPENALIZED_PER_SERVER = 3

ScoredTool = tuple[int, float]


class ToolRanker:
    """Ranks tools, which are given by number; with equal scores the lower number comes first."""

    def __init__(
        self,
        postings: InvertedIndex,
        servers: Sequence[str],
        lexicon: Lexicon,
        weights: SearchWeights,
    ) -> None:
        self._postings = postings
        self._servers = servers
        self._lexicon = lexicon
        self._weights = weights

    def rank(
        self,
        query: WeightedQuery,
        limit: int,
        candidates: Iterable[int],
        mentioned_tools: Iterable[int],
    ) -> list[ScoredTool]:
        """Return the best `limit` tools. `mentioned_tools` belong to servers that the query names."""
        scores = self._compute_scores(query)
        for tool in mentioned_tools:
            scores[tool] *= 1.0 + self._weights.mention
        found = [tool for tool in candidates if scores[tool] > 0.0]
        top = heapq.nlargest(max(_MIN_CANDIDATES, limit), found, key=scores.__getitem__)
        covered = [(tool, scores[tool] * self._compute_coverage(query, tool)) for tool in top]
        covered.sort(key=lambda scored: (-scored[1], scored[0]))
        return self._reduce_repetition(covered)[:limit]

    def _compute_scores(self, query: WeightedQuery) -> list[float]:
        postings = self._postings
        scores = [0.0] * len(self._servers)
        for word, term in query.words.items():
            _add_scores(scores, postings.words.get(word), term.weight)
        for concept, term in query.concepts.items():
            _add_scores(scores, postings.concepts.get(concept), term.weight)
        for domain, weight in query.domains.items():
            _add_scores(scores, postings.domains.get(domain), weight)
        return scores

    def _compute_coverage(self, query: WeightedQuery, tool: int) -> float:
        """Return a factor above 1 for a tool whose whole name is covered by the query.

        It ranks `save_presentation` lower for "save a file", although `save` matches.
        """
        whole = covered = 0.0
        for word in self._postings.name_words[tool]:
            rarity = self._postings.words[word].rarity
            concepts = self._lexicon.find_concepts(word)
            whole += rarity
            if word in query.words or any(concept in query.concepts for concept in concepts):
                covered += rarity
        return 1.0 + self._weights.coverage * (covered / whole) ** 2 if whole else 1.0

    def _reduce_repetition(self, ranked: list[ScoredTool]) -> list[ScoredTool]:
        """Choose the first tools one by one, and lower the score of similar tools.

        A tool loses score if it resembles a chosen tool, or if its server has several already.
        """
        gists = {tool: frozenset(self._postings.gist_words[tool]) for tool, _ in ranked}
        novelty = dict.fromkeys(gists, 1.0)
        hits_per_server: Counter[str] = Counter()
        left, chosen = dict(ranked), list[ScoredTool]()

        def score_candidate(tool: int) -> float:
            crowded = hits_per_server[self._servers[tool]] >= _UNPENALIZED_PER_SERVER
            penalty = 1.0 - self._weights.crowding if crowded else 1.0
            return left[tool] * novelty[tool] * penalty

        while left and len(chosen) < _DIVERSIFIED_HITS:
            tool = max(left, key=score_candidate)
            chosen.append((tool, score_candidate(tool)))
            del left[tool]
            hits_per_server[self._servers[tool]] += 1
            for other in left:
                similarity = _compute_similarity(gists[tool], gists[other])
                if similarity > _MIN_SIMILARITY:
                    factor = 1.0 - self._weights.repetition * similarity
                    novelty[other] = min(novelty[other], factor)
        return chosen + [
            (tool, score_candidate(tool))
            for tool in sorted(left, key=score_candidate, reverse=True)
        ]


def _add_scores(scores: list[float], posting: Posting | None, weight: float) -> None:
    if posting is None:
        return
    for tool, impact in zip(posting.tools, posting.impacts, strict=True):
        scores[tool] += weight * impact


def _compute_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    together = len(one & other)
    either = len(one) + len(other) - together
    return together / either if either else 0.0
