"""Writes in every way that the catalogue has, then trains a little and ends.

    python train.py --root FOLDER [--plant FOLDER ...]

With --plant it first makes in these folders what the user has, says `planted`, and waits for a line.
One line for each way, after WAY, says what the script saw; `end` is the last one.
"""

import argparse
import errno
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # the catalogue isn't the user's; one of its ways writes bytecode

from catalogue import WAYS, Place, UnseenError, Way, live_in  # noqa: E402


def tell(**fields: object) -> None:
    """Print one line for the harness."""
    print("WAY", json.dumps(fields), flush=True)


def plant(root: Path) -> None:
    """Make what the user has."""
    live_in(root)
    for way in WAYS.values():
        at = Place(root, way.name)
        at.plant()
        if way.plant is not None:
            way.plant(at)


def attempt(way: Way, at: Place) -> tuple[str, str]:
    """Write in one way; return how it went, in a word or two, and the message."""
    try:
        way.act(at)
    except UnseenError as error:
        return "unseen", str(error)
    except OSError as error:
        number = errno.errorcode.get(error.errno or 0, "")
        return f"{type(error).__name__} {number}".strip(), str(error)
    except BaseException as error:  # torch.distributed.checkpoint's is no Exception
        return type(error).__name__, str(error)
    return ("at exit" if way.at_exit else "worked"), ""


def train() -> None:
    """Take a few steps."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    rows = torch.randn(64, 8)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in DataLoader(TensorDataset(rows, rows[:, :2].argmax(1)), batch_size=8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def main() -> None:
    """Plant if asked, write in every way, train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--plant", type=Path, nargs="+", default=())
    options = parser.parse_args()
    for root in options.plant:
        plant(root)
    if options.plant:
        tell(planted=True)
        sys.stdin.readline()
    live_in(options.root)
    for way in WAYS.values():
        seen, message = attempt(way, Place(options.root, way.name))
        tell(name=way.name, group=way.group, seen=seen, message=message[:300])
    train()
    tell(end=True)


if __name__ == "__main__":  # a spawned process imports none of these
    import libraries  # noqa: F401 - each adds its ways to the catalogue
    import places  # noqa: F401
    import processes  # noqa: F401
    import programs  # noqa: F401
    import python_files  # noqa: F401
    import python_library  # noqa: F401
    import tensors  # noqa: F401

    main()
