"""Recordings of a training on a machine with two CPUs, with a fault from some interval on."""

from collections.abc import Callable
from typing import Any

from build_records import GIB

from tunekit.diagnose.recording import recording_figures
from tunekit.diagnose.registry import findings_of
from tunekit.records.recording import HostInterval, LoopInterval, Recording, RecordingStart

BEGAN_S, EACH_S, COUNT = 1_800_000_000.0, 2.0, 120
START = RecordingStart(
    tunekit_version="0.1.0",
    started_at_s=BEGAN_S - 6.0,
    command=("python", "train.py"),
    pid=4711,
    cpus=2,
    ram_limit_bytes=16 * GIB,
    gpus={0: "NVIDIA A10G"},
    vram_limit_bytes=24 * GIB,
    usd_per_h=1.2,
)

Fault = Callable[[int], dict[str, Any]]


def recording(loop: Fault = lambda at: {}, host: Fault = lambda at: {}, **changed: Any) -> Recording:
    """Return a recording of 100 steps an interval, figures of some intervals changed.

    Args:
        loop: what is other in the loop's interval of a number.
        host: what is other in the machine's.
        changed: fields of the recording.
    """
    loops, hosts = [], []
    for at in range(COUNT):
        place = {"at_s": BEGAN_S + at * EACH_S, "duration_s": EACH_S}
        noise = 1 + 0.02 * ((at * 7919) % 11 - 5) / 5
        steps = {"steps": 100, "batches": 100, "samples": 3_200, "step_s": 1.8 * noise, "wait_s": 0.1 * noise}
        epoch = {"epoch": 1 + at // 40, "epoch_batch": 100 * (at % 40 + 1), "epoch_batches": 4_000}
        loops.append(LoopInterval(**{**place, **steps, **epoch, **loop(at)}))
        load = {"cpu_s": 1.6, "others_cpu_s": 0.1, "read_bytes": 2e6, "gpu_busy_s": 1.7}
        held = {"pss_bytes": int(2 * GIB * noise), "vram_bytes": 9 * GIB}
        hosts.append(HostInterval(**{**place, **load, **held, **host(at)}))
    end_s = BEGAN_S + COUNT * EACH_S
    shown = Recording(
        start=START,
        loop=tuple(loops),
        host=tuple(hosts),
        ended_at_s=end_s,
        epochs=4,
        figures=recording_figures(START, loops, hosts, end_s),
    ).changed(**changed)
    return shown.changed(findings=tuple(findings_of(shown)))


def since(number: int, **fields: Any) -> Fault:
    """Return a fault that begins with an interval."""
    return lambda at: fields if at >= number else {}


def growing(name: str, each_bytes: int) -> Fault:
    """Return memory that grows by so much in each interval."""
    return lambda at: {name: 2 * GIB + at * each_bytes}


def stalls(at: int) -> dict[str, Any]:
    """Return a checkpoint of a second in every fifth interval."""
    return {"step_s": 0.85, "checkpoint_s": 1.0, "checkpoints": 1} if at % 5 == 4 else {}
