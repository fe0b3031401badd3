"""Training as the longer half: what is left to try, a GPU that waits for its host, its memory and clocks."""

from typing import Any

import pytest
from build_loops import (
    CPU,
    codes,
    device_parts,
    findings,
    floors,
    found,
    gpu,
    kernels,
    parts,
    record,
    root,
    sync,
    telemetry,
)
from build_records import GIB, discovery, host, profile, target

from tunekit.hardware.profiles import load_profiles
from tunekit.records.config import Precision
from tunekit.records.details import Details
from tunekit.records.finding import Severity
from tunekit.records.host import Accelerator, GpuState
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding


def busy(details: Details | None = None, **overrides: Any) -> TrialRecord:
    """A GPU that always has work."""
    return record(details, **({"device_parts": device_parts(stall=0.01)} | overrides))


def drained(details: Details | None = None, **overrides: Any) -> TrialRecord:
    """A GPU that runs dry after each batch."""
    return record(details, **({"device_parts": device_parts(stall=0.01, drained=1.0)} | overrides))


# --- compute-bound ------------------------------------------------------------------------


def test_a_busy_gpu_is_told_what_is_not_used_yet():
    finding = found("compute-bound", busy(floors(0.1, 0.025), peak_reserved_bytes=5 * GIB))
    assert finding.severity is Severity.INFO
    assert finding.evidence == (
        "99% of each step are forward, backward and optimizer (CUDA events), 1% data stall; the loader "
        "alone makes 5,120 samples/s, so faster training brings 4.00x at the very most"
    )
    assert finding.remedy == (
        "not used yet: torch.autocast(..., dtype=torch.bfloat16) around forward and loss, "
        "torch.compile(model), model.to(memory_format=torch.channels_last), and its input too, "
        "batch_size=256 in the DataLoader; `tunekit search` measures what they bring"
    )
    assert finding.gain is None


def test_without_floors_nothing_is_said_of_the_loader_alone():
    assert "loader alone" not in found("compute-bound", busy()).evidence


def test_what_is_in_use_is_not_advised():
    used = {"precision": Precision.BF16, "compile": True, "channels_last": True}
    finding = found("compute-bound", busy(knobs=used, peak_reserved_bytes=15 * GIB))
    assert finding.remedy is not None
    assert finding.remedy.startswith("what tunekit sets is in use already")


@pytest.mark.parametrize(
    ("overrides", "absent"),
    [
        ({"discovery": discovery(autocast_dtype="bfloat16")}, "autocast"),
        ({"discovery": discovery(compiles=True)}, "compile"),
        ({"discovery": discovery(roots=(root(has_4d_weights=False),))}, "channels_last"),
        ({"discovery": discovery(roots=(root(channels_last=True),))}, "channels_last"),
        ({"profile": profile(compile_supported=False)}, "compile"),
        ({"discovery": discovery(bf16_native=False), "profile": None}, "autocast"),
        ({"discovery": None, "profile": None}, "channels_last"),
    ],
)
def test_what_does_not_suit_is_not_advised(overrides: dict[str, Any], absent: str):
    remedy = found("compute-bound", busy(), **overrides).remedy
    assert remedy is not None
    assert absent not in remedy


OLDER = {"profile": load_profiles()["t4"], "discovery": discovery(bf16_native=False)}
"""A GPU with fp16 and without bf16, under a script without a gradient scaler."""


def test_a_gpu_whose_half_precision_takes_a_scaler_is_told_what_it_would_bring_and_what_to_add():
    finding = found("fp16-unscaled", busy(), **OLDER)
    assert finding.severity is Severity.INFO
    assert finding.evidence == (
        "profile t4: 65 TFLOPS in fp16 and 8.1 in fp32; 99% of each step are training (CUDA events)"
    )
    assert finding.remedy is not None and "torch.amp.GradScaler" in finding.remedy
    assert finding.gain == pytest.approx(1 / (1 - 0.99 * (1 - 8.1 / 65)))
    # Training at no cost at all brings the loader's rate, 4 times this one.
    assert found("fp16-unscaled", busy(floors(0.1, 0.025)), **OLDER).gain == 4.0
    waiting = record(device_parts=device_parts(stall=0.8))
    assert found("fp16-unscaled", waiting, **OLDER).gain == pytest.approx(1 / (1 - 0.2 * (1 - 8.1 / 65)))


