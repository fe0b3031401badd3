"""Each binding is tried once with another value; what the loop did decides whether it works."""

from collections.abc import Callable

import pytest
from build_records import config, discovery, failure, loop, target, trial_record, untouched
from scripted_search import learnt

from tunekit.records.agent_messages import LearntEvent
from tunekit.records.config import TrainConfig
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.trial.binding_syntax import binding_text, parse_binding
from tunekit.trial.binding_trials import BindingTrial, try_bindings
from tunekit.trial.executor import KnownTarget, TrialSpec
from tunekit.trial.knob_verification import unapplied_knob


def tried(
    *texts: str,
    outcome: Callable[[Target, TrialSpec], TrialRecord] | None = None,
    baseline: TrainConfig | None = None,
    bound: tuple[str, ...] = (),
) -> tuple[list[BindingTrial], list[tuple[Target, TrialSpec]]]:
    """Try bindings against a scripted loop; return what became of each, and what was run."""
    ran: list[tuple[Target, TrialSpec]] = []

    def run(bound_target: Target, spec: TrialSpec, known: KnownTarget) -> TrialRecord:
        ran.append((bound_target, spec))
        if outcome is not None:
            return outcome(bound_target, spec)
        return trial_record(spec.number, of=spec.config, overrides={"learning_rate": spec.lr})

    candidates: dict[str, list] = {}
    for text in texts:
        binding = parse_binding(text)
        candidates.setdefault(binding.knob, []).append(binding)
    known = KnownTarget(learnt(), baseline or config())
    whole = target(bindings=tuple(map(parse_binding, bound)))
    return list(try_bindings(candidates, whole, known, run)), ran


@pytest.mark.parametrize(
    ("text", "value", "did"),
    [
        ("batch_size=--bs {}", 64, "batches of 64"),
        ("num_workers=-j {}", 1, "1 worker"),
        ("prefetch_factor=--prefetch {}", 1, "each worker kept 1 batch"),
        ("accumulate_grad_batches=--accum {}", 2, "a step every 2 batches"),
        ("precision={fp32:,bf16:--amp}", "bf16", "it computed in bf16"),
        ("precision={fp16:--fp16,fp32:}", "fp16", "it computed in fp16"),
        ("compile=--compile|--eager", True, "1 compiled graph"),
        ("channels_last=a.yaml:layout", True, "channels_last was true"),
        ("lr=--lr {}", 0.05, "the optimizer had 0.05"),
    ],
)
def test_another_value_is_tried_and_what_the_loop_did_is_shown(text: str, value: object, did: str):
    (one,), ((bound, spec),) = tried(text)
    assert (one.value, one.did, one.works) == (value, did, True)
    assert [binding_text(binding) for binding in bound.bindings] == [text]
    knob = text.partition("=")[0]
    assert (spec.lr if knob == "lr" else getattr(spec.config, knob)) == value
    changed = {name for name, was in config() if getattr(spec.config, name) != was}
    assert changed == ({knob} - {"lr"})


def test_workers_where_there_were_none_bring_the_prefetch_that_they_need():
    (one,), ((_, spec),) = tried("num_workers=-j {}", baseline=config(num_workers=0))
    assert one.works
    assert spec.config is not None
    assert (spec.config.num_workers, spec.config.prefetch_factor) == (1, 2)


def test_a_binding_that_the_loop_does_not_follow_gives_way_to_the_next():
    def loop_of(bound: Target, spec: TrialSpec) -> TrialRecord:
        if bound.bindings[-1].words == ("--bs", "{}"):
            told = "batch_size was set to 64, but the training loader has 128"
            failed = failure(OutcomeKind.KNOB_NOT_APPLIED, message=told)
            return trial_record(spec.number, None, spec.config, overrides={"failure": failed})
        return trial_record(spec.number, of=spec.config)

    both, ran = tried(
        "batch_size=--bs {}", "batch_size=-b {}", "lr=--lr {}", outcome=loop_of, bound=("lr=env:LR",)
    )
    assert [one.works for one in both] == [False, True, True]
    assert both[0].did == "batch_size was set to 64, but the training loader has 128"
    assert [spec.number for _, spec in ran] == [1, 2, 3]
    assert [binding_text(one) for one in ran[0][0].bindings] == ["lr=env:LR", "batch_size=--bs {}"]
    assert [binding_text(one) for one in ran[2][0].bindings] == ["lr=--lr {}"]


def test_the_scripts_own_last_line_says_why_it_failed():
    def refusing(bound: Target, spec: TrialSpec) -> TrialRecord:
        lines = ("usage: train.py [-h]", "train.py: error: unrecognized arguments: --bs 64")
        failed = failure(OutcomeKind.SCRIPT_ERROR, message="it ended with exit status 2", last_lines=lines)
        return trial_record(spec.number, None, spec.config, overrides={"failure": failed})

    (one,), _ = tried("batch_size=--bs {}", outcome=refusing)
    assert one.did == "it ended with exit status 2 | train.py: error: unrecognized arguments: --bs 64"


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
    found = discovery(base_lr=seen)
    learnt = LearntEvent(event="learnt", time_s=1.0, discovery=found, applied=untouched())
    assert unapplied_knob(loop(), {"lr": 0.05}, {}, learnt, None) == missed
