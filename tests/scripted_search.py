"""A search without processes: targets as a baseline learns them, an executor with a scripted clock."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from build_records import (
    config,
    configs,
    discovery,
    failure,
    host,
    hosts,
    measurement,
    options,
    profile,
    root,
    run,
    target,
)
from hypothesis import strategies as st

from tunekit.recommend.recommendation import answer_of
from tunekit.records.codec import read_json
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.details import Details
from tunekit.records.measurement import Measurement
from tunekit.records.profile import Profile
from tunekit.records.run import Run, SearchOptions
from tunekit.records.target import Discovery, LoaderAddress, LoaderSeen
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.session.predicted import Outside
from tunekit.session.search import Search
from tunekit.session.session import QuietWait
from tunekit.session.store import TrialStore
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialSpec
from tunekit.trial.watch import TrialProgress
from tunekit.tune.knob_access import SearchContext

TRIAL_S = 10.0
"""Seconds of every scripted trial."""


def loader(of: TrainConfig | None = None, **overrides: Any) -> LoaderSeen:
    """The training loader of 50,000 samples, as a script with this config builds it."""
    knobs = of or config()
    values: dict[str, Any] = {
        "address": LoaderAddress(call_stack=("train.py:12+4",), ordinals=(0,)),
        "dataset": "FakeData",
        "dataset_samples": 50_000,
        "batch_size": knobs.batch_size,
        "num_workers": knobs.num_workers,
        "prefetch_factor": knobs.prefetch_factor,
        "pin_memory": knobs.pin_memory,
        "persistent_workers": knobs.persistent_workers,
        "drop_last": True,
        "iterable": False,
        "batch_size_bound": True,
        "training": True,
    }
    return LoaderSeen(**(values | overrides))


def learnt(of: TrainConfig | None = None, **overrides: Any) -> Discovery:
    """What the baseline learns of an ordinary image classifier with this config."""
    return discovery(**({"loaders": (loader(of),), "roots": (root(),)} | overrides))


def search_context(baseline: TrainConfig | None = None, **overrides: Any) -> SearchContext:
    """An ordinary script on an A10G; overrides of SearchContext's own fields, or of the discovery's."""
    knobs = baseline or config()
    own = {"host": host(), "profile": profile(), "native_bf16": True, "target": target()}
    own |= {"boundary": None, "cpus_per_worker": 1.0, "max_workers": math.inf}
    own |= {name: overrides.pop(name) for name in tuple(own) if name in overrides}
    known = overrides.pop("discovery", None) or learnt(knobs, **overrides)
    return SearchContext(discovery=known, baseline=knobs, **own)


@st.composite
def any_search_context(draw: st.DrawFn) -> SearchContext:
    """Any script on any machine: with and without loader, roots, CUDA, a data set's length."""
    knobs = draw(configs(max_batch=1024))
    loaders = draw(
        st.just(())
        | st.builds(
            loader,
            st.just(knobs),
            iterable=st.booleans(),
            batch_size_bound=st.booleans(),
            dataset_samples=st.none() | st.integers(0, 1_000_000),
        ).map(lambda one: (one,))
    )
    seen = st.builds(
        root,
        has_4d_weights=st.booleans(),
        autocast_dtype=st.none() | st.sampled_from(["bfloat16", "float16"]),
    )
    return search_context(
        knobs,
        host=draw(hosts()),
        profile=profile(
            native_precisions=draw(st.sampled_from([("fp32",), ("fp32", "fp16"), ("fp32", "tf32", "bf16")])),
            compile_supported=draw(st.none() | st.booleans()),
        ),
        native_bf16=draw(st.none() | st.booleans()),
        loaders=loaders,
        roots=tuple(draw(st.lists(seen, max_size=2))),
        roots_cover_step=draw(st.booleans()),
        device_type=draw(st.sampled_from(["cuda", "cpu"])),
        bf16_native=draw(st.none() | st.booleans()),
    )


def smooth_rate(knobs: TrainConfig) -> float:
    """A plausible landscape: batches help up to 512, workers up to 6, bf16 by half, compile by a tenth."""
    workers = min(knobs.num_workers, 6) + 1
    batch = min(knobs.batch_size, 512) / (min(knobs.batch_size, 512) + 64)
    fast = {Precision.BF16: 1.5, Precision.TF32: 1.2}.get(knobs.precision, 1.0)
    return 200.0 * workers**0.5 * batch * fast * (1.1 if knobs.compile else 1.0)


