"""Where the device's time goes, by events on its stream that are read once they have come to pass."""

from __future__ import annotations

from typing import Any


class DeviceTimes:
    """Marks the turns of each loop batch on the device's own timeline; a CPU has none.

    Args:
        torch: the torch module of the script.
        device_type: "cuda" or another, of the roots.
    """

    def __init__(self, torch: Any, device_type: str) -> None:
        self._torch = torch

    def open(self) -> None:
        """The steady window opens: batches count from here on."""

    def asked(self, counts: bool) -> None:
        """The loop asks for its next batch.

        Args:
            counts: whether the batch that ends here belongs to the window.
        """

    def fetched(self) -> None:
        """The loop has a batch in its hands."""

    def step_began(self) -> None:
        """An optimizer begins a step."""

    def step_ended(self) -> None:
        """An optimizer ended its step."""

    def facts(self) -> dict | None:
        """Return the plain facts of a DeviceParts record once the window is closed; None without a device."""
        return None
