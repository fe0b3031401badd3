"""Logs a search to an experiment tracker: Weights & Biases, MLflow or TensorBoard.

To add a tracker, add an entry to TRACKERS. Nothing here uses the network unless the user is logged in to W&B
or sets WANDB_MODE or MLFLOW_TRACKING_URI.
"""

import logging
import netrc
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlparse

from tunekit.errors import TrackerError, UsageError
from tunekit.plan.from_run import plan_of_run
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import KNOBS
from tunekit.records.measurement import Measurement
from tunekit.records.run import Run
from tunekit.trial.binding_syntax import value_text
from tunekit.trial.typed_commands import target_text
from tunekit.typos import did_you_mean
from tunekit.units import count_text

PROJECT = "tunekit"
"""The project or experiment, unless an environment variable names another."""
_WANDB_SERVERS = {"api.wandb.ai", "api.forge.coreweave.com"}
"""The public servers of W&B."""
_SUFFIX = ".tunekit"
"""Ends the names of tunekit's TensorBoard files, so that a later call replaces only those."""

_OF_TRIAL: Mapping[str, Callable[[Measurement], float | None]] = {
    "samples_per_s": lambda one: one.rate_samples_per_s,
    "it_per_s": lambda one: one.loop.epoch_it_per_s,
    "batch_size": lambda one: one.loop.batch_size,
    "num_workers": lambda one: one.loop.num_workers,
    "peak_reserved_bytes": lambda one: one.loop.peak_reserved_bytes,
    "peak_pss_bytes": lambda one: one.memory.peak_pss_bytes,
}
"""The metrics of each trial."""


class Step(NamedTuple):
    """What one trial measured."""

    number: int
    time_s: float
    """When it started, in seconds of the Unix epoch."""
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class TrackedRun:
    """The data of a run for any tracker."""

    id: str
    name: str
    folder: Path
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    steps: tuple[Step, ...]
    tags: Mapping[str, str]
    files: tuple[Path, ...]
    report: str
    """The report as Markdown."""

    @property
    def rows(self) -> tuple[Step, ...]:
        """The run's metrics, as step 0 at the time of its last trial, and those of each trial."""
        return Step(0, max((step.time_s for step in self.steps), default=0.0), self.metrics), *self.steps


def tracked_run(run: Run, folder: Path, report: str) -> TrackedRun:
    """Return the data of a run for any tracker, with the reports and configs in its folder."""
    best = answer_of(run.recommendations)
    configs = {"baseline": run.baseline_config, "recommended": best.config if best else None}
    params = {
        f"{name}.{knob}": value_text(getattr(config, knob))
        for name, config in configs.items()
        if config is not None
        for knob in KNOBS
    }
    if best is not None and best.learning_rate is not None:
        params["recommended.lr"] = value_text(best.learning_rate.value)
    tags = {
        "outcome": run.outcome.word,
        "tier": run.outcome.tier,
        "gpu": run.measured_on,
        "tunekit_version": run.tunekit_version,
        "command": target_text(run.target),
        "commit": run.commit,
    }
    return TrackedRun(
        id=run.id,
        name=f"{run.target.name} on {run.measured_on}",
        folder=folder,
        params=params,
        metrics=dict(_known(_metrics(run))),
        steps=tuple(
            Step(
                one.number,
                datetime.fromisoformat(one.started_at).timestamp(),
                dict(_known({f"trial/{name}": of(one.measurement) for name, of in _OF_TRIAL.items()})),
            )
            for one in sorted(run.trials, key=lambda one: one.number)
            if one.measurement is not None
        ),
        tags={name: str(value) for name, value in tags.items() if value is not None},
        files=tuple(
            sorted(path for end in ("html", "md", "yaml", "csv") for path in folder.glob(f"*.{end}"))
        ),
        report=report,
    )


