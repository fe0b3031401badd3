"""Scripts on frameworks and launchers: the loop inside is found and reached as in a script without them."""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from real_trials import ZOO, RealTrials
from zoo_trials import (
    SEQUENTIAL,
    Script,
    SharedTrials,
    as_parameters,
    command_target,
    found_by,
    is_reached,
    loop_of,
    python_without_tunekit,
    understood_of,
)

pytestmark = pytest.mark.real

BERT = ("transformers.models.bert.modeling_bert.BertForSequenceClassification", 52866)
DDP = ("torch.nn.parallel.distributed.DistributedDataParallel", 332808)
LIT = ("__main__.Classifier", 332808)
NET = ("__main__.Net", 140296)
OUT = ("--output", "{output}")
HF, LIGHTNING = ("python", "hf_trainer.py", *OUT), ("python", "lightning_fit.py", *OUT)
ACCELERATE = ("accelerate_loop.py", *OUT)
ACCELERATE_LAUNCH = (
    *("accelerate", "launch", "--num_processes", "1", "--num_machines", "1"),
    *("--mixed_precision", "no", "--dynamo_backend", "no", "--cpu"),
)
GPT = ("python", "gpt_no_loader.py", "--batch_size", "12")
MP_SPAWN = ("python", "mp_spawn.py", *OUT)

TORCHRUN = ("torchrun", "--nproc_per_node", "2", "--master_port", "{port}", "ddp_gloo.py", *OUT)

BATCHES = {"batch_size": 16, "num_workers": 1, "precision": "bf16"}
NO_PRECISION = {"batch_size": 32, "num_workers": 1}
SCRIPTS = [
    Script(HF, (BERT,), (("AdamW", 3e-4),), batch_size=8, tuned=BATCHES),
    Script(
        (*HF, "--accumulate", "4", "--workers", "2", "--evaluate"),
        (BERT,),
        (("AdamW", 3e-4),),
        batch_size=8,
        workers=2,
        batches_per_step=4,
        tuned=BATCHES,
        is_slow=True,
    ),
    Script(LIGHTNING, (LIT,), (("AdamW", 0.002),)),
    Script(
        (*LIGHTNING, "--bf16"),
        (LIT,),
        (("AdamW", 0.002),),
        precision="bf16",
        tuned=NO_PRECISION,
        is_slow=True,
    ),
    Script(
        (*LIGHTNING, "--csv", "--accumulate", "4", "--workers", "2"),
        (LIT,),
        (("AdamW", 0.002),),
        workers=2,
        batches_per_step=4,
        is_slow=True,
    ),
    Script(("python", *ACCELERATE), (NET,), (("AdamW", 0.001),)),
    Script(
        (*ACCELERATE_LAUNCH, *ACCELERATE, "--accumulate", "4"),
        (NET,),
        (("AdamW", 0.001),),
        batches_per_step=4,
        is_slow=True,
    ),
    Script(TORCHRUN, (DDP,), (("SGD", 0.02),)),
    Script(MP_SPAWN, (DDP,), (("SGD", 0.02),), is_slow=True),
    Script(("python", "lstm_padded.py"), (("__main__.Tagger", 21122),), (("RMSprop", 0.001),)),
    Script(
        ("python", "lstm_padded.py", "--batch-first"),
        (("__main__.Tagger", 21122),),
        (("RMSprop", 0.001),),
        is_slow=True,
    ),
    Script(
        ("python", "scaler_accumulate.py", "--dtype", "bfloat16"),
        ((SEQUENTIAL, 100872),),
        (("AdamW", 0.001),),
        batches_per_step=4,
        precision="bf16",
        tuned=NO_PRECISION,
    ),
    Script(
        ("python", "iterable_sharded.py"),
        ((SEQUENTIAL, 140296),),
        (("SGD", 0.02),),
        tuned={"batch_size": 32, "num_workers": 2},
    ),
    Script(
        ("python", "iterable_plain.py"), ((SEQUENTIAL, 140296),), (("SGD", 0.02),), tuned={"batch_size": 32}
    ),
]