class ScriptedClock:
    """A clock that only the executor moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class ScriptedExecutor:
    """Computes each trial from its config, and insists that every earlier trial is on disk.

    A trial below the rate that it has to beat is given up.

    Args:
        trials_folder: where the search saves the trials.
        baseline: the config of the script as it is.
        rate: samples/s of a config.
        noise: the factor on it that a process shows; by default their order makes a per cent or so.
        failing: the failure of a config, None when it runs; told the trial too.
        learns: what a baseline or a first measured trial learns.
        interrupt_at: the number of the trial in which Ctrl-C comes.
        measured: overrides of the measurement of a config.
        losses: of the first backward passes of a config's process.
        looked: the details of a trial that asks for some.
        trial_s: seconds of a trial; of every one alike, or of each.
    """

    trials_folder: Path
    baseline: TrainConfig = field(default_factory=config)
    rate: Callable[[TrainConfig], float] = smooth_rate
    noise: Callable[[TrainConfig, TrialSpec], float] = lambda knobs, spec: (
        1 + 0.01 * math.sin(7 * spec.number)
    )
    failing: Callable[[TrainConfig, TrialSpec], Failure | None] = lambda knobs, spec: None
    learns: Callable[[TrialSpec], Discovery | None] | None = None
    interrupt_at: int | None = None
    measured: Callable[[TrainConfig], dict[str, Any]] = lambda knobs: {}
    losses: Callable[[TrainConfig, TrialSpec], Sequence[float | None]] = lambda knobs, spec: ()
    looked: Details | Callable[[TrainConfig, TrialSpec], Details] = field(default_factory=Details)
    trial_s: float | Callable[[TrainConfig, TrialSpec], float] = TRIAL_S
    baseline_config_known: bool = True
    clock: ScriptedClock = field(default_factory=ScriptedClock)
    specs: list[TrialSpec] = field(default_factory=list)
    """Every trial that was started, in order."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self._insist_on_records_before(spec.number)
        self.specs.append(spec)
        knobs = spec.config or self.baseline
        trial_s = self.trial_s(knobs, spec) if callable(self.trial_s) else self.trial_s
        on_progress(TrialProgress("measuring", 10, trial_s / 2))
        if spec.number == self.interrupt_at:
            raise KeyboardInterrupt
        self.clock.now += trial_s
        failed = self.failing(knobs, spec)
        learns = self.learns or (lambda spec: learnt(self.baseline))
        still_unknown = known is None or not known.discovery.complete
        return TrialRecord(
            number=spec.number,
            role=spec.role,
            round=spec.round,
            config=knobs if spec.config or self.baseline_config_known else None,
            is_baseline_config=spec.config is None,
            started_at="2026-01-02T03:04:05+00:00",
            duration_s=trial_s,
            measurement=None if failed else self._measurement(knobs, spec),
            failure=failed,
            discovery=learns(spec) if still_unknown else None,
        )

    def _measurement(self, knobs: TrainConfig, spec: TrialSpec) -> Measurement:
        seen = {"losses": tuple(self.losses(knobs, spec))} | self.measured(knobs)
        rate = self.rate(knobs) * self.noise(knobs, spec)
        if spec.rate_to_beat is not None and 1.01 * rate < spec.rate_to_beat:
            seen = {"stop_reason": "abandoned", "boundary_s": None, "boundaries_seen": 0} | seen
        found = measurement(rate, knobs, **seen)
        if not spec.details:
            return found
        looked = self.looked(knobs, spec) if callable(self.looked) else self.looked
        return found.model_copy(update={"details": looked})

    def _insist_on_records_before(self, number: int) -> None:
        paths = sorted(self.trials_folder.glob("[0-9]*/trial.json"))
        numbers = [int(path.parent.name) for path in paths]
        assert numbers == list(range(number)), "every trial is on disk before the next one starts"
        if paths:
            assert read_json(paths[-1], TrialRecord).number == number - 1


class RecordingListener:
    """Keeps what a search tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
        self.told.append(("started", (spec.number, purpose, left_s)))

    def trial_moved(self, progress: TrialProgress) -> None:
        self.told.append(("moved", progress))

    def trial_ended(self, record: TrialRecord) -> None:
        self.told.append(("ended", record))

    def space_known(self, run: Run) -> None:
        self.told.append(("space", run))

    def trial_of_another_ended(self, record: TrialRecord, host: str) -> None:
        self.told.append(("of another", record))

    def said(self, message: str) -> None:
        self.told.append(("said", message))

    def heard(self, kind: str) -> list[Any]:
        return [what for name, what in self.told if name == kind]


def search_in(
    folder: Path,
    asked: SearchOptions | None = None,
    listener: RecordingListener | None = None,
    executor_options: dict[str, Any] | None = None,
    **run_overrides: Any,
) -> tuple[Run, ScriptedExecutor]:
    """Run one whole search in a folder; the executor shows what was started."""
    with RunFolder(folder) as owned:
        executor = ScriptedExecutor(owned.trials_folder, **(executor_options or {}))
        whole = start_search(owned, executor, asked, listener, **run_overrides).run()
    return whole, executor


def start_search(
    owned: RunFolder,
    executor: ScriptedExecutor,
    asked: SearchOptions | None = None,
    listener: RecordingListener | None = None,
    here: Profile | None = None,
    outside: Outside | None = None,
    quiet: QuietWait | None = None,
    store: TrialStore | None = None,
    **run_overrides: Any,
) -> Search:
    """Return a search over an owned folder, on the executor's clock."""
    bare = run(**({"options": asked or options(), "trials": (), "search_time_s": 0.0} | run_overrides))
    bare = bare.changed(host=bare.host.changed(cpu_bf16_native=True))
    here, heard = here or bare.profile, listener or RecordingListener()
    return Search(bare, owned, executor, here, heard, outside, executor.clock, quiet, store)


def searched(records: tuple[TrialRecord, ...]) -> list[TrialRecord]:
    return [record for record in records if record.role is TrialRole.SEARCH]


def guarding(records: tuple[TrialRecord, ...]) -> list[TrialRecord]:
    return [record for record in records if record.role is TrialRole.NUMERICS]


def confirming(records: tuple[TrialRecord, ...]) -> list[TrialRecord]:
    return [record for record in records if record.role is TrialRole.CONFIRM]


def rounds_of_answer(whole: Run) -> int:
    """Return how many rounds the config that is the answer was confirmed in."""
    answer = answer_of(whole.recommendations)
    return len({one.round for one in confirming(whole.trials) if answer and one.config == answer.config})


def out_of_memory_above(batch_size: int) -> Callable[[TrainConfig, TrialSpec], Failure | None]:
    """A device that holds batches up to a size."""
    return lambda knobs, spec: failure(OutcomeKind.DEVICE_OOM) if knobs.batch_size > batch_size else None
