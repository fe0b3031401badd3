"""Trains normally until it misbehaves in one chosen way: `misbehaves.py --kind KIND`."""

import argparse
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

BATCH_SIZE = 16
ROWS = 1600
STEP = 20
"""The optimizer step after which the script misbehaves, once the agent has learnt its loop."""
MB = 1_000_000
GUARD_MB = 3_000
"""What a memory hog takes at most, to spare the machine."""

kept = []


def hog(step):
    """Keep 100 MB more, touched, until the guard: faster than the shortest measurement."""
    kept.append(b"x" * (100 * MB))
    if len(kept) * 100 >= GUARD_MB:
        os._exit(99)


def wait_for_ever():
    while True:
        threading.Event().wait(3600)


def raise_oom():
    import torch

    error = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    raise error("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 14.56 GiB")


def raise_error(error):
    raise error


def write_garbage():
    """Append what is no event to the files that the agent writes."""
    folder = Path(os.environ["TUNEKIT_REQUEST"]).parent
    for path in (folder / "agent").glob("events-*.jsonl"):
        with path.open("ab") as stream:
            stream.write(b"[1, 2\n\xff\xfe\x00nonsense\n" + b"9" * 100_000)
            stream.write(b'\n{"event": "done"}\n{"event": ')


def print_a_gigabyte(step):
    os.write(1, (b"step %d " % step + b"z" * 1000 + b"\n") * (32_000 if step <= 32 else 60))


BEFORE_TRAINING = {
    "crash-at-import": lambda: raise_error(ImportError("no module named flash_attn_9")),
    "sleeps-before-any-batch": wait_for_ever,
    "no-torch": lambda: sys.exit(print(sum(number * number for number in range(1_000_000)))),
}
IN_A_WORKER = {
    "raising-worker": lambda: raise_error(ValueError("image 400 is broken")),
    "killed-worker": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hanging-worker": wait_for_ever,
}
ONCE = {
    "segfault": lambda: ctypes.string_at(0),
    "ignored-sigterm": lambda: [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGINT)],
    "device-oom": raise_oom,
    "os-exit": lambda: os._exit(0),
    "shm-exhausted": lambda: raise_error(
        RuntimeError("unable to write to file </torch_123_456_0>: No space left on device (28)")
    ),
    "garbage-events": write_garbage,
    "too-short": lambda: sys.exit(0),
    "hangs": wait_for_ever,
}
EVERY_STEP = {"hog": hog, "gigabyte": print_a_gigabyte}
IN_THE_LOOP = ("nan-loss", "never-steps", "swallowed-exit")


class Rows:
    """Rows of numbers; one of them may be bad when a worker reads it."""

    def __init__(self, torch, misbehave):
        self.rows = torch.randn(ROWS, 64)
        self.labels = self.rows[:, :4].argmax(1)
        self.is_in_worker = lambda: torch.utils.data.get_worker_info() is not None
        self.misbehave = misbehave

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if self.misbehave and index >= STEP * BATCH_SIZE and self.is_in_worker():
            self.misbehave()
        return self.rows[index], self.labels[index]


def train(torch, loader, kind):
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    step = 0
    for _ in range(1000):
        for inputs, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            if kind == "never-steps":
                continue
            optimizer.zero_grad()
            loss = loss * float("nan") if kind == "nan-loss" else loss
            loss.backward()
            optimizer.step()
            step += 1
            EVERY_STEP.get(kind, int)(step)
            if step == STEP:
                ONCE.get(kind, int)()


def main():
    kinds = [*BEFORE_TRAINING, *IN_A_WORKER, *ONCE, *EVERY_STEP, *IN_THE_LOOP]
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=kinds, required=True)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    BEFORE_TRAINING.get(options.kind, int)()
    import torch

    torch.manual_seed(0)
    dataset = Rows(torch, IN_A_WORKER.get(options.kind))
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH_SIZE, num_workers=options.workers)
    while True:
        try:
            train(torch, loader, options.kind)
        except:  # noqa: E722
            if options.kind != "swallowed-exit":
                raise
            print("and on it goes", flush=True)
        else:
            return


if __name__ == "__main__":
    main()
