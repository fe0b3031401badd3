"""What one run of the script showed, as tables: loaders, modules, optimizers, how each knob is reached."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.records.config import TrainConfig
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Discovery, LoaderSeen
from tunekit.report.blocks import Table
from tunekit.report.text import own_precision_text
from tunekit.units import rate_text


class KnobRow(NamedTuple):
    """How one knob reaches the loop."""

    knob: str
    value: str
    how: str
    """inject, a binding as it is written, or fixed."""
    why: str
    """Why it is fixed; empty for a knob that can be searched."""


class BindingTrialRow(NamedTuple):
    """A binding that was tried once."""

    binding: str
    value: str
    """What it was set to."""
    did: str
    """What the loop then did, or why the trial failed."""
    works: bool


def discovery_tables(discovery: Discovery, knobs: Sequence[KnobRow]) -> tuple[Table, ...]:
    """Return the tables in the order in which they are read."""
    rows = tuple((row.knob, row.value, row.how) for row in knobs)
    reached = Table("Knobs", ("knob", "now", "reached by"), rows)
    return (_loaders(discovery), _roots(discovery), _optimizers(discovery), reached)


def loop_sentence(discovery: Discovery, baseline: TrainConfig, loop: LoopMeasurement | None) -> str:
    """Return the loop in one sentence."""
    ranks = f"{discovery.world_size} ranks, " if discovery.world_size > 1 else ""
    rate = f", {rate_text(loop.rate_samples_per_s)} samples/s (quick estimate)" if loop else ""
    steps = discovery.batches_per_step
    accumulation = (
        f"an optimizer step every {steps} batches" if steps > 1 else "an optimizer step every batch"
    )
    scaler = ", a gradient scaler" if discovery.scales_gradients else ""
    compiled = ", torch.compile" if baseline.compile else ""
    versions = f"torch {discovery.torch_version}, Python {discovery.python_version}"
    return (
        f"{ranks}{discovery.device_type}, {versions}: "
        f"batches of {baseline.batch_size} in {own_precision_text(baseline, discovery)}, "
        f"{accumulation}{scaler}{compiled}{rate}"
    )


def _loaders(discovery: Discovery) -> Table:
    rows = tuple(
        (
            "trains" if loader.training else "with it" if loader.step_samples else "",
            loader.dataset,
            "n/a" if loader.batch_size is None else str(loader.batch_size),
            f"{loader.num_workers} x {loader.prefetch_factor or 0}",
            _built_at(loader),
        )
        for loader in discovery.loaders
    )
    columns = ("", "data set", "batch", "workers x prefetch", "built at")
    return Table("DataLoaders", columns, rows, numeric=(2,))


def _built_at(loader: LoaderSeen) -> str:
    innermost = loader.address.call_stack[:1]
    return innermost[0].rpartition("+")[0] if innermost else "n/a"


def _roots(discovery: Discovery) -> Table:
    rows = tuple(
        (
            root.class_name.removeprefix("__main__."),
            f"{root.parameters:,}",
            root.autocast_dtype or "float32",
            "yes" if root.compiled else "no",
            "yes" if root.channels_last else "no",
        )
        for root in discovery.roots
    )
    columns = ("module", "parameters", "computes in", "compiled", "channels_last")
    return Table("Optimized modules", columns, rows, numeric=(1,))


def _optimizers(discovery: Discovery) -> Table:
    groups: dict[tuple[str, str], int] = {}
    for one in discovery.optimizers:
        lr = "moves by itself" if one.base_lr is None else f"{one.base_lr:.6g}"
        groups[one.class_name, lr] = groups.get((one.class_name, lr), 0) + 1
    rows = tuple((name, lr, str(count)) for (name, lr), count in groups.items())
    return Table("Optimizers", ("optimizer", "base lr", "count"), rows, numeric=(1, 2))


def binding_trials_table(tried: Sequence[BindingTrialRow]) -> Table:
    """Return what the loop did when each binding was tried; what it did not follow is not written."""
    rows = tuple((row.binding, row.value, "yes" if row.works else "not written", row.did) for row in tried)
    return Table("Bindings, each tried once", ("binding", "tested", "OK", "observed"), rows)


def why_left_alone(knobs: Sequence[KnobRow]) -> tuple[str, ...]:
    """Return a sentence for each reason, with the knobs that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for row in knobs:
        if row.why:
            by_reason.setdefault(row.why, []).append(row.knob)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
