"""From the tools that share words with a question to the few that are worth showing."""

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
    """Scores tools by their number; of equal scores the lower number comes first."""

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
        """`mentioned` are the tools of servers that the question names."""
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
        for word, asked in query.words.items():
            _add_scores(scores, postings.words.get(word), asked.weight)
        for notion, asked in query.concepts.items():
            _add_scores(scores, postings.concepts.get(notion), asked.weight)
        for domain, weight in query.domains.items():
            _add_scores(scores, postings.domains.get(domain), weight)
        return scores

    def _compute_coverage(self, query: WeightedQuery, tool: int) -> float:
        """Over 1 as far as the question accounts for the whole name: `save_presentation` is not
        what saves a file, however well `save` fits."""
        whole = covered = 0.0
        for word in self._postings.name_words[tool]:
            rarity = self._postings.words[word].rarity
            notions = self._lexicon.find_concepts(word)
            whole += rarity
            if word in query.words or any(notion in query.concepts for notion in notions):
                covered += rarity
        return 1.0 + self._weights.coverage * (covered / whole) ** 2 if whole else 1.0

    def _reduce_repetition(self, ranked: list[ScoredTool]) -> list[ScoredTool]:
        """The first ten chosen one by one: a tool steps back that is much like one already
        chosen, or whose server has had its turns."""
        gists = {tool: frozenset(self._postings.gist_words[tool]) for tool, _ in ranked}
        novelty = dict.fromkeys(gists, 1.0)
        turns: Counter[str] = Counter()
        left, chosen = dict(ranked), list[ScoredTool]()

        def score_candidate(tool: int) -> float:
            crowded = turns[self._servers[tool]] >= _UNPENALIZED_PER_SERVER
            room = 1.0 - self._weights.crowding if crowded else 1.0
            return left[tool] * novelty[tool] * room

        while left and len(chosen) < _DIVERSIFIED_HITS:
            tool = max(left, key=score_candidate)
            chosen.append((tool, score_candidate(tool)))
            del left[tool]
            turns[self._servers[tool]] += 1
            for other in left:
                alike = _compute_similarity(gists[tool], gists[other])
                if alike > _MIN_SIMILARITY:
                    kept = 1.0 - self._weights.repetition * alike
                    novelty[other] = min(novelty[other], kept)
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
