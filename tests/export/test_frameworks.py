"""Each framework's own library reads the config that is exported for it, and finds the knobs in it."""

import logging
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from build_records import baseline_record, config, cpu, host, recommendation, run, target
from timm_parser import parser as timm_parser

from tunekit.cli import verbs
from tunekit.cli.main import main
from tunekit.export.files import write_exports
from tunekit.export.frameworks import FRAMEWORKS
from tunekit.records.codec import write_json
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import LearningRate, LearningRateRule, Tier
from tunekit.trial.binding_syntax import parse_binding

FAST = config(
    batch_size=256,
    num_workers=4,
    prefetch_factor=4,
    pin_memory=True,
    compile=True,
    precision=Precision.BF16,
    channels_last=True,
    accumulate_grad_batches=2,
)
PLAIN = config(batch_size=64, num_workers=0)
LR = LearningRate(value=0.4, rule=LearningRateRule.LINEAR, base_lr=0.1, base_batch=128, source="baseline")
BOUND = tuple(
    map(
        parse_binding,
        (
            "batch_size=--bs {}",
            "lr=--lr {}",
            "precision=trainer.amp={fp32:off,bf16:bfloat16}",
            "channels_last=env:NHWC",
            "num_workers=full.yaml:data.workers",
            "accumulate_grad_batches=--accumulate {}",
        ),
    )
)

Export = Callable[..., str]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Export:
    """Save a run that recommends a config, and return what is exported of it."""
    monkeypatch.chdir(tmp_path)

    def exported(to: str, *flags: str, of: TrainConfig = FAST, **overrides: Any) -> str:
        rate = LR if of is FAST else None
        best = recommendation(Tier.BALANCED, of, learning_rate=rate, float32_matmul_precision=None)
        baseline = baseline_record(device=cpu())
        saved = run(**{"recommendations": (best,), "trials": (baseline,)} | overrides)
        write_json(tmp_path / "run.json", saved)
        write_exports(saved, tmp_path)
        assert main(["export", str(tmp_path), "--to", to, *flags]) == 0
        return capsys.readouterr().out

    return exported


def test_every_form(export: Export, golden: Callable[[str], object], capsys: pytest.CaptureFixture[str]):
    parts = []
    for to in FRAMEWORKS:
        for of in (FAST, PLAIN):
            text = export(to, *(["--key", "batch_size=data.bs"] if to in ("hydra", "keys") else ()), of=of)
            parts.append(f"--to {to}, batch {of.batch_size}\n{text}")
    assert "\n".join(parts) == golden("frameworks.txt")
    assert list(FRAMEWORKS) == list(verbs.FRAMEWORKS)


def test_what_has_no_place_is_said_to_standard_error(export: Export, capsys: pytest.CaptureFixture[str]):
    export("timm")
    write_again = main(["export", "balanced.yaml", "--to", "timm"])
    assert (write_again, capsys.readouterr().err) == (
        0,
        "left out: prefetch_factor 4, persistent_workers true\n",
    )


def test_lightning_reads_it(export: Export, monkeypatch: pytest.MonkeyPatch):
    from lightning.pytorch import LightningDataModule, LightningModule
    from lightning.pytorch.cli import LightningCLI

    class Data(LightningDataModule):
        def __init__(
            self, bs: int, num_workers: int, prefetch_factor: int, pin_memory: bool, persistent_workers: bool
        ) -> None:
            super().__init__()
            self.loader = (bs, num_workers, prefetch_factor, pin_memory, persistent_workers)

    class Model(LightningModule):
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.lr = lr

    keys = ("--key", "lr=model.lr", "--key", "batch_size=data.bs", "--out", "lightning.yaml")
    assert export("lightning", *keys) == "written to lightning.yaml\n"
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    logger = ["--trainer.logger=false", "--trainer.accelerator=cpu"]
    read = LightningCLI(
        Model, Data, run=False, seed_everything_default=False, args=["--config", "lightning.yaml", *logger]
    )
    assert read.datamodule.loader == (256, 4, 4, True, True)
    assert (read.trainer.precision, read.trainer.accumulate_grad_batches) == ("bf16-mixed", 2)
    assert read.model.lr == 0.4


