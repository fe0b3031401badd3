"""What one run of the script showed, as tables: loaders, modules, optimizers, how each knob is reached."""

from collections.abc import Sequence
from typing import NamedTuple

from tunekit.records.config import TrainConfig
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Discovery, LoaderSeen, RootSeen
from tunekit.report.blocks import Column, Table, field_text, table_of
from tunekit.report.text import own_precision_text
from tunekit.trial.binding_syntax import binding_text, value_text
from tunekit.trial.binding_trials import BindingTrial
from tunekit.units import rate_text


class KnobRow(NamedTuple):
    """How one knob reaches the loop."""

    knob: str
    value: str
    how: str
    """inject, a binding as it is written, or fixed."""
    why: str
    """Why it is fixed; empty for a knob that can be searched."""


def discovery_tables(discovery: Discovery, knobs: Sequence[KnobRow]) -> tuple[Table, ...]:
    """Return the tables in the order in which they are read."""
    loaders = table_of("DataLoaders", _LOADERS, discovery.loaders)
    modules = table_of("Optimized modules", _MODULES, discovery.roots)
    rows = tuple((row.knob, row.value, row.how) for row in knobs)
    return loaders, modules, _optimizers(discovery), Table("Knobs", ("knob", "now", "reached by"), rows)


def loop_sentence(discovery: Discovery, baseline: TrainConfig, loop: LoopMeasurement | None) -> str:
    """Return the loop in one sentence."""
    ranks = f"{discovery.world_size} ranks, " if discovery.world_size > 1 else ""
    rate = f", {rate_text(loop.rate_samples_per_s)} samples/s (quick estimate)" if loop else ""
    steps = discovery.batches_per_step
    batches = f"{steps} batches" if steps > 1 else "batch"
    scaler = ", a gradient scaler" if discovery.scales_gradients else ""
    compiled = ", torch.compile" if baseline.compile else ""
    versions = f"torch {discovery.torch_version}, Python {discovery.python_version}"
    return (
        f"{ranks}{discovery.device_type}, {versions}: "
        f"batches of {baseline.batch_size} in {own_precision_text(baseline, discovery)}, "
        f"an optimizer step every {batches}{scaler}{compiled}{rate}"
    )


def _built_at(loader: LoaderSeen) -> str:
    innermost = loader.address.call_stack[:1]
    return innermost[0].rpartition("+")[0] if innermost else "n/a"


_LOADERS: tuple[Column[LoaderSeen], ...] = (
    Column("", lambda one: "trains" if one.training else "with it" if one.step_samples else "", False),
    Column("data set", field_text("dataset"), is_numeric=False),
    Column("batch", field_text("batch_size")),
    Column("workers x prefetch", lambda one: f"{one.num_workers} x {one.prefetch_factor or 0}", False),
    Column("built at", _built_at, is_numeric=False),
)
_MODULES: tuple[Column[RootSeen], ...] = (
    Column("module", lambda one: one.class_name.removeprefix("__main__."), is_numeric=False),
    Column("parameters", field_text("parameters", "{:,}".format)),
    Column("computes in", field_text("autocast_dtype", missing="float32"), is_numeric=False),
    Column("compiled", lambda one: "yes" if one.compiled else "no", is_numeric=False),
    Column("channels_last", lambda one: "yes" if one.channels_last else "no", is_numeric=False),
)


def _optimizers(discovery: Discovery) -> Table:
    groups: dict[tuple[str, str], int] = {}
    for one in discovery.optimizers:
        lr = "moves by itself" if one.base_lr is None else f"{one.base_lr:.6g}"
        groups[one.class_name, lr] = groups.get((one.class_name, lr), 0) + 1
    rows = tuple((name, lr, str(count)) for (name, lr), count in groups.items())
    return Table("Optimizers", ("optimizer", "base lr", "count"), rows, numeric=(1, 2))


def binding_trials_table(tried: Sequence[BindingTrial]) -> Table:
    """Return what the loop did when each binding was tried; what it did not follow is not written."""
    rows = tuple(
        (binding_text(one.binding), value_text(one.value), "yes" if one.works else "not written", one.did)
        for one in tried
    )
    return Table("Bindings, each tried once", ("binding", "tested", "OK", "observed"), rows)
