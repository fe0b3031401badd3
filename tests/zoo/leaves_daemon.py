"""Leaves processes behind when it is killed: a double-forked daemon, a spawned child and two loader workers.

Prints `daemon <pid>` and `child <pid>`, then trains. The daemon runs for ten minutes whatever happens.
"""

import multiprocessing
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def start_daemon():
    """Start `sleep 600` in a session of its own, adopted by init, its streams closed; return its pid."""
    reader, writer = os.pipe()
    if not (middle := os.fork()):
        os.setsid()
        if not (daemon := os.fork()):
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            os.execvp("sleep", ["sleep", "600"])
        os.write(writer, str(daemon).encode())
        os._exit(0)
    os.waitpid(middle, 0)
    return int(os.read(reader, 20))


def main():
    print(f"daemon {start_daemon()}", flush=True)
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=True)
    child.start()
    print(f"child {child.pid}", flush=True)
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1))
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=2)
    model = nn.Sequential(
        nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
