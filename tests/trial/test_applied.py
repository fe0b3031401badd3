"""Whether a learning rate that was bound holds in the optimizer."""

import pytest
from build_records import discovery, loop

from tunekit.records.agent_messages import KnobsApplied, KnobsAsked, LearntEvent
from tunekit.trial.applied import knob_missed


@pytest.mark.parametrize(
    ("seen", "missed"),
    [
        (0.05, None),
        (0.05000000001, None),
        (0.1, "lr was set to 0.05, but the optimizer has 0.1"),
        (None, None),
    ],
)
def test_a_bound_learning_rate_is_read_back_from_the_optimizer(seen: float | None, missed: str | None):
    applied = KnobsApplied(
        batch_size=None,
        num_workers=None,
        prefetch_factor=None,
        pin_memory=None,
        persistent_workers=None,
        addressed=True,
        roots_applied=(),
    )
    found = discovery(base_lr=seen)
    learnt = LearntEvent(event="learnt", time_s=1.0, discovery=found, applied=applied)
    assert knob_missed(loop(), {"lr": 0.05}, KnobsAsked(), learnt, None) == missed
