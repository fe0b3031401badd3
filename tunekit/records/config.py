"""The table of knobs, and a config: a value for every knob.

A knob is an entry of TABLE and a field of TrainConfig, or of LoaderKnobs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from tunekit.records.base import Record

KnobValue = bool | int | str | None

USUAL_PREFETCH = 2
"""torch's default for the batches that each worker keeps ready."""


class Precision(StrEnum):
    """Arithmetic of the training step."""

    FP32 = "fp32"
    """float32; matmuls in IEEE float32 (matmul precision "highest")."""
    TF32 = "tf32"
    """float32 storage, TF32 tensor cores in matmuls (matmul precision "high")."""
    BF16 = "bf16"
    """bfloat16 autocast over float32 parameters."""
    FP16 = "fp16"
    """float16 autocast over float32 parameters; needs a gradient scaler in the script."""

    @property
    def alike(self) -> "Precision":
        """The other precision that uses the same amount of memory."""
        pairs = (Precision.FP32, Precision.TF32), (Precision.BF16, Precision.FP16)
        return next(one for pair in pairs if self in pair for one in pair if one is not self)


class Place(StrEnum):
    """Where a knob is set in a script; the agent can set it there, except in the loop."""

    LOADER = "loader"
    MODEL = "model"
    LOOP = "loop"


@dataclass(frozen=True)
class Knob:
    """A knob's properties apart from its value; one without `least` and `choices` is a switch."""

    name: str
    place: Place
    least: int | None = None
    """Smallest value of a whole-number knob."""
    choices: tuple[str, ...] = ()
    """The possible values of a knob that takes words."""
    needs_workers: bool = False
    off: KnobValue = False
    """The value that has no effect; a knob that needs workers has it without any."""
    label: str = ""
    """Its short name, if it has one."""
    seen_as: str = ""
    """Names that scripts and command lines use for it, without separators, the clearest first."""
    code: Mapping[KnobValue, str] = field(default_factory=dict)
    """How a script's code sets each value, if that isn't obvious from name and value."""

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return self.least is None and not self.choices

    @property
    def shown(self) -> str:
        """The name that tables and one-line lists use."""
        return self.label or self.name


TABLE = (
    Knob(
        "batch_size",
        Place.LOADER,
        least=1,
        label="batch",
        seen_as="""
            batchsize perdevicetrainbatchsize trainbatchsize microbatchsize perdevicebatchsize pergpubatchsize
            pergputrainbatchsize batchsizeperdevice batchsizepergpu devicebatchsize localbatchsize
            minibatchsize minibatch batchsizetrain trainbatch batch bsz bs mbs b samplespergpu imgspergpu
            imsperbatch maxsentences globalbatchsize totalbatchsize
        """,
    ),
    Knob(
        "num_workers",
        Place.LOADER,
        least=0,
        label="workers",
        off=0,
        seen_as="""
            numworkers dataloadernumworkers loadernumworkers numdataloaderworkers dataloaderworkers
            loaderworkers dataworkers workerspergpu workers worker nworkers nworker numthreads nthreads jobs j
        """,
    ),
    Knob(
        "prefetch_factor",
        Place.LOADER,
        least=1,
        label="prefetch",
        needs_workers=True,
        off=None,
        seen_as="prefetchfactor dataloaderprefetchfactor prefetchbatches prefetch",
    ),
    Knob(
        "pin_memory", Place.LOADER, label="pinned", seen_as="pinmemory dataloaderpinmemory pinmem pin pinned"
    ),
    Knob(
        "persistent_workers",
        Place.LOADER,
        needs_workers=True,
        label="persistent",
        seen_as="persistentworkers dataloaderpersistentworkers persistent",
    ),
    Knob(
        "compile",
        Place.MODEL,
        seen_as="torchcompile compile usecompile compilemodel torchcompilemodel",
        code={True: "torch.compile(model)", False: "no torch.compile"},
    ),
    Knob(
        "precision",
        Place.MODEL,
        choices=tuple(Precision),
        off=Precision.FP32,
        seen_as="precision mixedprecision ampdtype dtype torchdtype",
        code={
            Precision.FP32: "no autocast",
            Precision.TF32: "torch.set_float32_matmul_precision('high')",
            Precision.BF16: "torch.autocast(..., dtype=torch.bfloat16) around forward and loss",
            Precision.FP16: "torch.autocast(..., dtype=torch.float16) with a GradScaler",
        },
    ),
    Knob(
        "channels_last",
        Place.MODEL,
        seen_as="channelslast nhwc memoryformat",
        code={
            True: "model.to(memory_format=torch.channels_last), and its input too",
            False: "model.to(memory_format=torch.contiguous_format), and its input too",
        },
    ),
    Knob(
        "accumulate_grad_batches",
        Place.LOOP,
        least=1,
        label="accumulate",
        off=1,
        seen_as="""
            accumulategradbatches gradientaccumulationsteps gradaccumulationsteps gradientaccumulation
            gradaccumulation accumulationsteps gradaccumsteps accumsteps gradaccum accumiter accumulate accum
            updatefreq itersize
        """,
    ),
)
"""Every knob, in the order in which they are shown."""

