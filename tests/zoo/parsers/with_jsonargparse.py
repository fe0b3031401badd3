"""jsonargparse, as Lightning's CLI uses it: a class's parameters under its name, in a subcommand."""

from jsonargparse import ArgumentParser
from small_loop import train


class Data:
    """Loads."""

    def __init__(self, batch_size: int = 16, num_workers: int = 0) -> None:
        self.batch_size, self.num_workers = batch_size, num_workers


fit = ArgumentParser()
fit.add_class_arguments(Data, "data")
fit.add_argument("--trainer.precision", choices=["32-true", "bf16-mixed"], default="32-true")
fit.add_argument("--optimizer.lr", type=float, default=0.05)
parser = ArgumentParser()
parser.add_subcommands().add_subcommand("fit", fit)
config = parser.parse_args().fit
is_half = config.trainer.precision == "bf16-mixed"
train(config.data.batch_size, config.data.num_workers, config.optimizer.lr, "bfloat16" if is_half else None)
