"""The cost of waiting calls grows linearly."""

from pathlib import Path

from benchmarks.queue import measure

FEW, MANY = 2_000, 10_000


async def test_ten_thousand_queued_calls_cost_linear_time_and_memory(tmp_path: Path) -> None:
    few = await measure(FEW, tmp_path)
    many = await measure(MANY, tmp_path)

    # Quadratic growth would be a factor of five.
    assert many.micros_per_call < 2.5 * few.micros_per_call
    assert many.bytes_per_call < 1.5 * few.bytes_per_call
