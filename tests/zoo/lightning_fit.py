"""A Lightning Trainer that validates every epoch and keeps its best checkpoint."""

import argparse

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(pl.LightningModule):
    """Three linear layers."""

    def __init__(self, learning_rate):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)
        )

    def forward(self, rows):
        return self.net(rows)

    def training_step(self, batch, batch_index):
        rows, labels = batch
        loss = nn.functional.cross_entropy(self(rows), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_index):
        rows, labels = batch
        self.log("val_loss", nn.functional.cross_entropy(self(rows), labels))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.learning_rate)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--devices", type=int, default=1)
    args = parser.parse_args()
    pl.seed_everything(0, workers=True)
    rows = torch.randn(1600, 128)
    labels = rows[:, :8].argmax(1)
    train = DataLoader(
        TensorDataset(rows, labels), batch_size=16, shuffle=True, drop_last=True, num_workers=args.workers
    )
    validation = DataLoader(TensorDataset(rows[:100], labels[:100]), batch_size=50)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=args.devices,
        max_epochs=100,
        precision="bf16-mixed" if args.bf16 else "32-true",
        accumulate_grad_batches=args.accumulate,
        default_root_dir=args.output,
        logger=CSVLogger(args.output) if args.csv else False,
        callbacks=[ModelCheckpoint(dirpath=args.output, save_top_k=1, every_n_train_steps=5)],
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=50,
    )
    trainer.fit(Classifier(learning_rate=0.002), train, validation)


if __name__ == "__main__":
    main()
