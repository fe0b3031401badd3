"""A plain loop on Accelerate: everything prepared, accumulation by its context, state saved on the way."""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two linear layers."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(128, 1024)
        self.head = nn.Linear(1024, 8)

    def forward(self, rows):
        return self.head(torch.relu(self.hidden(rows)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    set_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 200))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for inputs, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(inputs), labels)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            step += 1
            if step % 20 == 0:
                accelerator.save_state(str(Path(args.output) / "last"))
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
