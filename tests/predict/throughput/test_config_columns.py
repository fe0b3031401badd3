"""Columns: one entry per config, in order."""

import numpy as np
from build_records import config, configs
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.observation import PRECISIONS, Columns


@given(st.lists(configs(), max_size=6))
def test_every_knob_stands_in_the_configs_order(several):
    columns = Columns.of(several)
    assert len(columns) == len(several)
    for place, one in enumerate(several):
        assert columns.batch_size[place] == one.batch_size
        assert columns.workers[place] == one.num_workers
        assert columns.prefetch[place] == (one.prefetch_factor or 0)
        assert PRECISIONS[columns.precision[place]] is one.precision
        assert columns.compiled[place] == one.compile
        assert columns.channels_last[place] == one.channels_last
        assert columns.pinned[place] == one.pin_memory
        assert columns.persistent[place] == one.persistent_workers


def test_taken_places_are_in_the_order_asked_for():
    taken = Columns.of([config(batch_size=size) for size in (1, 2, 3)]).take(np.array([2, 0]))
    assert taken.batch_size.tolist() == [3.0, 1.0]
