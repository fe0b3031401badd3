"""Ways of whole frameworks, and of folders that trainings make: beside the script, at home, in caches."""

import importlib
import os
import sys
import tempfile
from pathlib import Path

import accelerate
import lightning
import torch
import transformers
from catalogue import NEW, OLD, Place, check, run, see, way
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from tensors import net, state
from torch import nn
from torch.utils.data import DataLoader

FRAMEWORKS, PROJECT, ELSEWHERE = "frameworks", "project", "elsewhere"


# --- Trainer, accelerate, Lightning ----------------------------------------------------------


class _Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": torch.ones(4), "labels": torch.zeros(4)}


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.mse_loss(self.layers(x), labels)}


def _trainer(folder: Path, **options: object) -> transformers.Trainer:
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=2,
        max_steps=4,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **options,
    )
    return transformers.Trainer(model=_Model(), args=arguments, train_dataset=_Rows())


def _plant_checkpoints(at: Place) -> None:
    for step in (1, 2):
        at.have(at.folder / "out" / f"checkpoint-{step}" / "model.safetensors")


@way(FRAMEWORKS, plant=_plant_checkpoints)
def transformers_trainer_rotates(at: Place) -> None:
    _trainer(at.folder / "out", save_steps=2, save_total_limit=1).train()
    kept = sorted(path.name for path in (at.folder / "out").glob("checkpoint-*"))
    check(kept == ["checkpoint-4"], f"it keeps {kept}")


@way(FRAMEWORKS, plant=lambda at: at.have(at.folder / "out" / "config.json"))
def transformers_save_pretrained(at: Place) -> None:
    config = transformers.GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8)
    transformers.GPT2LMHeadModel(config).save_pretrained(at.folder / "out")
    check((at.folder / "out" / "config.json").read_bytes() != OLD, "the old config")


def _plant_states(at: Place) -> None:
    for number in (0, 1):
        at.have(at.folder / "out" / "checkpoints" / f"checkpoint_{number}" / "model.safetensors")


@way(FRAMEWORKS, plant=_plant_states)
def accelerate_save_state(at: Place) -> None:
    project = accelerate.utils.ProjectConfiguration(
        project_dir=str(at.folder / "out"), automatic_checkpoint_naming=True, total_limit=2, iteration=2
    )
    accelerator = accelerate.Accelerator(cpu=True, project_config=project)
    accelerator.prepare(net())
    accelerator.save_state()
    kept = sorted(path.name for path in (at.folder / "out" / "checkpoints").iterdir())
    check(kept == ["checkpoint_1", "checkpoint_2"], f"it keeps {kept}")


class _Lightning(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def training_step(self, batch: torch.Tensor) -> torch.Tensor:
        loss = self.layers(batch).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def _fit(folder: Path, **options: object) -> lightning.Trainer:
    trainer = lightning.Trainer(
        default_root_dir=folder,
        max_steps=2,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
        **options,
    )
    trainer.fit(_Lightning(), DataLoader(torch.ones(4, 4), batch_size=2))
    return trainer


@way(FRAMEWORKS, plant=lambda at: at.have(at.folder / "last.ckpt"))
def lightning_checkpoint(at: Place) -> None:
    keeper = ModelCheckpoint(at.folder, filename="best", save_last=True, every_n_train_steps=1)
    _fit(at.folder, callbacks=[keeper], logger=False)
    check((at.folder / "best.ckpt").exists(), "no checkpoint")


@way(FRAMEWORKS)
def lightning_csv_logger(at: Place) -> None:
    _fit(at.folder, logger=CSVLogger(at.folder, name="logs"), enable_checkpointing=False)
    check(list(at.folder.glob("logs/version_0/metrics.csv")), "no metrics")


# --- the project -----------------------------------------------------------------------------


@way(PROJECT, plant=lambda at: at.have(at.folder / "out" / "ckpt.pt"))
def out_folder_beside_the_script(at: Place) -> None:
    os.makedirs(at.folder / "out", exist_ok=True)
    torch.save({"model": state(), "iter_num": 10}, at.folder / "out" / "ckpt.pt")
    check(torch.load(at.folder / "out" / "ckpt.pt")["iter_num"] == 10, "the old checkpoint")


@way(PROJECT, plant=lambda at: (at.folder / "latest").symlink_to("tree"))
def latest_link_moved(at: Place) -> None:
    (at.folder / "runs" / "2").mkdir(parents=True)
    (at.folder / "latest").unlink()
    (at.folder / "latest").symlink_to("runs/2")
    check(os.readlink(at.folder / "latest") == "runs/2", "the old link")


@way(PROJECT, plant=lambda at: at.have(at.folder / "beside_the_script.py", b"VALUE = 1\n"))
def bytecode_of_an_import(at: Place) -> None:
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    sys.path.insert(0, str(at.folder))
    try:
        importlib.invalidate_caches()
        check(importlib.import_module("beside_the_script").VALUE == 1, "another module")
    finally:
        sys.path.remove(str(at.folder))
        sys.dont_write_bytecode = before
    check((at.folder / "__pycache__").exists(), "no bytecode")


# --- elsewhere -------------------------------------------------------------------------------


def _both(old: Path, new: Path) -> None:
    for path in (old, new):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NEW)
        see(path)


@way(ELSEWHERE, plant=lambda at: at.have(at.outside(tempfile.gettempdir()) / "old"))
def temporary_folder(at: Place) -> None:
    _both(at.outside(tempfile.gettempdir()) / "old", at.outside(tempfile.gettempdir()) / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/tmp") / "old"))
def slash_tmp(at: Place) -> None:
    _both(at.outside("/tmp") / "old", at.outside("/tmp") / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/dev/shm") / "old"))
def dev_shm(at: Place) -> None:
    _both(at.outside("/dev/shm") / "old", at.outside("/dev/shm") / "new")


@way(ELSEWHERE, plant=lambda at: at.have(at.outside("/dev/shm") / "old"))
def dev_shm_by_a_program(at: Place) -> None:
    run("tee", at.outside("/dev/shm") / "old", at.outside("/dev/shm") / "new", input=NEW)
    see(at.outside("/dev/shm") / "old")
    see(at.outside("/dev/shm") / "new")


@way(ELSEWHERE)
def dev_shm_new_file(at: Place) -> None:
    at.outside("/dev/shm").write_bytes(NEW)
    see(at.outside("/dev/shm"))
