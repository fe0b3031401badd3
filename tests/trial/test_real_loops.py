"""Loops as people write them: odd optimizers, samplers, backward passes and worker processes."""

import pytest
from zoo_trials import (
    SEQUENTIAL,
    Script,
    SharedTrials,
    as_parameters,
    found_by,
    is_reached,
    loop_of,
    understood_of,
)

pytestmark = pytest.mark.real

NET, BAG = ("__main__.Net", 140296), ("__main__.Bag", 292868)
LINEAR = (SEQUENTIAL, 140296)
NO_PRECISION = {"batch_size": 32, "num_workers": 1}
NO_BATCH = {"num_workers": 1, "precision": "bf16"}
NO_WORKERS = {"batch_size": 32, "num_workers": 0, "prefetch_factor": None, "persistent_workers": False}


def python(*words: str) -> tuple[str, ...]:
    return ("python", *words)


WORKERS = [
    Script(
        python("spawn_workers.py", "--context", context),
        (LINEAR,),
        (("SGD", 0.02),),
        workers=1,
        tuned=tuned,
        is_slow=context == "forkserver",
    )
    for context, tuned in [
        ("fork", {"batch_size": 32, "num_workers": 2}),
        ("spawn", {"batch_size": 32, "num_workers": 2}),
        ("forkserver", {"batch_size": 32, "num_workers": 2}),
        ("spawn", NO_WORKERS),
    ]
]
SCRIPTS = [
    Script(python("lbfgs.py"), ((SEQUENTIAL, 9352),), (("LBFGS", 0.02),)),
    Script(python("super_step.py"), (LINEAR,), (("ClippedSGD", 0.05),)),
    Script(
        python("super_step.py", "--accumulate", "2"),
        (LINEAR,),
        (("ClippedSGD", 0.05),),
        batches_per_step=2,
        is_slow=True,
    ),
    Script(python("autograd_backward.py"), (("__main__.TwoHeads", 141321),), (("Adam", 0.001),)),
    Script(python("custom_batch_sampler.py"), (BAG,), (("Adam", 0.001),), batch_size=None, tuned=NO_BATCH),
    Script(python("token_batches.py"), (BAG,), (("Adam", 0.001),), batch_size=None, tuned=NO_BATCH),
    Script(python("own_autocast.py"), (NET,), (("AdamW", 0.001),), precision="bf16", tuned=NO_PRECISION),
    Script(
        python("own_compile.py"),
        (("torch._dynamo.eval_frame.OptimizedModule", 140296),),
        (("AdamW", 0.001),),
        compiled=True,
    ),
    Script(python("own_compile.py", "--in-place"), (NET,), (("AdamW", 0.001),), compiled=True, is_slow=True),
    Script(python("own_channels_last.py"), ((SEQUENTIAL, 2970),), (("SGD", 0.05),)),
    *WORKERS,
    Script(
        python("several_optimizers.py"),
        (("__main__.Net", 165896),),
        (("AdamW", 0.001), ("SGD", 0.02), ("Adagrad", 0.05)),
    ),
    Script(python("-m", "pkg.train"), (("pkg.model.Net", 140296),), (("AdamW", 0.001),)),
]
STATEFUL = [
    Script(python("stateful_loader.py"), (LINEAR,), (("SGD", 0.02),), is_slow=True),
    Script(python("stateful_loader.py", "--workers", "2"), (LINEAR,), (("SGD", 0.02),), workers=2),
]


@pytest.fixture(scope="module")
def trials_of(tmp_path_factory: pytest.TempPathFactory) -> SharedTrials:
    return SharedTrials(tmp_path_factory.mktemp("loops"))


@pytest.mark.parametrize("script", as_parameters(SCRIPTS))
def test_the_loop_is_understood_and_reached(script: Script, trials_of: SharedTrials) -> None:
    trials = trials_of(script.words)
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)


@pytest.mark.parametrize("script", as_parameters(STATEFUL))
def test_a_loader_that_keeps_its_state_is_seen(script: Script, trials_of: SharedTrials) -> None:
    trials = trials_of(script.words)
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)


def test_optimizers_in_the_backward_make_one_step(trials_of: SharedTrials) -> None:
    trials = trials_of(python("optimizer_in_backward.py"))
    optimizers = (("Adam", 0.0005),) * 50
    script = Script(python("optimizer_in_backward.py"), ((SEQUENTIAL, 397320),), optimizers)
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)


def test_losses_that_go_through_autograd_are_kept(trials_of: SharedTrials) -> None:
    assert loop_of(trials_of(python("autograd_backward.py")).baseline).loss_first is not None


def test_autocast_within_the_forward_is_seen(trials_of: SharedTrials) -> None:
    words = python("own_autocast.py", "--inside")
    script = Script(words, (NET,), (("AdamW", 0.001),), precision="bf16", tuned=NO_PRECISION)
    assert understood_of(trials_of(words)) == script.understood
    assert is_reached(script, trials_of(words))


@pytest.mark.slow
def test_compile_of_a_function_is_seen(trials_of: SharedTrials) -> None:
    trials = trials_of(python("own_compile.py", "--function"))
    found_by(trials)
    assert loop_of(trials.baseline).compile_graphs >= 1
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.compile


def test_channels_last_of_the_script_is_seen(trials_of: SharedTrials) -> None:
    trials = trials_of(python("own_channels_last.py"))
    assert [root.channels_last for root in found_by(trials).roots] == [True]
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.channels_last


@pytest.mark.parametrize("name", ["custom_batch_sampler.py", "token_batches.py"])
def test_a_batch_sampler_of_its_own_keeps_its_batches(name: str, trials_of: SharedTrials) -> None:
    trials = trials_of(python(name))
    loader = found_by(trials).training_loader
    assert loader is not None
    assert not loader.batch_size_bound
    loop = loop_of(trials.baseline)
    assert loop.epoch_batches == (100 if name == "custom_batch_sampler.py" else 110)
    assert loop.steady_samples / loop.steady_batches == pytest.approx(1600 / loop.epoch_batches, rel=0.1)


@pytest.mark.parametrize("name", ["custom_batch_sampler.py", "token_batches.py"])
def test_an_epoch_of_a_batch_sampler_of_its_own_has_samples(name: str, trials_of: SharedTrials) -> None:
    assert loop_of(trials_of(python(name)).baseline).epoch_samples == pytest.approx(1600, rel=0.05)
