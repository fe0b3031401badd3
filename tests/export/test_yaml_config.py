import pytest
import yaml
from build_records import (
    baseline_record,
    config,
    configs,
    device,
    discovery,
    options,
    recommendation,
    run,
    trial_record,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tunekit.export.yaml_config import knobs_yaml, tier_yaml
from tunekit.records.config import Precision
from tunekit.records.recommendation import LearningRate, LearningRateRule, NoiseFloor, Tier
from tunekit.records.run import Objective

KEYS = """batch_size num_workers prefetch_factor pin_memory persistent_workers compile_model precision
float32_matmul_precision channels_last accumulate_grad_batches"""

linear = LearningRate(value=0.2, rule=LearningRateRule.LINEAR, base_lr=0.1, base_batch=64, source="baseline")


def test_a_tiers_whole_file(golden):
    planned = options(objective=Objective.FINISH_TIME, epochs=90, epochs_given=True)
    noise = NoiseFloor(relative=0.05, pairs=4, processes=5)
    tier = recommendation(learning_rate=linear, finish_time_s=4600.0)
    assert tier_yaml(run(options=planned, noise_floor=noise, recommendations=(tier,)), tier) == golden(
        "balanced.yaml"
    )


hostile_text = st.text(max_size=400) | st.text(
    alphabet="\r\n\x00\x07\x1b\x7f\x85\u2028\u2029\ufeff\ufffe\ud800:#-{}a "
)


@given(
    knobs=configs(),
    tier=st.sampled_from(Tier),
    device_name=hostile_text,
    matmul=st.sampled_from(["highest", "high", "medium"]),
    lr=st.none() | st.floats(1e-30, 1e30),
    emulated=st.booleans(),
)
@example(
    knobs=config(),
    tier=Tier.BALANCED,
    device_name="A10G\nbatch_size: 1\n",
    matmul="high",
    lr=1e-05,
    emulated=True,
)
@example(knobs=config(), tier=Tier.BALANCED, device_name="x" * 400, matmul="high", lr=1e16, emulated=False)
def test_the_file_holds_exactly_the_knobs_whatever_the_comments_say(
    *, knobs, tier, device_name, matmul, lr, emulated
):
    learning_rate = lr and linear.model_copy(update={"value": lr, "base_lr": lr})
    # Pydantic refuses surrogates in a string; a driver's bytes decoded with "surrogateescape" have them.
    seen = device().model_copy(update={"name": device_name})
    trial = trial_record(of=knobs)
    measured = trial.measurement.model_copy(
        update={"loop": trial.measurement.loop.model_copy(update={"device": seen})}
    )
    text = tier_yaml(
        run(
            trials=(trial.model_copy(update={"measurement": measured}),),
            measured_on="cpu" if emulated else "a10g",
        ),
        recommendation(tier, knobs, float32_matmul_precision=matmul, learning_rate=learning_rate),
    )
    expected = {
        "batch_size": knobs.batch_size,
        "num_workers": knobs.num_workers,
        "prefetch_factor": knobs.prefetch_factor,
        "pin_memory": knobs.pin_memory,
        "persistent_workers": knobs.persistent_workers,
        "compile_model": knobs.compile,
        "precision": {"fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}[
            knobs.precision.value
        ],
        "float32_matmul_precision": matmul,
        "channels_last": knobs.channels_last,
        "accumulate_grad_batches": knobs.accumulate_grad_batches,
    }
    loaded = yaml.safe_load(text)
    assert list(loaded) == KEYS.split() + (["lr"] if lr else [])
    assert loaded == (expected | {"lr": lr} if lr else expected)
    assert max(len(line) for line in text.split("\n")) <= 100
    assert text.encode("utf-8").decode("utf-8").splitlines() == text.split("\n")[:-1]
    assert ("# measured on cpu, not a10g, 2026-01-02" in text) == emulated


def lines(recommended=None, **run_overrides):
    return tier_yaml(run(**run_overrides), recommended or recommendation()).splitlines()


@pytest.mark.parametrize(
    ("precision", "seen", "words", "matmul"),
    [
        (Precision.FP32, None, "32-true", "highest"),
        (Precision.TF32, None, "32-true", "high"),
        (Precision.BF16, None, "bf16-mixed", None),
        (Precision.BF16, "high", "bf16-mixed", "high"),
    ],
)
def test_matmul_precision_follows_the_knob_where_it_was_not_seen(precision, seen, words, matmul):
    knobs = recommendation(of=config(precision=precision), float32_matmul_precision=seen)
    loaded = yaml.safe_load(tier_yaml(run(), knobs))
    assert (loaded["precision"], loaded["float32_matmul_precision"]) == (words, matmul)


def test_fp16_needs_a_gradient_scaler():
    note = "# precision: fp16 needs GradScaler in the training script"
    assert note in lines(recommendation(of=config(precision=Precision.FP16)))
    assert note not in lines()


@pytest.mark.parametrize(
    ("batch", "optimizer", "lr", "why"),
    [
        (128, "LAMB", 0.1, "the global batch is the baseline's"),
        (256, "LAMB", 0.1, "no rule is published for the optimizer"),
        (256, "SGD", None, "unknown (--lr, --base-batch)"),
        (256, None, None, "unknown (--lr, --base-batch)"),
    ],
)
def test_a_learning_rate_left_out_has_its_reason(batch, optimizer, lr, why):
    baseline = baseline_record(overrides={"discovery": discovery(optimizer, lr)})
    found = lines(recommendation(of=config(batch_size=batch)), trials=(baseline,))
    assert not any(line.startswith("lr:") for line in found)
    assert any(line.startswith("# lr is left out") and why in line for line in found)


def test_a_script_that_scales_its_learning_rate_is_the_reason_to_leave_it_out():
    found = lines(recommendation(of=config(batch_size=256)), script_scales_lr=True)
    assert "# lr is left out: the script scales it" in found


def test_the_short_form_has_the_knobs_of_the_file_without_comments_in_a_few_lines():
    best = recommendation(learning_rate=linear)
    text = knobs_yaml(best, run().target)
    assert yaml.safe_load(text) == yaml.safe_load(tier_yaml(run(), best))
    assert "#" not in text
    assert len(text.splitlines()) <= 4
    assert max(map(len, text.splitlines())) <= 100
