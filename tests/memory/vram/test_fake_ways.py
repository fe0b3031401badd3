"""The ways in which people train, on fake cuda tensors: each traces, and takes what it should."""

import pytest
from fake_trainings import IS_KNOWN, NOT_KNOWN, told_of

pytestmark = [pytest.mark.real, pytest.mark.skipif(not IS_KNOWN, reason=NOT_KNOWN)]

NAMES = (
    "cnn",
    "cnn channels_last",
    "cnn fused",
    "gpt",
    "gpt bf16",
    "deep gpt",
    "deep gpt checkpointed",
    "deep gpt checkpointed, reentrant",
    "gpt scaled",
    "gpt scaled, fused",
    "gpt fused",
    "gpt one by one",
    "gpt kept gradients",
    "gpt accumulated",
)
BLOCK = 12 * 64 * 64 + 13 * 64
GPT_PARAMETERS = 128 * 64 + 64 * 64 + BLOCK + 2 * 64
GPT_TENSORS = 2 + 12 + 2


@pytest.fixture(scope="module")
def told() -> dict:
    return told_of(NAMES)


def names_of(one: dict) -> set[str]:
    return {op[0] for op in one["ops"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_size_between_is_exactly_what_its_own_trace_says(told, name: str):
    assert told[name]["differs"] == []


def test_checkpointed_blocks_keep_less_and_compute_more(told):
    plain, one, other = (told[f"deep gpt{way}"] for way in ("", " checkpointed", " checkpointed, reentrant"))
    assert one["allocated"] < 0.8 * plain["allocated"]
    assert other["allocated"] == pytest.approx(one["allocated"], rel=0.02)
    assert plain["flops"] < one["flops"] <= other["flops"] < 4 / 3 * plain["flops"]


def test_a_gradient_scaler_looks_at_every_gradient_and_steps(told):
    for name, optimizer_op in (("gpt scaled", "_foreach_addcdiv_"), ("gpt scaled, fused", "_fused_adamw_")):
        seen = names_of(told[name])
        assert {"_amp_update_scale_", optimizer_op} <= seen, seen
        assert "_amp_foreach_non_finite_check_and_unscale_" in seen, seen
    assert told["gpt scaled"]["allocated"] == pytest.approx(told["gpt bf16"]["allocated"], rel=0.001)


def test_optimizers_take_the_kernels_that_they_take_on_a_gpu(told):
    assert "_foreach_addcdiv_" in names_of(told["gpt"])
    assert "_fused_adamw_" in names_of(told["gpt fused"])
    assert "_fused_sgd_" in names_of(told["cnn fused"])
    assert not [name for name in names_of(told["gpt one by one"]) if name.startswith(("_foreach", "_fused"))]


def test_optimizer_state_is_two_of_each_parameter_and_fused_ones_count_steps_on_the_device(told):
    plain, fused = (told[name]["by_purpose"]["optimizer state"] for name in ("gpt", "gpt fused"))
    assert plain == pytest.approx(8 * GPT_PARAMETERS, rel=0.02)
    assert fused - plain == 512 * GPT_TENSORS


def test_momentum_is_one_of_each_parameter(told):
    for name in ("cnn", "cnn fused"):
        by_purpose = told[name]["by_purpose"]
        assert by_purpose["optimizer state"] == by_purpose["parameters"] > 0


def test_channels_last_computes_the_same_in_about_the_same_memory(told):
    assert told["cnn channels_last"]["allocated"] == pytest.approx(told["cnn"]["allocated"], rel=0.03)
    assert told["cnn channels_last"]["flops"] == told["cnn"]["flops"] > 0


def test_gradients_are_there_at_the_peak_where_they_are_zeroed_in_place_or_accumulated(told):
    assert told["gpt"]["by_purpose"]["gradients"] < GPT_PARAMETERS
    for name in ("gpt kept gradients", "gpt accumulated"):
        gradients = told[name]["by_purpose"]["gradients"]
        assert gradients == pytest.approx(4 * GPT_PARAMETERS, rel=0.02)


def test_ops_are_those_of_all_batches_of_an_optimizer_step(told):
    assert told["gpt accumulated"]["flops"] == 3 * told["gpt"]["flops"]


def test_a_question_to_a_fake_tensor_is_no_op(told):
    assert "device" not in names_of(told["gpt one by one"])
