"""Memory of a loop in words: what was measured, what was predicted, and why a setting is refused."""

from typing import Any

from build_loop_profiles import looked_into
from build_records import MIB, host, loop

from tunekit.predict.ram import ram_grid
from tunekit.predict.vram.budget import VramBudget
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


def cells(made: VramBudget) -> dict[str, str]:
    return {row[0]: row[1] for row in vram_blocks(made, loop())[0].rows}


def test_each_exceeded_limit_is_named_once_with_the_first_setting():
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


def test_gradients_that_were_predicted_say_so():
    assert cells(budget(gradients_are_predicted=True))["gradients (predicted)"] == "3.0 MiB"
    assert cells(budget())["gradients"] == "3.0 MiB"


def test_a_pinned_buffer_counts_with_powers_of_two():
    measured = looked_into().measurement
    assert measured is not None
    pinned = measured.changed(loop=measured.loop.changed(pin_memory=True))
    plain, grown = (buffer_lines(one)[0] for one in (measured, pinned))
    assert "2 x 147.0 MiB = 588.0 MiB" in plain
    assert "2 x 256.0 MiB = 1.0 GiB" in grown