KNOB = {knob.name: knob for knob in TABLE}
"""The knobs of the table by name."""

KNOBS = tuple(KNOB)

LOADER_KNOBS = tuple(knob.name for knob in TABLE if knob.place is Place.LOADER)
"""Knobs of the training loader."""

MODEL_KNOBS = tuple(knob.name for knob in TABLE if knob.place is Place.MODEL)
"""Knobs that are set on the root modules."""

INJECTED_KNOBS = (*LOADER_KNOBS, *MODEL_KNOBS)
"""Knobs that the agent can set inside the process."""

SWITCH_KNOBS = tuple(knob.name for knob in TABLE if knob.is_switch)
"""Knobs that are true or false."""

NUMERIC_KNOBS = tuple(knob.name for knob in TABLE if knob.least is not None and knob.place is Place.LOADER)
"""Knobs that `--range` can bound."""

MODEL_SWITCHES = tuple(knob for knob in SWITCH_KNOBS if knob in MODEL_KNOBS)

WORKER_KNOBS = {knob.name: knob.off for knob in TABLE if knob.needs_workers}
"""Knobs that have no effect without workers, and the value that they then have."""


class LoaderKnobs(Record):
    """The loader's knobs as set in a training process."""

    batch_size: PositiveInt | None
    """None if the script makes its own batches."""
    num_workers: NonNegativeInt
    """Loader processes per device; 0 loads in the main process."""
    prefetch_factor: PositiveInt | None
    """Batches that each worker keeps ready; None with 0 workers."""
    pin_memory: bool
    persistent_workers: bool


class TrainConfig(LoaderKnobs):
    """A value for every knob of one training loop."""

    batch_size: PositiveInt
    """Samples per batch and device."""
    compile: bool
    precision: Precision
    channels_last: bool
    accumulate_grad_batches: PositiveInt = 1
    """Batches per optimizer step."""

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if self.num_workers == 0 and self.prefetch_factor is not None:
            raise ValueError(f"prefetch_factor must be null with num_workers 0, got {self.prefetch_factor}")
        if self.num_workers == 0 and self.persistent_workers:
            raise ValueError("persistent_workers must be false with num_workers 0")
        if self.num_workers > 0 and self.prefetch_factor is None:
            raise ValueError(
                f"prefetch_factor must be at least 1 with num_workers {self.num_workers}, got null"
            )
        return self

    def changed(self, **values: Any) -> Self:
        """Return the config with other values of some knobs.

        Without workers, prefetch_factor and persistent_workers are reset whatever was asked for. When workers
        are added and no prefetch_factor is given, torch's default applies.
        """
        if values.get("num_workers", self.num_workers) == 0:
            values |= WORKER_KNOBS
        elif self.prefetch_factor is None:
            values.setdefault("prefetch_factor", USUAL_PREFETCH)
        return super().changed(**values)

    @property
    def switched_on(self) -> list[str]:
        """Names of the switches that are on, those of the workers first."""
        switches = sorted((knob for knob in TABLE if knob.is_switch), key=lambda knob: not knob.needs_workers)
        return [knob.shown for knob in switches if getattr(self, knob.name)]

    @property
    def queue_batches(self) -> int:
        """Batches that the workers keep ready: workers x prefetch."""
        return self.num_workers * (self.prefetch_factor or 0)

    def batch_bytes(self, bytes_per_sample: float) -> float:
        """Return the size of one batch."""
        return self.batch_size * bytes_per_sample
