"""Models what the equations leave unexplained with Gaussian processes over the knobs.

There are three: for training (over batch size and modes), for the loader (batch size, workers, prefetch,
pinning), and a small one over all knobs. The first two are weighted by their half's influence on the step, so
that a loop limited by training learns nothing about its loader, and expects no gain from it.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.observation import PRECISIONS, Columns, Floats
from tunekit.records.config import LOADER_KNOBS, MODEL_SWITCHES, SWITCH_KNOBS

_AMPLITUDES = (0.1, 0.2, 0.35)
"""Standard deviations of the logarithm of either half to choose from; the prior is centred on 0.1."""
_BELIEVED_AMPLITUDE, _BELIEVED_SPREAD = 0.1, 0.7
_OTHER_AMPLITUDE = 0.02
_SCALES = {
    "batch_size": 0.8,  # doublings
    "workers": 1.0,  # doublings of workers + 1
    "prefetch": 2.0,  # doublings
    **dict.fromkeys(SWITCH_KNOBS, 2.0),
    "compile": 1.0,
    "channels_last": 1.5,
    "precision": 1.0,
}
"""Length scale along each knob: configs further apart are hardly correlated."""
_OF_TRAINING = ("batch_size", *MODEL_SWITCHES, "precision")
_OF_LOADER = ("batch_size", "workers", "prefetch", *(knob for knob in SWITCH_KNOBS if knob in LOADER_KNOBS))


@dataclass(frozen=True)
class Weights:
    """The derivative of the log step time by the logarithm of either half, per config; between 0 and 1."""

    training: Floats
    loader: Floats


class Residual:
    """The posterior of the processes, with the most probable amplitudes.

    Args:
        columns: the observed configs.
        weights: the weights of their halves.
        residuals: measured minus predicted log times.
        noise: their standard deviations.
    """

    def __init__(self, columns: Columns, weights: Weights, residuals: Floats, noise: Floats) -> None:
        self._columns, self._weights = columns, weights
        kernels = _kernels(columns, weights, columns, weights)
        found = []
        for amplitudes in itertools.product(_AMPLITUDES, _AMPLITUDES):
            kernel = _mixed(kernels, amplitudes) + np.diag(noise**2)
            inverse = np.linalg.inv(kernel)
            solved = inverse @ residuals
            likelihood = -0.5 * float(residuals @ solved) - 0.5 * float(np.linalg.slogdet(kernel)[1])
            strange = np.log(np.array(amplitudes) / _BELIEVED_AMPLITUDE) / _BELIEVED_SPREAD
            found.append((likelihood - 0.5 * float(strange @ strange), amplitudes, inverse, solved))
        _, self.amplitudes, self._inverse, self._solved = max(found, key=lambda one: one[0])

    def predict(self, columns: Columns, weights: Weights) -> tuple[Floats, Floats]:
        """Return the mean and variance of the residual of some configs' log step times."""
        kernel = _mixed(_kernels(columns, weights, self._columns, self._weights), self.amplitudes)
        training, loader = self.amplitudes
        before = (training * weights.training) ** 2 + (loader * weights.loader) ** 2 + _OTHER_AMPLITUDE**2
        return kernel @ self._solved, np.maximum(before - ((kernel @ self._inverse) * kernel).sum(1), 0.0)

    def covariance(
        self, first: Columns, first_weights: Weights, second: Columns, second_weights: Weights
    ) -> Floats:
        """Return the posterior covariance, (first, second), of the residuals of log step times."""
        prior = _mixed(_kernels(first, first_weights, second, second_weights), self.amplitudes)
        of_first, of_second = (
            _mixed(_kernels(columns, weights, self._columns, self._weights), self.amplitudes)
            for columns, weights in ((first, first_weights), (second, second_weights))
        )
        return np.asarray(prior - of_first @ self._inverse @ of_second.T)


def _mixed(kernels: tuple[Floats, Floats, Floats], amplitudes: tuple[float, float]) -> Floats:
    training, loader, others = kernels
    return amplitudes[0] ** 2 * training + amplitudes[1] ** 2 * loader + _OTHER_AMPLITUDE**2 * others


def _kernels(
    first: Columns, first_weights: Weights, second: Columns, second_weights: Weights
) -> tuple[Floats, Floats, Floats]:
    """Return (first, second) for training, loader and everything, with amplitude 1."""
    training = _similarity(_features(first, _OF_TRAINING), _features(second, _OF_TRAINING))
    loader = _similarity(_features(first, _OF_LOADER), _features(second, _OF_LOADER))
    every = tuple(_SCALES)
    return (
        training * np.outer(first_weights.training, second_weights.training),
        loader * np.outer(first_weights.loader, second_weights.loader),
        _similarity(_features(first, every), _features(second, every)),
    )


def _features(columns: Columns, names: tuple[str, ...]) -> Floats:
    """Return (configs, features), each knob in units of its scale."""
    raw = {
        "batch_size": np.log2(columns.batch_size),
        "workers": np.log2(columns.workers + 1),
        "prefetch": np.log2(np.maximum(columns.prefetch, 1)),
        **{knob: on.astype(float) for knob, on in columns.switches.items()},
    }
    features = [raw[name] / _SCALES[name] for name in names if name in raw]
    if "precision" in names:
        apart = np.sqrt(2) * _SCALES["precision"]
        features += [(columns.precision == place) / apart for place in range(len(PRECISIONS))]
    return np.stack(features, axis=1)


def _similarity(first: Floats, second: Floats) -> Floats:
    squared = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
    return np.asarray(np.exp(-0.5 * np.maximum(squared, 0.0)))
