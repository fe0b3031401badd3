"""What the machine did, in one table: whose trials, which means, which columns."""

from typing import Any

from build_records import GIB, baseline_record, config, confirm_records, recommendation, run, trial_record

from tunekit.records.measurement import GpuTelemetry, HostTelemetry, Telemetry
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.report.trials import telemetry_table

fast = config(batch_size=256, num_workers=4)
BEST = recommendation(of=fast, search_trial=1, confirm_trials=(100, 101))


def telemetry(cpu_cores: float | None = 1.0, *gpus: GpuTelemetry, **more: Any) -> Telemetry:
    host = HostTelemetry(cpu_cores=cpu_cores, **more.pop("host", {}))
    values = {"window_s": 4.0, "samples": 8, "is_of_steady_window": True, "cost_cpu_s": 0.01}
    return Telemetry(**(values | more), host=host, gpus=gpus)


def with_telemetry(record: TrialRecord, telemetry: Telemetry) -> TrialRecord:
    return record.model_copy(update={"telemetry": telemetry})


def searched(baseline: Telemetry, *best: Telemetry) -> Run:
    records = (trial_record(1, 900.0, fast), *confirm_records([1000.0, 1010.0], fast))
    trials = (
        with_telemetry(baseline_record(of=config()), baseline),
        *(with_telemetry(record, one) for record, one in zip(records, best, strict=False)),
    )
    return run(trials=trials, recommendations=(BEST,))


def cells(of: Run) -> dict[tuple[str, str], str]:
    table = telemetry_table(of, BEST)
    return {
        (row[0], title): cell
        for row in table.rows
        for title, cell in zip(table.columns[1:], row[1:], strict=True)
    }


def test_only_the_gpus_that_train_count_by_their_means_and_peaks() -> None:
    one = GpuTelemetry(
        index=0, is_used=True, utilization_percent=96, peak_used_bytes=9 * GIB, peak_tree_bytes=5 * GIB
    )
    other = one.changed(index=1, utilization_percent=92, throttle_reasons=("gpu_idle", "sw_power_cap"))
    idle = GpuTelemetry(index=2, is_used=False, utilization_percent=0, power_w=70)
    shown = cells(searched(telemetry(0.5, one, other, idle), telemetry(2.0)))
    assert shown[("baseline", "GPU busy")] == "94%"
    assert shown[("baseline", "GPU memory")] == "5.0 GiB"
    assert shown[("baseline", "throttled by")] == "sw_power_cap"
    assert shown[("balanced", "GPU busy")] == "n/a"
    assert ("baseline", "power") not in shown


def test_the_clock_is_shown_as_the_first_trial_began_with_it_and_the_last_ended() -> None:
    def clocked(first: float | None, mean: float, last: float | None) -> GpuTelemetry:
        return GpuTelemetry(
            index=0, is_used=True, first_sm_clock_mhz=first, sm_clock_mhz=mean, last_sm_clock_mhz=last
        )

    shown = cells(
        searched(
            telemetry(0.5, clocked(None, 1700, None)),
            telemetry(2.0, clocked(1710, 1695, 1680)),
            telemetry(2.0, clocked(1600, 1590, 1580)),
        )
    )
    assert shown[("balanced", "SM clock")] == "1710 to 1580 MHz"
    assert shown[("baseline", "SM clock")] == "1700 to 1700 MHz"


def test_reads_tell_how_much_no_disk_was_asked_for() -> None:
    reads = {"read_bytes_per_s": 25e6, "rchar_bytes_per_s": 100e6}
    shown = cells(searched(telemetry(0.5, host=reads), telemetry(2.0)))
    assert shown[("baseline", "storage MB/s")] == "25.0"
    assert shown[("baseline", "page-cache hits")] == "75%"
    assert shown[("balanced", "page-cache hits")] == "n/a"


def test_figures_of_a_trial_without_a_steady_window_are_not_mixed_in() -> None:
    whole = telemetry(9.0, is_of_steady_window=False)
    shown = cells(searched(telemetry(0.5), whole, telemetry(3.0)))
    assert shown[("balanced", f"CPU cores of {run().host.cpus}")] == "3.0"
