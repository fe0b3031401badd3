"""typer: options from the signature."""

from enum import StrEnum
from typing import Annotated

import typer
from small_loop import train


class Kind(StrEnum):
    """Precisions."""

    SINGLE = "float32"
    HALF = "bfloat16"


def main(
    batch_size: Annotated[int, typer.Option("--bs")] = 16,
    workers: int = 0,
    learning_rate: float = 0.05,
    dtype: Kind = Kind.SINGLE,
    amp: bool = False,
) -> None:
    """Train."""
    train(batch_size, workers, learning_rate, "bfloat16" if amp or dtype is Kind.HALF else None)


typer.run(main)
