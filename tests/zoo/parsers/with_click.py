"""click: a group with a command."""

import click
from small_loop import train


@click.group()
@click.option("--password", default="hunter2")
def main(password: str) -> None:
    """Train or test."""


@main.command()
@click.option("--batch-size", "-b", type=int, default=16)
@click.option("--num-workers", default=0)
@click.option("--precision", type=click.Choice(["fp32", "bf16"]), default="fp32")
@click.option("--amp/--no-amp", default=False)
@click.option("--lr", type=float, default=0.05)
def fit(batch_size: int, num_workers: int, precision: str, amp: bool, lr: float) -> None:
    """Train."""
    train(batch_size, num_workers, lr, "bfloat16" if amp or precision == "bf16" else None)


main()
