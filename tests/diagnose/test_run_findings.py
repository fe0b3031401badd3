"""Findings on a whole search: what a baseline that ran out of device memory could do."""

import pytest
from build_fits import fit, predicted
from build_records import baseline_record, config, failure, run

from tunekit.diagnose.run import run_findings
from tunekit.records.prediction import CheckpointingPredicted, LargestBatch
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind

BLOCKS = CheckpointingPredicted(blocks=12, names=("Block",), extra_flops=0.25)
USUAL = "speed-ups are n/a; the tiers were searched from smaller batches"
WITH_IT = "with gradient checkpointing of its 12 blocks (Block)"
COST = (
    "for up to a third more time a step (one more forward, Chen et al. 2016, arXiv 1604.06174; 25% more "
    "arithmetic by the trace)"
)


def out_of_memory(most: int | None, kind: OutcomeKind = OutcomeKind.DEVICE_OOM) -> Run:
    """A search whose baseline of batch 64 had no room, where 40 fit, and `most` with checkpointing."""
    own = config(batch_size=64)
    baseline = baseline_record(rate=None, of=own, overrides={"failure": failure(kind)})
    more = None if most is None else LargestBatch(low=most, value=most, high=most)
    fits = (fit("a10g", 22.0, (40, 44, 48), own.precision, checkpointed=more),)
    return run(trials=(baseline,), prediction=predicted(fits, checkpointing=BLOCKS))


@pytest.mark.parametrize(
    ("most", "remedy"),
    [
        (90, f"{WITH_IT} its batch of 64 would fit, {COST}; {USUAL}"),
        (50, f"{WITH_IT} a batch of 50 would fit, {COST}; {USUAL}"),
        (40, USUAL),
        (None, USUAL),
    ],
)
def test_a_baseline_without_room_hears_what_gradient_checkpointing_would_fit(most: int | None, remedy: str):
    (told,) = [one for one in run_findings(out_of_memory(most), (), None) if one.code == "baseline-failed"]
    assert told.remedy == remedy


def test_a_baseline_that_failed_otherwise_hears_nothing_of_it():
    found = run_findings(out_of_memory(90, OutcomeKind.SCRIPT_ERROR), (), None)
    (told,) = [one for one in found if one.code == "baseline-failed"]
    assert told.remedy == USUAL
