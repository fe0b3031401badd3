"""A Lightning Trainer that keeps the best checkpoint and a link to the last in `--folder`."""

import argparse

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def training_step(self, batch, batch_index):
        inputs, labels = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--steps", type=int, default=100000)
    asked = parser.parse_args()
    rows = torch.randn(256, 16, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(rows, rows[:, :4].argmax(1)), batch_size=8, shuffle=True)
    checkpoints = ModelCheckpoint(
        asked.folder,
        filename="best",
        monitor="loss",
        save_top_k=1,
        save_last="link",
        every_n_train_steps=2,
        enable_version_counter=False,
    )
    trainer = lightning.Trainer(
        max_steps=asked.steps,
        accelerator="cpu",
        devices=1,
        callbacks=[checkpoints],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=asked.folder,
    )
    trainer.fit(Classifier(), loader)
    trainer.save_checkpoint(f"{asked.folder}/final.ckpt")
    print("trained to the end", flush=True)


if __name__ == "__main__":
    main()
