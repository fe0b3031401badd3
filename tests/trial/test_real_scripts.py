"""Real scripts and frameworks: the loop inside is found, its knobs are reached, its figures are right."""

import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest
from real_trials import ZOO, Plan, Ran, looking_at, loop_of, run_plan
from zoo_trials import SEQUENTIAL, Script, check_reached, found_by, python_without_tunekit, understood_of

from tunekit.records.trial import OutcomeKind
from tunekit.trial.binding_syntax import parse_binding

pytestmark = pytest.mark.real

BERT = ("transformers.models.bert.modeling_bert.BertForSequenceClassification", 52866)
DDP = ("torch.nn.parallel.distributed.DistributedDataParallel", 332808)
LIT, NET, BAG = ("__main__.Classifier", 332808), ("__main__.Net", 140296), ("__main__.Bag", 292868)
LINEAR, DEEP = (SEQUENTIAL, 140296), (SEQUENTIAL, 1189896)
SGD, ADAMW = (("SGD", 0.02),), (("AdamW", 0.001),)
OUT = ("--output", "{output}")
TUNED = {"batch_size": 32, "num_workers": 1, "precision": "bf16"}
LARGER = {"batch_size": 32}
NO_WORKERS = {"batch_size": 32, "num_workers": 0, "prefetch_factor": None, "persistent_workers": False}


def python(*words: str, roots: tuple[tuple[str, int], ...], optimizers=SGD, **more) -> Script:
    """A variant for the nightly run."""
    return Script(("python", *words), roots=roots, optimizers=optimizers, is_slow=True, **more)


def accelerated(*words: str, **more) -> Script:
    return Script((*words, "accelerate_loop.py", *OUT), roots=(NET,), optimizers=ADAMW, **more)


def bert(*words: str, **more) -> Script:
    given = ("python", "hf_trainer.py", *OUT, *words)
    return Script(given, roots=(BERT,), optimizers=(("AdamW", 3e-4),), batch_size=8, **more)


def lightning(*words: str, **more) -> Script:
    given = ("python", "lightning_fit.py", *OUT, *words)
    return Script(given, roots=(LIT,), optimizers=(("AdamW", 0.002),), **more)


ENCODER, DECODER = ("__main__.Encoder", 148000), ("__main__.Decoder", 148224)
ACCELERATE_LAUNCH = (
    *("accelerate", "launch", "--num_processes", "1", "--num_machines", "1"),
    *("--mixed_precision", "no", "--dynamo_backend", "no", "--cpu"),
)
ONCE_A_LAYER = (("Adam", 0.0005),) * 50
TAGGER = (("__main__.Tagger", 21122),)
LSTM = python("lstm_padded.py", "--longest", "16", roots=TAGGER, optimizers=(("RMSprop", 0.001),))


def started_by(context: str, **expected: Any) -> Script:
    """A loader whose worker is started the way that the script asks for."""
    words = ("--rows", "4800", "--workers", "1", "--context", context)
    return python("sequential.py", *words, roots=(DEEP,), workers=1, **expected)