@pytest.mark.parametrize(
    "overrides",
    [
        {"discovery": discovery()},
        {"discovery": discovery(bf16_native=False, scales_gradients=True)},
        {"discovery": discovery(bf16_native=False, autocast_dtype="float16")},
        {"target": target(bindings=(parse_binding("precision=--amp {}"),))},
        {"profile": profile(native_precisions=("fp32",))},
        {"profile": None},
    ],
)
def test_a_script_that_scales_or_a_gpu_with_something_better_is_not_told_of_scalers(
    overrides: dict[str, Any],
):
    assert "fp16-unscaled" not in codes(busy(), **{**OLDER, **overrides})


def test_an_older_gpu_is_advised_tf32_where_it_has_that():
    old = {"discovery": discovery(bf16_native=None), "profile": profile(native_precisions=("fp32", "tf32"))}
    remedy = found("compute-bound", busy(), **old).remedy
    assert remedy is not None
    assert "set_float32_matmul_precision('high')" in remedy
    remedy = found("compute-bound", busy(float32_matmul_precision="high"), **old).remedy
    assert remedy is not None
    assert "precision" not in remedy


def test_a_cpu_is_advised_bf16_only_where_it_has_that():
    of = record(device=CPU)
    for native in (True, False):
        seen = {"discovery": discovery(bf16_native=None), "host": host(cpu_bf16_native=native)}
        remedy = found("compute-bound", of, **seen).remedy
        assert remedy is not None
        assert ("bfloat16" in remedy) == native
        assert "batch_size" not in remedy


def test_balanced_halves_say_that_both_have_to_be_faster():
    assert "only both together" in found("compute-bound", busy(floors(0.1, 0.097))).message


# --- memory-bound -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figures", "evidence"),
    [
        (
            {"dram_activity_percent": 75, "tensor_activity_percent": 5, "sm_activity_percent": 90},
            "GPU 0: memory 75% active, tensor cores 5% (NVML GPM)",
        ),
        (
            {"dram_activity_percent": 75, "sm_activity_percent": 40},
            "GPU 0: memory 75% active, multiprocessors 40% (NVML GPM)",
        ),
    ],
)
def test_a_gpu_that_moves_more_than_it_computes_is_memory_bound(figures: dict[str, float], evidence: str):
    finding = found("memory-bound", busy(telemetry=telemetry({}, gpu(**figures))))
    assert finding.evidence == evidence
    assert finding.remedy is not None
    assert "torch.compile(model)" in finding.remedy


@pytest.mark.parametrize(
    "figures",
    [
        {},
        {"dram_activity_percent": 50, "tensor_activity_percent": 5},
        {"dram_activity_percent": 75},
        {"dram_activity_percent": 75, "tensor_activity_percent": 60},
        {"dram_activity_percent": 75, "tensor_activity_percent": 5, "is_used": False},
    ],
)
def test_a_gpu_that_computes_or_does_not_tell_is_not(figures: dict[str, Any]):
    assert "memory-bound" not in codes(busy(telemetry=telemetry({}, gpu(**figures))))


def test_a_cpu_is_never_memory_bound():
    seen = telemetry({}, gpu(dram_activity_percent=99, tensor_activity_percent=0, utilization_percent=0))
    assert not {"memory-bound", "gpu-underused"} & set(codes(record(device=CPU, telemetry=seen)))


# --- host-bound ---------------------------------------------------------------------------


def test_a_gpu_that_runs_dry_waits_for_its_host():
    finding = found("host-bound", drained(kernels(busy=0.5)))
    assert finding.evidence == (
        "after 100% of the batches the GPU had nothing left to do when the next was asked for, 1% of the "
        "step is data stall (CUDA events); nothing runs on it in 50% of the step (torch.profiler, 5 batches)"
    )
    assert finding.remedy is not None
    assert finding.remedy.startswith("torch.compile(model) makes fewer launches; batch_size=256")
    assert finding.gain == pytest.approx(2)


