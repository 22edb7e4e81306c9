"""Search quality on public labelled queries: minima a little below the measured values."""

import statistics
import time
from pathlib import Path

import pytest

from benchmarks import tool_search as benchmark
from benchmarks.listed_tokens import listed_tokens
from mcp_dispatch.search.index import ToolIndex


@pytest.fixture(scope="module")
def cases(data_dir: Path) -> Path:
    folder = data_dir / "toolsearch"
    if not folder.is_dir():
        pytest.skip(f"no labelled queries at {folder}")
    return folder


def test_search_quality_is_not_below_the_measured_values(cases: Path) -> None:
    small, full = benchmark.corpora(cases)
    asked = benchmark.queries(cases)

    on_small = benchmark.evaluate(asked, benchmark.rank(small, asked))
    on_full = benchmark.evaluate(asked, benchmark.rank(full, asked))

    assert on_small.recall[benchmark.DEPTHS.index(5)] > 0.665
    assert on_small.mrr > 0.6
    assert on_full.recall[benchmark.DEPTHS.index(5)] > 0.535
    assert on_full.mrr > 0.48


def test_five_thousand_tools_are_indexed_in_a_second_and_searched_in_five_milliseconds(
    cases: Path,
) -> None:
    full = benchmark.corpora(cases)[1]
    asked = benchmark.queries(cases)

    building = min(cpu_seconds_to_index(full) for _ in range(3))
    index = ToolIndex(full.entries)
    waits = [cpu_seconds_to_search(index, query.text) for query in asked]

    assert len(full.entries) > 5_000
    assert building < 1.0
    assert statistics.median(waits) < 0.005


def test_four_hundred_tools_cost_a_twentieth_when_they_are_deferred(cases: Path) -> None:
    tokens = listed_tokens(cases / "tools.jsonl")

    assert tokens["auto"] <= 0.05 * tokens["never"]


def cpu_seconds_to_index(corpus: benchmark.Corpus) -> float:
    start = time.process_time()
    ToolIndex(corpus.entries)
    return time.process_time() - start


def cpu_seconds_to_search(index: ToolIndex, query: str) -> float:
    start = time.process_time()
    index.search(query, 5)
    return time.process_time() - start


def test_recall_and_rank_are_counted_by_class() -> None:
    query = benchmark.Query("q", "", (frozenset({"a", "b"}), frozenset({"c"})))
    missed = benchmark.Query("r", "", (frozenset({"z"}),))

    quality = benchmark.evaluate([query, missed], {"q": ["x", "b", "a", "y", "c"], "r": ["x"]})

    assert quality == benchmark.Quality((0.0, 0.25, 0.5, 0.5), 0.25)
