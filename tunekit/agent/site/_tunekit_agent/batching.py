"""Single samples of a loader's data set, and batches made of them as the loader would."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any, Iterator

from .details import Missing
from .replayed import Rebuilding

_MAX_WRAPPED = 4
"""Batch samplers within batch samplers."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_ALL_SHARE = 0.9
"""Of the data set's samples, that a sampler gives which leaves out only what fills no batch."""


class Batching:
    """Reads samples that a loader may give, in any order, and makes batches of them.

    Args:
        source: of the loader.

    Attributes:
        samples: that the loader may give.
        batch_size: of its full batches, of the one batch where there are fewer samples.

    Raises:
        Missing: its samples can't be read one by one, or its batches have no size that is known.
    """

    def __init__(self, source: Any) -> None:
        self._source = source
        self._loader = loader = source.info.loader()
        if loader is None:
            raise Missing("the loader is gone")
        if source.info.facts.get("iterable"):
            raise Missing("an IterableDataset has no samples to choose from")
        count = _length(loader.dataset)
        if not count:
            raise Missing("the data set has no length")
        batch_size = _batch_size(loader, source.info)
        self._numbers = _numbers(loader, count)
        self.samples = len(self._numbers)
        self.batch_size = min(batch_size, self.samples)

    def spread(self, most: int) -> Iterator[Any]:
        """Yield what single samples are known by: evenly spread however many are taken, each at most once.

        Multiples of the golden ratio, modulo one, leave no gap much wider than others at any time.

        Args:
            most: that are yielded.
        """
        seen: set = set()
        for turn in itertools.count():
            if len(seen) == min(most, self.samples):
                return
            place = min(int(turn * _GOLDEN % 1.0 * self.samples), self.samples - 1)
            if place not in seen:
                seen.add(place)
                yield self._numbers[place]

    def sample(self, number: Any) -> Any:
        """Return one sample.

        Raises:
            Missing: the data set does not give it to this process.
        """
        try:
            together = getattr(self._loader.dataset, "__getitems__", None)  # as torch prefers it
            return together([number])[0] if together else self._loader.dataset[number]
        except Exception as error:
            raise Missing(
                f"sample {number} could not be read in the training process: {_told(error)}"
            ) from error

    def batch_of(self, samples: list) -> Any:
        """Return a full batch of samples, pinned if the loader's are; too few of them come again in order.

        Raises:
            Missing: it could not be made.
        """
        # Each in containers of its own: a collate_fn may take a sample apart, and no sample comes only once.
        filled = [Rebuilding().of(samples[turn % len(samples)]) for turn in range(self.batch_size)]
        try:
            batch = self._loader.collate_fn(filled)
            if getattr(self._source.live, "_pin_memory", False):
                batch = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory(batch)
        except Exception as error:
            raise Missing(f"no batch of chosen samples could be made: {_told(error)}") from error
        return batch


def _batch_size(loader: Any, info: Any) -> int:
    """Return the samples in a full batch.

    A batch sampler of the script's own is believed where it has a batch size and a batch was seen to have it.
    """
    declared, sampler = info.facts.get("batch_size"), loader.batch_sampler
    if declared:
        return int(declared)
    if sampler is None:
        raise Missing("the data set makes its batches itself")
    told, walked = getattr(sampler, "batch_size", None), (info.batch or {}).get("samples")
    if isinstance(told, int) and told == walked:
        return told
    raise Missing(
        f"its batches are made by the script's own {type(sampler).__name__}: its largest one is not known"
    )


def _numbers(loader: Any, count: int) -> Any:
    """Return what the samples are known by that the sampler may give."""
    own = loader.batch_sampler
    for _ in range(_MAX_WRAPPED):
        own = getattr(own, "batch_sampler", own)
    sampler = getattr(own, "sampler", None) or loader.sampler
    chosen = getattr(sampler, "indices", None)
    if _length(chosen):
        return chosen
    kinds = sys.modules["torch.utils.data.sampler"]
    given = _length(sampler)
    if isinstance(sampler, (kinds.RandomSampler, kinds.WeightedRandomSampler)) or (
        given is not None and given >= _ALL_SHARE * count
    ):
        return range(count)
    raise Missing(
        f"its {type(sampler).__name__} gives {'n/a' if given is None else given} of {count} samples: which "
        "ones is not known"
    )


def _length(thing: Any) -> int | None:
    try:
        return len(thing)
    except Exception:  # without a length, or with one of a kind of its own
        return None


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
