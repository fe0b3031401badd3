"""Loss curves as trainings show them, with a truth that is known: seeded, thousands of pairs in seconds."""

import math
import random
from collections.abc import Callable

Curve = Callable[[float, float], float]
"""The expected loss at a share of the run; a number between 0 and 1 stands for what the seed decides."""


def decreasing(at: float, chance: float) -> float:
    """From 2.3 to 0.9."""
    return 0.8 + 1.5 * math.exp(-2.7 * at)


def slow(at: float, chance: float) -> float:
    """From 2.3 to 2.1: the first steps of a long training."""
    return 2.3 - 0.2 * at


def steep(at: float, chance: float) -> float:
    """From 8 to 0.5 within a tenth of the run."""
    return 0.5 + 7.5 * math.exp(-25 * at)


def flat(at: float, chance: float) -> float:
    """A loss that has nothing to learn from."""
    return 0.7


def negative(at: float, chance: float) -> float:
    """A log-likelihood: from 1 to -3."""
    return 1.0 - 4.0 * (1 - math.exp(-2 * at))


def gan(at: float, chance: float) -> float:
    """Swings around 1.4 with a period and a phase of its own in each process."""
    return 1.4 + 0.3 * math.sin(2 * math.pi * ((3 + 3 * chance) * at + 7 * chance))


CURVES: dict[str, Curve] = {
    "decreasing": decreasing,
    "slow": slow,
    "steep": steep,
    "flat": flat,
    "negative": negative,
    "GAN, swinging": gan,
}

Harm = Callable[[float, float, float], float]
"""What becomes of a loss: of its share of the run, its value and the value at the start."""


def rises_from_the_middle(at: float, loss: float, start: float) -> float:
    """Doubles its distance from the start's, upwards, over the second half."""
    return loss + max(0.0, at - 0.5) * 2 * max(abs(start), abs(loss))


def is_stuck(at: float, loss: float, start: float) -> float:
    """Stays where it started."""
    return start


def is_a_fifth_worse(at: float, loss: float, start: float) -> float:
    """Comes to a value 20% higher by the first tenth of the run."""
    return loss + 0.2 * abs(loss) * min(1.0, 10 * at)


HARMS: dict[str, Harm] = {
    "rises from the middle": rises_from_the_middle,
    "stuck at its start": is_stuck,
    "20% worse": is_a_fifth_worse,
}


def curve(
    shape: Curve, steps: int, seed: object, *, noise: float, offset: float = 0.0, harm: Harm | None = None
) -> list[float]:
    """Return one process's losses.

    Args:
        shape: of the expected loss.
        steps: how many.
        seed: of everything that is left to chance in it.
        noise: standard deviation of each batch's, as a share of the loss.
        offset: the same of a whole process: another initialisation, another order of the data.
        harm: what a wrong precision does to it.
    """
    own = random.Random(f"{seed}")
    chance = own.random()
    expected = [shape(index / steps, chance) for index in range(steps)]
    moved = own.gauss(0, offset)
    losses = []
    for index, value in enumerate(expected):
        harmed = harm(index / steps, value, expected[0]) if harm else value
        losses.append(harmed + abs(value) * (moved + own.gauss(0, noise)))
    return losses


def rounded(losses: list[float], seed: object, relative: float = 0.01) -> list[float]:
    """Return the same run in another arithmetic: each loss off by about that share of it."""
    own = random.Random(f"rounded {seed}")
    return [loss * (1 + own.gauss(0, relative)) for loss in losses]
