"""Records for tests: each builder gives a plausible whole, and the test names only what it is about."""

from typing import Any

from hypothesis import strategies as st

from tunekit.predict.ram import buffer_bytes
from tunekit.records.agent_messages import KnobsApplied
from tunekit.records.attribution import StepParts
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.details import LargestSamples
from tunekit.records.host import Accelerator, Host
from tunekit.records.interval import Interval
from tunekit.records.measurement import DeviceSeen, LoopMeasurement, Measurement, TreeMemory
from tunekit.records.profile import FactConfidence, FactGroup, Profile, ProfileFacts
from tunekit.records.recommendation import RamVerdict, Recommendation, Tier
from tunekit.records.run import Run, RunStatus, SearchOptions
from tunekit.records.target import Discovery, OptimizerSeen, RootSeen, Target
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.session.assemble import concluded

GIB = 1 << 30
MIB = 1 << 20


def config(**knobs: Any) -> TrainConfig:
    """Batch 128, 2 workers with prefetch 2, eager fp32. `num_workers=0` drops what needs workers."""
    values: dict[str, Any] = {
        "batch_size": 128,
        "num_workers": 2,
        "prefetch_factor": 2,
        "pin_memory": False,
        "persistent_workers": True,
        "compile": False,
        "precision": Precision.FP32,
        "channels_last": False,
    }
    if knobs.get("num_workers") == 0:
        values |= {"prefetch_factor": None, "persistent_workers": False}
    return TrainConfig(**(values | knobs))


def device(name: str = "NVIDIA A10G", memory_bytes: int | None = 22 * GIB) -> DeviceSeen:
    return DeviceSeen(type="cpu" if memory_bytes is None else "cuda", name=name, memory_bytes=memory_bytes)


def cpu(name: str = "Intel(R) Xeon(R)") -> DeviceSeen:
    return device(name, memory_bytes=None)


