"""What a good engineer would try first, before any sampler knows anything."""

from collections.abc import Sequence

from tunekit.records.config import Precision, TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import KnobSpace
from tunekit.search.space import nearest


def first_guesses(baseline: TrainConfig, space: Sequence[KnobSpace], host: Host) -> tuple[TrainConfig, ...]:
    """Return the configs to try before the sampler takes over, in order, without repeats.

    bf16 (fp16 where that is all there is) with half of the CPUs as workers; the batch doubled and
    doubled again; all CPUs as workers; the loader knobs alone; compile last, because its trial costs
    most. All are brought into the space, so a fixed knob stays fixed.
    """
    loader = _with(baseline, num_workers=max(1, host.cpus // 2), persistent_workers=True, pin_memory=True)
    precisions = next(entry.values for entry in space if entry.knob == "precision")
    half = Precision.FP16 if Precision.BF16 not in precisions else Precision.BF16
    low_precision = _with(loader, precision=half, channels_last=True)
    doubled = _with(low_precision, batch_size=baseline.batch_size * 2)
    wanted = (
        low_precision,
        doubled,
        _with(low_precision, batch_size=baseline.batch_size * 4),
        _with(doubled, num_workers=host.cpus),
        loader,
        _with(doubled, compile=True),
    )
    guesses: list[TrainConfig] = []
    for config in wanted:
        guess = nearest(space, config)
        if guess not in guesses and guess != baseline:
            guesses.append(guess)
    return tuple(guesses)


def _with(config: TrainConfig, **knobs: object) -> TrainConfig:
    values = {**config.model_dump(), **knobs}
    if values["num_workers"] and values["prefetch_factor"] is None:
        values["prefetch_factor"] = 2
    return TrainConfig.model_validate(values)
