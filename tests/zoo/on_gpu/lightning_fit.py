"""A Lightning Trainer on the GPUs that it finds, validating after each epoch."""

import argparse

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    """Wide linear layers."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8)
        )

    def training_step(self, batch, batch_index):
        rows, labels = batch
        loss = nn.functional.cross_entropy(self.net(rows), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_index):
        rows, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self.net(rows), labels))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.001)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    pl.seed_everything(0)
    rows = torch.randn(12800, 512)
    data = TensorDataset(rows, rows[:, :8].argmax(1))
    train = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)
    trainer = pl.Trainer(
        accelerator="gpu",
        devices="auto",
        max_epochs=1000,
        default_root_dir=args.output,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), train, DataLoader(data, batch_size=256))


if __name__ == "__main__":
    main()
