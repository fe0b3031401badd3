"""Facts about a GPU model and the machines it can be rented in."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import Precision
from tunekit.units import MIB

PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp8")
"""Precisions that a device may compute in."""


def _seen_text(seen: object) -> object:
    """Return a day, a month or a year as text; YAML reads those without quotes as dates and numbers."""
    is_year = isinstance(seen, int) and not isinstance(seen, bool)
    text = str(seen)[:10] if is_year or isinstance(seen, date) else seen
    if isinstance(text, str):
        try:
            date(*(*map(int, text.split("-")), 1, 1)[:3])
        except ValueError:
            raise ValueError("not a date; write 2026-03-10, 2026-03 or 2026") from None
    return text


_PATTERN = r"^[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?$"
SeenOn = Annotated[str, Field(pattern=_PATTERN), BeforeValidator(_seen_text)]
"""A day, a month or a year."""
Memory = Annotated[int, Field(ge=MIB, le=2**46)]
"""Bytes; a figure given in MiB or GiB is out of range."""
Tflops = Annotated[float, Field(ge=0.05, le=20_000)]
"""Dense TFLOPS; a figure given in GFLOPS is out of range for most GPUs."""


class FactConfidence(StrEnum):
    """How reliable a group of facts is."""

    HIGH = "high"
    """Read from the device or a datasheet, by two sources that agree."""
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"
    """No figure is claimed."""


class FactGroup(Record):
    """Where a group of a profile's figures comes from."""

    source: str
    confidence: FactConfidence


class ProfileFacts(Record):
    """The sources of a profile, by group of figures."""

    memory: FactGroup
    """memory_bytes, torch_memory_bytes, bandwidth_gb_per_s."""
    rates: FactGroup
    """TFLOPS, achievable fraction, native precisions."""
    device: FactGroup
    """Architecture, compute capability, multiprocessors, power, PCIe, NVLink."""
    software: FactGroup
    """Compile support, and the torch builds that still support it."""


class SpotPrice(Record):
    """Observed prices of an interruptible machine: a range over zones and days, never a single discount."""

    low_usd_per_h: PositiveFloat
    high_usd_per_h: PositiveFloat
    as_of: SeenOn
    where: str | None = None
    """Zones where the range was observed."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low_usd_per_h > self.high_usd_per_h:
            raise ValueError(
                f"low_usd_per_h {self.low_usd_per_h} is above high_usd_per_h {self.high_usd_per_h}; swap them"
            )
        return self


class Subscription(Record):
    """A subscription that adds compute units to a prepaid balance each month (Colab Pro)."""

    name: str
    usd_per_month: PositiveFloat
    units_per_month: PositiveFloat
    as_of: SeenOn
    source: str


class UnitPack(Record):
    """A one-off purchase of compute units, with or without a subscription."""

    units: PositiveFloat
    usd: PositiveFloat
    as_of: SeenOn
    source: str


class Instance(Record):
    """One rentable machine with this GPU."""

    provider: str
    name: str
    gpus: PositiveInt
    vcpus: PositiveInt | None
    ram_gb: PositiveFloat | None
    """Memory as the provider states it, in decimal GB."""
    usd_per_h: NonNegativeFloat | None
    """On-demand price of the whole machine; 0 if free, None if only a part of the price is known."""
    spot: SpotPrice | None = None
    compute_units_per_h: PositiveFloat | None = None
    """Compute units that an hour takes from a prepaid balance (Colab); usd_per_h is then their price."""
    subscriptions: tuple[Subscription, ...] = ()
    """Subscriptions that fill that balance each month."""
    unit_packs: tuple[UnitPack, ...] = ()
    """One-off purchases that fill that balance."""
    hours_per_week: Annotated[float, Field(gt=0, le=168)] | None = None
    """Weekly quota of the machine's hours (Kaggle); None for unlimited."""
    max_session_h: PositiveFloat | None = None
    """Longest session of the service; None if it has no sessions or their limit is unknown."""
    region: str | None
    as_of: SeenOn
    """Day, month or year when the price was observed."""
    source: str
    confidence: FactConfidence
    notes: str | None = None
    is_refreshed: bool = False
    """Whether its on-demand price comes from a catalogue and not from the profile."""

    @property
    def full_name(self) -> str:
        """Its name after its provider's."""
        return f"{self.provider} {self.name}"


