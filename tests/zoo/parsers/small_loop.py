"""The loop that every script here trains, once its command line is parsed; PARSE_ONLY=1 leaves it out."""

import contextlib
import os


def train(batch_size: int, workers: int = 0, lr: float = 0.05, amp: str | None = None) -> None:
    """Train a small network for ever.

    Args:
        batch_size: samples in a batch.
        workers: of the loader.
        lr: of SGD.
        amp: dtype of autocast, such as "bfloat16"; None for float32.
    """
    print(f"batch {batch_size} workers {workers} lr {lr:g} amp {amp}", flush=True)
    if os.environ.get("PARSE_ONLY"):
        return
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    data = TensorDataset(torch.randn(2048, 16), torch.randint(0, 4, (2048,)))
    loader = DataLoader(data, batch_size=batch_size, num_workers=workers, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    while True:
        for inputs, labels in loader:
            with torch.autocast("cpu", getattr(torch, amp)) if amp else contextlib.nullcontext():
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
