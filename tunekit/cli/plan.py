"""`tunekit plan`: what a training costs on each GPU and machine, in hours and dollars."""

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tunekit.cli.machine import host_here
from tunekit.cli.milestones import limits_of, read_milestones
from tunekit.cli.numbers import Rate, positive_number
from tunekit.cli.report_files import check_report_files, drawn, present
from tunekit.errors import UnknownGpuError, UsageError
from tunekit.machine.device import AUTO, device_profile
from tunekit.machine.profiles import find_profile, load_profiles, taken_name
from tunekit.plan.from_run import PlanOptions, measured_profile, request_of_prediction, request_of_run
from tunekit.plan.milestones import plan_milestones
from tunekit.plan.plan import make_plan
from tunekit.predict.loader_rate import usual_instance
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.plan import PlanAssumptions, PlanRequest, RateSource
from tunekit.records.profile import FactConfidence, Instance, Profile
from tunekit.records.recommendation import Tier
from tunekit.records.run import FitsRun, Run
from tunekit.report.plan import milestones_report, plan_answer, plan_report
from tunekit.session.folder import folder_of, load_run, load_saved
from tunekit.units import GIB


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Make the plan, show it and return 0.

    Raises:
        UsageError: a flag can't be used.
    """
    _refuse_conflicts(options)
    check_report_files(options)
    profiles = _with_prices(load_profiles(), options.price)
    asked = _plan_options(options, profiles)
    if options.run is None:
        request = _request_of_rate(options, asked, profiles)
    else:
        profiles, request = _request_of_saved(options, asked, profiles)
    if options.milestones is not None:
        _show_milestones(options, request, profiles)
        return 0
    folder = folder_of(options.run or Path())
    plan = make_plan(request, profiles, datetime.now(UTC).date(), options.ignored)
    report = drawn(plan, plan_report, "plan.json", options.full_paths, folder)
    present(options, plan, report, plan_answer(plan, str(folder)))
    return 0


def _show_milestones(
    options: argparse.Namespace, request: PlanRequest, profiles: Mapping[str, Profile]
) -> None:
    """Plan the milestones; those without epochs have those of `--epochs`, else the run's."""
    usual = request.epochs if request.tier is not None or options.epochs is not None else None
    milestones = read_milestones(options.milestones, request.samples_per_epoch, usual, profiles)
    limits = limits_of(options.max_cost, options.deadline)
    plan = plan_milestones(request, milestones, profiles, datetime.now(UTC).date(), limits)
    report = drawn(plan, lambda shown, _: milestones_report(shown), "milestones.json", options.full_paths)
    present(options, plan, report, milestones_report(plan).blocks)


def _refuse_conflicts(options: argparse.Namespace) -> None:
    """Refuse flags that contradict each other or would be ignored."""
    if options.milestones is None and (options.max_cost is not None or options.deadline is not None):
        raise UsageError("--max-cost and --deadline are limits of --milestones FILE.yaml; give the file")
    rate = options.rate
    if (options.run is None) == (rate is None):
        raise UsageError("plan needs either a run folder, or --rate with --samples and --epochs")
    others = ("tier",) if options.run is None else ("gpus", "batch_size")
    given = [f"--{name.replace('_', '-')}" for name in others if getattr(options, name) is not None]
    if given:
        owner = "a run" if options.run is None else "--rate"
        raise UsageError(f"{', '.join(given)}: only for {owner}; drop it")
    if rate is None:
        return
    if options.samples is None or (options.epochs is None and options.milestones is None):
        raise UsageError(f"--rate {rate.text} also needs --samples and --epochs")
    if rate.is_iterations and options.batch_size is None:
        raise UsageError(f"--rate {rate.text} needs the samples of an iteration; add --batch-size N")
    if rate.unit is None and options.batch_size is not None:
        raise UsageError(f"--rate with --batch-size needs its unit: {rate.text}it/s or {rate.text}samples/s")


def _with_prices(profiles: dict[str, Profile], written: Sequence[str]) -> dict[str, Profile]:
    """Return the profiles with the user's prices: of own machines with one GPU, or of known instances."""
    profiles = dict(profiles)
    for text in written:
        name, _, usd = (part.strip() for part in text.rpartition("="))
        try:
            price = positive_number("dollars")(usd)
        except argparse.ArgumentTypeError as error:
            raise UsageError(
                f"--price {text}: {error}; write NAME=USD per hour, such as a10g=0.40"
            ) from error
        today = datetime.now(UTC).date().isoformat()
        own: dict[str, Any] = {"usd_per_h": price, "as_of": today, "source": f"--price {text}"}
        try:
            gpu = find_profile(name, profiles)
        except UnknownGpuError as error:
            profiles = _with_instance_price(profiles, name, own, error)
            continue
        if gpu.is_cpu:
            raise UsageError(f"--price {text}: plan has no hours on a CPU; name a GPU or an instance")
        shown = f"{price:.2f}" if price == round(price, 2) else f"{price:g}"
        own |= {"provider": "own", "name": f"{name} at ${shown}/h", "gpus": 1, "region": None}
        machine = Instance(**own, vcpus=None, ram_gb=None, confidence=FactConfidence.HIGH)
        profiles[gpu.id] = gpu.changed(instances=(*gpu.instances, machine))
    return profiles


