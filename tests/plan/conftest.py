"""GPUs whose speed is known by hand: a GPU with twice of everything is twice as fast, give or take 11.8%."""

import pytest

from tunekit.predict import speed_ratio
from tunekit.predict.speed_model import Arithmetic, published


@pytest.fixture(autouse=True)
def _plain_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = published().changed(
        ratio_exponents=dict.fromkeys(Arithmetic, (0.5, 0.5)),
        ratio_factors={},
        ratio_range=1.118,
        unknown_gpu_ratio_range=1.118,
    )
    monkeypatch.setattr(speed_ratio, "published", lambda: plain)
