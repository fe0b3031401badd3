"""What the script sets by itself, so that no knob is applied twice."""

from __future__ import annotations

import functools
import threading
from typing import Any


class AutocastWatch:
    """Sees the autocasts that the script enters while its loop is learnt.

    Attributes:
        dtype: of the last one that was enabled, such as "bfloat16"; None when there was none.
    """

    def __init__(self) -> None:
        self.dtype: str | None = None
        self._class: Any = None
        self._thread = threading.get_ident()

    def install(self, module: Any) -> None:
        """Wrap `autocast.__enter__` in `torch.amp.autocast_mode` until `stop`."""
        self._class = module.autocast
        self._original = original = module.autocast.__enter__

        @functools.wraps(original)
        def __enter__(context):  # noqa: N807
            if getattr(context, "_enabled", False) and threading.get_ident() == self._thread:
                self.dtype = str(getattr(context, "fast_dtype", None)).replace("torch.", "")
            return original(context)

        module.autocast.__enter__ = __enter__

    def stop(self) -> None:
        """Restore autocast."""
        if self._class is not None:
            self._class.__enter__ = self._original
            self._class = None