class TakenName(Record):
    """A GPU name that resolved to a profile with another id."""

    typed: str
    profile_id: str
    others: tuple[str, ...]
    """Ids of other profiles in the same family that it might have meant."""


_OLDEST_CAPABILITY = (5, 0)
"""The lowest compute capability that CUDA 12 compiles for (its release notes): it dropped Kepler."""
NO_TORCH_BUILD = "no build of torch for CUDA 12 or later has code for its generation"
"""The obstacle for a GPU that is too old."""


class Profile(Record):
    """Facts about one GPU model. Unknown facts are None, never guesses."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    device_names: tuple[str, ...] = Field(min_length=1)
    """Names by which drivers report the device."""
    aliases: tuple[str, ...] = ()
    """Other ids that `--gpu` accepts for it."""
    architecture: str | None
    compute_capability: str | None = Field(pattern=r"^[0-9]{1,2}\.[0-9]$")
    multiprocessors: PositiveInt | None
    """Number of streaming multiprocessors, or of GPU cores on Apple chips."""
    memory_bytes: Memory | None
    """Memory as the driver reports it, not the marketing figure; None if it shares the machine's RAM."""
    torch_memory_bytes: Memory | None
    """Memory as torch sees it: the smallest value observed."""
    bandwidth_gb_per_s: Annotated[float, Field(ge=5, le=50_000)] | None
    """Bandwidth of the device memory, in decimal GB per second."""
    fp32_tflops: Annotated[float, Field(ge=0.05, le=1_000)] | None
    tf32_tflops: Tflops | None
    """All rates are dense, on tensor cores with FP32 accumulation."""
    fp16_tflops: Tflops | None
    bf16_tflops: Tflops | None
    fp8_tflops: Tflops | None
    achievable_bf16_fraction: float | None = Field(gt=0, le=1)
    """Best published matmul rate, as a share of the dense peak."""
    native_precisions: tuple[Annotated[str, Field(pattern=f"^({'|'.join(PRECISIONS)})$")], ...]
    """Those of fp32, tf32, bf16, fp16 and fp8 that the device computes without emulation."""
    tdp_w: Annotated[float, Field(ge=1, le=5_000)] | None
    pcie_generation: PositiveInt | None
    pcie_lanes: PositiveInt | None
    nvlink_gb_per_s: Annotated[float, Field(ge=0, le=20_000)] | None
    """Both directions together, as in datasheets; 0 for a device without NVLink."""
    compile_supported: bool | None
    compile_note: str | None = None
    torch_builds: str | None = None
    """The CUDA builds of torch that still contain code for it."""
    notes: str | None = None
    facts: ProfileFacts
    instances: tuple[Instance, ...] = ()
    is_read_from_device: bool = False
    """Whether it was derived from what the device reports, since no profile matches its name."""

    @property
    def capacity_bytes(self) -> int | None:
        """Memory as torch sees it, else as the driver does; None if unknown."""
        return self.torch_memory_bytes or self.memory_bytes

    @property
    def has_own_memory(self) -> bool:
        """Whether it describes a GPU with known dedicated memory: not a CPU or an Apple chip."""
        return not self.is_cpu and self.capacity_bytes is not None

    @property
    def runs_current_torch(self) -> bool:
        """Whether a build of torch for CUDA 12 or later may contain code for its generation."""
        if self.compute_capability is None:
            return True
        return tuple(map(int, self.compute_capability.split("."))) >= _OLDEST_CAPABILITY

    def precision_for(self, precision: Precision) -> Precision | None:
        """Return the precision to use here: the other 16-bit one if only that is native; None if neither is.

        Without TF32, torch computes in float32 instead.
        """
        if str(precision) in self.native_precisions or precision is Precision.FP32:
            return precision
        is_native = precision is Precision.TF32 or str(precision.alike) in self.native_precisions
        return precision.alike if is_native else None

    @property
    def is_cpu(self) -> bool:
        """Whether this is the profile of training without an accelerator."""
        return self.id == "cpu"


class GpuProfiles(Record):
    """The profiles that `tunekit gpus` shows."""

    schema_version: Literal[1] = SCHEMA_VERSION
    profiles: tuple[Profile, ...]
