"""Whether knobs hold in the training process; a batch size without a loader by the sizes of the inputs."""

from collections.abc import Mapping

import pytest
from build_records import config, discovery, loop, root, untouched
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import loader

from tunekit.records.agent_messages import LearntEvent
from tunekit.records.config import Precision
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen
from tunekit.records.target import Discovery, InputSeen
from tunekit.trial.knob_verification import (
    batch_contradicted,
    unapplied_knob,
    unjoined,
)

Sizes = Mapping[str, tuple[int, ...]]


def found(sizes: Sizes, batches_per_step: int = 1, world_size: int = 1) -> Discovery:
    """What is learnt of a model that is called with inputs of these sizes, by their paths."""
    inputs = tuple(InputSeen(path=path, sizes=one) for path, one in sizes.items())
    called = (root(inputs=inputs),) if sizes else ()
    return discovery(loaders=(), roots=called, batches_per_step=batches_per_step, world_size=world_size)


def learnt_of(now: Discovery) -> LearntEvent:
    """What an agent tells of a loop to whose knobs it did nothing."""
    return LearntEvent(event="learnt", time_s=1.0, discovery=now, applied=untouched())


def missed(before: Discovery, now: Discovery, own: int = 20, wanted: int = 40) -> str | None:
    """Return what is said of a batch size that was bound from `own` to `wanted`."""
    return unapplied_knob(loop(), {"batch_size": wanted}, {}, learnt_of(now), before, own)


TENSOR = "[0]"
REACHED: dict[str, tuple[Sizes, Sizes]] = {
    "batch first": ({TENSOR: (20, 35)}, {TENSOR: (40, 35)}),
    "length first": ({TENSOR: (35, 20)}, {TENSOR: (35, 40)}),
    "as long as the batch": ({TENSOR: (20, 20)}, {TENSOR: (20, 40)}),
    "tokens of all samples in one dimension": ({TENSOR: (700,)}, {TENSOR: (1400,)}),
    "another length at each step": ({TENSOR: (35, 20)}, {TENSOR: (31, 40)}),
    "two views of each sample": ({TENSOR: (40, 3, 8, 8)}, {TENSOR: (80, 3, 8, 8)}),
    "bounds of packed samples": (
        {"['cu_seqlens']": (21,), TENSOR: (713,)},
        {"['cu_seqlens']": (41,), TENSOR: (1500,)},
    ),
    "packed samples without bounds": ({TENSOR: (713, 20)}, {TENSOR: (1500, 20)}),
    "a list of samples": ({TENSOR: (20,), "[0][0]": (3, 40, 50)}, {TENSOR: (40,), "[0][0]": (3, 48, 41)}),
    "samples that are padded": ({TENSOR: (20, 35)}, {TENSOR: (40, 61)}),
    "not one known size": ({}, {}),
}
NOT_REACHED: dict[str, tuple[Discovery, Discovery]] = {
    "nothing changed": (found({TENSOR: (35, 20)}), found({TENSOR: (35, 20)})),
    "only the length varies": (found({TENSOR: (35, 20)}), found({TENSOR: (33, 20)})),
    "the script had another size than was thought": (found({TENSOR: (35, 32)}), found({TENSOR: (35, 40)})),
    "micro-batches": (found({TENSOR: (35, 5)}, 4), found({TENSOR: (35, 5)}, 8)),
    "micro-batches of a share": (found({TENSOR: (5, 35)}, 4), found({TENSOR: (10, 35)}, 4)),
    "shared by ranks": (found({TENSOR: (35, 10)}, 1, 2), found({TENSOR: (35, 20)}, 1, 2)),
}


@pytest.mark.parametrize(("before", "now"), REACHED.values(), ids=REACHED)
def test_a_batch_size_reached_the_model(before: Sizes, now: Sizes) -> None:
    assert missed(found(before), found(now)) is None


@pytest.mark.parametrize(("before", "now"), NOT_REACHED.values(), ids=NOT_REACHED)
def test_a_batch_size_did_not_reach_the_model(before: Discovery, now: Discovery) -> None:
    told = missed(before, now)
    assert told is not None
    assert told.startswith("batch_size was set from 20 to 40")


def behind_loader(batch_size: int, *held: tuple[int, ...], model: tuple[int, ...] = ()) -> Discovery:
    """What is learnt of a loop whose loader gives batches of these sizes to a model."""
    batch = tuple(InputSeen(path=f"[{place}]", sizes=sizes) for place, sizes in enumerate(held))
    seen = loader(batch_size=batch_size, batch=batch)
    return found({TENSOR: model or held[0]}).changed(loaders=(seen,))


