"""Training as the longer half: what is left to try, a GPU that waits for its host, its memory and clocks."""

from collections.abc import Callable
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
from build_records import GIB, discovery, host, interval, profile, target
from finding_texts import texts_of

from tunekit.machine.profiles import load_profiles
from tunekit.records.config import Precision
from tunekit.records.details import Details
from tunekit.records.host import GpuState
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

CARD = host().accelerators[0].changed(state=GpuState(max_sm_clock_mhz=1500))
HOT = {
    "throttle_reasons": ("sw_power_cap", "hw_thermal_slowdown"),
    "sm_clock_mhz": 1000,
}
FALLING = {"first_sm_clock_mhz": 1710.0, "last_sm_clock_mhz": 1530.0, "sm_clock_mhz": 1600.0}
SYNCS = Details(syncs=(sync("train.py:9", 0.5), sync("train.py:42", 2.0), sync("log.py:3", 0.01)))


def both(compute_s: float, loader_s: float, busy_share: float) -> Details:
    """Floors and a trace."""
    return floors(compute_s, loader_s).model_copy(update={"kernels": kernels(busy=busy_share).kernels})


ROWS = [
    ("compute-bound", busy(floors(0.1, 0.025), peak_reserved_bytes=5 * GIB), {}),
    (
        "compute-bound",
        busy(
            knobs={"precision": Precision.BF16, "compile": True, "channels_last": True},
            peak_reserved_bytes=15 * GIB,
        ),
        {},
    ),
    ("fp16-unscaled", busy(), OLDER),
    ("fp16-unscaled", busy(floors(0.1, 0.025)), OLDER),
    ("fp16-unscaled", record(device_parts=device_parts(stall=0.8)), OLDER),
    ("host-bound", drained(kernels(busy=0.5)), {}),
    ("host-bound", drained(both(0.1, 0.08, busy_share=0.5)), {}),
    ("host-bound", seeing(drained(), utilization_percent=40), {}),
    (
        "copy-bound",
        record(kernels(busy=0.95, copies_alone_s=0.35, h2d_s=0.4), device_parts=device_parts()),
        {},
    ),
    ("sync-points", drained(SYNCS), {}),
    ("sync-points", busy(SYNCS), {}),
    *(
        ("gpu-underused", seeing(of, utilization_percent=54), {})
        for of in (record(parts=parts(wait=0.5), device_parts=device_parts(stall=0.5)), drained(), busy())
    ),
    ("gpu-underused", seeing(record(floors(0.01, 0.008)), utilization_percent=54), {}),
    ("gpu-underused", seeing(drained(), utilization_percent=54), {"rate": interval(1280.0, 0.5)}),
    ("gpu-throttled-in-trial", seeing(**HOT), {"host": host(accelerators=(CARD,))}),
    ("gpu-throttled-in-trial", seeing(**HOT), {}),
    ("gpu-unsoaked", capped(**FALLING, first_temperature_c=51.2, last_temperature_c=62.8), {}),
    (
        "allocation-retries",
        busy(allocation_retries=3),
        {"target": target(bindings=(parse_binding("batch_size=--bs {}"),))},
    ),
]


def test_what_holds_a_device_up_is_told(golden: Callable[[str], object]):
    assert texts_of([found(code, of, **overrides) for code, of, overrides in ROWS]) == golden(
        "loop_device.txt"
    )


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
        ("host-bound", seeing(drained(), utilization_percent=98), {}),
        *(
            ("sync-points", drained(Details(syncs=points)), {})
            for points in (None, (), (sync(per_batch=0.1),))
        ),
        ("gpu-underused", seeing(), {}),
        ("gpu-underused", seeing(utilization_percent=81), {}),
        ("gpu-underused", busy(telemetry=telemetry({}, gpu(utilization_percent=5), steady=False)), {}),
        ("gpu-throttled-in-trial", seeing(throttle_reasons=()), {}),
        (
            "gpu-throttled-in-trial",
            seeing(throttle_reasons=("gpu_idle", "applications_clocks_setting", "sw_power_cap")),
            {},
        ),
        ("gpu-unsoaked", seeing(**FALLING, throttle_reasons=("gpu_idle",)), {}),
        ("allocation-retries", busy(allocation_retries=0), {}),
    ],
)
def test_what_does_not_hold_a_device_up_is_no_finding(
    absent: str, of: TrialRecord, overrides: dict[str, Any]
):
    assert absent not in codes(of, **overrides)


TF32 = {"discovery": discovery(bf16_native=None), "profile": profile(native_precisions=("fp32", "tf32"))}
CPU_BF16 = {"discovery": discovery(bf16_native=None), "host": host(cpu_bf16_native=True)}
HIGH = "set_float32_matmul_precision('high')"


@pytest.mark.parametrize(
    ("code", "of", "overrides", "words", "is_advised"),
    [
        ("compute-bound", busy(), TF32, HIGH, True),
        ("compute-bound", busy(float32_matmul_precision="high"), TF32, "precision", False),
        ("compute-bound", record(device=CPU), CPU_BF16, "bfloat16", True),
        *(
            ("compute-bound", busy(), overrides, word, False)
            for overrides, word in (
                ({"discovery": discovery(autocast_dtype="bfloat16")}, "autocast"),
                ({"discovery": discovery(compiles=True)}, "compile"),
                ({"discovery": discovery(roots=(root(has_4d_weights=False),))}, "channels_last"),
                ({"discovery": discovery(roots=(root(channels_last=True),))}, "channels_last"),
                ({"profile": profile(compile_supported=False)}, "compile"),
                ({"discovery": discovery(bf16_native=False), "profile": None}, "autocast"),
            )
        ),
        ("compute-bound", record(device=CPU), {}, "batch_size", False),
        ("host-bound", drained(knobs={"compile": True}), {}, "torch.compile(model)", False),
    ],
)
def test_advice_goes_by_what_the_device_has_and_what_is_in_use(
    code: str, of: TrialRecord, overrides: dict[str, Any], words: str, is_advised: bool
):
    assert (words in (found(code, of, **overrides).remedy or "")) is is_advised


@pytest.mark.parametrize(
    ("clocks", "heat", "moves"),
    [
        ((1000.0, 981.0), None, False),
        ((1000.0, 980.0), None, True),
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
    assert ("gpu-unsoaked" in codes(of)) is moves
