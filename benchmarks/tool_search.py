"""How well and how fast tools are found: recall and MRR on labelled queries, and the cost of it.

    python -m benchmarks.tool_search [--quick]

Reads `toolsearch/` of the folder of cases (`MCP_DISPATCH_DATA`, else `../shared/data`) and says so
where it is absent. `--quick` leaves out the cross-validation, whose rows tell what to expect of
queries that nobody has tuned for:

- *held out, weights*: the weights are chosen on four fifths of the queries, the last fifth is scored;
- *held out, vocabulary too*: there, moreover, a word may only stand for a notion if the other four
  fifths use it for that notion. Whatever was written with the scored queries in mind is gone, and
  much that was not: a lower bound.
"""

import argparse
import gc
import json
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from benchmarks.listed_tokens import TOOLS, listed_tokens
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.search.index import IndexedTool, ToolIndex, build_entry
from mcp_dispatch.search.query import replace_pasted_text
from mcp_dispatch.search.synonyms import ConceptMatch, Lexicon, load_vocabulary
from mcp_dispatch.search.tokenize import split_prose, stem
from mcp_dispatch.search.weights import DEFAULT_WEIGHTS, SearchWeights

DEPTHS = (1, 3, 5, 10)
FOLDS = 5
CANDIDATES = 40
REPEATS = 5


@dataclass(frozen=True)
class Query:
    """`gold` holds classes of tools that are as good as each other."""

    id: str
    text: str
    gold: tuple[frozenset[str], ...]


@dataclass(frozen=True)
class Corpus:
    name: str
    ids: tuple[str, ...]
    entries: tuple[IndexedTool, ...]


@dataclass(frozen=True)
class Quality:
    """Recall at each depth, and the mean reciprocal rank of the first relevant tool."""

    recall: tuple[float, ...]
    mrr: float

    @property
    def worth(self) -> float:
        return self.recall[DEPTHS.index(5)] + self.mrr


@dataclass(frozen=True)
class Cost:
    index_seconds: float
    median: float
    slowest: float
    megabytes: float


Ranked = dict[str, list[str]]


def folder_of_cases() -> Path:
    beside = Path(__file__).parents[2] / "shared" / "data"
    return Path(os.environ.get("MCP_DISPATCH_DATA", beside)) / "toolsearch"


def corpora(folder: Path) -> tuple[Corpus, Corpus]:
    rows = list(_rows(folder / "tools.jsonl"))
    small = set((folder / "tools_small_ids.txt").read_text(encoding="utf-8").splitlines())
    return (
        _corpus("small", [row for row in rows if row["id"] in small]),
        _corpus("full", rows),
    )


def queries(folder: Path) -> list[Query]:
    return [
        Query(str(row["id"]), str(row["query"]), _classes(row["gold"]))
        for row in _rows(folder / "queries_dev.jsonl")
    ]


def evaluate(asked: Sequence[Query], ranked: Ranked) -> Quality:
    """Recall is the share of a query's classes with a member in the first k."""
    recall, mrr = [0.0] * len(DEPTHS), 0.0
    for query in asked:
        places = [_place(ranked[query.id], members) for members in query.gold]
        for at, depth in enumerate(DEPTHS):
            recall[at] += sum(place < depth for place in places) / len(places)
        mrr += 1 / (1 + min(places))
    return Quality(tuple(each / len(asked) for each in recall), mrr / len(asked))


def rank(
    corpus: Corpus,
    asked: Sequence[Query],
    weights: SearchWeights = DEFAULT_WEIGHTS,
    lexicon: Lexicon | None = None,
) -> Ranked:
    index = ToolIndex(corpus.entries, weights, lexicon)
    ids = {id(entry): tool for entry, tool in zip(corpus.entries, corpus.ids, strict=True)}
    return {
        query.id: [ids[id(hit.entry)] for hit in index.search(query.text, max(DEPTHS))]
        for query in asked
    }