@pytest.fixture(scope="module")
def trials_of(tmp_path_factory: pytest.TempPathFactory) -> SharedTrials:
    return SharedTrials(tmp_path_factory.mktemp("frameworks"))


@pytest.mark.parametrize("script", as_parameters(SCRIPTS))
def test_the_loop_inside_is_understood_and_reached(script: Script, trials_of: SharedTrials) -> None:
    trials = trials_of(script.words)
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(HF, id="hf_trainer.py", marks=pytest.mark.slow),
        pytest.param(LIGHTNING, id="lightning_fit.py"),
        pytest.param(("python", *ACCELERATE), id="accelerate_loop.py", marks=pytest.mark.slow),
    ],
)
def test_compile_captures_a_graph_inside_a_framework(words: tuple[str, ...], trials_of: SharedTrials) -> None:
    assert loop_of(trials_of(words).run(compile=True)).compile_graphs >= 1


@pytest.mark.slow
def test_compile_captures_a_graph_inside_data_parallel(trials_of: SharedTrials) -> None:
    assert loop_of(trials_of(TORCHRUN).run(compile=True)).compile_graphs >= 1


@pytest.mark.parametrize(
    "words",
    [pytest.param(TORCHRUN, id="torchrun"), pytest.param(MP_SPAWN, id="mp_spawn", marks=pytest.mark.slow)],
)
def test_the_ranks_are_counted(words: tuple[str, ...], trials_of: SharedTrials) -> None:
    assert found_by(trials_of(words)).world_size == 2


