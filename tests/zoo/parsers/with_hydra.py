"""Hydra: a config of its own, overridden by key=value."""

import hydra
from omegaconf import DictConfig
from small_loop import train


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Train."""
    is_half = config.trainer.precision == "bf16-mixed"
    train(config.model.batch_size, config.data.num_workers, config.optim.lr, "bfloat16" if is_half else None)


main()