def measure(corpus: Corpus, asked: Sequence[Query]) -> Cost:
    """The best of a few runs of each query, since other work on the machine only ever adds."""
    seconds = min(_seconds(lambda: ToolIndex(corpus.entries)) for _ in range(REPEATS))
    index = ToolIndex(corpus.entries)
    waits = sorted(
        min(_seconds(lambda text=query.text: index.search(text, 5)) for _ in range(REPEATS))
        for query in asked
    )
    slowest = waits[int(len(waits) * 0.99)]
    return Cost(seconds, waits[len(waits) // 2], slowest, _megabytes(corpus))


class AttestedLexicon(Lexicon):
    """The vocabulary, deaf to every word that was not heard for the same notion before."""

    def __init__(self, asked: Sequence[Query]) -> None:
        vocabulary, stop_words = load_vocabulary()
        super().__init__(vocabulary, frozenset(stop_words.split()))
        self._attested: set[tuple[int, tuple[str, ...]]] = set()
        for query in asked:
            stems = [stem(word) for word in split_prose(replace_pasted_text(query.text))]
            self._attested.update(_span(heard, stems) for heard in super().match_query(stems))

    def in_question(self, stems: Sequence[str]) -> Iterator[ConceptMatch]:
        return (h for h in super().match_query(stems) if _span(h, stems) in self._attested)


def cross_validate(
    small: Corpus, full: Corpus, asked: Sequence[Query]
) -> Iterator[tuple[str, Quality]]:
    """Weights are tuned on the small corpus only."""
    mixed = random.Random(7).sample(list(asked), len(asked))
    runs = {weights: rank(small, asked, weights) for weights in _candidates()}
    held_out: dict[str, Ranked] = {}
    for fold in range(FOLDS):
        test = mixed[fold::FOLDS]
        train = [query for query in mixed if query not in test]
        tuned = max(runs, key=lambda weights: evaluate(train, runs[weights]).worth)
        attested = AttestedLexicon(train)
        for corpus in (small, full):
            for label, lexicon in (("weights", None), ("vocabulary too", attested)):
                row = held_out.setdefault(f"{corpus.name}, held out, {label}", {})
                row.update(rank(corpus, test, tuned, lexicon))
    for label, ranked in held_out.items():
        yield label, evaluate(asked, ranked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick: bool = parser.parse_args().quick
    folder = folder_of_cases()
    if not folder.is_dir():
        sys.exit(f"no labelled queries at {folder}; set MCP_DISPATCH_DATA")
    small, full = corpora(folder)
    asked = queries(folder)
    table = _table()
    for corpus in (small, full):
        label = f"{corpus.name}, {len(corpus.entries)} tools"
        _add(table, label, evaluate(asked, rank(corpus, asked)), measure(corpus, asked))
    for label, quality in () if quick else cross_validate(small, full, asked):
        _add(table, label, quality, None)
    console = Console(width=120)
    console.print(table)
    console.print(_tokens_table(listed_tokens(folder / "tools.jsonl")))


def _candidates() -> list[SearchWeights]:
    """The standard weights and variations of them, the same on each run."""
    dice = random.Random(11)
    varied = [
        replace(
            DEFAULT_WEIGHTS,
            **{
                f.name: getattr(DEFAULT_WEIGHTS, f.name) * dice.uniform(0.4, 1.8)
                for f in fields(SearchWeights)
            },
        )
        for _ in range(CANDIDATES)
    ]
    return [DEFAULT_WEIGHTS, *varied]


def _rows(path: Path) -> Iterator[JsonObject]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _corpus(name: str, rows: Sequence[JsonObject]) -> Corpus:
    entries = (build_entry(str(row["server"]), row) for row in rows)
    return Corpus(name, tuple(str(row["id"]) for row in rows), tuple(entries))


def _classes(gold: object) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(members) for members in cast(list[list[str]], gold))


def _place(ranked: Sequence[str], members: frozenset[str]) -> float:
    return next((at for at, tool in enumerate(ranked) if tool in members), float("inf"))


def _span(heard: ConceptMatch, stems: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    return heard.concept, tuple(stems[heard.start : heard.end])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _megabytes(corpus: Corpus) -> float:
    gc.collect()
    tracemalloc.start()
    index = ToolIndex(corpus.entries)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del index
    return held / 1_000_000


def _table() -> Table:
    table = Table("corpus")
    for heading in (*(f"R@{depth}" for depth in DEPTHS), "MRR", "index", "p50", "p99", "memory"):
        table.add_column(heading, justify="right")
    return table


def _tokens_table(tokens: dict[str, int]) -> Table:
    table = Table(f"tools/list with {TOOLS} upstream tools", "estimated tokens", "saved")
    for mode, count in tokens.items():
        table.add_row(mode, f"{count:,}", f"{1 - count / tokens['never']:.1%}")
    return table


def _add(table: Table, label: str, quality: Quality, cost: Cost | None) -> None:
    figures = [f"{figure:.3f}" for figure in (*quality.recall, quality.mrr)]
    if cost:
        figures += [
            f"{cost.index_seconds:.2f} s",
            f"{cost.median * 1000:.1f} ms",
            f"{cost.slowest * 1000:.1f} ms",
            f"{cost.megabytes:.1f} MB",
        ]
    table.add_row(label, *figures)


if __name__ == "__main__":
    main()
