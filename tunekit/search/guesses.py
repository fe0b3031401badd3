"""What a good engineer would try first, before any sampler knows anything."""

from collections.abc import Sequence

from tunekit.records.config import Precision, TrainConfig
from tunekit.records.hardware import Host
from tunekit.records.run import KnobSpace
from tunekit.search.space import nearest


def first_guesses(baseline: TrainConfig, space: Sequence[KnobSpace], host: Host) -> tuple[TrainConfig, ...]:
    """Return the configs to try before the sampler takes over, in order, without repeats.

    Half of the CPUs as workers, then all of them; bf16 on top; a doubled batch on top of that; then
    compile. All are brought into the space, so a fixed knob stays fixed.
    """
    half, full = max(1, host.cpus // 2), host.cpus
    half_workers = _with(baseline, num_workers=half, persistent_workers=True, pin_memory=True)
    full_workers = _with(baseline, num_workers=full, persistent_workers=True, pin_memory=True)
    low_precision = _with(half_workers, precision=Precision.BF16, channels_last=True)
    bigger = _with(low_precision, batch_size=baseline.batch_size * 2)
    compiled = _with(bigger, compile=True)
    wanted = (half_workers, low_precision, full_workers, bigger, compiled)
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
