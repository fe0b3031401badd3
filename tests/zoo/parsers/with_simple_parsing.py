"""Data classes parsed by simple-parsing."""

from dataclasses import dataclass

from simple_parsing import ArgumentParser
from small_loop import train


@dataclass
class Options:
    """Of the training."""

    batch_size: int = 16
    workers: int = 0
    lr: float = 0.05
    amp: bool = False


parser = ArgumentParser()
parser.add_arguments(Options, dest="options")
options = parser.parse_args().options
train(options.batch_size, options.workers, options.lr, "bfloat16" if options.amp else None)