@pytest.mark.parametrize("of", [FAST, PLAIN], ids=["all on", "all off"])
def test_hugging_face_reads_it(of: TrainConfig, export: Export, monkeypatch: pytest.MonkeyPatch):
    from transformers import HfArgumentParser, TrainingArguments

    export("hf", "--out", "args.json", of=of)
    monkeypatch.setattr(os, "environ", os.environ.copy())  # torch_compile sets variables
    monkeypatch.setattr(logging, "raiseExceptions", False)  # its logger keeps the first test's stream
    (read,) = HfArgumentParser(TrainingArguments).parse_json_file("args.json")
    loader = ("num_workers", "prefetch_factor", "persistent_workers")  # it never pins memory on a CPU
    assert [getattr(read, f"dataloader_{one}") for one in loader] == [getattr(of, one) for one in loader]
    assert read.per_device_train_batch_size == of.batch_size
    assert read.gradient_accumulation_steps == of.accumulate_grad_batches
    assert (read.torch_compile, read.bf16, read.fp16) == (of.compile, of is FAST, False)
    assert read.learning_rate == (0.4 if of is FAST else TrainingArguments.learning_rate)


def test_tf32_is_a_field_of_hugging_face_alone(export: Export):
    from transformers import TrainingArguments

    tf32 = config(precision=Precision.TF32, channels_last=True)
    on_gpu = {"trials": (baseline_record(),)}
    text = export("hf", of=tf32)
    assert '"tf32"' not in text, "on a CPU there is none"
    assert '"tf32": true' in export("hf", of=tf32, **on_gpu)
    assert "tf32" in TrainingArguments.__dataclass_fields__
    assert "torch.set_float32_matmul_precision" in export("accelerate", of=tf32, **on_gpu)


def test_accelerate_reads_it(export: Export):
    from accelerate.commands.config.config_args import load_config_from_file

    export("accelerate", "--out", "accelerate.yaml")
    read = load_config_from_file("accelerate.yaml")
    assert (read.mixed_precision, read.use_cpu, read.num_processes) == ("bf16", True, 1)
    assert read.dynamo_config == {"dynamo_backend": "INDUCTOR"}
    assert read.distributed_type == "NO"


def test_hydra_takes_the_overrides(export: Export, tmp_path: Path):
    import hydra

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "train.yaml").write_text(
        "data: {bs: 8, workers: 0}\ntrainer: {amp: 'off'}\noptim: {lr: 1.0}\n"
    )
    words = shlex.split(
        export(
            "hydra",
            *("--key", "batch_size=data.bs", "--key", "lr=optim.lr"),
            target=target(bindings=BOUND),
        )
    )
    with hydra.initialize_config_dir(str(tmp_path / "conf"), version_base=None):
        read = hydra.compose("train", overrides=words)
    assert read == {
        "data": {"bs": 256, "workers": 4},
        "trainer": {"amp": "bfloat16"},
        "optim": {"lr": 0.4},
    }


def test_any_keys_are_a_tree(export: Export):
    keys = ("--key", "batch_size=a.b.c", "--key", "compile=a.d", "--key", "precision=amp")
    assert yaml.safe_load(export("keys", *keys)) == {"a": {"b": {"c": 256}, "d": True}, "amp": "bf16"}


def test_timms_parser_reads_it(export: Export):
    assert timm_parser.parse_args([*shlex.split(export("timm")), "/data"]) == Namespace(
        data="/data",
        batch_size=256,
        workers=4,
        pin_mem=True,
        channels_last=True,
        grad_accum_steps=2,
        torchscript=False,
        torchcompile="inductor",
        amp=True,
        amp_dtype="bfloat16",
        lr=0.4,
    )
    plain = timm_parser.parse_args(shlex.split(export("timm", of=PLAIN)))
    assert (plain.batch_size, plain.workers, plain.amp, plain.torchcompile) == (64, 0, False, None)


def test_torchrun_starts_a_process_per_gpu_at_the_learning_rate_of_the_larger_batch(
    export: Export, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from torch.distributed.run import get_args_parser

    two = host(accelerators=host().accelerators * 2)
    monkeypatch.setattr("tunekit.cli.export.detect_host", lambda: two)
    command = ("python", "train.py", "--bs", "128", "data=x")
    words = shlex.split(export("torchrun", target=target(command=command, bindings=BOUND)))
    assert words[:4] == ["NHWC=1", "python", "-m", "torch.distributed.run"]
    read = get_args_parser().parse_args(words[4:])
    assert (read.nproc_per_node, read.standalone, read.training_script) == ("2", True, "train.py")
    script = shlex.join(read.training_script_args)
    assert script == "--bs 256 data=x trainer.amp=bfloat16 --accumulate 2 --lr 0.8"
    assert main(["export", ".", "--to", "torchrun"]) == 0
    lr, left_out = capsys.readouterr().err.splitlines()
    assert lr == "lr 0.8 for a global batch of 1,024"
    assert left_out.startswith("left out: num_workers 4 (full.yaml:data.workers), prefetch_factor 4, ")