EACH_EPOCH = python("loader_each_epoch.py", roots=(DEEP,))
OF_A_WORKER = {"roots": (DEEP,), "workers": 1}
SHORT_EPOCHS = python("sequential.py", "--rows", "192", "--workers", "1", **OF_A_WORKER)
CHANNELS_LAST = python(
    "conv_channels.py", "--channels-last", roots=(("__main__.ConvNet", 20234),), optimizers=(("SGD", 0.02),)
)
BACKWARD = python(
    "autograd_backward.py", roots=(("__main__.TwoHeads", 141321),), optimizers=(("Adam", 0.001),)
)
SCALER = python(
    "scaler_accumulate.py",
    roots=((SEQUENTIAL, 100872),),
    optimizers=ADAMW,
    batches_per_step=4,
    precision="fp16",
)
SHARDED = python("iterable.py", "--shards", roots=(LINEAR,), tuned={"batch_size": 32, "num_workers": 2})
UNSHARDED = python("iterable.py", roots=(LINEAR,))
HF_STREAM = bert("--stream", "--accumulate", "2", batches_per_step=2, is_slow=True)
TORCHRUN = Script(
    ("torchrun", "--nproc_per_node", "2", "--master_port", "{port}", "ddp_gloo.py", *OUT),
    roots=(DDP,),
    optimizers=SGD,
    is_slow=True,
)
MP_SPAWN = Script(("python", "mp_spawn.py", *OUT), roots=(DDP,), optimizers=SGD, is_slow=True)
TOKENS = python(
    "token_batches.py",
    roots=(BAG,),
    optimizers=(("Adam", 0.001),),
    batch_size=None,
    tuned={"num_workers": 1, "precision": "bf16"},
)
SCRIPTS = [
    python("transform_first.py", roots=((SEQUENTIAL, 1595402),), optimizers=(("SGD", 0.05),)),
    python("encoder_decoder.py", roots=(ENCODER, DECODER), optimizers=ADAMW),
    python("ema_copy.py", roots=(LINEAR,), optimizers=(("SGD", 0.05),)),
    python("warmup_lr.py", roots=(LINEAR,), optimizers=(("SGD", 0.8),)),
    python("sequential.py", roots=(DEEP,), tuned={"compile": True}),
    python(*("sequential.py", "--batch-sampler", "--workers", "1"), **OF_A_WORKER, tuned={"batch_size": 32}),
    EACH_EPOCH,
    SHORT_EPOCHS,
    python(
        "lbfgs.py", roots=((SEQUENTIAL, 9352),), optimizers=(("LBFGS", 0.02),), tuned={"precision": "bf16"}
    ),
    python("super_step.py", roots=(LINEAR,), optimizers=(("ClippedSGD", 0.05),)),
    BACKWARD,
    TOKENS,
    python("own_autocast.py", roots=(NET,), optimizers=ADAMW, precision="bf16"),
    python("own_compile.py", roots=(LINEAR,), optimizers=ADAMW, compiled=True),
    python("own_compile.py", "--in-place", roots=(LINEAR,), optimizers=ADAMW, compiled=True),
    CHANNELS_LAST,
    started_by("spawn", tuned={"batch_size": 32, "num_workers": 2}),
    started_by("spawn", tuned=NO_WORKERS),
    started_by("forkserver"),
    python(
        "several_optimizers.py",
        roots=(("__main__.Net", 165896),),
        optimizers=(("AdamW", 0.001), ("SGD", 0.02), ("Adagrad", 0.05)),
    ),
    python(
        "optimizer_in_backward.py",
        roots=((SEQUENTIAL, 397320),),
        optimizers=ONCE_A_LAYER,
        tuned={"precision": "bf16"},
    ),
    python("stateful_loader.py", "--workers", "2", roots=(LINEAR,), workers=2, tuned={"num_workers": 1}),
    python("-m", "pkg.train", roots=(("pkg.model.Net", 140296),), optimizers=ADAMW),
    bert(tuned={"batch_size": 16, "num_workers": 1, "precision": "bf16"}),
    bert("--accumulate", "4", "--workers", "2", "--evaluate", workers=2, batches_per_step=4, is_slow=True),
    HF_STREAM,
    bert("--bf16", precision="bf16", is_slow=True),
    bert("--compile", "--save-steps", "500", compiled=True, is_slow=True),
    lightning(tuned=TUNED),
    lightning("--bf16", "--csv", "--accumulate", "4", batches_per_step=4, precision="bf16", is_slow=True),
    accelerated("python", tuned=TUNED),
    accelerated(*ACCELERATE_LAUNCH, is_slow=True),
    LSTM,
    SCALER,
    SHARDED,
    UNSHARDED,
    TORCHRUN,
    MP_SPAWN,
]


@looking_at(*SCRIPTS)
def test_a_script_is_understood_and_its_knobs_are_reached(ran: Ran) -> None:
    assert understood_of(ran) == ran.plan.understood
    if ran.plan.tuned is not None:
        check_reached(ran)


