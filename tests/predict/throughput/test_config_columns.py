"""Columns: one entry per config, in order."""

from build_records import configs
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
        assert columns.switches["compile"][place] == one.compile
        assert columns.switches["channels_last"][place] == one.channels_last
        assert columns.switches["pin_memory"][place] == one.pin_memory
        assert columns.switches["persistent_workers"][place] == one.persistent_workers
