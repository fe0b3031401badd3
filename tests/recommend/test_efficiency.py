"""Tokens per second, model FLOP/s, MFU and joules per sample: what is known, and what stays unknown."""

from typing import Any

import pytest
from build_records import baseline_record, config, loop, measurement, profile

from tunekit.recommend.efficiency import efficiency
from tunekit.records.attribution import BatchSeen
from tunekit.records.config import Precision
from tunekit.records.measurement import GpuTelemetry, HostTelemetry, LoopMeasurement, Telemetry
from tunekit.records.trials import Measured

IDS, NEXT = ("['input_ids']", "int64", (8, 512)), ("['labels']", "int64", (8, 512))
NAMELESS = [("[0]", "int64", (8, 256)), ("[1]", "int64", (8, 256))]
IMAGES = [("[0]", "float32", (8, 3, 32, 32)), ("[1]", "int64", (8,))]
TABLE = [("[0]", "int64", (8, 26)), ("[1]", "float32", (8, 26))]


def batch(leaves: list[tuple[str, str, tuple[int, ...]]]) -> BatchSeen:
    seen = [{"path": p, "kind": "tensor", "dtype": d, "shape": s, "bytes": 1} for p, d, s in leaves]
    sizes = {"total_bytes": 1, "shared_bytes": 1, "piped_bytes": 0}
    return BatchSeen.model_validate({"samples": 8, **sizes, "leaves": seen})


def gpu(index: int, counted_power_w: float | None, is_used: bool = True) -> GpuTelemetry:
    return GpuTelemetry(index=index, is_used=is_used, counted_power_w=counted_power_w)


def process(of: LoopMeasurement, *gpus: GpuTelemetry, is_steady: bool = True) -> Measured:
    values: dict[str, Any] = {"window_s": 4.0, "samples": 8, "cost_cpu_s": 0.01, "gpus": gpus}
    telemetry = Telemetry(**values, is_of_steady_window=is_steady, host=HostTelemetry())
    record = baseline_record(of=config()).model_copy(update={"telemetry": telemetry})
    return Measured(record, config(), measurement().changed(loop=of))


@pytest.mark.parametrize(
    ("leaves", "tokens"),
    [
        *(([IDS, NEXT], 512), ([IDS, IMAGES[0]], 512), (NAMELESS, 256), (IMAGES, None), (TABLE, None)),
        *((NAMELESS[:1], None), ([("['input_ids']", "int64", (4, 512))], None)),
    ],
)
def test_tokens_are_counted_in_batches_of_token_ids_alone(leaves: list[Any], tokens: int | None) -> None:
    assert batch(leaves).tokens_per_sample == tokens
    known = efficiency(config(), [process(loop().changed(batch=batch(leaves)))], 100.0, None, None)
    assert known["tokens_per_s"] == (tokens and 100.0 * tokens)
    assert (known["flops_per_s"], known["mfu"], known["joules_per_sample"]) == (None, None, None)


@pytest.mark.parametrize(("precision", "peak"), [("bf16", 70e12), ("fp32", 35e12), ("fp16", None)])
def test_utilization_is_of_the_peak_in_the_configs_precision(precision: str, peak: float | None) -> None:
    device = profile(bf16_tflops=70, fp32_tflops=35, fp16_tflops=None)
    of = config(precision=Precision(precision))
    known = efficiency(of, [process(loop().changed(world_size=2))], 1000.0, 14e9, device)
    assert known["flops_per_s"] == 7e12
    assert known["mfu"] == (peak and pytest.approx(7e12 / peak))
    assert efficiency(of, [process(loop())], 1000.0, 14e9, None)["mfu"] is None


def test_energy_is_that_of_all_gpus_that_trained_and_unknown_if_one_has_no_counter() -> None:
    of = loop()
    per_s = of.steady_samples / of.steady_time_s

    def joules(*each: Measured) -> float | None:
        return efficiency(config(), each, 100.0, None, None)["joules_per_sample"]

    two = process(of, gpu(0, 200.0), gpu(1, 100.0), gpu(2, 50.0, is_used=False))
    assert joules(two) == pytest.approx(300.0 / per_s)
    assert joules(two, process(of, gpu(0, 100.0))) == pytest.approx(200.0 / per_s)
    assert joules(process(of, gpu(0, 200.0), gpu(1, None))) is None
    assert joules(process(of, gpu(0, 200.0), is_steady=False)) is None
    assert joules(process(of)) is None
    assert joules(process(of.changed(world_size=2), gpu(0, 200.0))) is None
