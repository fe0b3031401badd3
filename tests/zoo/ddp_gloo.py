"""DistributedDataParallel on gloo under torchrun: a DistributedSampler, a set_epoch, rank 0 saves."""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = 200


def train(output, rank, count):
    """Train on so many rows as one of the ranks of the group that is there."""
    torch.manual_seed(0)
    rows = torch.randn(count, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1))
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        started, samples = time.perf_counter(), 0
        for step, (inputs, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            samples += len(labels) * dist.get_world_size()
            if rank == 0 and step % 20 == 0:
                torch.save(model.module.state_dict(), Path(output) / "model.pt")
            if rank == 0 and step % 5 == 4:
                samples_per_s = samples / (time.perf_counter() - started)
                print(f"epoch {epoch} loss {loss.item():.3f} samples/s {samples_per_s:.0f}", flush=True)
                started, samples = time.perf_counter(), 0
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    train(args.output, int(os.environ["RANK"]), 64_000)  # an epoch that takes longer than any window


if __name__ == "__main__":
    main()
