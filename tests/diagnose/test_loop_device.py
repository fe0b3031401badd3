"""Training as the longer half: what is left to try, a GPU that waits for its host, its memory and clocks."""

from typing import Any

import pytest
from build_loops import (
    CPU,
    codes,
    device_parts,
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
from tunekit.records.host import Accelerator, GpuState
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding


def busy(details: Details | None = None, **overrides: Any) -> TrialRecord:
    """A GPU that always has work."""
    return record(details, **({"device_parts": device_parts(stall=0.01)} | overrides))


def drained(details: Details | None = None, **overrides: Any) -> TrialRecord:
    """A GPU that runs dry after each batch."""
    return record(details, **({"device_parts": device_parts(stall=0.01, drained=1.0)} | overrides))


def seeing(of: TrialRecord | None = None, **figures: Any) -> TrialRecord:
    """A busy GPU, or another, of which the driver saw these figures meanwhile."""
    return (of or busy()).model_copy(update={"telemetry": telemetry({}, gpu(**figures))})


def capped(**figures: Any) -> TrialRecord:
    """A GPU at its power limit."""
    return seeing(throttle_reasons=("sw_power_cap",), **figures)


OLDER = {"profile": load_profiles()["t4"], "discovery": discovery(bf16_native=False)}
"""A GPU with fp16 and without bf16, under a script without a gradient scaler."""

CARD = Accelerator(
    index=0,
    name="NVIDIA A10G",
    memory_bytes=22 * GIB,
    driver="550.1",
    profile_id="a10g",
    compute_capability="8.6",
    state=GpuState(max_sm_clock_mhz=1500),
)
HOT = {
    "throttle_reasons": ("sw_power_cap", "hw_thermal_slowdown"),
    "sm_clock_mhz": 1000,
    "max_temperature_c": 91,
}
FALLING = {"first_sm_clock_mhz": 1710.0, "last_sm_clock_mhz": 1530.0, "sm_clock_mhz": 1600.0}
SYNCS = Details(syncs=(sync("train.py:9", 0.5), sync("train.py:42", 2.0), sync("log.py:3", 0.01)))
SYNCS_TEXT = "train.py:42 loss.item(), 2.00 per batch; train.py:9 loss.item(), 0.50 per batch"
DRY = (
    "after 100% of the batches the GPU had nothing left to do when the next was asked for, 1% of the step is "
    "data stall (CUDA events)"
)
TRAINS = "99% of each step are forward, backward and optimizer (CUDA events), 1% data stall"
T4_RATES = "profile t4: 65 TFLOPS in fp16 and 8.1 in fp32"


def both(compute_s: float, loader_s: float, busy_share: float) -> Details:
    """Floors and a trace."""
    return floors(compute_s, loader_s).model_copy(update={"kernels": kernels(busy=busy_share).kernels})


@pytest.mark.parametrize(
    ("code", "severity", "of", "overrides", "evidence", "value", "gain", "remedy"),
    [
        (
            "compute-bound",
            "info",
            busy(floors(0.1, 0.025), peak_reserved_bytes=5 * GIB),
            {},
            f"{TRAINS}; the loader alone makes 5,120 samples/s, so faster training brings 4.00x at the very "
            "most",
            0.99,
            None,
            "not used yet: torch.autocast(..., dtype=torch.bfloat16) around forward and loss, "
            "torch.compile(model), model.to(memory_format=torch.channels_last), and its input too, "
            "batch_size=256 in the DataLoader; `tunekit search` measures what they bring",
        ),
        (
            "compute-bound",
            "info",
            busy(
                knobs={"precision": Precision.BF16, "compile": True, "channels_last": True},
                peak_reserved_bytes=15 * GIB,
            ),
            {},
            TRAINS,
            0.99,
            None,
            "what tunekit sets is in use already",
        ),
        (
            "fp16-unscaled",
            "info",
            busy(),
            OLDER,
            f"{T4_RATES}; 99% of each step are training (CUDA events)",
            None,
            1 / (1 - 0.99 * (1 - 8.1 / 65)),
            "torch.amp.GradScaler",
        ),
        # Training at no cost at all brings the loader's rate, 4 times this one.
        (
            "fp16-unscaled",
            "info",
            busy(floors(0.1, 0.025)),
            OLDER,
            f"{T4_RATES}; 99% of each step are training (CUDA events)",
            None,
            4,
            "",
        ),
        (
            "fp16-unscaled",
            "info",
            record(device_parts=device_parts(stall=0.8)),
            OLDER,
            f"{T4_RATES}; 20% of each step are training (CUDA events)",
            None,
            1 / (1 - 0.2 * (1 - 8.1 / 65)),
            "",
        ),
        (
            "memory-bound",
            "info",
            seeing(dram_activity_percent=75, tensor_activity_percent=5, sm_activity_percent=90),
            {},
            "GPU 0: memory 75% active, tensor cores 5% (NVML GPM)",
            75,
            None,
            "torch.compile(model)",
        ),
        (
            "memory-bound",
            "info",
            seeing(dram_activity_percent=75, sm_activity_percent=40),
            {},
            "GPU 0: memory 75% active, multiprocessors 40% (NVML GPM)",
            75,
            None,
            "",
        ),
        (
            "host-bound",
            "warning",
            drained(kernels(busy=0.5)),
            {},
            f"{DRY}; nothing runs on it in 50% of the step (torch.profiler, 5 batches)",
            1,
            2,
            "torch.compile(model) makes fewer launches; batch_size=256",
        ),
        # Gaps that only the trace made do not count.
        (
            "host-bound",
            "warning",
            drained(kernels(busy=0.5, idle=6.0)),
            {},
            f"{DRY}; nothing runs on it in 50% of the step (torch.profiler, 5 batches)",
            1,
            2,
            "",
        ),
        (
            "host-bound",
            "warning",
            drained(both(0.1, 0.08, busy_share=0.5)),
            {},
            f"{DRY}; nothing runs on it in 50% of the step (torch.profiler, 5 batches)",
            1,
            1.25,
            "",
        ),
        (
            "host-bound",
            "warning",
            seeing(drained(), utilization_percent=40),
            {},
            f"{DRY}; a kernel ran in 40% of the time (NVML)",
            1,
            None,
            "CUDA graphs",
        ),
        (
            "copy-bound",
            "warning",
            record(kernels(busy=0.95, copies_alone_s=0.35, h2d_s=0.4), device_parts=device_parts()),
            {},
            "nothing but copies from and to the host runs on it in 70% of the step; 80.0 ms per batch to it "
            "(torch.profiler, 5 batches)",
            0.7,
            1 / 0.3,
            "pin_memory=True",
        ),
        ("sync-points", "warning", drained(SYNCS), {}, SYNCS_TEXT, 2, None, "every 50th step"),
        ("sync-points", "info", busy(SYNCS), {}, SYNCS_TEXT, 2, None, ""),
        *(
            (
                "gpu-underused",
                "warning",
                seeing(of, utilization_percent=54, sm_activity_percent=20),
                {},
                "a kernel ran in 54% of the time (NVML); 20% of its multiprocessors had work (NVML GPM)",
                54,
                gain,
                remedy,
            )
            for of, gain, remedy in [
                (record(parts=parts(wait=0.5), device_parts=device_parts(stall=0.5)), 2, "see data-bound"),
                (drained(), None, "see host-bound"),
                (busy(), None, "`tunekit profile --trace-kernels`"),
            ]
        ),
        (
            "gpu-throttled-in-trial",
            "warning",
            seeing(**HOT),
            {"host": host(accelerators=(CARD,))},
            "hw_thermal_slowdown; 1000 MHz of 1500; up to 91 C (NVML)",
            91,
            1.5,
            "cooling",
        ),
        (
            "gpu-throttled-in-trial",
            "warning",
            seeing(**HOT),
            {},
            "hw_thermal_slowdown; 1000 MHz; up to 91 C (NVML)",
            91,
            None,
            "",
        ),
        (
            "gpu-unsoaked",
            "warning",
            capped(**FALLING, first_temperature_c=51.2, last_temperature_c=62.8),
            {},
            "sw_power_cap; 1710 to 1530 MHz and 51 to 63 C within 10 s (NVML)",
            180 / 1710,
            None,
            "--window 120",
        ),
        (
            "gpu-power-capped",
            "info",
            capped(sm_clock_mhz=1600.0, first_temperature_c=60.0, last_temperature_c=61.0),
            {},
            "sw_power_cap; 1600 MHz; 60 to 61 C within 10 s (NVML)",
            None,
            None,
            "fewer bits",
        ),
        (
            "allocation-retries",
            "warning",
            busy(allocation_retries=3),
            {"target": target(bindings=(parse_binding("batch_size=--bs {}"),))},
            "3 times (torch's allocator); at most 5.0 GiB of 22.0 GiB reserved",
            3,
            None,
            "--bs 64 or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ],
)
def test_what_holds_a_device_up_is_told(
    code: str,
    severity: str,
    of: TrialRecord,
    overrides: dict[str, Any],
    evidence: str,
    value: float | None,
    gain: float | None,
    remedy: str,
):
    finding = found(code, of, **overrides)
    assert (finding.severity, finding.evidence) == (severity, evidence)
    assert finding.value == (None if value is None else pytest.approx(value))
    assert finding.gain == (None if gain is None else pytest.approx(gain))
    assert remedy in (finding.remedy or "")


LITTLE_TENSOR = {"dram_activity_percent": 75, "tensor_activity_percent": 5}


@pytest.mark.parametrize(
    ("absent", "of", "overrides"),
    [
        *(
            ("fp16-unscaled", busy(), {**OLDER, **overrides})
            for overrides in (
                {"discovery": discovery()},
                {"discovery": discovery(bf16_native=False, scales_gradients=True)},
                {"discovery": discovery(bf16_native=False, autocast_dtype="float16")},
                {"target": target(bindings=(parse_binding("precision=--amp {}"),))},
                {"profile": profile(native_precisions=("fp32",))},
                {"profile": None},
            )
        ),
        ("memory-bound", seeing(), {}),
        ("memory-bound", seeing(dram_activity_percent=50, tensor_activity_percent=5), {}),
        ("memory-bound", seeing(dram_activity_percent=75), {}),
        ("memory-bound", seeing(dram_activity_percent=75, tensor_activity_percent=60), {}),
        ("memory-bound", seeing(**LITTLE_TENSOR, is_used=False), {}),
        ("memory-bound", seeing(record(device=CPU), **LITTLE_TENSOR), {}),
        ("host-bound", seeing(drained(), utilization_percent=98), {}),
        *(
            ("sync-points", drained(Details(syncs=points)), {})
            for points in (None, (), (sync(per_batch=0.1),))
        ),
        ("gpu-underused", busy(), {}),
        ("gpu-underused", seeing(), {}),
        ("gpu-underused", seeing(utilization_percent=81), {}),
        ("gpu-underused", seeing(utilization_percent=5, is_used=False), {}),
        ("gpu-underused", busy(telemetry=telemetry({}, gpu(utilization_percent=5), steady=False)), {}),
        ("gpu-underused", seeing(record(device=CPU), utilization_percent=0), {}),
        ("gpu-throttled-in-trial", seeing(throttle_reasons=()), {}),
        (
            "gpu-throttled-in-trial",
            seeing(throttle_reasons=("gpu_idle", "applications_clocks_setting", "sw_power_cap")),
            {},
        ),
        ("gpu-power-capped", capped(**FALLING), {}),
        ("gpu-unsoaked", seeing(**FALLING, throttle_reasons=("gpu_idle",)), {}),
        ("gpu-power-capped", seeing(**FALLING, throttle_reasons=("gpu_idle",)), {}),
        ("allocation-retries", busy(allocation_retries=0), {}),
        ("allocation-retries", record(device=CPU), {}),
    ],
)
def test_what_does_not_hold_a_device_up_is_no_finding(
    absent: str, of: TrialRecord, overrides: dict[str, Any]
):
    assert absent not in codes(of, **overrides)


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
    assert absent not in (found("compute-bound", busy(), **overrides).remedy or "")


TF32 = {"discovery": discovery(bf16_native=None), "profile": profile(native_precisions=("fp32", "tf32"))}
HIGH = "set_float32_matmul_precision('high')"


@pytest.mark.parametrize(
    ("code", "of", "overrides", "words", "is_advised"),
    [
        ("compute-bound", busy(), TF32, HIGH, True),
        ("compute-bound", busy(float32_matmul_precision="high"), TF32, "precision", False),
        *(
            (
                "compute-bound",
                record(device=CPU),
                {"discovery": discovery(bf16_native=None), "host": host(cpu_bf16_native=native)},
                "bfloat16",
                native,
            )
            for native in (True, False)
        ),
        ("compute-bound", record(device=CPU), {}, "batch_size", False),
        ("host-bound", drained(knobs={"compile": True}), {}, "torch.compile(model)", False),
    ],
)
def test_advice_goes_by_what_the_device_has_and_what_is_in_use(
    code: str, of: TrialRecord, overrides: dict[str, Any], words: str, is_advised: bool
):
    assert (words in (found(code, of, **overrides).remedy or "")) is is_advised


def test_messages_say_what_the_figures_do():
    assert "only both together" in found("compute-bound", busy(floors(0.1, 0.097))).message
    waits = record(parts=parts(wait=0.5), device_parts=device_parts(stall=0.5))
    idle = found("gpu-underused", seeing(waits, utilization_percent=54))
    assert idle.message == "GPU 0 is idle for a good part of the time: it waits for data"
    limited = found("gpu-power-capped", capped()).message
    assert limited == "GPU 0's power limit held its clock down, as is usual under full load"


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