@looking_at(lightning(tuned={"compile": True}, is_slow=True), bert(tuned={"compile": True}, is_slow=True))
def test_compile_captures_a_graph_inside_a_framework(ran: Ran) -> None:
    check_reached(ran)
    assert loop_of(ran.tuned).compile_graphs >= 1


# --- batches, epochs and data sets ---------------------------------------------------------


@looking_at(EACH_EPOCH)
def test_a_loader_that_nobody_holds_any_more_has_samples(ran: Ran) -> None:
    assert loop_of(ran.baseline).epoch_samples == 1600


@looking_at(TOKENS)
def test_a_batch_sampler_of_its_own_keeps_its_batches(ran: Ran) -> None:
    loader, loop = found_by(ran).training_loader, loop_of(ran.baseline)
    assert loader is not None and not loader.batch_size_bound
    # The samples of an epoch come from the batches seen, whose sizes differ.
    assert (loop.epoch_batches, loop.epoch_samples) == (28, pytest.approx(400, rel=0.2))
    assert loop.steady_samples / loop.steady_batches == pytest.approx(400 / 28, rel=0.2)


@looking_at(Plan(("python", "sequential.py", "--whole-batches"), is_slow=True))
def test_a_loader_that_batches_by_itself_is_measured_in_its_own_batches(ran: Ran) -> None:
    loader, loop = found_by(ran).training_loader, loop_of(ran.baseline)
    assert loader is not None
    assert (loader.batch_size, loader.batch_size_bound) == (None, False)
    assert loop.steady_samples == 16 * loop.steady_batches


