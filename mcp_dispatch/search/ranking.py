"""From the tools that share words with a question to the few that are worth showing."""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from mcp_dispatch.search.postings import Posting, Postings
from mcp_dispatch.search.query_terms import Question
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.weights import Weights

_CANDIDATES = 60
_VARIED = 10
_ALIKE = 0.3
_UNCROWDED = 3

Scored = tuple[int, float]


class Ranking:
    """Scores tools by their number; of equal scores the lower number comes first."""

    def __init__(
        self, postings: Postings, servers: Sequence[str], lexicon: Lexicon, weights: Weights
    ) -> None:
        self._postings = postings
        self._servers = servers
        self._lexicon = lexicon
        self._weights = weights

    def best(
        self, question: Question, limit: int, among: Iterable[int], mentioned: Iterable[int]
    ) -> list[Scored]:
        """`mentioned` are the tools of servers that the question names."""
        scores = self._scores(question)
        for tool in mentioned:
            scores[tool] *= 1.0 + self._weights.mention
        found = [tool for tool in among if scores[tool] > 0.0]
        top = heapq.nlargest(max(_CANDIDATES, limit), found, key=scores.__getitem__)
        covered = [(tool, scores[tool] * self._coverage(question, tool)) for tool in top]
        covered.sort(key=lambda scored: (-scored[1], scored[0]))
        return self._varied(covered)[:limit]

    def _scores(self, question: Question) -> list[float]:
        postings = self._postings
        scores = [0.0] * len(self._servers)
        for word, asked in question.words.items():
            _add(scores, postings.words.get(word), asked.weight)
        for notion, asked in question.notions.items():
            _add(scores, postings.notions.get(notion), asked.weight)
        for domain, weight in question.domains.items():
            _add(scores, postings.domains.get(domain), weight)
        return scores

    def _coverage(self, question: Question, tool: int) -> float:
        """Over 1 as far as the question accounts for the whole name: `save_presentation` is not
        what saves a file, however well `save` fits."""
        whole = covered = 0.0
        for word in self._postings.names[tool]:
            rarity = self._postings.words[word].rarity
            notions = self._lexicon.spoken_by(word)
            whole += rarity
            if word in question.words or any(notion in question.notions for notion in notions):
                covered += rarity
        return 1.0 + self._weights.coverage * (covered / whole) ** 2 if whole else 1.0

    def _varied(self, ranked: list[Scored]) -> list[Scored]:
        """The first ten chosen one by one: a tool steps back that is much like one already
        chosen, or whose server has had its turns."""
        gists = {tool: frozenset(self._postings.gists[tool]) for tool, _ in ranked}
        novelty = dict.fromkeys(gists, 1.0)
        turns: Counter[str] = Counter()
        left, chosen = dict(ranked), list[Scored]()

        def worth(tool: int) -> float:
            crowded = turns[self._servers[tool]] >= _UNCROWDED
            room = 1.0 - self._weights.crowding if crowded else 1.0
            return left[tool] * novelty[tool] * room

        while left and len(chosen) < _VARIED:
            tool = max(left, key=worth)
            chosen.append((tool, worth(tool)))
            del left[tool]
            turns[self._servers[tool]] += 1
            for other in left:
                alike = _likeness(gists[tool], gists[other])
                if alike > _ALIKE:
                    kept = 1.0 - self._weights.repetition * alike
                    novelty[other] = min(novelty[other], kept)
        return chosen + [(tool, worth(tool)) for tool in sorted(left, key=worth, reverse=True)]


def _add(scores: list[float], posting: Posting | None, weight: float) -> None:
    if posting is None:
        return
    for tool, impact in zip(posting.tools, posting.impacts, strict=True):
        scores[tool] += weight * impact


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    together = len(one & other)
    either = len(one) + len(other) - together
    return together / either if either else 0.0
