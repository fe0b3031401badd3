"""How far a loop's figures can be trusted: drift, page cache, closure."""

import pytest
from build_loops import codes, floors, found, record, telemetry
from build_records import MIB, host

from tunekit.records.finding import Severity

READS = {"rchar_bytes_per_s": 200 * MIB, "read_bytes_per_s": 4 * MIB}
SMALL = host(ram_limit_bytes=1024 * MIB, ram_total_bytes=1024 * MIB)


@pytest.mark.parametrize(
    ("trend", "message", "evidence"),
    [
        (0.12, "the loop got slower while it was measured", "batches took 12% longer at the end"),
        (-0.05, "the loop got faster while it was measured", "batches took 5% less time at the end"),
    ],
)
def test_a_loop_that_drifts_is_told(trend: float, message: str, evidence: str) -> None:
    finding = found("rate-drifts", record(rate_trend_relative=trend))
    assert finding.severity is Severity.WARNING
    assert finding.message == message
    assert finding.evidence is not None
    assert finding.evidence.startswith(evidence)
    assert finding.remedy is not None


@pytest.mark.parametrize("trend", [None, 0.0, 0.049, -0.049])
def test_a_loop_that_holds_its_rate_is_not(trend: float | None) -> None:
    assert "rate-drifts" not in codes(record(rate_trend_relative=trend))


def test_reads_that_come_from_no_storage_may_not_stay_so():
    finding = found("page-cache", record(telemetry=telemetry(READS)), host=SMALL)
    assert finding.value == pytest.approx(0.98)
    assert "if the data set does not fit" in finding.message
    assert finding.evidence == (
        "98% of 200.0 MiB/s read came from no storage (/proc/PID/io); 1.0 GiB of RAM may be used; "
        "an epoch reads about 7.6 GiB (predicted)"
    )


def test_an_epoch_that_fits_the_page_cache_is_no_danger():
    assert "page-cache" not in codes(record(telemetry=telemetry(READS)))  # 7.6 of 32 GiB
    assert "page-cache" in codes(record(telemetry=telemetry(READS), epoch_samples=None, epoch_batches=None))


@pytest.mark.parametrize(
    "reads",
    [
        {},
        {"rchar_bytes_per_s": 9 * MIB, "read_bytes_per_s": 0},
        {"rchar_bytes_per_s": 200 * MIB},
        {"rchar_bytes_per_s": 200 * MIB, "read_bytes_per_s": 60 * MIB},
    ],
)
def test_little_reading_or_much_from_storage_is_no_danger(reads: dict[str, float]):
    assert "page-cache" not in codes(record(telemetry=telemetry(reads)), host=SMALL)


def test_halves_that_do_not_add_up_say_why():
    finding = found("closure-broken", record(floors(0.05, 0.03)))
    assert finding.severity is Severity.INFO
    assert finding.evidence == (
        "the loop takes 100 ms per batch, training alone 50.0 ms, the loader alone 30.0 ms "
        "(40 and 60 batches alone, within 5%): loader and training disturb each other when they run "
        "together: they share CPU cores, or memory bandwidth"
    )
    assert finding.remedy == "fewer workers, or fewer threads in each, leave the training its CPUs"


def test_halves_that_add_up_are_no_finding():
    assert "closure-broken" not in codes(record(floors(0.09, 0.03)))
