"""The random states of a script: kept, and put back after something of ours has drawn from them."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Iterator


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put back the states of Python's, NumPy's and torch's global generators at the end of a block.

    Of modules that the script has imported; those of CUDA devices too once one is in use. Generators of the
    script's own are beyond reach.
    """
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    of_python = random.getstate()
    of_numpy = numpy.get_state() if numpy is not None else None
    of_torch = torch.get_rng_state() if torch is not None else None
    of_devices: Any = cuda.get_rng_state_all() if cuda is not None and cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(of_python)
        if numpy is not None:
            numpy.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)
        if of_devices is not None:
            cuda.set_rng_state_all(of_devices)
