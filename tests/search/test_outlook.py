"""What predicted rates come to over the whole planned training."""

import numpy as np
import pytest
from build_records import config, trial_record

from tunekit.model.columns import Columns
from tunekit.model.throughput import Prediction
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.search.confirm import COMPILE_PRIOR_S
from tunekit.search.outlook import Outlook

COLUMNS = Columns.of([config(), config(compile=True)])
RATES = Prediction(np.log([1000.0, 1250.0]), np.array([0.1, 0.1]))


def started(number: int, compiled: bool, first_step_s: float):
    start = {"startup_s": 6.0, "first_batch_s": 9.0, "first_step_s": first_step_s}
    return trial_record(number, of=config(compile=compiled), **start)


def whole_s(samples: float, measured) -> list[float]:
    outlook = Outlook(PlannedTraining(samples, judged_by_finish=True), measured)
    return list(samples / np.exp(outlook.of(COLUMNS, RATES).log_rate))


def test_the_start_is_part_of_the_training():
    measured = [started(1, False, 4.0), started(2, True, 54.0)]
    assert whole_s(100_000.0, measured) == pytest.approx([110.0, 140.0])
    assert whole_s(1_000_000.0, measured) == pytest.approx([1010.0, 860.0])


def test_compiling_takes_what_the_slowest_process_has_shown():
    measured = [started(1, False, 4.0), started(2, True, 54.0), started(3, True, 6.0)]
    assert whole_s(100_000.0, measured) == pytest.approx([110.0, 140.0])


def test_compiling_that_nobody_has_seen_has_its_usual_price():
    assert whole_s(100_000.0, [started(1, False, 4.0)])[1] == pytest.approx(90.0 + COMPILE_PRIOR_S)


def test_what_is_sure_of_the_start_leaves_less_in_doubt():
    outlook = Outlook(PlannedTraining(10_000.0, judged_by_finish=True), [started(1, False, 4.0)])
    assert outlook.of(COLUMNS, RATES).deviation[0] == pytest.approx(0.05)


def test_by_rate_the_prediction_stays_as_it_is():
    outlook = Outlook(PlannedTraining(10_000.0), [started(1, False, 4.0)])
    assert outlook.of(COLUMNS, RATES) is RATES
    assert outlook.rough(COLUMNS, RATES.log_rate) is RATES.log_rate
