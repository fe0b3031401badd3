"""Real scripts as people write them: the right loader, root, learning rate and graphs are found."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target
from zoo_trials import loop_of

from tunekit.records.trial import OutcomeKind
from tunekit.trial.binding_syntax import parse_binding

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Expected:
    """What must be found in a script."""

    command: tuple[str, ...]
    roots: tuple[int, ...]
    """Parameter elements of each root."""
    optimizers: tuple[tuple[str, float], ...]
    workers: int = 0
    graphs: int = 0
    """That compiling captures at the least; 0 leaves compile out."""


SEQUENTIAL = "torch.nn.modules.container.Sequential"
ZOO = [
    Expected(("transform_first.py",), (1595402,), (("SGD", 0.05),)),
    Expected(("encoder_decoder.py",), (410656, 410880), (("AdamW", 0.001),)),
    Expected(("gan.py",), (185152, 173185), (("Adam", 0.0004), ("Adam", 0.0001))),
    Expected(("ema_copy.py",), (691202,), (("SGD", 0.05),)),
    Expected(("warmup_lr.py",), (1183746,), (("SGD", 0.4),)),
    Expected(("sequential.py",), (1189896,), (("SGD", 0.02),), graphs=1),
    Expected(("loader_each_epoch.py",), (1189896,), (("SGD", 0.02),)),
    Expected(("plain_batch_sampler.py",), (1189896,), (("SGD", 0.02),), workers=1),
]
SLOW = [
    Expected(("encoder_decoder.py",), (410656, 410880), (("AdamW", 0.001),), graphs=2),
    Expected(("transform_first.py",), (1595402,), (("SGD", 0.05),), graphs=1),
    Expected(("gan.py",), (185152, 173185), (("Adam", 0.0004), ("Adam", 0.0001)), graphs=2),
    Expected(("warmup_lr.py", "--onecycle"), (1183746,), (("SGD", 0.8),)),
]
"""Left out unless asked for: what is compiled in others, or another schedule of the same loop."""


@pytest.mark.parametrize(
    "expected",
    [*ZOO, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)],
    ids=lambda expected: "-".join(expected.command),
)
def test_the_script_is_understood_its_knobs_are_reached_and_its_roots_compiled(
    expected: Expected, tmp_path: Path
) -> None:
    trials = RealTrials(zoo_target(*expected.command), tmp_path)
    baseline = trials.run_baseline()
    assert baseline.failure is None
    found = baseline.discovery
    assert found is not None
    assert found.complete
    assert found.roots_cover_step
    assert sorted(root.parameters for root in found.roots) == sorted(expected.roots)
    assert sorted((o.class_name, o.base_lr) for o in found.optimizers) == sorted(expected.optimizers)
    assert found.training_loader is not None
    assert found.training_loader.batch_size == 16
    assert found.training_loader.num_workers == expected.workers
    assert baseline.measurement is not None
    assert baseline.measurement.loop.compile_graphs == 0
    assert baseline.measurement.loop.epoch_samples is not None  # also of a loader that nobody holds any more

    tuned = trials.run(batch_size=32, num_workers=1, persistent_workers=True, precision="bf16")
    assert tuned.failure is None
    assert tuned.measurement is not None
    assert tuned.measurement.loop.batch_size == 32
    assert tuned.measurement.loop.num_workers == 1
    assert tuned.measurement.loop.steady_samples / tuned.measurement.loop.steady_batches > 16

    if expected.graphs:
        compiled = trials.run(compile=True)
        assert compiled.failure is None
        assert compiled.measurement is not None
        assert compiled.measurement.loop.compile_graphs >= expected.graphs


def test_channels_last_reaches_convolutions(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("conv_channels.py"), tmp_path)
    baseline = trials.run_baseline()
    assert baseline.discovery is not None
    assert [root.has_4d_weights for root in baseline.discovery.roots] == [True]
    assert trials.run(channels_last=True).failure is None


def test_a_loader_that_batches_by_itself_is_measured_in_its_own_batches(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("batch_size_none.py"), tmp_path)
    baseline = trials.run_baseline()
    assert baseline.measurement is not None
    assert baseline.discovery is not None
    loader = baseline.discovery.training_loader
    assert loader is not None
    assert loader.batch_size is None
    assert not loader.batch_size_bound
    assert baseline.measurement.loop.steady_samples > baseline.measurement.loop.steady_batches


def test_short_epochs_are_charged_their_boundaries(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("short_epochs.py"), tmp_path)
    baseline = trials.run_baseline()
    assert baseline.measurement is not None
    loop = baseline.measurement.loop
    assert loop.epoch_batches == 12
    assert loop.boundaries_seen >= 2
    assert loop.boundary_s is not None
    assert loop.boundary_s > 0  # a fresh worker process each epoch
    assert loop.rate_samples_per_s < loop.steady_samples / loop.steady_time_s


def test_a_loop_without_a_loader_is_measured_at_its_steps(tmp_path: Path) -> None:
    target = zoo_target("no_loader.py").model_copy(update={"samples_per_step": 12})
    trials = RealTrials(target, tmp_path)
    baseline = trials.run_baseline()
    assert baseline.measurement is not None
    assert baseline.discovery is not None
    assert baseline.discovery.loaders == ()
    assert baseline.measurement.loop.batch_size == 12
    assert baseline.measurement.loop.boundary_s is None
    assert trials.run(precision="bf16", compile=True).failure is None


def test_a_loader_that_is_read_once_is_not_the_training_loader(tmp_path: Path) -> None:
    target = zoo_target("reads_once.py").model_copy(update={"samples_per_step": 16})
    baseline = RealTrials(target, tmp_path).run_baseline()
    assert baseline.measurement is not None
    assert baseline.discovery is not None
    assert baseline.discovery.training_loader is None
    assert baseline.measurement.loop.batch_size == 16


def test_samples_that_nothing_tells_are_asked_for_with_the_inputs_seen(tmp_path: Path) -> None:
    baseline = RealTrials(zoo_target("no_loader.py"), tmp_path).run_baseline()
    assert baseline.failure is not None
    assert baseline.failure.kind is OutcomeKind.SAMPLES_UNKNOWN
    assert "12 x 32" in baseline.failure.message
    assert "--samples-per-step" in (baseline.failure.remedy or "")
    assert baseline.config is None


def test_the_default_of_a_bound_flag_is_the_batch_wherever_it_is_in_the_input(tmp_path: Path) -> None:
    """Chunks of 35 tokens come first, columns of 20 samples second."""
    flag = parse_binding("batch_size=--batch_size {}")
    target = zoo_target("language_model.py").model_copy(update={"bindings": (flag,)})
    trials = RealTrials(target, tmp_path)
    baseline = trials.run_baseline()
    assert baseline.failure is None
    assert baseline.config is not None
    assert baseline.config.batch_size == 20
    loop = loop_of(baseline)
    assert loop.steady_samples == 20 * loop.steady_batches
    doubled = loop_of(trials.run(batch_size=40))
    assert doubled.batch_size == 40
    assert doubled.steady_samples == 40 * doubled.steady_batches


def test_micro_batches_are_not_taken_for_the_batch_that_is_bound(tmp_path: Path) -> None:
    flag = parse_binding("batch_size=--batch_size {}")
    target = zoo_target("language_model.py", "--micro_batches", "4")
    failure = RealTrials(target.model_copy(update={"bindings": (flag,)}), tmp_path).run_baseline().failure
    assert failure is not None
    assert failure.kind is OutcomeKind.SAMPLES_UNKNOWN
    assert "35 x 5" in failure.message


@pytest.mark.parametrize("update", ["data", pytest.param("own", marks=pytest.mark.slow)])
def test_an_update_by_hand_is_told_long_before_any_limit(tmp_path: Path, update: str) -> None:
    record = RealTrials(zoo_target("language_model.py", "--update", update), tmp_path).run_baseline()
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.NO_TRAINING_LOOP
    assert "by hand" in record.failure.message
    assert "optimizer.step()" in (record.failure.remedy or "")
