"""How far a loop's figures can be trusted: drift, page cache, closure."""

from typing import Any

import pytest
from build_loops import codes, floors, found, record, telemetry
from build_records import MIB, host

from tunekit.records.trial import TrialRecord

READS = {"rchar_bytes_per_s": 200 * MIB, "read_bytes_per_s": 4 * MIB}
SMALL = {"host": host(ram_limit_bytes=1024 * MIB, ram_total_bytes=1024 * MIB)}


def reading(reads: dict[str, float], **overrides: Any) -> TrialRecord:
    return record(telemetry=telemetry(reads), **overrides)


@pytest.mark.parametrize(
    ("code", "severity", "of", "evidence", "value", "remedy"),
    [
        (
            "rate-drifts",
            "warning",
            record(rate_trend_relative=0.12),
            "batches took 12% longer at the end of a window of 10.0 s than at its start",
            0.12,
            "heat",
        ),
        (
            "rate-drifts",
            "warning",
            record(rate_trend_relative=-0.05),
            "batches took 5% less time at the end of a window of 10.0 s than at its start",
            0.05,
            "caches were still warming up",
        ),
        (
            "page-cache",
            "warning",
            reading(READS),
            "98% of 200.0 MiB/s read came from no storage (/proc/PID/io); 1.0 GiB of RAM may be used; "
            "an epoch reads about 7.6 GiB (predicted)",
            0.98,
            "tunekit doctor --data PATH",
        ),
        (
            "closure-broken",
            "info",
            record(floors(0.05, 0.03)),
            "the loop takes 100 ms per batch, training alone 50.0 ms, the loader alone 30.0 ms "
            "(40 and 60 batches alone, within 5%): loader and training disturb each other when they run "
            "together: they share CPU cores, or memory bandwidth",
            None,
            "fewer workers, or fewer threads in each",
        ),
    ],
)
def test_what_makes_a_rate_less_sure_is_told(
    code: str, severity: str, of: TrialRecord, evidence: str, value: float | None, remedy: str
):
    finding = found(code, of, **SMALL)
    assert (finding.severity, finding.evidence) == (severity, evidence)
    assert finding.value == (None if value is None else pytest.approx(value))
    assert remedy in (finding.remedy or "")


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
    ],
)
def test_a_rate_that_holds_is_no_finding(absent: str, of: TrialRecord):
    assert absent not in codes(of, **SMALL)


def test_an_epoch_that_fits_the_page_cache_is_no_danger():
    assert "page-cache" not in codes(reading(READS))  # 7.6 of 32 GiB
    assert "page-cache" in codes(reading(READS, epoch_samples=None, epoch_batches=None))


@pytest.mark.parametrize(("trend", "how"), [(0.12, "slower"), (-0.05, "faster")])
def test_a_drift_says_which_way(trend: float, how: str):
    message = found("rate-drifts", record(rate_trend_relative=trend)).message
    assert message == f"the loop got {how} while it was measured"
