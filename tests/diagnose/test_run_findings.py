"""Findings on a whole search: what a baseline that ran out of device memory could do."""

import pytest
from build_fits import fit, predicted
from build_records import baseline_record, config, failure, run

from tunekit.diagnose.run import run_findings
from tunekit.records.prediction import CheckpointingPredicted, LargestBatch
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind

BLOCKS = CheckpointingPredicted(blocks=12, names=("Block",), extra_flops=0.25)


def out_of_memory(most: int | None, kind: OutcomeKind = OutcomeKind.DEVICE_OOM) -> Run:
    """A search whose baseline of batch 64 had no room, where 40 fit, and `most` with checkpointing."""
    own = config(batch_size=64)
    baseline = baseline_record(rate=None, of=own, overrides={"failure": failure(kind)})
    more = None if most is None else LargestBatch(low=most, value=most, high=most)
    fits = (fit("a10g", 22.0, (40, 44, 48), own.precision, checkpointed=more),)
    return run(trials=(baseline,), prediction=predicted(fits, checkpointing=BLOCKS))


@pytest.mark.parametrize(
    ("most", "kind", "size"),
    [
        (90, OutcomeKind.DEVICE_OOM, 64),
        (50, OutcomeKind.DEVICE_OOM, 50),
        (40, OutcomeKind.DEVICE_OOM, None),
        (None, OutcomeKind.DEVICE_OOM, None),
        (90, OutcomeKind.SCRIPT_ERROR, None),
    ],
)
def test_a_baseline_without_room_hears_what_gradient_checkpointing_would_fit(
    most: int | None, kind: OutcomeKind, size: int | None
):
    found = run_findings(out_of_memory(most, kind), ())
    (told,) = [one.remedy or "" for one in found if one.code == "baseline-failed"]
    assert ("checkpointing" in told) is (size is not None)
    assert size is None or f"12 blocks (Block) batch {size} would fit" in told
