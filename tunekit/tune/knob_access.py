"""How each knob reaches the loop on this target and device, and why some don't."""

import math
from dataclasses import dataclass

from tunekit.predict.throughput.boundary import Boundary
from tunekit.records.config import LOADER_KNOBS, WORKER_KNOBS, TrainConfig
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.records.target import BindingKind, Discovery, Target
from tunekit.trial.binding_suggestions import binding_hint


@dataclass(frozen=True)
class SearchContext:
    """What bounds the space: the machine, the device, the target and what the baseline learnt of it."""

    host: Host
    """Its share that one rank can use."""
    profile: Profile
    """Of the device that is really here."""
    native_bf16: bool | None
    discovery: Discovery
    baseline: TrainConfig
    target: Target
    boundary: Boundary | None = None
    """What an epoch's end costs, as the first measured trial has it; None before one."""
    cpus_per_worker: float = 1.0
    """That each loader worker keeps busy."""
    most_workers: float = math.inf
    """Beyond which more were seen to bring nothing."""
    changing: tuple[str, ...] = ()
    """What the script changes in its data set between epochs."""


@dataclass(frozen=True)
class Access:
    """How a knob reaches the loop."""

    kind: BindingKind
    why_fixed: str | None = None
    """Why it is left as it is: fixed, out of reach, or without effect here."""


def access_of(knob: str, context: SearchContext) -> Access:
    """Return how a knob reaches the loop; FIXED, with the reason, when it does not or has no effect."""
    binding = context.target.binding_of(knob)
    if binding is not None and binding.kind is BindingKind.FIXED:
        return Access(BindingKind.FIXED, "bound as fixed")
    inert = why_inert(knob, context)
    if inert is not None:
        return Access(BindingKind.FIXED, inert)
    if binding is not None and context.target.is_bound(knob):
        return Access(binding.kind)
    insisted = context.target.binding_of("num_workers" if knob in WORKER_KNOBS else knob) is not None
    inaccessible = _why_inaccessible(knob, context, insisted=insisted)
    if inaccessible is not None:
        return Access(BindingKind.FIXED, inaccessible)
    return Access(BindingKind.INJECT)


def why_inert(knob: str, context: SearchContext) -> str | None:
    """Return why a knob has no effect here, however it is bound."""
    discovery = context.discovery
    if knob == "pin_memory" and discovery.device_type != "cuda":
        return f"no effect on {discovery.device_type}"
    if knob == "channels_last" and discovery.roots and not any(r.has_4d_weights for r in discovery.roots):
        return "no 4-D weights, so no effect"
    if knob == "compile" and context.profile.compile_supported is False:
        return f"torch.compile does not support {context.profile.id}"
    return None


def _why_inaccessible(knob: str, context: SearchContext, insisted: bool) -> str | None:
    """Return why the agent can't set a knob inside the process."""
    if knob == "accumulate_grad_batches":
        hint = _bind_hint(knob, context.discovery, context.baseline, context.target)
        return f"only the script can change it; {hint}"
    if knob in LOADER_KNOBS:
        return _why_not_in_loader(knob, context, insisted)
    return why_not_in_roots(knob, context.discovery, context.baseline)


def _why_not_in_loader(knob: str, context: SearchContext, insisted: bool) -> str | None:
    loader = context.discovery.training_loader
    hint = _bind_hint(knob, context.discovery, context.baseline, context.target)
    if loader is None:
        return "the script trains without a DataLoader" + (f"; {hint}" if knob == "batch_size" else "")
    if knob == "batch_size" and not loader.batch_size_bound:
        return f"the script makes its batches with a sampler of its own; {hint}"
    if knob == "persistent_workers" and context.changing and not context.baseline.persistent_workers:
        names = ", ".join(context.changing)
        return f"the data set changes between epochs ({names}), which persistent workers would not see"
    worker_knob = knob == "num_workers" or knob in WORKER_KNOBS
    if worker_knob and loader.iterable and not loader.shards_itself and not insisted:
        return (
            "the iterable data set does not ask which worker it is in, so every worker may repeat its "
            "samples; if it shards some other way: --bind num_workers=inject"
        )
    return None


def why_not_in_roots(knob: str, discovery: Discovery, baseline: TrainConfig) -> str | None:
    """Return why the agent can't set a knob of the modules, whatever the device."""
    own = f"the script sets it by itself; {_bind_hint(knob, discovery, baseline)}"
    if knob == "compile" and baseline.compile:
        return own
    if knob == "channels_last" and baseline.channels_last:
        return own
    sets_dtype = discovery.autocast_dtype or any(root.autocast_dtype for root in discovery.roots)
    if knob == "precision" and sets_dtype:
        return own
    if not discovery.roots or not discovery.roots_cover_step:
        return "no outermost module owns all the parameters that are stepped"
    return None


def _bind_hint(knob: str, discovery: Discovery, baseline: TrainConfig, target: Target | None = None) -> str:
    return f"needs {binding_hint(knob, discovery, getattr(baseline, knob), target)}"
