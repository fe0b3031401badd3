"""Operations of one op, by its shapes: each formula against a product written out."""

from dataclasses import dataclass
from math import prod

import pytest
from _tunekit_agent.trace import op_costs
from fake_trainings import IS_KNOWN, NOT_KNOWN, told_of


@dataclass(frozen=True)
class Shaped:
    """Of a tensor, what the formulas ask for."""

    shape: tuple[int, ...]

    def numel(self) -> int:
        return prod(self.shape)


def shaped(*shape: int) -> Shaped:
    return Shaped(shape)


def test_a_linear_layer_multiplies_each_input_with_each_weight():
    bias, inputs, weights, outputs = shaped(30), shaped(8, 20), shaped(20, 30), shaped(8, 30)
    assert op_costs.flops("mm", (inputs, weights), outputs) == 2 * 8 * 20 * 30
    assert op_costs.flops("addmm", (bias, inputs, weights), outputs) == 2 * 8 * 20 * 30


def test_a_batch_of_products_counts_each():
    left, right, made = shaped(5, 8, 20), shaped(5, 20, 30), shaped(5, 8, 30)
    assert op_costs.flops("bmm", (left, right), made) == 5 * 2 * 8 * 20 * 30
    assert op_costs.flops("baddbmm", (made, left, right), made) == 5 * 2 * 8 * 20 * 30


def convolution(is_transposed: bool, *tensors: Shaped, tail: tuple = ()) -> tuple:
    return (*tensors, [1, 1], [1, 1], [1, 1], is_transposed, [0, 0], 1, *tail)


def test_a_convolution_multiplies_each_weight_at_each_place_of_its_output():
    """The first layer of ResNet-50: 118,013,952 multiplications of an image."""
    images, weights, made = shaped(4, 3, 224, 224), shaped(64, 3, 7, 7), shaped(4, 64, 112, 112)
    once = op_costs.flops("convolution", convolution(False, images, weights, None), made)
    assert once == 2 * 4 * 118_013_952
    both = convolution(False, made, images, weights, [0], tail=([True, True, False],))
    of_weights = convolution(False, made, images, weights, [0], tail=([False, True, False],))
    assert op_costs.flops("convolution_backward", both, None) == 2 * once
    assert op_costs.flops("convolution_backward", of_weights, None) == once


def test_groups_divide_the_work():
    """A depthwise layer's weights have one input channel."""
    images, made = shaped(2, 32, 16, 16), shaped(2, 32, 16, 16)
    grouped = op_costs.flops("convolution", convolution(False, images, shaped(32, 1, 3, 3), None), made)
    assert grouped == 2 * 2 * 32 * 16 * 16 * 9


def test_a_transposed_convolution_works_at_each_place_of_its_input():
    images, weights, made = shaped(2, 16, 8, 8), shaped(16, 4, 2, 2), shaped(2, 4, 16, 16)
    once = op_costs.flops("convolution", convolution(True, images, weights, None), made)
    assert once == 2 * 2 * 8 * 8 * 16 * 4 * 2 * 2


@pytest.mark.parametrize(
    "name", ["_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"]
)
def test_attention_is_two_products_of_a_square(name: str):
    part = shaped(2, 12, 1024, 64)
    forward = op_costs.flops(name, (part, part, part, None, True), None)
    assert forward == 2 * (2 * 2 * 12 * 1024 * 1024 * 64)
    backward = op_costs.flops(f"{name}_backward", (part, part, part, part), None)
    assert backward == 2.5 * forward


def test_an_lstm_multiplies_its_inputs_and_its_state_with_four_gates():
    inputs, state = shaped(10, 4, 32), shaped(1, 4, 48)
    weights = [shaped(192, 32), shaped(192, 48), shaped(192), shaped(192)]
    forward = op_costs.flops("_cudnn_rnn", (inputs, weights, 4, None, state, state), None)
    assert forward == 2 * 40 * 192 * (32 + 48)
    assert op_costs.flops("_cudnn_rnn_backward", (inputs, weights, 4), None) == 2 * forward


@pytest.mark.parametrize("name", ["add", "relu_", "native_batch_norm", "_foreach_add_", "embedding"])
def test_the_rest_is_bound_by_memory(name: str):
    assert op_costs.flops(name, (shaped(8, 8), shaped(8, 8)), shaped(8, 8)) == 0


@pytest.mark.real
@pytest.mark.skipif(not IS_KNOWN, reason=NOT_KNOWN)
def test_a_traced_step_has_the_operations_of_its_layers():
    """A CNN: forward, and both gradients of each layer but the first, whose input needs none."""
    (told,) = told_of(("cnn",), sizes=()).values()
    layers = [16 * 3 * 9 * 32 * 32, 32 * 16 * 9 * 16 * 16, 32 * 10]
    assert told["flops"] == 8 * 2 * (3 * sum(layers) - layers[0])
