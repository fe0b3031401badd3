"""Memory of a loop in words: what was measured, what was predicted, and why a setting is refused."""

from typing import Any

from build_loop_profiles import looked_into
from build_records import GIB, MIB, host, loop

from tunekit.predict.ram import ram_grid
from tunekit.predict.vram.budget import VramBudget
from tunekit.records.measurement import Measurement
from tunekit.report.blocks import Passage, Table
from tunekit.report.loop_memory import buffer_lines, memory_blocks, reason_lines, vram_blocks


def seen_with(**queue: Any) -> Measurement:
    """The loop of `looked_into` with other figures of its queue."""
    measured = looked_into().measurement
    assert measured is not None
    assert measured.details is not None
    assert measured.details.queue is not None
    other = measured.details.queue.model_copy(update=queue)
    return measured.model_copy(update={"details": measured.details.model_copy(update={"queue": other})})


def budget(**overrides: Any) -> VramBudget:
    values: dict[str, Any] = {
        "parameters_bytes": MIB,
        "buffers_bytes": 0,
        "gradients_bytes": 3 * MIB,
        "optimizer_bytes": 0,
        "batch_bytes": 0,
        "activations_bytes": 0,
        "fragmentation_bytes": 0,
        "context_bytes": None,
        "complete_gradients_bytes": 3 * MIB,
        "peak_allocated_bytes": 4 * MIB,
        "peak_reserved_bytes": 4 * MIB,
        "nvml_bytes": None,
        "allocation_retries": None,
        "peak_in": "optimizer step",
        "closure_error": None,
    }
    return VramBudget(**(values | overrides))


def words(made: VramBudget) -> tuple[dict[str, str], str]:
    """Return the cells of a budget by their names, and what is said below them."""
    table, passage = vram_blocks(made, loop())
    assert isinstance(table, Table)
    assert isinstance(passage, Passage)
    return {str(name): str(cell) for name, cell in table.rows}, " ".join(passage.lines)


def test_each_limit_that_is_met_is_told_once_with_the_first_setting_that_meets_it():
    small = host(cpus=8, ram_limit_bytes=1000 * MIB, ram_total_bytes=1000 * MIB, shm_bytes=900 * MIB)
    cells = ram_grid(50 * MIB, 200 * MIB, 10 * MIB, small)
    assert reason_lines(cells) == (
        "1 x 8: Risky, buffer 400.0 MiB (predicted) exceeds 20% of the RAM limit (200.0 MiB)",
        "2 x 8: OOM, base 220.0 MiB + buffer 800.0 MiB (predicted) exceed 85% of the RAM limit (850.0 MiB)",
    )
    docker = host(cpus=2, shm_bytes=64 * MIB)
    assert reason_lines(ram_grid(16 * MIB, 0, 0, docker)) == (
        "1 x 4: OOM, the loader's queue needs 80.0 MiB of /dev/shm (predicted), which has 64.0 MiB",
    )
    assert reason_lines(ram_grid(MIB, 0, 0, host())) == ()


def test_an_oom_beside_a_small_buffer_names_the_base():
    (line,) = reason_lines(ram_grid(1000, 31 * GIB, 0, host()))
    assert line.startswith("1 x 1: OOM, base 31.0 GiB + buffer 1000 B (predicted) exceed")


def test_only_settings_that_the_grid_shows_are_named():
    cells = ram_grid(50 * MIB, 0, 0, host(ram_limit_bytes=GIB, ram_total_bytes=GIB), (2, 3))
    shown = {f"{count} x {depth}" for count in (1, 2, 4, 8, 16) for depth in (1, 2, 3, 4)}
    assert {line.partition(":")[0] for line in reason_lines(cells)} <= shown


def test_the_reasons_stand_below_the_grid():
    measured = looked_into().measurement
    assert measured is not None
    parts = memory_blocks(measured, None, host(ram_limit_bytes=GIB, ram_total_bytes=GIB))
    place = next(n for n, part in enumerate(parts) if isinstance(part, Table))
    below = parts[place + 1]
    assert isinstance(below, Passage)
    assert below.lines[0].startswith("1 x 1: OOM, base ")


def test_what_is_kept_from_the_epoch_before_is_told_where_there_is_any():
    assert (
        "(measured, of which 5.0 MiB kept from the epoch before)"
        in buffer_lines(seen_with(kept_bytes=5 * MIB))[-1]
    )
    assert "kept" not in buffer_lines(seen_with(kept_bytes=0))[-1]


def test_one_batch_and_several_are_counted_in_words():
    assert " for 1 batch (predicted)" in buffer_lines(seen_with(batches=1))[-1]
    assert " for 1,025 batches (predicted)" in buffer_lines(seen_with(batches=1025))[-1]


def test_gradients_that_were_predicted_say_so():
    cells, below = words(budget(gradients_are_predicted=True))
    assert cells["gradients there"] == "3.0 MiB (predicted)"
    assert "All gradients: 3.0 MiB (predicted)" in below
    cells, below = words(budget())
    assert cells["gradients there"] == "3.0 MiB"
    assert "predicted" not in below


def test_a_pinned_buffer_counts_with_powers_of_two_and_says_so():
    measured = looked_into().measurement
    assert measured is not None and measured.loop.batch is not None
    known = measured.loop.model_copy(update={"pin_memory": False, "num_workers": 2, "prefetch_factor": 2})
    pinned = known.model_copy(update={"pin_memory": True})
    plain, grown = (buffer_lines(measured.model_copy(update={"loop": one}))[0] for one in (known, pinned))
    assert plain == "RAM buffer: 2 workers x prefetch 2 x 147.0 MiB = 588.0 MiB (predicted)"
    assert grown == (
        "RAM buffer: 2 workers x prefetch 2 x 256.0 MiB = 1.0 GiB (predicted; pinned memory comes in powers "
        "of two, a block for each tensor)"
    )
