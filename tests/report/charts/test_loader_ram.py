"""The RAM of every loader, and where the baseline and the tiers stand in it."""

from build_records import (
    GIB,
    MIB,
    baseline_record,
    config,
    confirm_records,
    host,
    recommendation,
    run,
    trial_record,
)
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.memory import memory_need
from tunekit.records.run import Run
from tunekit.report.blocks import Table
from tunekit.report.charts.memory import loader_ram_blocks
from tunekit.report.tiers import buffer_text


def finished(knobs, sample_bytes: int = MIB) -> Run:
    confirmed = confirm_records([1000.0], knobs, bytes_per_sample=sample_bytes)
    machine = host(ram_limit_bytes=16 * GIB, ram_total_bytes=16 * GIB)
    need = memory_need(knobs, [one.measurement for one in confirmed], machine)
    return run(
        trials=(
            baseline_record(0, 500.0, config(), bytes_per_sample=sample_bytes),
            trial_record(1, 1000.0, knobs, bytes_per_sample=sample_bytes),
            *confirmed,
        ),
        recommendations=(recommendation(of=knobs, **dict(need)),),
        host=machine,
    )


def test_a_loop_without_a_loader_has_no_buffers():
    own = baseline_record(0, 500.0, config(num_workers=0), bytes_per_sample=0)
    assert loader_ram_blocks(run(trials=(own,)), None) == ()


@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from([16, 256]), st.integers(1, 4 * MIB))
def test_a_tier_stands_in_the_cell_that_says_what_its_own_row_says(workers, prefetch, batch, sample_bytes):
    knobs = config(batch_size=batch, num_workers=workers, prefetch_factor=prefetch)
    whole = finished(knobs, sample_bytes)
    (table, _) = loader_ram_blocks(whole, whole.recommendations[0])
    assert isinstance(table, Table)
    (row,) = (row for row in table.rows if row[0] == str(workers))
    own = row[table.columns.index(f"prefetch {prefetch}")]
    assert own == f"*{buffer_text(whole.recommendations[0])}"
