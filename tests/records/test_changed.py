"""Records with other values in some of their fields: never one that could not have been built."""

from typing import Any

import pytest
from build_records import config, trial_record
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tunekit.records.config import USUAL_PREFETCH, TrainConfig


@pytest.mark.parametrize("values", [{"batch_size": 0}, {"precision": "fp64"}, {"batchsize": 8}])
def test_a_value_that_no_record_can_have_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        config().changed(**values)


def test_the_other_fields_stay_and_so_does_the_record():
    before = config(batch_size=8)
    assert before.changed(batch_size=16) == config(batch_size=16)
    assert before.batch_size == 8
    record = trial_record(1, 100.0)
    assert record.changed(number=2).measurement is record.measurement


@given(
    workers=st.integers(0, 3),
    prefetch=st.integers(1, 4),
    persistent=st.booleans(),
    changed=st.fixed_dictionaries(
        {"num_workers": st.integers(0, 3)},
        optional={"prefetch_factor": st.integers(1, 4), "persistent_workers": st.booleans()},
    ),
)
def test_what_hangs_on_the_workers_follows_their_number(
    workers: int, prefetch: int, persistent: bool, changed: dict[str, Any]
):
    own = {"prefetch_factor": prefetch, "persistent_workers": persistent} if workers else {}
    before = config(num_workers=0, prefetch_factor=None, persistent_workers=False)
    before = before.changed(num_workers=workers, **own)
    after = before.changed(**changed)
    assert isinstance(after, TrainConfig)
    assert after.num_workers == changed["num_workers"]
    if after.num_workers == 0:
        assert (after.prefetch_factor, after.persistent_workers) == (None, False)
    else:
        usual = before.prefetch_factor or USUAL_PREFETCH
        assert after.prefetch_factor == changed.get("prefetch_factor", usual)
        assert after.persistent_workers == changed.get("persistent_workers", before.persistent_workers)


def test_workers_that_are_said_to_prefetch_nothing_are_refused():
    with pytest.raises(ValidationError, match="prefetch_factor must be at least 1"):
        config(num_workers=2).changed(prefetch_factor=None)
