"""What tunekit states of known loops on a simulated GPU, beside what its trace says of the same batches."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_environment import ROOT

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work
from tunekit.diagnose.attribution import Part, attribution, bound
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import Bound
from tunekit.records.run import LoopProfile
from tunekit.records.trial import TrialRecord

LOOP = Path(__file__).with_name("known_loop.py")
SLOW = "a10g:slower=16"
TWO = f"{SLOW},{SLOW}"
QUICK_KERNELS = "a10g:slower=16:kernel_ns=2500"
"""Small kernels end sooner than a host launches them."""


@dataclass(frozen=True)
class KnownLoop:
    """A loop of which it is known what holds it back."""

    name: str
    flags: tuple[str, ...]
    bound: Bound
    devices: str = SLOW
    ahead: int = 0
    """Batches that the script fetches before it hands one to its training."""


LOOPS = (
    KnownLoop("data-stalled", ("--load-ms", "80"), Bound.DATA),
    KnownLoop("computing", ("--load-ms", "2", "--layers", "24"), Bound.COMPUTE),
    KnownLoop("computing, reads its loss", ("--load-ms", "1", "--layers", "24", "--item"), Bound.COMPUTE),
    KnownLoop(
        "many small kernels",
        ("--load-ms", "0", "--layers", "1", "--width", "512", "--tiny", "1000"),
        Bound.HOST,
        QUICK_KERNELS,
    ),
    KnownLoop("waits for its loss, then logs", ("--layers", "8", "--item", "--log-ms", "40"), Bound.HOST),
    KnownLoop(
        "copies", ("--load-ms", "1", "--columns", "16384"), Bound.COPIES, f"{SLOW}:pageable_bytes_per_s=200M"
    ),
    KnownLoop("workers, half a stall", ("--load-ms", "140", "--workers", "2", "--layers", "8"), Bound.DATA),
    KnownLoop(
        "the second GPU", ("--load-ms", "2", "--layers", "24", "--device", "cuda:1"), Bound.COMPUTE, TWO
    ),
    KnownLoop(
        "uploads ahead", ("--pinned", "--ahead", "--layers", "16", "--load-ms", "4"), Bound.COMPUTE, ahead=1
    ),
)


@dataclass(frozen=True)
class Compared:
    """One figure of a loop: milliseconds per batch, but for utilisation, which is a percentage."""

    name: str
    stated: float
    true: float
    whole: float
    """What the difference is a share of: the step, or 100%."""

    @property
    def difference(self) -> float:
        """Stated less true, as a share of the step."""
        return (self.stated - self.true) / self.whole


@dataclass(frozen=True)
class Judged:
    """A loop's figures, and what is said to hold it back."""

    loop: KnownLoop
    compared: tuple[Compared, ...]
    bound: Bound


def judge(gpu: SimulatedGpu, loop: KnownLoop, window_s: float = 2.0) -> Judged:
    """Profile a loop, and hold what is stated against the trace of the batches that it is stated of."""
    stamps = gpu.state / "stamps"  # a trial's sandbox lets writes through to this folder only
    command = ["-m", "tunekit", "profile", "--trace-kernels", "--window", str(window_s), "--json"]
    command += ["--out", str(gpu.own / "profile")]
    command += ["--", str(gpu.python), str(LOOP), "--stamps", str(stamps)]
    done = gpu.run([*command, *loop.flags], loop.devices, more={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    batches = [Batch(*map(int, line.split())) for line in stamps.read_text().splitlines()]
    work = gpu.trace()
    profile = LoopProfile.model_validate_json(done.stdout)
    record = profile.profiled_trial
    assert record is not None
    assert record.measurement is not None
    compared = tuple(_of_window(record, record.measurement, TimeLine(batches, work, loop.ahead)))
    return Judged(loop, compared, bound(record.measurement, record.telemetry))


@dataclass(frozen=True)
class Batch:
    """One batch by the script's own clock, which is the trace's; ns."""

    asked_ns: int
    there_ns: int
    done_ns: int


@dataclass(frozen=True)
class TimeLine:
    """The script's batches and the device's work."""

    batches: Sequence[Batch]
    work: Sequence[Work]
    ahead: int

    def drained_ns(self, batch: int) -> int:
        """When the device was through with all kernels before a batch that waited for it at its ask."""
        seen, kernels = self.batches[batch], (one for one in self.work if one.engine == "compute")
        return max(seen.asked_ns, *(one.end_ns for one in kernels if one.begin_ns < seen.there_ns))

    def busy_ns(self, begin_ns: int, end_ns: int, *engines: str) -> int:
        """How long any work of these engines was under way between two moments; without names, of all."""
        busy, until = 0, begin_ns
        for one in self.work:
            if engines and one.engine not in engines:
                continue
            begin, end = max(one.begin_ns, until), min(one.end_ns, end_ns)
            if end > begin:
                busy, until = busy + end - begin, end
        return busy


def _of_window(record: TrialRecord, measured: Measurement, line: TimeLine) -> list[Compared]:
    """The steady window: its first batch is the one that so many were left out before."""
    loop = measured.loop
    count, first = loop.steady_batches, loop.discarded_batches - line.ahead
    within = line.batches[first : first + count]
    begin, end = line.drained_ns(first), line.drained_ns(first + count)
    waits = [(max(begin, one.asked_ns), one.there_ns) for one in within]
    per_ms = 1e6 * count
    step = (end - begin) / per_ms
    found = attribution(measured)

    def stated(part: Part) -> float:
        share = found.of(part)
        return share.batch_ms if share is not None else 0.0

    idle_in_wait = (there - asked - line.busy_ns(asked, there) for asked, there in waits)
    copies = sum(one.duration_ns for one in line.work if one.engine == "h2d" and begin <= one.begin_ns < end)
    busy = line.busy_ns(begin, end)
    kernels = measured.details.kernels if measured.details else None
    assert kernels is not None
    assert kernels.device_busy_s is not None
    figures = [
        Compared("step", 1000 * loop.step_time_s, step, step),
        Compared("data stall", stated(Part.STALL), sum(idle_in_wait) / per_ms, step),
        Compared(
            "host wait",
            stated(Part.HOST_WAIT),
            sum(there - asked for asked, there in waits) / per_ms,
            step,
        ),
        Compared("device busy", 1000 * kernels.device_busy_s / kernels.batches, busy / per_ms, step),
        Compared("device idle", stated(Part.DEVICE_IDLE), step - busy / per_ms, step),
        Compared("copies to the device", stated(Part.H2D), copies / per_ms, step),
    ]
    gpus = [gpu for gpu in record.telemetry.gpus if gpu.is_used] if record.telemetry else []
    for utilization in [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]:
        true = 100 * line.busy_ns(begin, end, "compute") / (end - begin)
        figures.append(Compared("GPU utilisation, %", utilization, true, 100))
    return figures


def as_json(judged: Judged) -> str:
    """The figures of a loop on one line, for a file of results."""
    figures = {one.name: [round(one.stated, 3), round(one.true, 3)] for one in judged.compared}
    return json.dumps({"loop": judged.loop.name, "bound": judged.bound, **figures})
