"""The throughput model: fitted to trials, it predicts the rate of every config and what limits it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.boundary import Boundary, fit_boundary
from tunekit.predict.throughput.evidence import STEP_NOISE, Evidence, Reading
from tunekit.predict.throughput.fit import Fit, Prior, fit, slopes
from tunekit.predict.throughput.observation import Columns, Floats, Observation
from tunekit.predict.throughput.physics import Anchor, Physics
from tunekit.predict.throughput.residual import Residual, Weights
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Limit

_CLOSE = 0.1
"""Ceilings whose relative difference is below this count as equal."""
_MIN_S = 1e-9
_UNKNOWN_CPU_SHARE = 0.8
_DIFFERENCE = 1e-4


@dataclass(frozen=True)
class Prediction:
    """Rates of some configs, in their order."""

    log_rate: Floats
    """Natural logarithm of samples/s over whole epochs, of one rank."""
    deviation: Floats
    """Standard deviation of `log_rate`."""


@dataclass(frozen=True)
class Ceilings:
    """The predicted rate that each part of the loop would allow on its own, in samples/s of one rank."""

    loader_samples_per_s: float | None
    """Over whole epochs, including boundaries; None if no trial showed the time to make a batch."""
    compute_samples_per_s: float | None
    """With data always available; None if no trial separated training from the loader."""
    cores_samples_per_s: float | None
    """What the cores shared by loader and training allow; None without workers."""


def limit_of(ceilings: Ceilings, with_workers: bool) -> Limit | None:
    """Return which ceiling limits the rate; None if that of loader or training is unknown.

    Args:
        ceilings: the config's ceilings.
        with_workers: whether workers load during training; otherwise loading and training take turns.
    """
    loader, training = ceilings.loader_samples_per_s, ceilings.compute_samples_per_s
    if loader is None or training is None:
        return None
    lower = min(loader, training)
    slower = Limit.LOADER if loader < training else Limit.TRAINING
    if not with_workers:
        in_turns = 1 / (1 / loader + 1 / training)
        return slower if in_turns > (1 - _CLOSE) * lower else Limit.TURNS
    cores = ceilings.cores_samples_per_s
    # Training that keeps all cores busy leaves none to the loader: they bind a little wherever it binds.
    if cores is not None and cores < (1 - _CLOSE) * lower:
        return Limit.CORES
    return Limit.BOTH if lower > (1 - _CLOSE) * max(loader, training) else slower


class ThroughputModel:
    """A model of the step time, fitted to the trials so far.

    Args:
        observations: at least one observation from measured trials, the baseline's first.
        cpus: CPUs that one rank may use.
        on_cpu: whether the training itself computes on them.
        epoch_samples: samples of an epoch per rank; None for a data set without a length.
    """

    def __init__(
        self, observations: Sequence[Observation], cpus: int, on_cpu: bool, epoch_samples: int | None = None
    ) -> None:
        self._epoch_samples = epoch_samples
        self._loader_seen = any(one.fetch_s for one in observations)
        self._compute_seen = any(one.compute_alone_s or one.compute_s for one in observations)
        self._physics = Physics(_anchor(observations, cpus, on_cpu))
        evidence = Evidence(observations)
        physics = self._physics
        self._fit: Fit = fit(
            lambda values: evidence.residuals(lambda columns: physics.times(values, columns)),
            Prior(physics.means, physics.deviations),
        )
        self._residual = self._fitted_residual(evidence)
        self._boundary: Boundary = fit_boundary(observations)

    def predict(self, configs: Sequence[TrainConfig]) -> Prediction:
        """Predict the rates of some configs."""
        return self.predict_columns(Columns.of(configs))

    def predict_columns(self, columns: Columns, pending: Columns | None = None) -> Prediction:
        """Predict the rates of some configs.

        Args:
            columns: the configs.
            pending: configs whose trials are still running and assumed to end as predicted: this lowers the
                deviations but not the rates.
        """
        log_step, steepness = self._log_steps(columns)
        left, left_variance = self._residual.predict(columns, self._weights(steepness))
        variance = np.maximum(((steepness @ self._fit.covariance) * steepness).sum(1), 0.0) + left_variance
        if pending is not None and len(pending):
            variance = np.maximum(variance - self._taken_off_by(pending, columns, steepness), 0.0)
        return self._over_epochs(columns, np.exp(log_step + left), np.sqrt(variance))

    def _taken_off_by(self, pending: Columns, columns: Columns, steepness: Floats) -> Floats:
        """Return by how much a step time of each pending config would reduce the configs' variances."""
        _, pending_steepness = self._log_steps(pending)
        pending_weights = self._weights(pending_steepness)

        def shared_with_pending(of: Columns, their_steepness: Floats) -> Floats:
            left = self._residual.covariance(of, self._weights(their_steepness), pending, pending_weights)
            return np.asarray(their_steepness @ self._fit.covariance @ pending_steepness.T + left)

        shared = shared_with_pending(columns, steepness)
        told = shared_with_pending(pending, pending_steepness) + STEP_NOISE**2 * np.eye(len(pending))
        return np.asarray((shared * np.linalg.solve(told, shared.T).T).sum(1))

    def _log_steps(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return the equations' log step times, and their Jacobian, (configs, parameters)."""

        def log_step_of(values: Floats) -> Floats:
            return np.asarray(np.log(self._physics.times(values, columns).step_s))

        values = self._fit.values
        log_step = log_step_of(values)
        return log_step, slopes(log_step_of, values, log_step, np.full(len(values), _DIFFERENCE))

    def _fitted_residual(self, evidence: Evidence) -> Residual:
        """Fit the residual to the errors of the equations for readings of the step or of one half."""
        of_step = evidence.kinds == Reading.STEP
        of_training, of_loader = evidence.kinds == Reading.TRAINING, evidence.kinds == Reading.LOADER
        _, steepness = self._log_steps(evidence.columns)
        in_step = self._weights(steepness)
        weights = Weights(
            training=np.where(of_step, in_step.training, of_training.astype(float)),
            loader=np.where(of_step, in_step.loader, of_loader.astype(float)),
        )
        predicted = evidence.log_s_by(self._physics.times(self._fit.values, evidence.columns))
        kept = np.flatnonzero(of_step | of_training | of_loader)
        return Residual(
            evidence.columns.take(kept),
            Weights(weights.training[kept], weights.loader[kept]),
            (evidence.log_s - predicted)[kept],
            evidence.noise[kept],
        )

    def _weights(self, steepness: Floats) -> Weights:
        physics = self._physics
        return Weights(
            training=steepness[:, physics.place_of["compute"]], loader=steepness[:, physics.place_of["fetch"]]
        )

    def ceilings(self, config: TrainConfig) -> Ceilings:
        """Predict the rates that loader, training and the cores would each allow for a config."""
        columns = Columns.of([config])
        times = self._physics.times(self._fit.values, columns)
        one, none = np.ones(1), np.zeros(1)
        training_left = np.exp(self._residual.predict(columns, Weights(training=one, loader=none))[0])
        loader_left = np.exp(self._residual.predict(columns, Weights(training=none, loader=one))[0])
        loader_s = (times.loader_s if config.num_workers else times.fetch_s) * loader_left
        fetch_core_s = times.fetch_cpu_s / self._physics.anchor.cpus
        cores_s = (times.shared_s - fetch_core_s) * training_left + fetch_core_s * loader_left
        compute_s = times.compute_s * training_left
        are_shared = config.num_workers > 0 and self._loader_seen and self._compute_seen
        loader = float(np.exp(self._over_epochs(columns, loader_s, none).log_rate)[0])
        return Ceilings(
            loader_samples_per_s=loader if self._loader_seen else None,
            compute_samples_per_s=float(config.batch_size / compute_s[0]) if self._compute_seen else None,
            cores_samples_per_s=float(config.batch_size / cores_s[0]) if are_shared else None,
        )

    def _over_epochs(self, columns: Columns, step_s: Floats, deviation: Floats) -> Prediction:
        """Return the rates over whole epochs; `deviation` is that of the logarithm of `step_s`."""
        if self._epoch_samples is None:
            return Prediction(np.log(columns.batch_size / step_s), deviation)
        batches = self._epoch_samples / columns.batch_size
        steady_s = batches * step_s
        boundary_s, unsure_s = self._boundary.predict(columns)
        epoch_s = steady_s + boundary_s
        if self._loader_seen:  # workers make whole batches: some idle if an epoch has fewer batches
            fetch_s = self._physics.times(self._fit.values, columns).fetch_s
            epoch_s = np.maximum(epoch_s, np.ceil(batches / np.maximum(columns.workers, 1)) * fetch_s)
        # A boundary can't take less than no time, so its uncertainty is at most its length.
        of_boundary = np.minimum(unsure_s, boundary_s) / epoch_s
        return Prediction(
            np.log(self._epoch_samples / epoch_s), np.hypot(steady_s / epoch_s * deviation, of_boundary)
        )


def _anchor(observations: Sequence[Observation], cpus: int, on_cpu: bool) -> Anchor:
    """Return the scale of the equations: the times of the first trial, as well as they are known."""
    first = observations[0]
    whole_s = next((one.step_s for one in observations if one.step_s), _MIN_S)
    fetches = [
        fetch_s * first.config.batch_size / one.config.batch_size
        for one in observations
        if (fetch_s := _fetch_seen_s(one)) is not None
    ]
    shares = [
        one.fetch_cpu_s / one.fetch_s for one in observations if one.fetch_s and one.fetch_cpu_s is not None
    ]
    return Anchor(
        config=first.config,
        compute_s=first.compute_alone_s or first.compute_s or first.step_s or whole_s,
        fetch_s=fetches[0] if fetches else max(1, first.config.num_workers) * (first.step_s or whole_s),
        fetch_cpu_share=shares[0] if shares else _UNKNOWN_CPU_SHARE,
        cpus=cpus,
        on_cpu=on_cpu,
        fetch_is_known=bool(fetches),
    )


def _fetch_seen_s(one: Observation) -> float | None:
    """Return the time one process took to make a batch, estimated from the best available reading."""
    if one.fetch_s:
        return one.fetch_s
    if one.loader_alone_s:
        return one.loader_alone_s * max(1, one.config.num_workers)
    if one.config.num_workers == 0 and one.step_s and one.compute_s:
        return max(one.step_s - one.compute_s, _MIN_S)
    return None
