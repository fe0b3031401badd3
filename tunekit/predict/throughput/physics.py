"""The equations for the time of a step when loader and training share the cores.

A step takes C to train on and F to fetch. Without workers the two alternate; with workers the slowest of
training, loader and cores sets the pace:

    step = smooth maximum of  C + h,  F / w_eff,  (C x d + F x u) / cpus

C grows with the batch from an overhead (launching, Python) and a cost per sample, each scaled by precision,
compile and channels_last. F does the same, without these factors. w_eff is the number of workers, reduced by
their contention; u is the share of F that needs a CPU and d the CPUs that training keeps busy; h is the time
in which the loop takes a batch from a worker, half of it growing with the batch. Parameters are logarithms
(or log odds) with a normal prior, whose mean and standard deviation are given with each.

Assumptions and their limits:

- Times are means over steady state. Epoch boundaries have their own model; stalls due to an uneven loader,
  and so the prefetch factor, pinned memory and persistent workers, have no term here: their effect on a step
  is left to the residual.
- Training time is linear in the batch size. Kernels that run in waves, caches that overflow and algorithms
  that change with the shape bend the line; a mode that only pays off for large batches has a single factor.
- The factors of precision and compile multiply: they have no interaction term.
- Workers are alike, and contention never makes more workers slower than fewer. Storage with limited
  bandwidth, or a lock that workers compete for, has no term.
- Cores are alike and shared fairly. That workers slow training down through caches and memory, below the
  cores' capacity, has no term; nor have the CPU's clock, its hyperthreads and other tenants.
- Each loop batch has an optimizer step: accumulating gradients changes no time here.
- Ranks wait for one another only as much as the measured rank shows.
"""

from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.observation import PRECISIONS, Columns, Floats
from tunekit.records.config import MODEL_SWITCHES, Precision, TrainConfig

_PRECISION_PRIORS = {
    Precision.FP32: (0.0, 1e-6, 0.0, 1e-6),
    Precision.TF32: (-0.2, 0.25, 0.0, 0.05),
    Precision.BF16: (-0.3, 0.45, 0.1, 0.15),
    Precision.FP16: (-0.3, 0.45, 0.15, 0.15),
}
"""Prior mean and deviation of the log factor on the cost per sample, then those on the overhead."""
_UNKNOWN_PRIORS = (0.0, 0.15, 0.0, 1e-6)
_SWITCH_PRIORS = {"compile": (-0.15, 0.25, -0.5, 0.45), "channels_last": (-0.05, 0.15, 0.0, 1e-6)}
"""The same for the model's switches when they are on."""


@dataclass(frozen=True)
class Parameter:
    """One unknown with its prior."""

    name: str
    mean: float
    deviation: float


def parameters(cpus: int, on_cpu: bool, fetch_is_known: bool = True) -> tuple[Parameter, ...]:
    """Return the unknowns in the order of a parameter vector.

    Args:
        cpus: CPUs that the loop and its workers may use.
        on_cpu: whether the training itself computes on them.
        fetch_is_known: whether a trial measured the time one process takes to make a batch.
    """
    busy = np.log(max(1.0, 0.7 * cpus)) if on_cpu else 0.0
    unknown = [
        Parameter("compute", 0.0, 0.5),
        Parameter("compute_overhead_share", -1.0, 1.5),
        Parameter("fetch", 0.0, 0.5 if fetch_is_known else 2.0),
        Parameter("fetch_overhead_share", -2.5, 1.6),
        Parameter("fetch_cpu_share", 0.0, 0.5),
        Parameter("worker_factor", 0.15, 0.35),
        Parameter("worker_loss", -3.5, 1.2),
        Parameter("hand_over", -6.0, 1.5),
        Parameter("training_cpus", float(busy), 0.4 if on_cpu else 0.25),
        Parameter("sharpness", float(np.log(8.0)), 0.5),
    ]
    modes = {knob: _SWITCH_PRIORS.get(knob, _UNKNOWN_PRIORS) for knob in MODEL_SWITCHES}
    for mode, priors in (*modes.items(), *_PRECISION_PRIORS.items()):
        unknown.append(Parameter(f"{mode}_samples", *priors[:2]))
        unknown.append(Parameter(f"{mode}_overhead", *priors[2:]))
    return tuple(unknown)


@dataclass(frozen=True)
class Anchor:
    """The scale of the parameters: the times of the first trial, with its config."""

    config: TrainConfig
    compute_s: float
    fetch_s: float
    fetch_cpu_share: float
    """Between 0 and 1."""
    cpus: int
    on_cpu: bool
    fetch_is_known: bool = True
    """Whether fetch_s was measured; otherwise it is a guess."""


