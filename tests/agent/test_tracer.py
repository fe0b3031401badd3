"""Allocations, frees and ops of real torch code, in the order in which they come."""

from collections.abc import Callable
from typing import Any

import torch
from _tunekit_agent.stages.trace.stage import MatchingTraces
from _tunekit_agent.stages.trace.tracer import PURPOSES, Tracer
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tunekit.records import prediction
from tunekit.records.prediction import Purpose, StepTrace

KIB = 1024


def floats(count: int) -> torch.Tensor:
    """Return a tensor of so many KiB that nobody saw come."""
    return torch.ones(count * KIB // 4)


def validated(tracer: Tracer) -> StepTrace:
    return StepTrace.model_validate({"batch_size": 2, **tracer.facts()})


def events(tracer: Tracer) -> list[tuple[int, int, Purpose]]:
    """Return (block, KiB or -1, purpose) of each event."""
    trace = validated(tracer)
    return [
        (block, size if size < 0 else size // KIB, prediction.PURPOSES[trace.purposes[block]])
        for block, size in zip(trace.blocks, trace.sizes, strict=True)
    ]


def traced(run: Callable[[], object]) -> list[tuple[int, int, Purpose]]:
    with Tracer(torch, "cpu") as tracer:
        run()
    return events(tracer)


def test_purposes_are_those_of_the_record() -> None:
    assert tuple(PURPOSES) == prediction.PURPOSES


def test_a_block_comes_with_its_op_and_goes_with_its_last_tensor() -> None:
    def run() -> None:
        first = torch.zeros(256)
        second = torch.zeros(512)
        view = first.view(16, 16)
        del first
        del second
        del view

    activations = Purpose.ACTIVATIONS
    assert traced(run) == [
        (0, 1, activations),
        (1, 2, activations),
        (1, -1, activations),
        (0, -1, activations),
    ]


def test_views_and_changes_in_place_take_nothing() -> None:
    rows = floats(4)

    def run() -> None:
        rows.view(32, 32).t()[3:].detach().add_(1)
        rows.mul_(2).relu_()

    assert traced(run) == [(0, 4, Purpose.HELD)]


def test_what_backward_keeps_goes_when_backward_is_through() -> None:
    weight = torch.randn(256, requires_grad=True)

    def run() -> None:
        kept = weight.exp()
        loss = kept.sum()
        del kept
        loss.backward()
        weight.grad = None

    reported = traced(run)
    assert reported[0] == (0, 1, Purpose.HELD)
    assert reported[1] == (1, 1, Purpose.ACTIVATIONS)
    assert reported[2][:2] == (2, 0), "the loss"
    frees = {block: place for place, (block, size, _) in enumerate(reported) if size < 0}
    comes = {block: place for place, (block, size, _) in enumerate(reported) if size >= 0}
    assert frees[1] > comes[3], "its result is there until the gradient was made of it"
    assert set(frees) == set(comes) - {0}


def test_a_batch_is_allocated_where_it_is_used_first() -> None:
    given = floats(2)
    tracer = Tracer(torch, "cpu")
    tracer.awaits([given])
    assert tracer.batches_used == 0
    with tracer:
        weight = torch.zeros(256)
        product = given * 2
        product += given
    assert events(tracer) == [
        (0, 1, Purpose.ACTIVATIONS),
        (1, 2, Purpose.BATCH),
        (2, 2, Purpose.ACTIVATIONS),
    ]
    assert tracer.batches_used == 1
    del weight, product


def test_a_batch_that_is_never_used_takes_nothing_and_leaves_its_place_to_others() -> None:
    tracer = Tracer(torch, "cpu")
    tracer.awaits([floats(2)])
    with tracer:
        later = torch.zeros(512)  # may lie where the batch lay
        later += 1
    assert [purpose for _, _, purpose in events(tracer)] == [Purpose.ACTIVATIONS]
    assert tracer.batches_used == 0


def test_a_batch_on_the_host_is_copied_to_the_device() -> None:
    given = torch.ones(256)
    tracer = Tracer(torch, "meta")
    tracer.awaits([given])
    with tracer:
        there = given.to("meta")
        there * 2
    assert [(size, purpose) for _, size, purpose in events(tracer)[:2]] == [
        (1, Purpose.BATCH),
        (1, Purpose.ACTIVATIONS),
    ]
    assert tracer.batches_used == 1


def test_what_was_there_stands_before_everything_else() -> None:
    model = nn.Linear(16, 16)
    other = floats(3)
    tracer = Tracer(torch, "cpu")
    tracer.holds("parameters", model.parameters())
    with tracer:
        made = torch.zeros(256)
        other.add_(made[0])
    assert [(size, purpose) for _, size, purpose in events(tracer)] == [
        (1, Purpose.PARAMETERS),
        (0, Purpose.PARAMETERS),
        (3, Purpose.HELD),
        (1, Purpose.ACTIVATIONS),
    ]


def test_what_nobody_saw_come_and_that_goes_again_is_of_the_host() -> None:
    """As a sample's tensor of an array, that is put together with others: no GPU ever holds it."""
    tracer = Tracer(torch, "cpu")
    held = floats(1)
    for _ in range(2):
        tracer.mark()
        unseen = floats(3)
        with tracer:
            torch.zeros(512)
            held.add_(1)
            unseen.add_(1)
        del unseen
    reported = [(size, purpose) for _, size, purpose in events(tracer)]
    assert reported[0] == (1, Purpose.HELD), "it stays"
    assert {size for size, _ in reported} == {1, 2, -1}


def test_whole_numbers_are_of_the_host() -> None:
    """As indices of samples, one by one: so steps of two sizes allocate alike."""

    def run() -> None:
        for index in torch.randint(0, 5, (4,)):
            index + 1

    sizes = [size for _, size, _ in traced(run)]
    assert len(sizes) == 2, "the four together, and no sum of one of them"


def test_what_is_freed_between_two_looks_is_known() -> None:
    tracer = Tracer(torch, "cpu")
    with tracer:
        made = torch.zeros(256)
    del made
    with tracer:
        torch.zeros(512)
    assert [(block, size) for block, size, _ in events(tracer)] == [(0, 1), (0, -1), (1, 2), (1, -1)]


def test_tensors_say_what_their_blocks_are_for() -> None:
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tracer, unseen = Tracer(torch, "cpu"), floats(1)
    tracer.holds("parameters", model.parameters())
    with tracer:
        model(torch.ones(16, 16)).sum().backward()
        tracer.is_for("gradients", [one.grad for one in model.parameters() if one.grad is not None])
        optimizer.step()
        states = [state["momentum_buffer"] for state in optimizer.state.values()]
        tracer.is_for("optimizer state", states)
        tracer.is_for("optimizer state", [unseen])
    sizes: dict[Purpose, int] = {}
    for _, size, purpose in events(tracer):
        sizes[purpose] = sizes.get(purpose, 0) + max(size, 0)
    assert sizes[Purpose.PARAMETERS] == sizes[Purpose.GRADIENTS] == sizes[Purpose.OPTIMIZER] == 1


def test_the_ops_of_the_last_step_are_told() -> None:
    tracer = Tracer(torch, "cpu")
    rows = torch.ones(4, 4, dtype=torch.bfloat16)
    for ops in ([torch.exp, torch.relu], [torch.exp], [torch.relu, torch.mm]):
        tracer.mark()
        with tracer:
            for op in ops:
                op(*(rows, rows)[: 2 if op is torch.mm else 1])
    assert [(op.name, op.dtype, op.flops) for op in validated(tracer).ops] == [
        ("relu", "bfloat16", 0),
        ("mm", "bfloat16", 2 * 4**3),
    ]


def test_sparse_tensors_are_blocks_of_their_parts() -> None:
    rows = torch.eye(64)
    reported = traced(rows.to_sparse)
    assert [purpose for _, size, purpose in reported if size >= 0].count(Purpose.ACTIVATIONS) >= 2


class Passing(TorchDispatchMode):
    """A mode of the script's own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_scripts_within_a_step_is_no_matter() -> None:
    with Tracer(torch, "cpu") as tracer, Passing():
        torch.zeros(256)
    assert tracer.fault is None
    assert [size for _, size, _ in events(tracer)] == [1, -1]


def test_a_mode_of_the_scripts_that_stays_is_left_in_place() -> None:
    tracer, theirs = Tracer(torch, "cpu"), Passing()
    tracer.__enter__()
    theirs.__enter__()
    tracer.__exit__()
    torch.zeros(256)
    theirs.__exit__(None, None, None)  # finds itself where it was
    tracer._mode.__exit__(None, None, None)
    assert "TorchDispatchMode" in (tracer.fault or "")
    assert events(tracer) == []


def test_a_fault_never_reaches_the_script() -> None:
    class Odd(torch.Tensor):
        """A tensor that can't say where it is."""

        @property
        def device(self) -> Any:
            raise LookupError("nowhere")

    odd = torch.ones(4).as_subclass(Odd)
    with Tracer(torch, "cpu") as tracer:
        made = odd + 1
    assert len(made) == 4
    assert "LookupError: nowhere" in (tracer.fault or "")


def step(size: int, logs: bool = False, width: int = 16) -> dict[str, Any]:
    tracer = Tracer(torch, "cpu")
    weight = torch.ones(width, 16)
    tracer.mark()
    with tracer:
        rows = torch.ones(size, width) @ weight
        if logs:
            rows.sum()
        rows.exp()
    return {"batch_size": size, **tracer.facts()}


def test_two_sizes_are_traced_once_where_they_are_alike() -> None:
    alike = MatchingTraces((2, 4))
    assert alike.next_size == 2
    alike.add(step(2))
    assert alike.next_size == 4
    alike.add(step(4))
    assert alike.next_size is None
    assert alike.are_found
    assert [facts["batch_size"] for facts in alike.best()] == [2, 4]


def test_a_step_that_does_more_is_traced_anew() -> None:
    alike = MatchingTraces((2, 4))
    alike.add(step(2, logs=True))
    alike.add(step(4))
    assert not alike.are_found
    assert alike.next_size == 2
    alike.add(step(2))
    assert alike.next_size is None
    assert [len(facts["ops"]) for facts in alike.best()] == [len(step(4)["ops"])] * 2


def test_frees_that_follow_one_another_have_no_order() -> None:
    alike = MatchingTraces((2, 4))
    common = {"purposes": [5, 5], "ops": []}
    alike.add({"batch_size": 2, "blocks": [0, 1, 0, 1], "sizes": [8, 8, -1, -1], **common})
    alike.add({"batch_size": 4, "blocks": [0, 1, 1, 0], "sizes": [16, 16, -1, -1], **common})
    assert alike.are_found


def test_backward_alone_is_told_from_a_forward_and_its_backward() -> None:
    weight = torch.randn(4, requires_grad=True)
    unseen = weight.exp().sum()
    with Tracer(torch, "cpu") as tracer:
        assert not tracer.has_seen_backward_alone
        unseen.backward()
        assert tracer.has_seen_backward_alone
        with torch.no_grad():
            weight -= 0.1
        tracer.stepped()
        weight[:2].exp().sum().backward()
    assert not tracer.has_seen_backward_alone


def test_a_bias_is_added_to_the_product_in_place_where_linear_does_it() -> None:
    layer = nn.Linear(32, 64)
    inputs = torch.ones(32, 8, 12).transpose(0, 2)  # not in one row, so that no kernel does both
    with Tracer(torch, "cpu") as tracer:
        outputs = layer(inputs)
        made = [
            block for block, size, _ in events(tracer) if size == outputs.untyped_storage().nbytes() // KIB
        ]
    assert len(made) == 1


def test_steps_begin_without_gradients_and_optimizer_state() -> None:
    weight, gradient, state = floats(4), floats(4), floats(4)
    tracer = Tracer(torch, "cpu")
    tracer.holds("parameters", [weight])
    tracer.holds("gradients", [gradient])
    tracer.holds("optimizer state", [state])
    with tracer:
        gradient = None
        kept = weight + 1
        tracer.step_begins()
        update = kept * 2
        reported = [(size, purpose) for _, size, purpose in events(tracer)]
    assert reported == [
        (4, Purpose.PARAMETERS),
        (4, Purpose.ACTIVATIONS),
        (4, Purpose.OPTIMIZER),
        (4, Purpose.ACTIVATIONS),
    ]
    assert state is not None and update is not None
