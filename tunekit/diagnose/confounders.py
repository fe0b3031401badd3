"""Checks for what distorts a comparison of two runs: too few processes, or differences outside the config."""

import shlex
from collections.abc import Callable

from tunekit.diagnose.policy import ROUNDS
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.diagnose.run_pair import MACHINE, RunPair, Side
from tunekit.recommend.noise import MAX_WORTHWHILE_ROUNDS, rounds_to_tell
from tunekit.records.finding import Severity
from tunekit.records.run import RunStatus
from tunekit.records.target import command_words
from tunekit.units import bytes_text, percent_text

_ON_A_QUIETER = "search both again on a quieter machine, or with --wait-quiet 10m"
_MAY_BE_MEANT = "nothing, if that is what you compare; else search the same training again"


@check("too-few-processes", WARNING, "too few fresh processes to tell whether the runs differ")
def _too_few_processes(pair: RunPair) -> Hits:
    if pair.compared_by is not None and pair.deciding is None and not pair.is_same_run:
        rounds = max(ROUNDS, min(pair.deciding_counts) + 2)
        yield Hit(pair.each(*pair.deciding_counts), f"search both again with --confirm {rounds}")


@check("undecided", (WARNING, INFO), "the runs are too noisy to tell whether they differ")
def _undecided(pair: RunPair) -> Hits:
    factor, noise = pair.deciding, pair.noise
    if factor is None or pair.verdict_on(factor) != "inconclusive" or pair.is_same_run:
        return
    # A slowdown is inverted, so that it can be judged like a speedup.
    folded = factor if factor.value >= 1 else factor.divide_into(1.0)
    needed = rounds_to_tell(folded, min(pair.deciding_counts), noise)
    remedy = f"search both again with --confirm {needed}"
    if needed is None or needed > MAX_WORTHWHILE_ROUNDS or pair.is_busy:
        remedy = _ON_A_QUIETER
    lost, tolerance = f"{max(0.0, 1 - factor.low):.1%}", percent_text(pair.tolerance)
    floor = "n/a" if noise is None else f"{noise.relative:.1%}"
    yield Hit(
        f"the slowdown is at most {lost} (tolerance {tolerance}, noise floor {floor}); fresh processes: "
        + pair.each(*pair.deciding_counts),
        remedy,
        severity=WARNING if factor.low < 1 - pair.tolerance else INFO,
    )


@check("busy-machine", WARNING, "a run was made on a busy machine, so its rates are uncertain")
def _busy_machine(pair: RunPair) -> Hits:
    if pair.is_busy and pair.verdict_on(pair.deciding) != "inconclusive":
        spreads = (f"{one.spread:.0%}" for one in (pair.reference, pair.other))
        yield Hit(f"fresh processes of one config differ by {pair.each(*spreads)}", _ON_A_QUIETER)


@check("memory-grew", WARNING, "peak reserved VRAM grew by more than the tolerance (exit code unchanged)")
def _memory_grew(pair: RunPair) -> Hits:
    before, after, times = pair.reference, pair.other, pair.reserved_ratio
    if times is not None and times > 1 + pair.tolerance:
        peaks = pair.each(bytes_text(before.peak_reserved_bytes), bytes_text(after.peak_reserved_bytes))
        remedy = "compare batch size, precision and compile; a smaller batch size takes less"
        yield Hit(f"{peaks}, {times:.2f}x (measured)", remedy)


def _differs(
    code: str, severity: Severity, message: str, remedy: str, value: Callable[[Side], str | None]
) -> None:
    """Register a check that a value is the same in both runs; it is skipped if either value is unknown."""

    @check(code, severity, message)
    def _look(pair: RunPair) -> Hits:
        before, after = value(pair.reference), value(pair.other)
        if before is not None and after is not None and before != after:
            yield Hit(pair.each(before, after), remedy)


@check("not-comparable", WARNING, "the runs can't be compared")
def _not_comparable(pair: RunPair) -> Hits:
    if pair.why_not is not None:
        remedy = "compare runs of one training, searched on one machine or from one baseline config"
        yield Hit(pair.why_not, remedy)


@check("other-machine", WARNING, "the machines or their software differ, so rates differ for that reason too")
def _other_machine(pair: RunPair) -> Hits:
    if pair.machine_differences:
        values = ((name, MACHINE[name]) for name in pair.machine_differences)
        yield Hit(
            "; ".join(f"{name}: {pair.each(of(pair.reference), of(pair.other))}" for name, of in values),
            "search both on one machine, in one environment, to compare rates, not just speedups",
        )


_differs(
    "other-threads",
    WARNING,
    "torch computes with different numbers of CPU threads",
    "search both with one OMP_NUM_THREADS, unless that is what you compare",
    lambda side: str(side.loop.threads.intra_op) if side.loop.threads else None,
)
_differs(
    "other-emulation",
    WARNING,
    "one run was emulated on a different GPU from the one it tunes for",
    "search both on that GPU: another one has neither its speed nor its limits",
    lambda side: "emulated" if side.run.is_emulated else "not emulated",
)
_differs(
    "other-world-size",
    WARNING,
    "the world sizes differ",
    "start both with the same world size; rates are of all ranks together",
    lambda side: str(side.loop.world_size),
)
_differs(
    "other-script",
    INFO,
    "the scripts differ, which may be what you want to compare",
    _MAY_BE_MEANT,
    lambda side: side.run.target.script_sha256 and f"SHA-256 {side.run.target.script_sha256[:12]}...",
)
_differs(
    "other-command",
    INFO,
    "the training commands differ, which may be what you want to compare",
    _MAY_BE_MEANT,
    lambda side: " ".join(command_words(side.run.target)),
)


@check("other-epoch", WARNING, "the epochs differ in length, and rates are over whole epochs")
def _other_epoch(pair: RunPair) -> Hits:
    before, after = pair.reference.loop.epoch_samples_total, pair.other.loop.epoch_samples_total
    if before is None or after is None:
        return
    # With drop_last, an epoch's length depends on the batch size although the data is the same.
    dropped = max(side.loop.world_size * (side.loop.batch_size or 0) for side in (pair.reference, pair.other))
    if abs(after - before) > dropped:
        remedy = "search with as many samples per epoch: the epoch boundary costs more in a short one"
        yield Hit(pair.each(f"{before:,} samples", f"{after:,}"), remedy)


@check("unfinished", WARNING, "a search has not finished, so its recommendation may still change")
def _unfinished(pair: RunPair) -> Hits:
    unfinished = [side for side in (pair.reference, pair.other) if side.run.status is not RunStatus.FINISHED]
    if unfinished:
        yield Hit(
            ", ".join(f"{side.name} is {side.run.status.value}" for side in unfinished),
            "; ".join(f"tunekit search --resume {shlex.quote(side.folder)}" for side in unfinished),
        )


@check("same-run", WARNING, "both folders hold the same trials")
def _same_run(pair: RunPair) -> Hits:
    if pair.is_same_run:
        yield Hit(f"both created {pair.other.run.created_at}", "give the folder of another search")
