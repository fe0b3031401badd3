"""A transformers Trainer that rotates its checkpoints in `--folder`.

With `--best` it evaluates before each, and loads the best at the end.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Rows(Dataset):
    def __init__(self, count):
        self.rows = torch.randn(count, 16, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"x": self.rows[index], "labels": self.rows[index, :4].argmax()}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x, labels=None):
        logits = self.layers(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--best", action="store_true")
    asked = parser.parse_args()
    arguments = TrainingArguments(
        output_dir=asked.folder,
        max_steps=asked.steps,
        per_device_train_batch_size=8,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        eval_strategy="steps" if asked.best else "no",
        eval_steps=2,
        load_best_model_at_end=asked.best,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1000,
    )
    trainer = Trainer(Classifier(), arguments, train_dataset=Rows(256), eval_dataset=Rows(8))
    trainer.train()
    trainer.save_model()
    print("trained to the end", flush=True)


if __name__ == "__main__":
    main()
