"""OmegaConf without Hydra, as torchtune's recipes are configured: defaults, then key=value."""

from omegaconf import OmegaConf
from small_loop import train

defaults = OmegaConf.create({"batch_size": 16, "loader": {"workers": 0}, "optimizer": {"lr": 0.05}})
config = OmegaConf.merge(defaults, OmegaConf.from_cli())
train(config.batch_size, config.loader.workers, config.optimizer.lr)