@pytest.mark.parametrize(
    "words",
    [pytest.param(TORCHRUN, id="torchrun"), pytest.param(MP_SPAWN, id="mp_spawn", marks=pytest.mark.slow)],
)
def test_the_rate_is_that_of_all_ranks(words: tuple[str, ...], trials_of: SharedTrials) -> None:
    trials = trials_of(words)
    loop = loop_of(trials.baseline)
    printed = [float(rate) for rate in re.findall(r"samples/s (\d+)", trials.output(0))]
    # Every five steps the script prints their rate; other work may slow any of them down.
    first, last = loop.discarded_batches, loop.discarded_batches + loop.steady_batches
    within = printed[-(-first // 5) : last // 5]
    assert trials.baseline is not None
    assert trials.baseline.rate_samples_per_s == pytest.approx(statistics.harmonic_mean(within), rel=0.4)


def test_no_epoch_is_ended_early_on_one_rank_of_several(trials_of: SharedTrials) -> None:
    """The others would wait in their next step for a rank that is already somewhere else."""
    loop = loop_of(trials_of(TORCHRUN).baseline)
    assert loop.world_size == 2
    assert (loop.boundaries_seen, loop.boundary_s) == (0, None)


def test_bf16_of_the_trainer_is_seen(trials_of: SharedTrials) -> None:
    trials = trials_of((*HF, "--bf16"))
    found_by(trials)
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.precision == "bf16"


@pytest.mark.slow
def test_compile_of_the_trainer_is_seen(trials_of: SharedTrials) -> None:
    trials = trials_of((*HF, "--compile", "--save-steps", "500"))
    assert loop_of(trials.baseline).compile_graphs >= 1
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.compile


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_loop_with_a_batch_function_is_measured_at_its_steps(dtype: str, trials_of: SharedTrials) -> None:
    trials = trials_of((*GPT, "--dtype", dtype))
    found = found_by(trials)
    assert found.loaders == ()
    assert [(root.class_name, root.parameters) for root in found.roots] == [("__main__.GPT", 106240)]
    assert [o.class_name for o in found.optimizers] == ["AdamW"]
    assert loop_of(trials.baseline).batch_size == 12
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.precision == ("fp32" if dtype == "float32" else "bf16")
    if dtype == "float32":
        assert loop_of(trials.run(precision="bf16")).batch_size == 12


@pytest.mark.slow
def test_compile_of_a_loop_with_a_batch_function_is_seen(trials_of: SharedTrials) -> None:
    trials = trials_of((*GPT, "--compile"))
    assert loop_of(trials.baseline).compile_graphs >= 1
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.compile


ACCUMULATING_GPT = (*GPT, "--gradient_accumulation_steps", "4")


def test_accumulation_without_a_loader_is_counted(trials_of: SharedTrials) -> None:
    trials = trials_of(ACCUMULATING_GPT)
    assert found_by(trials).batches_per_step == 4
    printed_ms = [float(shown) for shown in re.findall(r"time ([\d.]+)ms", trials.output(0))]
    own_rate = 4 * 12 * 1000 / statistics.median(printed_ms)
    assert loop_of(trials.baseline).rate_samples_per_s == pytest.approx(own_rate, rel=0.4)


def test_loop_batches_without_a_loader_are_those_of_the_batch_function(trials_of: SharedTrials) -> None:
    loop = loop_of(trials_of(ACCUMULATING_GPT).baseline)
    assert loop.steady_samples == 12 * loop.steady_batches


def test_a_warm_up_by_hand_is_not_taken_for_the_learning_rate(trials_of: SharedTrials) -> None:
    """The group shows the warm-up: the base rate is unknown, if not what AdamW was given."""
    assert found_by(trials_of((*GPT, "--dtype", "float32"))).optimizers[0].base_lr in (None, 6e-4)


def test_a_padded_length_is_not_taken_for_the_samples(trials_of: SharedTrials) -> None:
    loop = loop_of(trials_of(("python", "lstm_padded.py", "--longest", "16")).baseline)
    assert loop.steady_samples == 16 * loop.steady_batches


SCALER = ("python", "scaler_accumulate.py")


def test_steps_that_the_scaler_skips_are_steps(trials_of: SharedTrials) -> None:
    assert found_by(trials_of(SCALER)).batches_per_step == 4


def test_fp16_with_a_scaler_is_measured(trials_of: SharedTrials) -> None:
    trials = trials_of(SCALER)
    found = found_by(trials)
    assert [(root.class_name, root.parameters) for root in found.roots] == [(SEQUENTIAL, 100872)]
    assert [(o.class_name, o.base_lr) for o in found.optimizers] == [("AdamW", 0.001)]
    assert trials.baseline is not None
    assert trials.baseline.config is not None
    assert trials.baseline.config.precision == "fp16"
    assert loop_of(trials.run(**NO_PRECISION)).batch_size == 32


def test_the_loss_is_not_the_scaled_one(trials_of: SharedTrials) -> None:
    first = loop_of(trials_of(SCALER).baseline).loss_first
    assert first is not None
    assert first < 10


def test_an_iterable_data_set_that_shards_may_have_workers(trials_of: SharedTrials) -> None:
    loader = found_by(trials_of(("python", "iterable_sharded.py"))).training_loader
    assert loader is not None
    assert loader.shards_itself


def test_an_iterable_data_set_that_does_not_shard_keeps_its_workers(trials_of: SharedTrials) -> None:
    loader = found_by(trials_of(("python", "iterable_plain.py"))).training_loader
    assert loader is not None
    assert loader.iterable
    assert not loader.shards_itself


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the python of a second environment, which has torch and no tunekit."""
    return python_without_tunekit(tmp_path_factory.mktemp("environment"))


def test_a_script_runs_in_an_environment_without_tunekit(other_python: Path, tmp_path: Path) -> None:
    missing = subprocess.run(
        [other_python, "-c", "import torch, tunekit"], cwd=ZOO, capture_output=True, text=True
    )
    assert "No module named 'tunekit'" in missing.stderr
    words = (str(other_python), "transform_first.py", "--workers", "1")
    trials = RealTrials(command_target(words, tmp_path / "output"), tmp_path / "trials")
    trials.run_baseline()
    script = Script(words, ((SEQUENTIAL, 1595402),), (("SGD", 0.05),), workers=1)
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)


def test_a_console_script_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "train-rows"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\n\nfrom pkg.train import main\n\nif __name__ == '__main__':\n"
        "    sys.exit(main())\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ZOO))
    words = ("train-rows",)
    trials = RealTrials(command_target(words, tmp_path / "output"), tmp_path / "trials")
    trials.run_baseline()
    script = Script(words, (("pkg.model.Net", 140296),), (("AdamW", 0.001),))
    assert understood_of(trials) == script.understood
    assert is_reached(script, trials)