def test_gaps_that_only_the_trace_made_do_not_count():
    slow = kernels(busy=0.5, idle=0.4).kernels
    assert slow is not None
    slow = slow.model_copy(update={"idle_s": 3.0, "time_s": 4.0})
    assert found("host-bound", drained(Details(kernels=slow))).gain == pytest.approx(2)


def test_a_gpu_that_runs_dry_by_nvml_waits_for_its_host():
    seen = telemetry({}, gpu(utilization_percent=40))
    evidence = found("host-bound", drained(telemetry=seen)).evidence
    assert evidence is not None
    assert evidence.endswith("; a kernel ran in 40% of the time (NVML)")
    assert "host-bound" not in codes(drained(telemetry=telemetry({}, gpu(utilization_percent=98))))


def test_a_gpu_that_is_only_copied_to_waits_for_its_batches():
    traced = kernels(busy=0.95, copies_alone_s=0.35, h2d_s=0.4)
    finding = found("copy-bound", record(traced, device_parts=device_parts()))
    assert finding.evidence == (
        "nothing but copies from and to the host runs on it in 70% of the step; 80.0 ms per batch to it "
        "(torch.profiler, 5 batches)"
    )
    assert finding.remedy is not None
    assert "pin_memory=True" in finding.remedy
    assert finding.gain == pytest.approx(1 / 0.3)


def test_the_loaders_floor_bounds_what_a_faster_host_brings():
    both = floors(0.1, 0.08).model_copy(update={"kernels": kernels(busy=0.5, idle=0.5).kernels})
    assert found("host-bound", drained(both)).gain == pytest.approx(1.25)


def test_without_a_trace_its_gain_is_unknown():
    assert found("host-bound", drained()).gain is None


def test_a_compiled_model_is_not_told_to_compile():
    remedy = found("host-bound", drained(knobs={"compile": True})).remedy
    assert remedy is not None
    assert "torch.compile(model)" not in remedy
    assert "CUDA graphs" in remedy


def test_lines_that_wait_for_the_gpu_are_named_the_most_frequent_first():
    points = (sync("train.py:9", 0.5), sync("train.py:42", 2.0), sync("log.py:3", 0.01))
    finding = found("sync-points", drained(Details(syncs=points)))
    assert finding.severity is Severity.WARNING
    assert finding.evidence == (
        "train.py:42 loss.item(), 2.00 per batch; train.py:9 loss.item(), 0.50 per batch"
    )
    assert finding.value == 2
    assert found("sync-points", busy(Details(syncs=points))).severity is Severity.INFO


@pytest.mark.parametrize("points", [None, (), (sync(per_batch=0.1),)])
def test_rare_waits_are_no_finding(points: Any):
    assert "sync-points" not in codes(drained(Details(syncs=points)))


# --- what the driver and the allocator say ------------------------------------------------


@pytest.mark.parametrize(
    ("of", "cause"),
    [
        (record(parts=parts(wait=0.5), device_parts=device_parts(stall=0.5)), "it waits for data"),
        (drained(), "it waits for the host"),
        (busy(), "the step's own figures do not say why"),
    ],
)
def test_an_idle_gpu_names_its_cause(of: TrialRecord, cause: str):
    seen = telemetry({}, gpu(utilization_percent=54, sm_activity_percent=20))
    finding = found("gpu-underused", of.model_copy(update={"telemetry": seen}))
    assert finding.message == f"GPU 0 is idle for a good part of the time: {cause}"
    assert finding.evidence == (
        "a kernel ran in 54% of the time (NVML); 20% of its multiprocessors had work (NVML GPM)"
    )


def test_an_idle_gpu_gains_what_its_cause_does():
    of = record(
        parts=parts(wait=0.5),
        device_parts=device_parts(stall=0.5),
        telemetry=telemetry({}, gpu(utilization_percent=30)),
    )
    assert found("gpu-underused", of).gain == found("data-bound", of).gain == pytest.approx(2)


@pytest.mark.parametrize(
    "seen",
    [
        None,
        telemetry({}, gpu(utilization_percent=81)),
        telemetry({}, gpu()),
        telemetry({}, gpu(utilization_percent=5, is_used=False)),
        telemetry({}, gpu(utilization_percent=5), steady=False),
    ],
)
def test_a_busy_or_unused_gpu_and_other_windows_are_no_finding(seen: Any):
    assert "gpu-underused" not in codes(busy(telemetry=seen))