def _known(figures: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
    return ((name, float(value)) for name, value in figures.items() if value is not None)


def _metrics(run: Run) -> dict[str, float | None]:
    best, plan, ratio = answer_of(run.recommendations), plan_of_run(run), run.outcome.speedup
    waits = {one.tier: one.wait_share for one in run.bottlenecks}
    offer = plan.measured_offer if plan else None
    known: dict[str, float | None] = {
        **{
            f"speedup{end and f'_{end}'}": getattr(ratio, end or "value", None) for end in ("", "low", "high")
        },
        "noise_floor": getattr(run.noise_floor, "relative", None),
        "planned_hours": getattr(plan.rows[0].hours if plan else None, "value", None),
        "planned_usd": getattr(offer.usd_on_demand if offer else None, "value", None),
        "search_time_s": run.search_time_s,
    }
    tier = best.tier if best else None
    for name, figures, of in (("baseline", run.baseline_figures, None), ("recommended", best, tier)):
        known[f"{name}_data_wait_share"] = waits.get(of)
        if figures is not None:
            known[f"{name}_samples_per_s"] = figures.rate_samples_per_s.value
            known[f"{name}_peak_reserved_bytes"] = figures.peak_reserved_bytes
            known[f"{name}_ram_bytes"] = figures.base_ram_bytes + figures.buffer_bytes
    return known


def check_tracker(asked: str) -> None:
    """Check a tracker's name.

    Raises:
        UsageError: it is neither "NAME" nor "tensorboard:FOLDER", or the tracker is missing or disabled.
    """
    name, colon, _ = asked.partition(":")
    if name not in TRACKERS:
        hint = did_you_mean(name, TRACKERS, f"use {', '.join(TRACKERS)} or tensorboard:FOLDER")
        raise UsageError(f"--track {asked}: no such tracker; {hint}")
    if colon and name != "tensorboard":
        raise UsageError(f"--track {asked}: only tensorboard takes a folder; use --track {name}")
    spec = find_spec(name)
    if spec is None or spec.origin is None:  # a folder of that name, such as W&B's, is no library
        raise UsageError(f"--track {name} needs {name}, which is not installed; pip install {name}")
    if name == "wandb" and os.environ.get("WANDB_MODE") == "disabled":
        raise UsageError(f"--track {asked}: WANDB_MODE=disabled logs nothing; unset it, or use offline")


def track(asked: str, run: TrackedRun) -> str:
    """Log a run to a tracker, and return a message that says where.

    Raises:
        TrackerError: the tracker fails.
    """
    name, _, place = asked.partition(":")
    try:
        with warnings.catch_warnings(action="ignore"):  # the libraries', not about the run
            return TRACKERS[name](run, place)
    except Exception as error:
        raise TrackerError(
            f"{name} refused the run: {error}; the run is unchanged, so log it again"
        ) from error


def _wandb(run: TrackedRun, _: str) -> str:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its telemetry, which ignores the offline mode
    wandb = import_module("wandb")
    mode = os.environ.get("WANDB_MODE") or ("online" if _is_logged_in() else "offline")
    earlier = len(list(run.folder.glob(f"wandb/*run-*-{run.id}")))
    off = {"silent": True, "console": "off", "disable_git": True, "save_code": False}
    off |= {"x_disable_stats": True, "x_disable_machine_info": True}
    logged = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=run.id,
        name=run.name,
        dir=str(run.folder),
        config={**run.params, **run.tags},
        tags=[run.tags[name] for name in ("outcome", "gpu") if name in run.tags],
        mode=mode,
        resume="allow" if mode == "online" else None,
        settings=wandb.Settings(**off),
    )
    for step in run.steps:
        logged.log(dict(step.metrics), step=step.number)
    logged.summary.update(run.metrics)
    files = wandb.Artifact(f"tunekit-{run.id}", type="tunekit-run")
    for path in run.files:
        files.add_file(str(path))
    logged.log_artifact(files)
    logged.finish()
    place = Path(logged.dir).parent
    again = f", beside {count_text(earlier, 'earlier log')} of it" if earlier else ""
    upload = "" if mode == "online" else f"; upload it with: wandb sync {place}"
    return f"logged to W&B ({mode}) as {run.id} in {place}{again}{upload}"


def _is_logged_in() -> bool:
    """Return whether W&B has a key for its server: in the environment, or in the user's netrc file."""
    own = os.environ.get("WANDB_BASE_URL")
    servers = {urlparse(own).hostname} if own else _WANDB_SERVERS
    try:
        known = netrc.netrc(os.environ.get("NETRC")).hosts
    except (OSError, netrc.NetrcParseError):
        known = {}
    return "WANDB_API_KEY" in os.environ or not servers.isdisjoint(known)


def _mlflow(run: TrackedRun, _: str) -> str:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow, of = import_module("mlflow"), import_module("mlflow.entities")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    client = mlflow.MlflowClient()
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    known = client.get_experiment_by_name(experiment)
    place = known.experiment_id if known else client.create_experiment(experiment)
    found = client.search_runs([place], f"tags.tunekit_run = '{run.id}'")
    earlier = [one for one in found if one.data.params == run.params]  # MLflow never changes a parameter
    tags = {**run.tags, "tunekit_run": run.id}
    logged = earlier[0] if earlier else client.create_run(place, tags=tags, run_name=run.name)
    key = logged.info.run_id
    # MLflow identifies a metric by name, time and step: a second call only adds new ones.
    for number, time_s, metrics in run.rows:
        time_ms = round(1000 * time_s)
        client.log_batch(key, [of.Metric(name, value, time_ms, number) for name, value in metrics.items()])
    client.log_batch(key, params=[of.Param(name, value) for name, value in run.params.items()])
    for path in run.files:
        client.log_artifact(key, str(path))
    client.set_terminated(key)
    return f"{'updated in' if earlier else 'logged to'} MLflow as {key} at {mlflow.get_tracking_uri()}"


def _tensorboard(run: TrackedRun, place: str) -> str:
    writer = import_module("tensorboard.summary.writer.event_file_writer")
    event = import_module("tensorboard.compat.proto.event_pb2").Event
    proto = import_module("tensorboard.compat.proto.summary_pb2").Summary
    hparams = import_module("tensorboard.plugins.hparams.summary_v2").hparams_pb
    text = import_module("tensorboard.plugins.text.summary_v2").text_pb
    folder = Path(place) if place else run.folder / "tensorboard"
    earlier = list(folder.glob(f"*{_SUFFIX}"))
    for path in earlier:
        path.unlink()
    out = writer.EventFileWriter(str(folder), filename_suffix=_SUFFIX)
    for step in run.rows:
        values = [proto.Value(tag=name, simple_value=value) for name, value in step.metrics.items()]
        out.add_event(event(wall_time=step.time_s, step=step.number, summary=proto(value=values)))
    tags = "".join(f"\n- {name}: `{value}`" for name, value in run.tags.items())
    for summary in (hparams(dict(run.params), trial_id=run.id), text("report", run.report + tags)):
        out.add_event(event(wall_time=run.rows[0].time_s, summary=summary))
    out.close()
    return f"{'replaced' if earlier else 'logged to'} {folder}; show it with: tensorboard --logdir {folder}"


TRACKERS: Mapping[str, Callable[[TrackedRun, str], str]] = {
    "wandb": _wandb,
    "mlflow": _mlflow,
    "tensorboard": _tensorboard,
}
"""Each logs a run, and returns a message that says where."""
