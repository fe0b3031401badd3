"""Autocast in fp16 with a gradient scaler, by hand, on one GPU. Prints the scale after every tenth batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    rows = torch.randn(6400, 512)
    loader = DataLoader(
        TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=64, shuffle=True, pin_memory=True
    )
    model = nn.Sequential(
        nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8)
    )
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)
    for epoch in range(1000):
        for number, (inputs, labels) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(inputs.cuda(non_blocking=True)), labels.cuda())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            if number % 10 == 0:
                print(f"epoch {epoch} scale {scaler.get_scale():g}", flush=True)


if __name__ == "__main__":
    main()