def test_heat_in_the_trial_is_told_with_the_clock_that_it_cost():
    hot = gpu(
        throttle_reasons=("sw_power_cap", "hw_thermal_slowdown"), sm_clock_mhz=1000, max_temperature_c=91
    )
    state = GpuState(max_sm_clock_mhz=1500)
    card = Accelerator(
        index=0,
        name="NVIDIA A10G",
        memory_bytes=22 * GIB,
        driver="550.1",
        profile_id="a10g",
        compute_capability="8.6",
        state=state,
    )
    of = busy(telemetry=telemetry({}, hot))
    finding = found("gpu-throttled-in-trial", of, host=host(accelerators=(card,)))
    assert finding.evidence == "hw_thermal_slowdown; 1000 MHz of 1500; up to 91 C (NVML)"
    assert finding.gain == pytest.approx(1.5)
    assert found("gpu-throttled-in-trial", of).gain is None


@pytest.mark.parametrize("reasons", [(), ("gpu_idle", "applications_clocks_setting", "sw_power_cap")])
def test_usual_reasons_are_no_finding(reasons: tuple[str, ...]):
    of = busy(telemetry=telemetry({}, gpu(throttle_reasons=reasons)))
    assert "gpu-throttled-in-trial" not in codes(of)


def capped(**overrides: Any) -> TrialRecord:
    """A GPU at its power limit."""
    return busy(telemetry=telemetry({}, gpu(throttle_reasons=("sw_power_cap",), **overrides)))


def test_a_clock_that_still_falls_at_the_power_limit_is_a_warning():
    falling = {"first_sm_clock_mhz": 1710.0, "last_sm_clock_mhz": 1530.0, "sm_clock_mhz": 1600.0}
    finding = found("gpu-unsoaked", capped(**falling, first_temperature_c=51.2, last_temperature_c=62.8))
    assert finding.severity is Severity.WARNING
    assert finding.evidence == "sw_power_cap; 1710 to 1530 MHz and 51 to 63 C within 10 s (NVML)"
    assert finding.value == pytest.approx(180 / 1710)
    assert "gpu-power-capped" not in codes(capped(**falling))


@pytest.mark.parametrize(
    ("clocks", "heat", "moves"),
    [
        ((1000.0, 981.0), None, False),
        ((1000.0, 980.0), None, True),
        ((1000.0, 1000.0), (60.0, 62.9), False),
        ((1000.0, 1000.0), (60.0, 63.0), True),
        ((1000.0, 1100.0), (70.0, 60.0), False),
        (None, None, False),
    ],
)
def test_a_gpu_at_its_power_limit_is_soaked_where_neither_clock_nor_heat_moves(
    clocks: tuple[float, float] | None, heat: tuple[float, float] | None, moves: bool
):
    first, last = clocks or (None, None)
    cold, warm = heat or (None, None)
    of = capped(
        first_sm_clock_mhz=first,
        last_sm_clock_mhz=last,
        first_temperature_c=cold,
        last_temperature_c=warm,
    )
    named = {"gpu-unsoaked", "gpu-power-capped"} & set(codes(of))
    assert named == {"gpu-unsoaked" if moves else "gpu-power-capped"}


def test_a_gpu_that_cools_or_warms_below_its_power_limit_is_not_told_of_it():
    moving = gpu(first_sm_clock_mhz=1710.0, last_sm_clock_mhz=1500.0, throttle_reasons=("gpu_idle",))
    assert not {"gpu-unsoaked", "gpu-power-capped"} & set(codes(busy(telemetry=telemetry({}, moving))))


def test_an_allocator_that_had_to_try_again_is_near_the_limit():
    bound = target(bindings=(parse_binding("batch_size=--bs {}"),))
    finding = found("allocation-retries", busy(allocation_retries=3), target=bound)
    assert finding.evidence == "3 times (torch's allocator); at most 5.0 GiB of 22.0 GiB reserved"
    assert finding.remedy is not None
    assert finding.remedy.startswith("--bs 64 or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    assert "allocation-retries" not in codes(busy(allocation_retries=0))
    assert "allocation-retries" not in [one.code for one in findings(record(device=CPU))]
