"""Targets made by the throughput model's own equations, so that what it should find is known."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from build_records import config, configs
from hypothesis import strategies as st

from tunekit.predict.throughput.observation import Columns, Floats, Observation
from tunekit.predict.throughput.physics import Anchor, Physics, Times
from tunekit.records.config import Precision, TrainConfig


def observation(
    of: TrainConfig | None = None, step_s: float | None = 0.1, **seen: float | None
) -> Observation:
    """A trial that saw nothing but its step, if not told otherwise."""
    values: dict[str, float | None] = {
        "compute_s": None,
        "fetch_s": None,
        "fetch_cpu_s": None,
        "loader_alone_s": None,
        "compute_alone_s": None,
        "boundary_s": None,
        "step_spread": 0.01,
    }
    return Observation(config=of or config(), step_s=step_s, **(values | seen))


@dataclass(frozen=True)
class EquationWorld:
    """One target on one machine; its parameters are the means unless they are moved.

    Attributes:
        moved: by how many of its deviations each parameter is off its mean, by name.
    """

    cpus: int = 8
    on_cpu: bool = False
    compute_s: float = 0.05
    """Of the anchor's batch."""
    fetch_s: float = 0.05
    fetch_cpu_share: float = 0.8
    home: TrainConfig = field(default_factory=config)
    moved: dict[str, float] = field(default_factory=dict)

    @property
    def physics(self) -> Physics:
        anchor = Anchor(self.home, self.compute_s, self.fetch_s, self.fetch_cpu_share, self.cpus, self.on_cpu)
        return Physics(anchor)

    @property
    def values(self) -> Floats:
        off = [self.moved.get(parameter.name, 0.0) for parameter in self.physics.parameters]
        return self.physics.means + np.array(off) * self.physics.deviations

    def times(self, *several: TrainConfig) -> Times:
        return self.physics.times(self.values, Columns.of(several))

    def log_rates(self, several: Sequence[TrainConfig]) -> Floats:
        """True samples/s, their logarithm, without any boundary."""
        return np.log([one.batch_size for one in several] / self.times(*several).step_s)

    def observe(self, of: TrainConfig, noise: float = 0.0, all_parts: bool = True) -> Observation:
        """A trial of a config, the logarithm of its step off by noise."""
        times = self.times(of)
        seen = {
            "compute_alone_s": float(times.compute_s[0]),
            "loader_alone_s": float((times.loader_s if of.num_workers else times.fetch_s)[0]),
            "fetch_s": float(times.fetch_s[0]),
            "fetch_cpu_s": float(times.fetch_cpu_s[0]),
            "compute_s": float(
                max(times.compute_s[0], times.shared_s[0]) if of.num_workers else times.compute_s[0]
            ),
        }
        parts = seen if all_parts else {"compute_s": seen["compute_s"]}
        return observation(of, float(times.step_s[0] * np.exp(noise)), **parts)


@st.composite
def equation_worlds(draw: st.DrawFn, on_cpu: bool | None = None) -> EquationWorld:
    """Loops from 0.1 ms to seconds, bound by either half, on machines from 1 CPU to 64."""
    moved = st.floats(-1.5, 1.5)
    names = ("compute_overhead_share", "fetch_overhead_share", "worker_factor", "worker_loss")
    names += ("hand_over", "training_cpus", "compiled_samples", "compiled_overhead", "bf16_samples")
    return EquationWorld(
        cpus=draw(st.sampled_from([1, 2, 4, 8, 64])),
        on_cpu=draw(st.booleans()) if on_cpu is None else on_cpu,
        compute_s=10 ** draw(st.floats(-4, 0.5)),
        fetch_s=10 ** draw(st.floats(-5, 0.5)),
        fetch_cpu_share=draw(st.floats(0.02, 1.0)),
        home=draw(small_configs()),
        moved={name: draw(moved) for name in names},
    )


@st.composite
def small_configs(draw: st.DrawFn) -> TrainConfig:
    """Configs such as one search has: batches from 8 to 256, 0 to 8 workers, two precisions."""
    return config(
        batch_size=draw(st.sampled_from([8, 32, 64, 128, 256])),
        num_workers=draw(st.integers(0, 8)),
        precision=draw(st.sampled_from([Precision.FP32, Precision.BF16])),
        compile=draw(st.booleans()),
    )


@st.composite
def wild_observations(draw: st.DrawFn) -> Observation:
    """Whatever a trial could say, sane or not: any legal config, any times, parts that contradict."""
    seconds = st.none() | st.floats(-9, 4).map(lambda power: 10.0**power)
    fetch_s = draw(seconds)
    return Observation(
        config=draw(configs()),
        step_s=draw(seconds),
        compute_s=draw(seconds),
        fetch_s=fetch_s,
        fetch_cpu_s=None if fetch_s is None else draw(st.none() | st.floats(0.02, 1.0).map(fetch_s.__mul__)),
        loader_alone_s=draw(seconds),
        compute_alone_s=draw(seconds),
        boundary_s=draw(st.none() | st.floats(-2.0, 300.0)),
        step_spread=draw(st.none() | st.floats(0, 5)),
    )
