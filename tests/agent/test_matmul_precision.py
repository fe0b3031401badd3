"""Float32 matmul precision by torch's two interfaces: what is told is what holds, and what is set holds."""

from collections.abc import Iterator

import pytest
import torch
from _tunekit_agent.model.knobs import matmul_precision, set_matmul_precision

MATMUL = torch.backends.cuda.matmul

pytestmark = pytest.mark.skipif(
    not hasattr(torch.backends, "fp32_precision"), reason="this torch has but one interface"
)


@pytest.fixture(autouse=True)
def torch_as_it_was() -> Iterator[None]:
    """Leave both interfaces as torch has them at first."""
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("older", "newer", "holds"), [("highest", "tf32", "high"), ("high", "ieee", "highest")]
)
def test_the_newer_interface_is_what_holds_on_a_gpu(older: str, newer: str, holds: str) -> None:
    torch.set_float32_matmul_precision(older)
    MATMUL.fp32_precision = newer
    assert matmul_precision(torch, "cuda") == holds


@pytest.mark.parametrize("older", ["highest", "high", "medium"])
def test_the_older_word_is_kept_where_both_agree(older: str) -> None:
    torch.set_float32_matmul_precision(older)
    assert matmul_precision(torch, "cuda") == matmul_precision(torch, "cpu") == older


@pytest.mark.parametrize("newer", ["tf32", "ieee"])
@pytest.mark.parametrize(("precision", "holds"), [("tf32", "high"), ("fp32", "highest")])
def test_what_is_set_holds_whichever_the_script_used(newer: str, precision: str, holds: str) -> None:
    MATMUL.fp32_precision = newer
    set_matmul_precision(torch, precision, "cuda")
    assert matmul_precision(torch, "cuda") == holds
    assert MATMUL.fp32_precision == {"high": "tf32", "highest": "ieee"}[holds]
