"""What a prediction of GPUs goes by, and how far it can be trusted. Pure."""

from tunekit.model.op_roofline import ERROR
from tunekit.plain_text import printable
from tunekit.records.details import LoopFloors
from tunekit.records.fits import FitsRun
from tunekit.records.prediction import BytesRange, DevicePrediction, PredictionPath
from tunekit.units import bytes_text, count_text, rate_text

_BUSY_SHARE = 0.8
"""Of a batch's time, that its process has a CPU where nothing holds it up."""


def basis_lines(run: FitsRun, prediction: DevicePrediction) -> tuple[str, ...]:
    """Return how a prediction was got: traces, margins, what was assumed, the loader that was measured."""
    lines = [_traced(prediction), *_untraced(run), _memory(prediction), *_outside(run), _rates(prediction)]
    return tuple(printable(line) for line in (*lines, _loader(run, prediction)))


def _traced(prediction: DevicePrediction) -> str:
    sizes = " and ".join(str(size) for size in prediction.traced_sizes)
    others = "any other GPU" if prediction.path is PredictionPath.LOOP_ON_GPU else "a GPU"
    return f"Traced here: {prediction.path}, at batch sizes {sizes}; nothing ran on {others}."


def _untraced(run: FitsRun) -> list[str]:
    details = (one.details for one in run.trials if one.details)
    ended = (one.trace.why_ended for one in details if one.trace and one.trace.why_ended)
    return [f"Not all was traced: {why}." for why in ended]


def _memory(prediction: DevicePrediction) -> str:
    doubts = count_text(len(prediction.doubts), "doubt")
    because = f", with {doubts} (below)" if prediction.doubts else ""
    return (
        f"Memory: the traced steps at each batch size, by the rules of torch's allocator; margin "
        f"{prediction.margin:.0%} either way{because}."
    )


def _outside(run: FitsRun) -> list[str]:
    """Return what lies beside torch's tensors, a line for all GPUs of which the same is known."""
    lines = []
    for name in ("context", "workspace"):
        gpus: dict[BytesRange, list[str]] = {}
        for one in run.gpus:
            gpus.setdefault(getattr(one.outside, name), []).append(one.profile_id)
        for known, ids in gpus.items():
            of = "" if len(gpus) == 1 else f" of {_ids_text(ids)}"
            size = f"{bytes_text(known.low)} to {bytes_text(known.high)}"
            is_told = known.source.startswith("assumed")  # with its bounds
            lines.append(f"{name.capitalize()}{of}: {'' if is_told else f'{size}, '}{known.source}.")
    return lines


def _ids_text(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= 3 else f"{len(ids)} GPUs"


def _rates(prediction: DevicePrediction) -> str:
    factor = prediction.speed_factor
    here = "" if factor is None else f" times {factor:.2f}, which the GPU here trains at (measured),"
    return (
        f"Compute: each traced op by the GPU's own figures under a roofline model,{here} the whole "
        f"+-{ERROR:.0%}; layout, fusion and torch.compile are not in it."
    )


def _loader(run: FitsRun, prediction: DevicePrediction) -> str:
    measured, cpus = prediction.loader_measured, prediction.loader_cpus
    seen = next(
        (one.measurement or one.dry for one in reversed(run.trials) if one.measurement or one.dry), None
    )
    floors = seen.details.floors if seen and seen.details else None
    if measured is None or cpus is None:
        why = f" ({floors.why_not})" if floors and floors.why_not else ""
        alone = "; there by what a batch costs here" if any(fit.loader for fit in prediction.fits) else ""
        but = "" if alone else ", so samples/s are what the GPU alone would allow"
        return f"Loader: n/a here{why}{alone}{but}."
    workers = "" if seen is None else f" with {count_text(seen.loop.num_workers, 'worker')}"
    return (
        f"Loader: {rate_text(measured)} samples/s{workers} on {count_text(cpus, 'CPU')}, measured here; "
        "there by what a batch costs here, with a worker on every vCPU, as far as an epoch has a batch for "
        f"each: as fast as a CPU here, down to half{_waiting(floors)}."
    )


def _waiting(floors: LoopFloors | None) -> str:
    """Return why the loader's range is wide, where its processes had no CPU for most of a batch."""
    work = floors.loader_work if floors else None
    share = work.cpu_share if work else None
    if share is None or share >= _BUSY_SHARE:
        return ""
    return (
        f", and down to that of batches that wait {1 - share:.0%} of their time, as here: for storage, or "
        "for CPUs that others used"
    )
