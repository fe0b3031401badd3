"""Steps without their arithmetic: the same tensors come and go, values are plausible, nothing is computed."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from _tunekit_agent.stages.trace import cuda_memory
from _tunekit_agent.stages.trace.dry import DrySteps
from _tunekit_agent.stages.trace.tracer import Tracer
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode


@pytest.fixture
def dry() -> Iterator[DrySteps]:
    steps = DrySteps(torch, lambda: False)
    steps.enter()
    yield steps
    steps.leave()


class Net(nn.Module):
    """A convolution with norm, attention, and a head over tokens that a mask leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(4)
        )
        self.mix = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.stem(images).flatten(2).transpose(1, 2)).mean(1))


def trained(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor
) -> float:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("half", [False, True])
def test_the_same_tensors_come_and_go_as_with_the_arithmetic(kind: Any, half: bool) -> None:
    torch.manual_seed(0)
    model = Net()
    facts = []
    for steps in (None, DrySteps(torch, lambda: False)):
        own = copy.deepcopy(model)
        optimizer = kind(own.parameters(), lr=0.01)
        images, labels = torch.randn(4, 3, 32, 32), torch.randint(0, 50, (4,))
        if steps is not None:
            steps.enter()
        tracer = Tracer(torch, "cpu")
        tracer.holds("parameters", own.parameters())
        with tracer, torch.autocast("cpu", torch.bfloat16, enabled=half), cuda_memory.lists_of_parameters():
            for _ in range(2):
                tracer.mark()
                trained(own, optimizer, images, labels)
        if steps is not None:
            steps.leave()
        assert tracer.fault is None
        facts.append(tracer.facts())
    real, without = facts
    assert [op[0] for op in without["ops"]] == [op[0] for op in real["ops"]]
    assert sum(op[2] for op in without["ops"]) == sum(op[2] for op in real["ops"]) > 0
    assert len(without["sizes"]) == len(real["sizes"])
    asked = [sum(size for size in one["sizes"] if size > 0) for one in facts]
    assert asked[1] == pytest.approx(asked[0], rel=0.001 if half else 0)


def test_nothing_is_computed_and_weights_stay(dry: DrySteps) -> None:
    dry.leave()
    model = Net()
    kept = model.stem[0].weight.detach().clone()
    dry.enter()
    optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
    loss = trained(model, optimizer, torch.randn(4, 3, 32, 32), torch.randint(0, 50, (4,)))
    dry.leave()
    assert loss == 1.0
    assert torch.equal(model.stem[0].weight, kept)


def test_a_batch_that_no_machine_could_train_on_takes_no_memory(dry: DrySteps) -> None:
    model = nn.Sequential(nn.Linear(1024, 65536), nn.ReLU(), nn.Linear(65536, 10))
    images = torch.empty(4096, 1024)
    before = resident_bytes()
    for _ in range(3):
        model(images).sum().backward()
    assert resident_bytes() - before < 128 << 20  # activations of 2 x 1 GiB, gradients of 260 MiB


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_whole_numbers_and_masks_are_computed(dry: DrySteps) -> None:
    tokens = torch.arange(12).reshape(3, 4)
    mask = tokens % 2 == 0
    assert tokens[mask].tolist() == [0, 2, 4, 6, 8, 10]
    assert int(mask.sum()) == 6
    embedded = nn.Embedding(100, 8)(tokens)
    assert embedded[mask].shape == (6, 8)
    assert int(torch.nonzero(mask).max()) == 2


def test_values_that_a_script_looks_at_are_plausible(dry: DrySteps) -> None:
    outputs = nn.Linear(64, 1000)(torch.randn(32, 64))
    loss = outputs.logsumexp(1).mean()
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(outputs).all())
    assert not bool(torch.isnan(outputs).any())
    assert loss.item() * 0.5 == 0.5
    assert 0 <= int(outputs.argmax(1)[0]) < 1000
    counter = torch.tensor(0.0)
    counter += 3
    assert counter.item() == 3.0


def test_what_a_loader_makes_is_computed() -> None:
    is_fetching = [True]
    dry = DrySteps(torch, lambda: is_fetching[0])
    rows = torch.full((100, 100), 2.0)
    dry.enter()
    try:
        made = rows * 3
        is_fetching[0] = False
        skipped = rows * 3
    finally:
        dry.leave()
    assert made.unique().tolist() == [6.0]
    assert skipped.shape == made.shape
    assert skipped.unique().tolist() != [6.0]


def test_an_op_without_a_fake_version_runs(dry: DrySteps) -> None:
    library = torch.library.Library("dry_test", "FRAGMENT")
    library.define("doubled(Tensor x) -> Tensor")
    library.impl("doubled", lambda x: torch.from_numpy(2 * x.detach().numpy()), "CPU")
    dry.leave()
    rows = torch.full((100, 100), 2.0)
    dry.enter()
    assert torch.ops.dry_test.doubled(rows).unique().tolist() == [4.0]
    del library


def test_leaving_it_computes_again_and_leaves_nothing_behind(dry: DrySteps) -> None:
    assert dry.is_entered
    dry.leave()
    assert not dry.is_entered
    assert _get_current_dispatch_mode() is None
    rows = torch.full((100, 100), 2.0)
    assert json.dumps((rows * 3).unique().tolist()) == "[6.0]"
