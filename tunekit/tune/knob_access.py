"""How each knob reaches the loop on this target and device, and why some don't."""

import math
from dataclasses import dataclass

from tunekit.predict.throughput.boundary import Boundary
from tunekit.records.config import KNOB, Place, TrainConfig
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.records.target import BindingKind, Discovery, Target
from tunekit.trial.binding_suggestions import binding_hint


@dataclass(frozen=True)
class SearchContext:
    """What limits the space: the machine, the device, the target and what the baseline learned about it."""

    host: Host
    """The share of the host that one rank can use."""
    profile: Profile
    """Profile of the device that is actually present."""
    native_bf16: bool | None
    discovery: Discovery
    baseline: TrainConfig
    target: Target
    boundary: Boundary | None = None
    """What an epoch's end costs, by the first measured trial; None before one."""
    cpus_per_worker: float = 1.0
    """CPUs that each loader worker keeps busy."""
    max_workers: float = math.inf
    """Number of workers beyond which more didn't help."""
    changing: tuple[str, ...] = ()
    """What the script changes in its data set between epochs."""


@dataclass(frozen=True)
class Access:
    """How a knob reaches the loop."""

    kind: BindingKind
    why_fixed: str | None = None
    """Why it keeps its value: fixed, out of reach, or without effect here."""


def access_of(knob: str, context: SearchContext) -> Access:
    """Return how a knob reaches the loop; FIXED, with the reason, if it doesn't or has no effect."""
    binding = context.target.binding_of(knob)
    if binding is not None and binding.kind is BindingKind.FIXED:
        return Access(BindingKind.FIXED, "bound as fixed")
    why = why_inert(knob, context)
    if why is None and binding is not None and context.target.is_bound(knob):
        return Access(binding.kind)
    why = why or _why_inaccessible(knob, context)
    return Access(BindingKind.FIXED if why else BindingKind.INJECT, why)


def why_inert(knob: str, context: SearchContext) -> str | None:
    """Return why a knob has no effect here, however it is bound, or None."""
    discovery = context.discovery
    if knob == "pin_memory" and discovery.device_type != "cuda":
        return f"no effect on {discovery.device_type}"
    if knob == "channels_last" and discovery.roots and not any(r.has_4d_weights for r in discovery.roots):
        return "no 4-D weights, so no effect"
    if knob == "compile" and context.profile.compile_supported is False:
        return f"torch.compile does not support {context.profile.id}"
    return None


def _why_inaccessible(knob: str, context: SearchContext) -> str | None:
    """Return why the agent can't set a knob inside the process, or None."""
    if KNOB[knob].place is Place.MODEL:
        return why_not_in_roots(knob, context.discovery, context.baseline)
    hint = _bind_hint(knob, context.discovery, context.baseline, context.target)
    if KNOB[knob].place is Place.LOOP:
        return f"only the script can change it; {hint}"
    loader = context.discovery.training_loader
    if loader is None:
        return "the script trains without a DataLoader" + (f"; {hint}" if knob == "batch_size" else "")
    if knob == "batch_size" and not loader.batch_size_bound:
        return f"the script makes its batches with a sampler of its own; {hint}"
    if knob == "persistent_workers" and context.changing and not context.baseline.persistent_workers:
        names = ", ".join(context.changing)
        return f"the data set changes between epochs ({names}), which persistent workers would not see"
    is_of_workers = knob == "num_workers" or KNOB[knob].needs_workers
    is_insisted = context.target.binding_of("num_workers") is not None
    if is_of_workers and loader.iterable and not loader.shards_itself and not is_insisted:
        return (
            "the iterable data set does not ask which worker it is in, so every worker may repeat its "
            "samples; if it shards some other way: --bind num_workers=inject"
        )
    return None


def why_not_in_roots(knob: str, discovery: Discovery, baseline: TrainConfig) -> str | None:
    """Return why the agent can't set a knob of the modules on any device, or None."""
    autocast = [discovery.autocast_dtype, *(root.autocast_dtype for root in discovery.roots)]
    if any(autocast) if knob == "precision" else getattr(baseline, knob):
        return f"the script sets it by itself; {_bind_hint(knob, discovery, baseline)}"
    if not discovery.roots or not discovery.roots_cover_step:
        return "no outermost module owns all the parameters that are stepped"
    if knob == "channels_last" and any("DistributedDataParallel" in r.class_name for r in discovery.roots):
        return "DistributedDataParallel keeps the memory format that its module had when wrapped"
    return None


def _bind_hint(knob: str, discovery: Discovery, baseline: TrainConfig, target: Target | None = None) -> str:
    return f"needs {binding_hint(knob, discovery, getattr(baseline, knob), target)}"
