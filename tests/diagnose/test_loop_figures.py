"""How far a loop's figures can be trusted: drift, page cache, closure."""

from collections.abc import Callable
from typing import Any

import pytest
from build_loops import codes, floors, found, parts, record, slow_together, telemetry
from build_records import GIB, MIB, host
from finding_texts import texts_of

from tunekit.records.attribution import ModelBytes
from tunekit.records.trial import TrialRecord

READS = {"rchar_bytes_per_s": 200 * MIB, "read_bytes_per_s": 4 * MIB}
SMALL = {"host": host(ram_limit_bytes=1024 * MIB, ram_total_bytes=1024 * MIB)}


FROZEN = ModelBytes(
    parameters_bytes=100 * MIB, frozen_bytes=92 * MIB, buffers_bytes=0, gradients_bytes=0, optimizer_bytes=0
)


def reading(reads: dict[str, float], **overrides: Any) -> TrialRecord:
    return record(telemetry=telemetry(reads), **overrides)


ROWS = [
    ("rate-drifts", record(rate_trend_relative=0.12)),
    ("rate-drifts", record(rate_trend_relative=-0.05)),
    ("memory-grows", record(growth_bytes_per_batch=0.4 * MIB)),
    ("memory-grows", record(growth_bytes_per_batch=0.4 * MIB, epoch_samples=None, epoch_batches=None)),
    ("memory-grows", record(growth_bytes_per_epoch=48 * MIB, peak_reserved_bytes=GIB)),
    ("memory-grows", record(growth_bytes_per_epoch=GIB, peak_reserved_bytes=2 * GIB)),
    ("parameters-frozen", record(model=FROZEN)),
    ("page-cache", reading(READS)),
    ("closure-broken", record(floors(0.05, 0.03))),
    ("closure-broken", slow_together()),
    ("closure-broken", slow_together(num_workers=0)),
    ("closure-broken", record(floors(0.001, 0.02), parts=parts(wait=0.8), num_workers=0)),
]


def test_what_makes_a_rate_less_sure_is_told(golden: Callable[[str], object]):
    assert texts_of([found(code, of, **SMALL) for code, of in ROWS]) == golden("loop_figures.txt")


@pytest.mark.parametrize(
    ("absent", "of"),
    [
        *(("rate-drifts", record(rate_trend_relative=trend)) for trend in (None, 0.0, 0.049, -0.049)),
        *(
            ("page-cache", reading(reads))
            for reads in (
                {},
                {"rchar_bytes_per_s": 9 * MIB, "read_bytes_per_s": 0},
                {"rchar_bytes_per_s": 200 * MIB},
                {"rchar_bytes_per_s": 200 * MIB, "read_bytes_per_s": 60 * MIB},
            )
        ),
        ("closure-broken", record(floors(0.09, 0.03))),
        ("memory-grows", record(growth_bytes_per_batch=1000, growth_bytes_per_epoch=MIB)),
        ("parameters-frozen", record(model=FROZEN.changed(frozen_bytes=MIB))),
    ],
)
def test_a_rate_that_holds_is_no_finding(absent: str, of: TrialRecord):
    assert absent not in codes(of, **SMALL)


def test_an_epoch_that_fits_the_page_cache_is_no_danger():
    assert "page-cache" not in codes(reading(READS))  # 7.6 of 32 GiB
    assert "page-cache" in codes(reading(READS, epoch_samples=None, epoch_batches=None))