def _with_instance_price(
    profiles: dict[str, Profile], name: str, price: Mapping[str, Any], error: UnknownGpuError
) -> dict[str, Profile]:
    """Return the profiles with an hourly price of every instance of that name."""
    named = [
        one for gpu in profiles.values() for one in gpu.instances if one.name.lower() == name.lower() != ""
    ]
    if not named:
        raise UsageError(f"{price['source']}: no GPU or instance has this name; {error}") from error
    if any(one.compute_units_per_h is not None for one in named):
        raise UsageError(f"{price['source']}: {name} is paid in compute units, not by the hour")
    return {
        id_: gpu.changed(instances=[one.changed(**price) if one in named else one for one in gpu.instances])
        for id_, gpu in profiles.items()
    }


def _plan_options(options: argparse.Namespace, profiles: Mapping[str, Profile]) -> PlanOptions:
    scaling = {} if options.scaling is None else _scaling(options.scaling)
    named = [options.gpu, *options.only] if options.gpu else options.only
    return PlanOptions(
        samples_per_epoch=options.samples,
        epochs=options.epochs or (1 if options.milestones and options.run is None else None),
        providers=tuple(name.strip().lower() for name in options.provider),
        only=tuple(find_profile(name, profiles).id for name in options.only),
        max_hours=options.max_hours,
        may_use_spot=options.spot,
        taken_names=tuple(filter(None, (taken_name(name, profiles) for name in named))),
        loader_samples_per_s_per_cpu=options.loader_rate and Interval.exactly(options.loader_rate),
        peak_reserved_bytes=None if options.memory_gib is None else round(options.memory_gib * GIB),
        assumptions=PlanAssumptions(
            max_session_s=options.max_session,
            **({"checkpoint_cost_s": None} if options.no_checkpoints else {}),
            **scaling,
        ),
    )


def _request_of_saved(
    options: argparse.Namespace, asked: PlanOptions, profiles: dict[str, Profile]
) -> tuple[dict[str, Profile], PlanRequest]:
    """Return the profiles with the run's own, and the request from its measured or its predicted rates."""
    run, name, tier = load_saved(options.run), str(options.run), options.tier and Tier(options.tier)
    gpu = find_profile(options.gpu, profiles).id if options.gpu else None
    if isinstance(run, Run) and (held := measured_profile(run)) is not None:
        profiles = {held.id: held} | profiles
    is_predicted = isinstance(run, FitsRun) or (
        isinstance(run, Run) and (run.measured_on == "cpu" if gpu else run.prediction and run.is_emulated)
    )
    if isinstance(run, Run | FitsRun) and is_predicted and tier is None:
        precision = options.precision and Precision(options.precision)
        if options.milestones is not None and asked.epochs is None:
            asked = asked._replace(epochs=1)
        return profiles, request_of_prediction(run, asked, profiles, gpu, precision, name)
    if gpu is not None:
        raise UsageError(f"--gpu {gpu}: {name} has a measured rate; use --only for other GPUs")
    if options.precision is not None:
        raise UsageError("--precision: only for --rate or a predicted rate; drop it")
    return profiles, request_of_run(load_run(options.run), asked, tier, name)


def _request_of_rate(
    options: argparse.Namespace, asked: PlanOptions, profiles: Mapping[str, Profile]
) -> PlanRequest:
    rate: Rate = options.rate
    per_s = rate.per_s * options.batch_size if rate.is_iterations else rate.per_s
    measured_on = find_profile(options.gpu, profiles).id if options.gpu else _gpu_here(profiles)
    measured = profiles.get(measured_on)
    machine = usual_instance(measured) if measured is not None else None
    return asked.request(
        source=f"--rate {rate.text}" + (f" --batch-size {options.batch_size}" if rate.is_iterations else ""),
        rate_samples_per_s=Interval.exactly(per_s),
        rate_source=RateSource.GIVEN,
        measured_on=measured_on,
        measured_gpus=options.gpus or 1,
        measured_vcpus_per_gpu=max(1, machine.vcpus // machine.gpus) if machine and machine.vcpus else None,
        vcpus_are_assumed=machine is not None and machine.vcpus is not None,
        samples_per_step=options.batch_size,
        precision=Precision(options.precision or "fp32"),
        precision_is_assumed=options.precision is None,
    )


def _gpu_here(profiles: Mapping[str, Profile]) -> str:
    """Return the profile id of this machine's GPU."""
    host = host_here(profiles=profiles)
    if not host.accelerators:
        raise UsageError("no GPU is here, so say where the rate was measured: --gpu a10g, or --gpu cpu")
    return device_profile(AUTO, host, profiles)[1]


def _scaling(text: str) -> dict[str, Any]:
    """Return the assumptions that a range given by flags replaces."""
    number = r"([01](?:\.\d{1,9})?|\.\d{1,9})"
    match = re.fullmatch(rf"{number}(?:\.\.{number})?", text.strip())
    low, high = (float(match[1]), float(match[2] or match[1])) if match else (0.0, 0.0)
    if not 0 < low <= high <= 1:
        raise UsageError(f"--scaling {text}: write it as LO..HI with shares up to 1, such as 0.8..1.0")
    return {"scaling_low": low, "scaling_high": high, "scaling_is_given": True}
