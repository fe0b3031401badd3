"""A base that is predicted from one worker, held against what more workers take."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.predict.ram import base_ram
from tunekit.records.details import Detail
from tunekit.records.measurement import Measurement
from tunekit.units import MIB

pytestmark = [pytest.mark.real, pytest.mark.slow]

DATA_BYTES = 400 * MIB


def with_workers(folder: Path, workers: int) -> Measurement:
    target = zoo_target("data_in_memory.py", "--workers", str(workers))
    measured = RealTrials(target, folder, window_s=0.3).run_baseline((Detail.QUEUE,)).measurement
    assert measured is not None
    return measured


def test_workers_that_share_a_data_set_since_their_fork_do_not_multiply_it(tmp_path: Path) -> None:
    predicted = base_ram(with_workers(tmp_path / "one", 1))
    four = with_workers(tmp_path / "four", 4)
    assert DATA_BYTES < predicted.main_bytes < 3 * DATA_BYTES
    assert 0 < predicted.worker_bytes < DATA_BYTES / 4
    # torch's own pages are shared with whatever else runs torch on this machine, so they come and go.
    assert DATA_BYTES < four.memory.peak_pss_bytes < 3 * DATA_BYTES
    assert predicted.with_workers(4) < 3 * DATA_BYTES
    assert four.details is not None and four.details.queue is not None
    full_bytes = four.details.queue.pss_bytes
    assert full_bytes is not None
    seen_bytes = max(full_bytes, four.memory.peak_pss_bytes)
    assert base_ram(four).with_workers(4) == pytest.approx(seen_bytes, rel=0.25)
