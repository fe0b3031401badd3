"""Memory of a loop in words: what was measured, what was predicted, and why a setting is refused."""

from typing import Any

from build_loop_profiles import looked_into
from build_records import GIB, MIB, host, loop

from tunekit.predict.ram import ram_grid
from tunekit.predict.vram.budget import VramBudget
from tunekit.report.blocks import Passage, Table
from tunekit.report.loop_memory import buffer_lines, reason_lines, vram_blocks


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
        "1 x 8: Risky, buffer 400.0 MiB (predicted): above 20% of the RAM limit (200.0 MiB)",
        "2 x 8: OOM, base 220.0 MiB + buffer 800.0 MiB (predicted): above 85% of the RAM limit (850.0 MiB)",
    )
    docker = host(cpus=2, shm_bytes=64 * MIB)
    assert reason_lines(ram_grid(16 * MIB, 0, 0, docker)) == (
        "1 x 4: OOM, queue 80.0 MiB (predicted): above /dev/shm (64.0 MiB)",
    )
    assert reason_lines(ram_grid(MIB, 0, 0, host())) == ()


def test_only_settings_that_the_grid_shows_are_named():
    cells = ram_grid(50 * MIB, 0, 0, host(ram_limit_bytes=GIB, ram_total_bytes=GIB), (2, 3))
    shown = {f"{count} x {depth}" for count in (1, 2, 4, 8, 16) for depth in (1, 2, 3, 4)}
    assert {line.partition(":")[0] for line in reason_lines(cells)} <= shown


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