@dataclass(frozen=True)
class Times:
    """Predicted seconds per loop batch, one entry per config."""

    step_s: Floats
    compute_s: Floats
    """Training alone."""
    fetch_s: Floats
    """One process making a batch, with a core to itself."""
    loader_s: Floats
    """Time between batches of the loader alone."""
    fetch_cpu_s: Floats
    shared_s: Floats
    """Time that the shared cores need for both training and loading."""


class Physics:
    """The equations for one target.

    Args:
        anchor: the scale of its parameters.

    Attributes:
        parameters: the entries of a parameter vector, in order.
        place_of: each parameter's index in the vector, by name.
    """

    def __init__(self, anchor: Anchor) -> None:
        self.anchor = anchor
        self.parameters = parameters(anchor.cpus, anchor.on_cpu, anchor.fetch_is_known)
        self.place_of = {parameter.name: place for place, parameter in enumerate(self.parameters)}
        self._home = Columns.of([anchor.config])
        self._samples, self._overheads = (
            np.array([self.place_of[f"{precision}_{what}"] for precision in PRECISIONS])
            for what in ("samples", "overhead")
        )

    @property
    def means(self) -> Floats:
        """The parameters' prior means."""
        return np.array([parameter.mean for parameter in self.parameters])

    @property
    def deviations(self) -> Floats:
        """The parameters' prior standard deviations."""
        return np.array([parameter.deviation for parameter in self.parameters])

    def times(self, values: Floats, columns: Columns) -> Times:
        """Predict the times of some configs.

        Args:
            values: a parameter vector.
            columns: the configs.
        """
        anchor = self.anchor
        compute_s = (
            anchor.compute_s * np.exp(self._of("compute", values)) * self._relative_cost(values, columns)
        )
        share = _logistic(self._of("fetch_overhead_share", values))
        grown = columns.batch_size / anchor.config.batch_size
        fetch_s = anchor.fetch_s * np.exp(self._of("fetch", values)) * (share + (1 - share) * grown)
        with_workers = columns.workers > 0
        fetch_s = np.where(with_workers, fetch_s * np.exp(self._of("worker_factor", values)), fetch_s)
        needs_cpu = np.minimum(1.0, anchor.fetch_cpu_share * np.exp(self._of("fetch_cpu_share", values)))
        fetch_cpu_s = fetch_s * needs_cpu
        at_work = np.maximum(columns.workers, 1.0)
        lost = min(1.0, float(np.exp(self._of("worker_loss", values))))
        effective = at_work / (1 + lost * (at_work - 1))
        loader_s = np.maximum(fetch_s / effective, fetch_cpu_s / np.minimum(at_work, float(anchor.cpus)))
        hand_over_s = np.exp(self._of("hand_over", values)) * (1 + grown) / 2
        training_cpus = np.minimum(np.exp(self._of("training_cpus", values)), float(anchor.cpus))
        shared_s = (compute_s * training_cpus + fetch_cpu_s) / anchor.cpus
        sharpness = max(1.0, float(np.exp(self._of("sharpness", values))))
        beside = _smooth_maximum((compute_s + hand_over_s, loader_s, shared_s), sharpness)
        return Times(
            step_s=np.where(with_workers, beside, compute_s + fetch_s),
            compute_s=compute_s,
            fetch_s=fetch_s,
            loader_s=loader_s,
            fetch_cpu_s=fetch_cpu_s,
            shared_s=shared_s,
        )

    def _relative_cost(self, values: Floats, columns: Columns) -> Floats:
        """Return the time of training on a batch, as a multiple of the anchor's."""
        share = _logistic(self._of("compute_overhead_share", values))
        overhead, per_sample = self._factors(values, columns)
        home_overhead, home_per_sample = self._factors(values, self._home)
        grown = columns.batch_size / self.anchor.config.batch_size
        return share * overhead / home_overhead + (1 - share) * grown * per_sample / home_per_sample

    def _factors(self, values: Floats, columns: Columns) -> tuple[Floats, Floats]:
        """Return the factors of the modes on overhead and on cost per sample."""
        log_samples = values[self._samples][columns.precision]
        log_overhead = values[self._overheads][columns.precision]
        for knob in MODEL_SWITCHES:
            log_samples = log_samples + columns.switches[knob] * self._of(f"{knob}_samples", values)
            log_overhead = log_overhead + columns.switches[knob] * self._of(f"{knob}_overhead", values)
        return np.exp(log_overhead), np.exp(log_samples)

    def _of(self, name: str, values: Floats) -> float:
        return float(values[self.place_of[name]])


def _logistic(log_odds: float) -> float:
    return float(1 / (1 + np.exp(-log_odds)))


def _smooth_maximum(terms: tuple[Floats, ...], sharpness: float) -> Floats:
    """Return the p-norm of positive terms: their maximum, rounded where two are close."""
    largest = np.maximum.reduce(terms)
    powers = sum((term / largest) ** sharpness for term in terms)
    return np.asarray(largest * powers ** (1 / sharpness))
