"""What torch can have of a GPU's memory. Pure."""

from dataclasses import dataclass

from tunekit.records.prediction import OutsideTorch
from tunekit.records.profile import Profile


@dataclass(frozen=True)
class Room:
    """What torch can reserve of a GPU's memory beside cuDNN's workspaces, in bytes; 0 for nothing."""

    least_bytes: int
    most_bytes: int

    @property
    def middle_bytes(self) -> int:
        """Half-way between both."""
        return (self.least_bytes + self.most_bytes) // 2


def room_of(capacity_bytes: int, outside: OutsideTorch) -> Room:
    """Return what torch can reserve.

    Args:
        capacity_bytes: of the device, as torch sees it.
        outside: what its memory holds beside torch's tensors.
    """
    context, workspace = outside.context, outside.workspace
    return Room(
        least_bytes=max(0, capacity_bytes - context.high - workspace.high),
        most_bytes=max(0, capacity_bytes - context.low - workspace.low),
    )


def capacity_bytes(profile: Profile) -> int | None:
    """Return the memory of a GPU as torch sees it, else as the driver does; None where it is not known."""
    return profile.torch_memory_bytes or profile.memory_bytes


def has_own_memory(profile: Profile) -> bool:
    """Return whether it is of a GPU whose own memory is known: not a CPU, nor an Apple chip."""
    return not profile.is_cpu and capacity_bytes(profile) is not None
