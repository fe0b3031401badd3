"""Parameters, buffers, gradients and optimizer state of real modules."""

from types import SimpleNamespace

import torch
from _tunekit_agent.measure.record import model_bytes
from torch import nn

from tunekit.records.attribution import ModelBytes

PARAMETERS = (10 * 20 + 20) * 4 + 2 * 20 * 4
BUFFERS = 2 * 20 * 4 + 8


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20))


def reported(*modules: nn.Module, optimizers: tuple[object, ...] = ()) -> ModelBytes:
    facts = model_bytes([SimpleNamespace(module=module) for module in modules], list(optimizers))
    return ModelBytes.model_validate(facts)


def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    module(torch.randn(4, 10)).sum().backward()
    optimizer.step()


def test_adam_keeps_two_moments_and_a_count_for_each_parameter() -> None:
    module = model()
    optimizer = torch.optim.Adam(module.parameters())
    step(module, optimizer)
    bytes_seen = reported(module, optimizers=(optimizer,))
    assert bytes_seen.parameters_bytes == PARAMETERS
    assert bytes_seen.buffers_bytes == BUFFERS
    assert bytes_seen.gradients_bytes == PARAMETERS
    assert bytes_seen.optimizer_bytes == 2 * PARAMETERS + 4 * 4
    assert not bytes_seen.gradients_are_predicted


def test_the_history_of_lbfgs_is_found_in_its_lists() -> None:
    module = nn.Linear(10, 1)
    optimizer = torch.optim.LBFGS(module.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (module(torch.ones(4, 10)) - 1).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert reported(module, optimizers=(optimizer,)).optimizer_bytes >= 3 * 11 * 4


def test_freed_gradients_are_predicted_from_what_requires_one() -> None:
    module = model()
    module[0].requires_grad_(False)
    assert reported(module).gradients_bytes == 2 * 20 * 4
    assert reported(module).gradients_are_predicted
    assert reported(module).frozen_bytes == (10 * 20 + 20) * 4
    assert reported(module.half()).gradients_bytes == 2 * 20 * 2


def test_tied_weights_count_once() -> None:
    first, second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)
    second.weight = first.weight
    bytes_seen = reported(first, second)
    assert bytes_seen.parameters_bytes == 400
    assert bytes_seen.gradients_bytes == 400


def test_what_lies_on_another_device_does_not_count() -> None:
    module = nn.Sequential(nn.Linear(10, 10, bias=False), nn.Linear(10, 10, device="meta"))
    assert reported(module).parameters_bytes == 400
    assert reported(nn.Sequential(*reversed(module))).parameters_bytes == 400