@pytest.mark.parametrize(
    ("own", "now", "is_missed"),
    [
        (
            behind_loader(1, (128, 32), (128,)),
            behind_loader(4, (128, 32), (128,)),
            True,
        ),  # collate drops them
        (behind_loader(8, (8, 32), model=(8, 64)), behind_loader(16, (16, 32), model=(8, 64)), True),
        (behind_loader(16, (16, 31)), behind_loader(64, (25, 32)), True),  # collate keeps what fits
        (behind_loader(8, (8, 32)), behind_loader(16, (16, 32)), False),
        (behind_loader(8, (8, 35)), behind_loader(16, (16, 41)), False),  # padded
        (behind_loader(8, (187, 16)), behind_loader(16, (361, 16)), False),  # the nodes of graphs
    ],
)
def test_samples_must_not_get_lost_behind_the_loader(own: Discovery, now: Discovery, is_missed: bool) -> None:
    sizes = [one.training_loader.batch_size for one in (own, now) if one.training_loader]
    changed = {"batch_size": sizes[1]}
    of = config(batch_size=sizes[1], num_workers=0)
    told = unapplied_knob(loop(of=of), changed, {}, learnt_of(now), own, sizes[0])
    assert (told is not None) is is_missed


@given(
    st.lists(st.integers(1, 512), max_size=3),
    st.integers(0, 3),
    st.integers(1, 64),
    st.integers(1, 512),
    st.integers(1, 512),
)
def test_an_input_that_scales_exactly_always_reached(
    others: list[int], place: int, per_sample: int, own: int, wanted: int
) -> None:
    before, now = [*others], [*others]
    before.insert(place, own * per_sample)
    now.insert(place, wanted * per_sample)
    assert missed(found({TENSOR: tuple(before)}), found({TENSOR: tuple(now)}), own, wanted) is None


@pytest.mark.parametrize(
    ("sizes", "batch_size", "contradicted"),
    [
        ({TENSOR: (35, 20)}, 20, False),
        ({TENSOR: (35, 20)}, 35, False),
        ({TENSOR: (700,)}, 20, False),
        ({TENSOR: (35, 20)}, 32, True),
        ({TENSOR: (713,)}, 20, True),
        ({TENSOR: (713,), "['cu_seqlens']": (21,)}, 20, False),
        ({TENSOR: (713, 2)}, 1, False),
        ({}, 20, False),
    ],
)
def test_inputs_contradict_a_batch_size_that_no_dimension_can_hold(
    sizes: Sizes, batch_size: int, contradicted: bool
) -> None:
    assert batch_contradicted(found(sizes), batch_size) is contradicted


@pytest.mark.parametrize(
    ("precision", "is_tf32", "said"),
    [
        (Precision.TF32, True, None),
        (Precision.FP32, False, None),
        (Precision.TF32, None, None),
        (Precision.BF16, True, None),
        (None, True, None),
        (Precision.TF32, False, "IEEE float32"),
        (Precision.FP32, True, "TF32"),
    ],
)
def test_matrix_products_must_run_as_the_precision_says(
    precision: Precision | None, is_tf32: bool | None, said: str | None
):
    now = discovery(tf32_in_matmul=is_tf32, roots=())
    asked = {"precision": precision}
    told = unapplied_knob(
        loop(),
        {} if precision is None else {"precision": precision},
        asked,
        learnt_of(now),
        discovery(roots=()),
    )
    assert told is None if said is None else said in str(told)


def parallel(backend: str | None = "gloo", kind: DataParallelKind = DataParallelKind.DDP) -> DataParallelSeen:
    return DataParallelSeen(kind=kind, backend=backend, gradient_bytes=8, syncs_gradients=None)


@pytest.mark.parametrize(
    ("processes", "world_size", "seen"),
    [
        (1, 1, None),
        (1, 1, parallel()),
        (2, 2, parallel()),
        (2, 2, parallel(kind=DataParallelKind.NONE)),  # it sums its gradients by itself
    ],
)
def test_processes_that_train_together_are_joined(
    processes: int, world_size: int, seen: DataParallelSeen | None
):
    assert unjoined(loop(world_size=world_size, data_parallel=seen), processes) is None


@pytest.mark.parametrize(
    ("processes", "world_size", "seen", "told"),
    [
        (4, 1, None, "1 process trains"),
        (4, 2, parallel(), "2 processes train together"),
        (2, 3, parallel(), "3 processes train together"),
        (2, 2, None, "join no process group"),
        (2, 2, parallel(None, DataParallelKind.NONE), "join no process group"),
    ],
)
def test_processes_that_do_not_train_together_are_told(
    processes: int, world_size: int, seen: DataParallelSeen | None, told: str
):
    message = unjoined(loop(world_size=world_size, data_parallel=seen), processes)
    assert message is not None
    assert f"{processes} processes were started here" in message and told in message
