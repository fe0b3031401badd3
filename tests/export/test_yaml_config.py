import pytest
import yaml
from build_records import (
    GIB,
    baseline_record,
    config,
    configs,
    cpu,
    device,
    discovery,
    largest_seen,
    options,
    recommendation,
    run,
    trial_record,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tunekit.export.yaml_config import knobs_yaml, tier_yaml
from tunekit.recommend.learning_rate import BaseLearningRate
from tunekit.recommend.scaling import scaling_rows
from tunekit.records.config import Precision
from tunekit.records.recommendation import LearningRate, LearningRateRule, NoiseFloor, Tier
from tunekit.records.run import Objective

KEYS = [
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "compile_model",
    "precision",
    "float32_matmul_precision",
    "channels_last",
    "accumulate_grad_batches",
]

linear = LearningRate(value=0.2, rule=LearningRateRule.LINEAR, base_lr=0.1, base_batch=64, source="baseline")


def table(tier=Tier.BALANCED, knobs=None, lr=0.1):
    return scaling_rows(
        tier,
        knobs or config(),
        bytes_per_sample=1000,
        base_ram_bytes=GIB,
        base=BaseLearningRate(lr, 64, "flags") if lr else None,
        rule=LearningRateRule.LINEAR,
        host=run().host,
    )


def test_a_whole_file_reads_as_expected():
    found = tier_yaml(
        run(scaling=table(), noise_floor=NoiseFloor(relative=0.05, pairs=4, processes=5)),
        recommendation(learning_rate=linear, reason="Smallest config within 5% of the highest rate."),
    )
    assert (
        found
        == """\
# tunekit balanced: smallest config close to the highest rate: 85% of VRAM, 75% of the CPUs
# measured on NVIDIA A10G
# machine: Intel(R) Xeon(R), 8 CPUs, 32.0 GiB RAM
# found by trial 1; confirmed by trials 100, 101, 102
# why: Smallest config within 5% of the highest rate.
# expected: 1,000 samples/s (970 to 1,030), 7.81 it/s (7.58 to 8.05); whole epochs
# speed-up: 2.00x (1.94x to 2.06x) the baseline's rate; faster
# time: 50.0 s per epoch, 8m 20s for 10 epochs (training only, validation not included)
# VRAM: 5.0 GiB reserved at the peak, 23% of 22.0 GiB; 17.0 GiB left
# RAM: 1.0 GiB for processes and 500.0 KiB for the loader's buffer, 3% of 32.0 GiB; 31.0 GiB left
# lr: 0.1 at global batch 64 (the baseline's optimizer) scaled to batch 128, k = 2, by the linear
#   rule, arXiv 1706.02677; warm up over the first 5 epochs

batch_size: 128
num_workers: 2
prefetch_factor: 2
pin_memory: false
persistent_workers: true
compile_model: false
precision: 32-true
float32_matmul_precision: highest
channels_last: false
accumulate_grad_batches: 1
lr: 0.2

# on several GPUs of one host, predicted:
# GPUs  total batch  total workers   RAM buffer  RAM needed  lr linear (use)  lr sqrt
#    1          128              2    500.0 KiB     1.0 GiB              0.2   0.1414
#    2          256              4  1,000.0 KiB     2.0 GiB              0.4      0.2
#    4          512              8      2.0 MiB     4.0 GiB              0.8   0.2828
#    8         1024             16      3.9 MiB     8.0 GiB              1.6      0.4
# 8 GPUs: needs 16 workers, this host allows 8 CPUs
"""
    )


@pytest.mark.parametrize(
    ("asked", "length"),
    [
        ({"epochs": 90, "epochs_given": True}, "90 epochs"),
        ({"planned_steps": 40_000}, "40,000 steps of the baseline's batch"),
    ],
)
def test_a_planned_training_is_told_with_its_start(asked, length):
    found = lines(recommendation(finish_time_s=4600.0), options=options(**asked))
    whole = " ".join("\n".join(found).replace("\n#", " ").split())
    assert (
        f"time: 50.0 s per epoch, 1h 16m for {length}, start-up included (predicted) (training only, "
        in whole
    )


def test_a_speed_up_of_the_whole_training_says_so():
    asked = options(objective=Objective.FINISH_TIME, epochs=90, epochs_given=True)
    trials = (baseline_record(),)
    found = lines(recommendation(finish_time_s=4600.0), options=asked, trials=trials)
    told = "2.00x (1.94x to 2.06x) as fast through the planned training as the baseline"
    assert any(told in line for line in found)


hostile_text = st.text(max_size=400) | st.text(
    alphabet="\r\n\x00\x07\x1b\x7f\x85\u2028\u2029\ufeff\ufffe\ud800:#-{}a "
)


@given(
    knobs=configs(),
    tier=st.sampled_from(Tier),
    device_name=hostile_text,
    reason=hostile_text,
    matmul=st.sampled_from(["highest", "high", "medium"]),
    lr=st.none() | st.floats(1e-30, 1e30),
    emulated=st.booleans(),
)
@example(
    knobs=config(),
    tier=Tier.BALANCED,
    device_name="A10G\nbatch_size: 1\n",
    reason="\r\u2028lr: 9",
    matmul="high",
    lr=1e-05,
    emulated=True,
)
@example(
    knobs=config(),
    tier=Tier.BALANCED,
    device_name="x" * 400,
    reason="y " * 400,
    matmul="high",
    lr=1e16,
    emulated=False,
)
def test_the_file_holds_exactly_the_knobs_whatever_the_comments_say(
    *, knobs, tier, device_name, reason, matmul, lr, emulated
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
            scaling=table(tier, knobs, lr),
        ),
        recommendation(tier, knobs, float32_matmul_precision=matmul, learning_rate=learning_rate).model_copy(
            update={"reason": reason}
        ),
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
    assert list(loaded) == KEYS + (["lr"] if lr else [])
    assert loaded == (expected | {"lr": lr} if lr else expected)
    assert max(len(line) for line in text.split("\n")) <= 100
    assert text.encode("utf-8").decode("utf-8").splitlines() == text.split("\n")[:-1]
    assert ("# measured on cpu; not a10g" in text.splitlines()) == emulated


def lines(recommended=None, **run_overrides):
    return tier_yaml(run(**run_overrides), recommended or recommendation()).splitlines()


def test_another_device_than_asked_for_stands_on_its_own_line():
    trials = (baseline_record(device=cpu()), trial_record(device=cpu()))
    found = lines(measured_on="cpu", trials=trials)
    assert found[1] == "# measured on cpu; not a10g"


def test_a_device_without_a_trial_is_named_by_the_run():
    assert lines(trials=(), measured_on="a10g")[1] == "# measured on a10g"


def test_what_is_unknown_says_so():
    found = lines(
        recommendation(
            speedup=None, epoch_time_s=None, peak_reserved_bytes=None, float32_matmul_precision=None
        )
    )
    assert "# speed-up: n/a, there is no baseline rate to compare with" in found
    assert "# time: n/a, the length of an epoch is unknown" in found
    assert "# VRAM: n/a" in found


@pytest.mark.parametrize(
    ("precision", "seen", "words", "matmul"),
    [
        (Precision.FP32, None, "32-true", "highest"),
        (Precision.TF32, None, "32-true", "high"),
        (Precision.BF16, None, "bf16-mixed", None),
        (Precision.FP32, "high\nbatch_size: 1", "32-true", "highest"),
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


def test_tiers_that_coincide_say_so():
    assert "# same config as conservative" in lines(recommendation(same_as=Tier.CONSERVATIVE))
    assert "# speed-up: none, this is the baseline's own config" in lines(recommendation(is_baseline=True))


@pytest.mark.parametrize(
    ("tier", "same_as", "warns"),
    [
        (Tier.AGGRESSIVE, None, True),
        (Tier.AGGRESSIVE, Tier.CONSERVATIVE, False),
        (Tier.AGGRESSIVE, Tier.BALANCED, False),
        (Tier.BALANCED, None, False),
    ],
)
def test_only_a_config_of_aggressive_alone_is_said_to_run_out_of_memory(tier, same_as, warns):
    found = "\n".join(lines(recommendation(tier, same_as=same_as)))
    assert ("# it may run out of memory: no stricter tier has this config" in found) is warns
    assert found.count("run out of memory") == warns


def test_an_unchanged_batch_keeps_its_learning_rate():
    kept = linear.model_copy(update={"value": 0.1, "base_batch": 128})
    expected = "# lr: 0.1 of the baseline's optimizer, unchanged: the global batch is still 128"
    assert expected in lines(recommendation(learning_rate=kept))


@pytest.mark.parametrize(
    ("batch", "optimizer", "lr", "why"),
    [
        (128, "LAMB", 0.1, "keep yours, the global batch is the baseline's"),
        (256, "LAMB", 0.1, "no scaling rule is published for the optimizer (LAMB)"),
        (256, "SGD", None, "the learning rate or the batch to scale from is unknown"),
        (256, None, None, "the learning rate or the batch to scale from is unknown"),
    ],
)
def test_a_learning_rate_left_out_has_its_reason(batch, optimizer, lr, why):
    baseline = baseline_record(overrides={"discovery": discovery(optimizer, lr)})
    found = lines(recommendation(of=config(batch_size=batch)), trials=(baseline,))
    assert not any(line.startswith("lr:") for line in found)
    assert any(line.startswith("# lr is left out") and why in line for line in found)


def test_a_script_that_scales_its_learning_rate_is_the_reason_to_leave_it_out():
    found = lines(recommendation(of=config(batch_size=256)), script_scales_lr=True)
    assert "# lr is left out: the script scales its learning rate itself" in found


def test_what_a_smaller_batch_told_of_the_target_is_the_reason_where_the_baseline_told_less():
    baseline = baseline_record(overrides={"discovery": discovery(None, complete=False)})
    smaller = trial_record(1, 500.0, overrides={"discovery": discovery("LAMB", 0.1)})
    found = lines(recommendation(of=config(batch_size=256)), trials=(baseline, smaller))
    assert any("no scaling rule is published for the optimizer (LAMB)" in line for line in found)


def test_what_was_seen_of_the_largest_samples_is_one_comment():
    seen = largest_seen()
    told = "largest samples: batches up to 3.1x the usual bytes (4,096 of 50,000 samples read); it trained on"
    assert told in " ".join("\n".join(lines(recommendation(largest=seen))).replace("\n#", " ").split())
    assert "largest samples" not in "".join(lines(recommendation()))


@pytest.mark.parametrize(("base_batch", "is_told"), [(64, False), (12, True)])
def test_a_batch_beyond_the_square_root_rule_says_so(base_batch: int, is_told: bool):
    rate = LearningRate(
        value=0.2, rule=LearningRateRule.SQRT, base_lr=0.1, base_batch=base_batch, source="baseline"
    )
    whole = " ".join(" ".join(lines(recommendation(learning_rate=rate))).replace("#", " ").split())
    assert ("at beta1 0.9 the rule ends below k = 10: check your loss" in whole) is is_told


def test_the_short_form_has_the_knobs_of_the_file_without_comments_in_a_few_lines():
    best = recommendation(learning_rate=linear)
    text = knobs_yaml(best, run().target)
    assert yaml.safe_load(text) == yaml.safe_load(tier_yaml(run(), best))
    assert "#" not in text
    assert len(text.splitlines()) <= 4
    assert max(map(len, text.splitlines())) <= 100
