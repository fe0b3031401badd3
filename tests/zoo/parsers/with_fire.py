"""fire: options from the signature of a method."""

import fire
from small_loop import train


class Trainer:
    """Trains."""

    def fit(
        self, batch_size: int = 16, nworkers: int = 0, lr: float = 0.05, *, use_amp: bool = False
    ) -> None:
        """Train."""
        train(batch_size, nworkers, lr, "bfloat16" if use_amp else None)


fire.Fire(Trainer)
