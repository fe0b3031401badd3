"""Two gloo processes started by torch.multiprocessing.spawn; nothing about ranks is in the environment."""

import argparse
import tempfile
from pathlib import Path

import ddp_gloo
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, world_size, rendezvous, output):
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world_size)
    ddp_gloo.train(output, rank, 3200)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--world-size", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = str(Path(folder) / "rendezvous")
        mp.spawn(train, args=(args.world_size, rendezvous, args.output), nprocs=args.world_size)


if __name__ == "__main__":
    main()
