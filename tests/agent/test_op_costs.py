"""Arithmetic and traffic of real ops, against torch's own count where it has one."""

from collections.abc import Callable

import pytest
import torch
from _tunekit_agent.stages.trace.op_costs import flop_formulas
from _tunekit_agent.stages.trace.tracer import Tracer
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

FLOAT_BYTES = 4


def trained(module: nn.Module, *shape: int) -> Callable[[], object]:
    """Return forward and backward of a module on inputs that want gradients too."""
    inputs = torch.randn(shape, requires_grad=True)
    return lambda: module(inputs).sum().backward()


def multiplied() -> None:
    left, right = torch.randn(3, 5, 7, requires_grad=True), torch.randn(3, 7, 4, requires_grad=True)
    torch.baddbmm(torch.randn(3, 5, 4), left, right).sum().backward()
    (left @ right).sum().backward()


@pytest.mark.parametrize(
    "run",
    [
        trained(nn.Linear(6, 5), 3, 6),
        trained(nn.Linear(6, 5, bias=False), 2, 3, 6),
        trained(nn.Conv1d(4, 6, 3, padding=1), 2, 4, 9),
        trained(nn.Conv2d(4, 6, 3, stride=2), 2, 4, 9, 9),
        trained(nn.Conv3d(2, 3, 2), 2, 2, 4, 4, 4),
        trained(nn.ConvTranspose2d(4, 6, 3, stride=2), 2, 4, 5, 5),
        multiplied,
    ],
    ids=["linear", "without bias", "1-d", "2-d", "3-d", "transposed", "batched"],
)
def test_arithmetic_is_what_torch_counts(run: Callable[[], object]) -> None:
    with FlopCounterMode(display=False) as counter, Tracer(torch, "cpu") as tracer:
        run()
    ours = sum(flops for _, _, flops, _ in tracer.facts()["ops"])
    assert ours == counter.get_total_flops()
    assert ours > 0


def test_a_frozen_input_costs_no_gradient_of_it() -> None:
    module, wanted, frozen = nn.Conv2d(4, 6, 3), Tracer(torch, "cpu"), Tracer(torch, "cpu")
    with wanted:
        module(torch.randn(2, 4, 8, 8, requires_grad=True)).sum().backward()
    with frozen:
        module(torch.randn(2, 4, 8, 8)).sum().backward()
    costs = [sum(op[2] for op in tracer.facts()["ops"]) for tracer in (frozen, wanted)]
    assert costs[0] * 3 == costs[1] * 2


def test_attention_makes_two_products_and_five_backwards() -> None:
    heads = [torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3)]
    with Tracer(torch, "cpu") as tracer:
        nn.functional.scaled_dot_product_attention(*heads).sum().backward()
    product = 2 * 2 * 4 * 16 * 16 * 8
    assert [op[2] for op in tracer.facts()["ops"] if op[2]] == [2 * product, 5 * product]


def test_torch_counts_matmuls_in_fp8() -> None:
    one = torch.ones(16, 32, dtype=torch.float8_e4m3fn)
    other, scale = torch.ones(16, 32, dtype=torch.float8_e4m3fn).t(), torch.ones(())
    with Tracer(torch, "cpu") as tracer:
        torch._scaled_mm(one, other, scale, scale)
    assert [op[2] for op in tracer.facts()["ops"]] == [2 * 16 * 32 * 16]


def test_a_recurrent_kernel_multiplies_its_weights_at_every_place() -> None:
    inputs = torch.empty(7, 3, 5)
    weights = [torch.empty(24, 5), torch.empty(24, 6), torch.empty(24), torch.empty(24)]
    forward = 2 * 7 * 3 * (24 * 5 + 24 * 6)
    formulas, aten = flop_formulas(torch), torch.ops.aten
    assert formulas[aten._cudnn_rnn](inputs, weights, 4, out_val=inputs) == forward
    assert formulas[aten.mkldnn_rnn_layer](inputs, *weights, out_val=inputs) == forward
    assert formulas[aten._cudnn_rnn_backward](inputs, weights, 4, out_val=inputs) == 2 * forward


@pytest.mark.parametrize(
    ("groups", "is_channels_last", "suffix"),
    [(1, False, ""), (2, False, ".grouped"), (4, False, ".depthwise"), (4, True, ".depthwise.nhwc")],
)
def test_a_convolution_tells_its_groups_and_its_layout(
    groups: int, is_channels_last: bool, suffix: str
) -> None:
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    images = torch.randn(2, 4, 8, 8).to(memory_format=layout).requires_grad_()
    module = nn.Conv2d(4, 8, 3, groups=groups).to(memory_format=layout)
    with Tracer(torch, "cpu") as tracer:
        module(images).sum().backward()
    ops = [op for op in tracer.facts()["ops"] if op[2]]
    assert [op[0] for op in ops] == [f"convolution{suffix}", f"convolution_backward{suffix}"]
    assert ops[1][2] == 2 * ops[0][2]


def moved(run: Callable[[], object]) -> list[tuple[str, int]]:
    with Tracer(torch, "cpu") as tracer:
        run()
    return [(name, moved_bytes) for name, _, _, moved_bytes in tracer.facts()["ops"]]


def test_an_op_reads_and_writes_each_tensor_once() -> None:
    one, other = torch.randn(8, 8), torch.randn(8, 8)
    assert moved(lambda: one + other) == [("add", 3 * 64 * FLOAT_BYTES)]
    assert moved(lambda: one.add_(other)) == [("add_", 3 * 64 * FLOAT_BYTES)]


def test_an_expanded_tensor_is_read_as_often_as_it_lies_there() -> None:
    row = torch.randn(1, 8).expand(1000, 8)
    assert moved(row.sum) == [("sum", (8 + 1) * FLOAT_BYTES)]


def test_views_and_empty_tensors_move_nothing() -> None:
    rows = torch.randn(8, 8)
    assert moved(lambda: (rows.t(), rows[2:], torch.empty(100), rows.detach())) == []


def test_a_list_that_is_changed_in_place_is_written_too() -> None:
    parameters, gradients = [torch.randn(64) for _ in range(3)], [torch.randn(64) for _ in range(3)]
    reported = moved(lambda: torch._foreach_add_(parameters, gradients, alpha=-0.1))
    assert reported == [("_foreach_add_", 3 * 3 * 64 * FLOAT_BYTES)]