def loop(
    rate: float = 1000.0, of: TrainConfig | None = None, *, bytes_per_sample: int = 1000, **overrides: Any
) -> LoopMeasurement:
    """A loop with exactly this rate in samples/s: 100 steady batches, no boundary cost, 50,000 samples."""
    knobs = of or config()
    samples = overrides.get("steady_batches", 100) * knobs.batch_size
    values: dict[str, Any] = {
        "device": device(),
        "batch_size": knobs.batch_size,
        "num_workers": knobs.num_workers,
        "prefetch_factor": knobs.prefetch_factor,
        "pin_memory": knobs.pin_memory,
        "persistent_workers": knobs.persistent_workers,
        "compile_graphs": int(knobs.compile),
        "float32_matmul_precision": "high" if knobs.precision is Precision.TF32 else "highest",
        "steady_batches": 100,
        "steady_samples": samples,
        "steady_time_s": samples / rate,
        "rate_interval_relative": 0.01,
        "stop_reason": "interval",
        "discarded_batches": 8,
        "parts": StepParts(data_wait_s=0.0, compute_s=samples / rate, optimizer_s=0.0, other_s=0.0),
        "epoch_samples": 50_000,
        "epoch_batches": -(-50_000 // knobs.batch_size),
        "boundary_s": 0.0,
        "boundaries_seen": 1,
        "startup_s": 2.0,
        "first_batch_s": 0.1,
        "first_step_s": 1.0,
        "batch_bytes": knobs.batch_size * bytes_per_sample,
        "peak_allocated_bytes": 4 * GIB,
        "peak_reserved_bytes": 5 * GIB,
        "allocation_retries": 0,
        "script_steps": 108,
    }
    if "device" in overrides and overrides["device"].memory_bytes is None:
        values |= {"peak_allocated_bytes": None, "peak_reserved_bytes": None, "allocation_retries": None}
    return LoopMeasurement(**(values | overrides))


def measurement(
    rate: float = 1000.0,
    of: TrainConfig | None = None,
    *,
    base_bytes: int = GIB,
    bytes_per_sample: int = 1000,
    **loop_overrides: Any,
) -> Measurement:
    """A measurement of `of` whose process tree takes base_bytes beside its buffer, which is as predicted."""
    knobs = of or config()
    buffered_bytes = knobs.queue_batches * knobs.batch_size * bytes_per_sample
    return Measurement(
        loop=loop(rate, knobs, bytes_per_sample=bytes_per_sample, **loop_overrides),
        memory=TreeMemory(
            peak_pss_bytes=base_bytes,
            peak_shm_bytes=buffered_bytes,
            processes=1 + knobs.num_workers,
            samples=20,
        ),
    )


def root(**overrides: Any) -> RootSeen:
    values: dict[str, Any] = {
        "class_name": "ResNet",
        "parameters": 11_000_000,
        "ordinal": 0,
        "has_4d_weights": True,
        "compiled": False,
        "channels_last": False,
        "autocast_dtype": None,
    }
    return RootSeen(**(values | overrides))


def failure(kind: OutcomeKind = OutcomeKind.DEVICE_OOM, **overrides: Any) -> Failure:
    return Failure(**({"kind": kind, "message": "CUDA out of memory"} | overrides))


def largest_seen(**overrides: Any) -> LargestSamples:
    """Batches up to 3.1 times the usual bytes, trained on."""
    values: dict[str, Any] = {
        "samples_read": 4096,
        "data_set_samples": 50_000,
        "varies": True,
        "batch_bytes": 310_000,
        "usual_batch_bytes": 100_000,
        "is_given": True,
        "survived": True,
    }
    return LargestSamples(**(values | overrides))


def trial_record(
    number: int = 1,
    rate: float | None = 1000.0,
    of: TrainConfig | None = None,
    *,
    role: TrialRole = TrialRole.SEARCH,
    overrides: dict[str, Any] | None = None,
    **measurement_overrides: Any,
) -> TrialRecord:
    """A trial of `of` with that rate, or one that ran out of device memory with rate None."""
    knobs = of or config()
    measured = None if rate is None else measurement(rate, knobs, **measurement_overrides)
    values: dict[str, Any] = {
        "number": number,
        "role": role,
        "config": knobs,
        "is_baseline_config": role is TrialRole.BASELINE,
        "started_at": "2026-01-02T03:04:05Z",
        "duration_s": 20.0,
        "measurement": measured,
        "failure": failure() if measured is None else None,
    }
    return TrialRecord(**(values | (overrides or {})))


def baseline_record(
    number: int = 0, rate: float | None = 500.0, of: TrainConfig | None = None, **more: Any
) -> TrialRecord:
    """The first baseline trial, with its discovery."""
    overrides = {"discovery": discovery()} | more.pop("overrides", {})
    return trial_record(number, rate, of, role=TrialRole.BASELINE, overrides=overrides, **more)


def confirm_records(
    rates: list[float | None], of: TrainConfig | None = None, *, first_number: int = 100, **more: Any
) -> tuple[TrialRecord, ...]:
    """One fresh process per round; a rate of None is a process that failed."""
    return tuple(
        trial_record(
            first_number + index, rate, of, role=TrialRole.CONFIRM, overrides={"round": index}, **more
        )
        for index, rate in enumerate(rates)
    )


def untouched() -> KnobsApplied:
    """What an agent tells of a loop to whose knobs it did nothing."""
    return KnobsApplied(addressed=True, roots_applied=())


def discovery(optimizer: str | None = "SGD", base_lr: float | None = 0.1, **overrides: Any) -> Discovery:
    optimizers = () if optimizer is None else (OptimizerSeen(class_name=optimizer, base_lr=base_lr),)
    values: dict[str, Any] = {
        "loaders": (),
        "roots": (),
        "roots_cover_step": True,
        "optimizers": optimizers,
        "batches_per_step": 1,
        "float32_matmul_precision": "highest",
        "device_type": "cuda",
        "bf16_native": True,
        "torch_version": "2.9.0",
        "python_version": "3.12.1",
    }
    return Discovery(**(values | overrides))


def host(**overrides: Any) -> Host:
    """8 CPUs, 32 GiB of RAM, half of it for /dev/shm, one A10G."""
    values: dict[str, Any] = {
        "hostname": "test-host",
        "cpus": 8,
        "cpus_total": 8,
        "cpu_name": "Intel(R) Xeon(R)",
        "ram_limit_bytes": 32 * GIB,
        "ram_total_bytes": 32 * GIB,
        "shm_bytes": 16 * GIB,
        "accelerators": (
            Accelerator(
                index=0,
                name="NVIDIA A10G",
                memory_bytes=22 * GIB,
                driver="550.1",
                profile_id="a10g",
                compute_capability="8.6",
            ),
        ),
        "platform": "Linux",
        "python_version": "3.12.1",
    }
    return Host(**(values | overrides))


TOLD = FactGroup(source="test", confidence=FactConfidence.HIGH)


def profile(id: str = "a10g", **overrides: Any) -> Profile:  # noqa: A002 - the field's own name
    values: dict[str, Any] = {
        "id": id,
        "device_names": ("NVIDIA A10G",),
        "architecture": "Ampere",
        "memory_bytes": 23028 * MIB,
        "torch_memory_bytes": 22587 * MIB,
        "bandwidth_gb_per_s": 600.0,
        "fp32_tflops": 31.2,
        "tf32_tflops": 35.0,
        "fp16_tflops": 70.0,
        "bf16_tflops": 70.0,
        "fp8_tflops": None,
        "achievable_bf16_fraction": None,
        "compute_capability": "8.6",
        "multiprocessors": 80,
        "tdp_w": 300.0,
        "pcie_generation": 4,
        "pcie_lanes": 16,
        "nvlink_gb_per_s": None,
        "native_precisions": ("fp32", "tf32", "bf16", "fp16"),
        "compile_supported": True,
        "facts": ProfileFacts(memory=TOLD, rates=TOLD, device=TOLD, software=TOLD),
    }
    return Profile(**(values | overrides))


def interval(value: float, relative: float = 0.03) -> Interval:
    return Interval(value=value, low=value * (1 - relative), high=value * (1 + relative))


def options(**overrides: Any) -> SearchOptions:
    return SearchOptions(**({"budget_s": 900.0} | overrides))


def recommendation(
    tier: Tier = Tier.BALANCED, of: TrainConfig | None = None, **overrides: Any
) -> Recommendation:
    knobs = of or config()
    values: dict[str, Any] = {
        "tier": tier,
        "config": knobs,
        "search_trial": 1,
        "confirm_trials": (100, 101, 102),
        "is_baseline": False,
        "rate_samples_per_s": interval(1000.0),
        "it_per_s": interval(7.8125),
        "speedup": interval(2.0),
        "epoch_time_s": 50.0,
        "peak_reserved_bytes": 5 * GIB,
        "device_memory_bytes": 22 * GIB,
        "buffer_bytes": buffer_bytes(knobs, knobs.batch_bytes(1000)),
        "buffer_verdict": RamVerdict.SAFE if knobs.num_workers else None,
        "held_bytes_per_sample": 1000.0,
        "shared_bytes_per_sample": 1000.0,
        "base_ram_bytes": GIB,
        "float32_matmul_precision": "highest",
        "learning_rate": None,
    }
    return Recommendation(**(values | overrides))


def target(**overrides: Any) -> Target:
    """A plain script, every knob injected."""
    values: dict[str, Any] = {
        "name": "train",
        "command": ("python", "train.py"),
        "working_dir": "/home/user/project",
        "script": "train.py",
        "script_sha256": None,
    }
    return Target(**(values | overrides))


def run(**overrides: Any) -> Run:
    """A finished run on an A10G with a baseline and one search trial."""
    values: dict[str, Any] = {
        "tunekit_version": "1.0.0",
        "created_at": "2026-01-02T03:04:05Z",
        "status": RunStatus.FINISHED,
        "target": target(),
        "options": options(),
        "host": host(),
        "profile": profile(),
        "measured_on": "a10g",
        "trials": (baseline_record(), trial_record()),
        "search_time_s": 600.0,
    }
    made = Run(**(values | overrides))
    return concluded(made).changed(**overrides)


@st.composite
def configs(draw: st.DrawFn, max_batch: int = 4096) -> TrainConfig:
    """Any legal config."""
    workers = draw(st.integers(0, 32))
    return TrainConfig(
        batch_size=draw(st.integers(1, max_batch)),
        num_workers=workers,
        prefetch_factor=draw(st.integers(1, 16)) if workers else None,
        pin_memory=draw(st.booleans()),
        persistent_workers=draw(st.booleans()) if workers else False,
        compile=draw(st.booleans()),
        precision=draw(st.sampled_from(Precision)),
        channels_last=draw(st.booleans()),
        accumulate_grad_batches=draw(st.integers(1, 16)),
    )


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    """Small and large machines, with and without /dev/shm."""
    ram_bytes = draw(st.integers(64 * MIB, 256 * GIB))
    cpus = draw(st.integers(1, 64))
    return host(
        cpus=cpus,
        cpus_total=cpus,
        ram_limit_bytes=ram_bytes,
        ram_total_bytes=ram_bytes,
        shm_bytes=draw(st.none() | st.integers(0, 128 * GIB)),
    )


@st.composite
def trial_lists(draw: st.DrawFn) -> list[TrialRecord]:
    """Search trials of one device, some of them failed, numbered in order."""
    seen = draw(st.sampled_from([device(), cpu()]))
    records = []
    for number in range(draw(st.integers(0, 12))):
        knobs = draw(configs(max_batch=512))
        if draw(st.integers(0, 5)) == 0:
            records.append(trial_record(number, None, knobs))
            continue
        more: dict[str, Any] = {"device": seen, "first_step_s": draw(st.floats(0, 300))}
        if seen.memory_bytes is not None:
            more["peak_reserved_bytes"] = draw(st.integers(0, seen.memory_bytes))
        records.append(
            trial_record(
                number,
                draw(st.floats(1.0, 1e5)),
                knobs,
                base_bytes=draw(st.integers(0, 32 * GIB)),
                bytes_per_sample=draw(st.integers(0, 2 * MIB)),
                **more,
            )
        )
    return records
