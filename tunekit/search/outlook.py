"""What predicted rates come to in what the search looks for: rate, or the finish of the training."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from tunekit.model.columns import Columns, Floats
from tunekit.model.throughput import Prediction
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.records.trial import TrialRecord
from tunekit.search.confirm import COMPILE_PRIOR_S


class Outlook:
    """Turns predicted rates into what is to be as high as can be, as the planned training has it. Pure.

    Args:
        planned: the training to come.
        measured: trials that have shown how long configs take to start.
    """

    def __init__(self, planned: PlannedTraining, measured: Sequence[TrialRecord]) -> None:
        self._samples = planned.finish_samples
        self._eager_s, self._compiled_s = _starts_s(measured)

    def of(self, columns: Columns, predicted: Prediction) -> Prediction:
        """Return the prediction with log_rate that of samples/s over the whole planned training.

        Args:
            columns: of the configs.
            predicted: their rates over whole epochs.
        """
        if self._samples is None:
            return predicted
        start_s = np.where(columns.compiled, self._compiled_s, self._eager_s) / self._samples
        sample_s = np.exp(-predicted.log_rate)
        whole_s = start_s + sample_s
        return replace(
            predicted, log_rate=-np.log(whole_s), deviation=predicted.deviation * sample_s / whole_s
        )

    def rough(self, columns: Columns, log_rate: Floats) -> Floats:
        """Return the same for logarithms of rates alone."""
        return self.of(columns, Prediction(log_rate, np.zeros(len(columns)))).log_rate


def _starts_s(measured: Sequence[TrialRecord]) -> tuple[float, float]:
    """Return the seconds to the end of the first step, without torch.compile and with it.

    The wait for the first batch is left out: every epoch of a predicted rate has a boundary already.
    What compiling takes is what the slowest process has shown: others may have found its code in a cache.
    """
    loops = [
        (one.config.compile, one.measurement.loop.startup_s + one.measurement.loop.once_s)
        for one in measured
        if one.measurement and one.config
    ]
    eager_s = [start_s for compiled, start_s in loops if not compiled]
    compiled_s = [start_s for compiled, start_s in loops if compiled]
    usual_s = median(eager_s) if eager_s else 0.0
    return usual_s, max(compiled_s, default=usual_s + COMPILE_PRIOR_S)