@looking_at(
    Plan(
        ("python", "sequential.py", "--mini-batch", "16"),
        tuned={"batch_size": 32},
        target={"bindings": (parse_binding("batch_size=--mini-batch {}"),)},
    )
)
def test_a_data_set_of_batches_has_those_of_the_scripts_flag(ran: Ran) -> None:
    for record, size in ((ran.baseline, 16), (ran.tuned, 32)):
        loop = loop_of(record)
        assert (loop.batch_size, loop.epoch_samples, loop.epoch_batches) == (size, 1600, 1600 // size)
        assert loop.steady_samples == size * loop.steady_batches


@looking_at(SHORT_EPOCHS)
def test_short_epochs_are_charged_their_boundaries(ran: Ran) -> None:
    loop = loop_of(ran.baseline)
    assert loop.epoch_batches == 12
    assert loop.boundaries_seen >= 1  # more where the machine is fast
    assert loop.boundary_s is not None and loop.boundary_s > 0  # a fresh worker process each epoch
    assert loop.rate_samples_per_s < loop.steady_samples / loop.steady_time_s


@looking_at(LSTM)
def test_a_padded_length_is_not_taken_for_the_samples(ran: Ran) -> None:
    loop = loop_of(ran.baseline)
    assert loop.steady_samples == 16 * loop.steady_batches


@looking_at(SHARDED, UNSHARDED, HF_STREAM)
def test_a_data_set_that_shards_itself_may_have_workers(ran: Ran) -> None:
    loader = found_by(ran).training_loader
    assert loader is not None and loader.iterable
    assert loader.shards_itself == ("--shards" in ran.plan.words)


# --- models, losses and precision ----------------------------------------------------------


@looking_at(BACKWARD, SCALER)
def test_the_loss_is_the_scripts_own_and_not_the_scaled_one(ran: Ran) -> None:
    first = loop_of(ran.baseline).losses[0]
    assert first is not None and first < 10


@looking_at(CHANNELS_LAST)
def test_channels_last_of_the_script_is_seen(ran: Ran) -> None:
    assert [root.channels_last for root in found_by(ran).roots] == [True]
    assert ran.baseline.config is not None and ran.baseline.config.channels_last


@looking_at(Plan(("python", "own_compile.py", "--function"), is_slow=True))
def test_compile_of_a_function_is_seen(ran: Ran) -> None:
    assert loop_of(ran.baseline).compile_graphs >= 1
    assert ran.baseline.config is not None and ran.baseline.config.compile


# --- ranks ---------------------------------------------------------------------------------


@looking_at(TORCHRUN, MP_SPAWN)
def test_the_rate_is_that_of_all_ranks(ran: Ran) -> None:
    """No epoch ends early on one of them: the others would wait in their next step for it."""
    loop = loop_of(ran.baseline)
    assert found_by(ran).world_size == loop.world_size == 2
    assert (loop.boundaries_seen, loop.boundary_s) == (0, None) or ran.plan.is_slow
    printed = [float(rate) for rate in re.findall(r"samples/s (\d+)", ran.printed())]
    # Every five steps the script prints their rate; other work may slow any of them down.
    first, last = loop.discarded_batches, loop.discarded_batches + loop.steady_batches
    within = printed[-(-first // 5) : last // 5]
    assert ran.baseline.rate_samples_per_s == pytest.approx(statistics.harmonic_mean(within), rel=0.4)


# --- loops without a loader ----------------------------------------------------------------

GPT = ("python", "gpt_no_loader.py", "--batch_size", "12")
ACCUMULATING = Plan((*GPT, "--gradient_accumulation_steps", "4"), tuned={"precision": "bf16"})
HALF = Plan((*GPT, "--dtype", "bfloat16"), is_slow=True)
COMPILED = Plan((*GPT, "--compile"), is_slow=True)
ASKED = {"samples_per_step": 12}


@looking_at(ACCUMULATING, HALF, COMPILED)
def test_a_loop_with_a_batch_function_is_measured_at_its_steps(ran: Ran) -> None:
    found, loop, config = found_by(ran), loop_of(ran.baseline), ran.baseline.config
    assert found.loaders == ()
    assert [root.parameters for root in found.roots] == [106240]
    assert [(one.class_name, one.base_lr in (None, 6e-4)) for one in found.optimizers] == [("AdamW", True)]
    assert (loop.batch_size, loop.steady_samples) == (12, 12 * loop.steady_batches)
    assert config is not None
    assert config.precision == ("bf16" if "bfloat16" in ran.plan.words else "fp32")
    assert config.compile == ("--compile" in ran.plan.words)
    accumulated = 4 if ran.plan.tuned else 1
    assert found.batches_per_step == accumulated
    printed_ms = [float(shown) for shown in re.findall(r"time ([\d.]+)ms", ran.printed())]
    own_rates = [accumulated * 12 * 1000 / shown for shown in printed_ms if shown]
    assert 0.6 * min(own_rates) < loop.rate_samples_per_s < 1.4 * max(own_rates)
    assert ran.plan.tuned is None or loop_of(ran.tuned).batch_size == 12


@looking_at(
    Plan(("python", "no_loader.py"), target=ASKED, is_slow=True),
    Plan(("python", "reads_once.py"), target=ASKED, is_slow=True),
)
def test_samples_that_the_user_says_are_those_of_a_step(ran: Ran) -> None:
    """A loader that is read once is not the one that trains."""
    loop = loop_of(ran.baseline)
    assert found_by(ran).training_loader is None
    assert (loop.batch_size, loop.boundary_s) == (ran.plan.target["samples_per_step"], None)


@looking_at(
    Plan(("python", "language_model.py", "--update", "data"), is_slow=True),
    Plan(("python", "language_model.py", "--update", "own"), is_slow=True),
)
def test_an_update_by_hand_is_told_long_before_any_limit(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert failure is not None
    assert failure.kind is OutcomeKind.NO_TRAINING_LOOP
    assert "optimizer.step()" in (failure.remedy or "")


# --- where a script runs -------------------------------------------------------------------


def test_a_script_runs_in_an_environment_without_tunekit(tmp_path: Path) -> None:
    python = python_without_tunekit(tmp_path)
    missing = subprocess.run([python, "-c", "import torch, tunekit"], cwd=ZOO, capture_output=True, text=True)
    assert "No module named 'tunekit'" in missing.stderr
    script = Script(
        (str(python), "transform_first.py", "--workers", "1"),
        roots=((SEQUENTIAL, 1595402),),
        optimizers=(("SGD", 0.05),),
        workers=1,
    )
    assert understood_of(run_plan(script, tmp_path)) == script.understood
