"""Every ten steps writes over notes.txt and model.pt and appends to log.txt, and reads them back.

Exits with status 3 when what it reads is not what it wrote. `--folder DIR` says where.
"""

import argparse
import sys
from pathlib import Path

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.utils.data import DataLoader

EPOCHS = 300


def check(what, read, written):
    if read != written:
        print(f"{what}: read {read!r}, wrote {written!r}", file=sys.stderr, flush=True)
        sys.exit(3)


def save(folder, model, step, log):
    """Write the three files, read them back, and return what log.txt holds now."""
    with open(folder / "notes.txt", "w") as notes:  # noqa: PTH123
        notes.write(f"step {step}\n")
    check("notes.txt", (folder / "notes.txt").read_text(), f"step {step}\n")
    with open(folder / "log.txt", "a") as lines:  # noqa: PTH123
        lines.write(f"saved {step}\n")
    log += f"saved {step}\n"
    check("log.txt", (folder / "log.txt").read_text(), log)
    torch.save({"step": step, "model": model.state_dict()}, folder / "model.pt")
    saved = torch.load(folder / "model.pt")
    check("model.pt", saved["step"], step)
    check("model.pt weights", torch.equal(saved["model"]["0.weight"], model[0].weight), True)
    return log


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args().folder
    log = (folder / "log.txt").read_text() if (folder / "log.txt").exists() else ""
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    step = 0
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                log = save(folder, model, step, log)
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
