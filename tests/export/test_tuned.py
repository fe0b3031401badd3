"""An exported config is read back as what it was made of, under the user's own keys too."""

from pathlib import Path

import pytest
from build_records import baseline_record, config, configs, recommendation, run, target
from hypothesis import given

from tunekit.errors import UsageError
from tunekit.export.keys import flat, nested
from tunekit.export.tuned import read_tuned
from tunekit.export.yaml_config import knobs_yaml, tier_yaml
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.run import Run
from tunekit.records.target import Target
from tunekit.trial.binding_syntax import parse_binding

OWN_KEYS = target(
    bindings=tuple(
        parse_binding(text)
        for text in (
            "batch_size=a.yaml:data.batch_size",
            "num_workers=a.yaml:data.loaders.0.workers",
            "precision=a.yaml:trainer.precision{fp32:32,tf32:tf,bf16:bf16-true,fp16:half}",
            "lr=a.yaml:optim.lr",
        )
    )
)


def searched(of: Target | None = None, baseline: TrainConfig | None = None) -> Run:
    return run(target=of or target(), trials=(baseline_record(of=baseline or config()),))


def written(text: str, folder: Path) -> Path:
    (folder / "mine.yaml").write_text(text)
    return folder / "mine.yaml"


@pytest.mark.parametrize("known", [target(), OWN_KEYS], ids=["own names", "the user's keys"])
def test_what_was_exported_is_read_back(known: Target, tmp_path: Path):
    @given(configs())
    def read_back(knobs: TrainConfig) -> None:
        one = recommendation(of=knobs, float32_matmul_precision=None)
        text = tier_yaml(searched(known), one)
        found = read_tuned(written(text, tmp_path), searched(known))
        assert read_tuned(written(knobs_yaml(one, known), tmp_path), searched(known)) == found
        tf32_as_fp32 = knobs.precision is Precision.TF32 and known is not OWN_KEYS
        expected = knobs.model_copy(update={"precision": Precision.FP32}) if tf32_as_fp32 else knobs
        assert found.config.model_copy(update={"precision": expected.precision}) == expected
        if knobs.precision in (Precision.BF16, Precision.FP16) or known is OWN_KEYS:
            assert found.config == expected

    read_back()


def test_the_users_keys_and_words_are_in_the_file():
    text = tier_yaml(searched(OWN_KEYS), recommendation(of=config(batch_size=64, precision=Precision.BF16)))
    assert "data:\n  batch_size: 64\n" in text
    assert "precision: bf16-true" in text


def test_a_key_that_was_taken_out_keeps_the_scripts_own_value(tmp_path: Path):
    found = read_tuned(written("num_workers: 3\nprefetch_factor: 4\n", tmp_path), searched())
    assert found.config == config(num_workers=3, prefetch_factor=4)
    assert found.named == {"num_workers", "prefetch_factor"}
    assert found.lr is None


@pytest.mark.parametrize("text", ["lr: 1e-4\n", "lr: 0.0001\n", "lr: 1.0e-4\n"])
def test_a_learning_rate_is_read_as_people_write_it(text: str, tmp_path: Path):
    assert read_tuned(written(text, tmp_path), searched()).lr == 1e-4


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batchsize: 64\n", "batchsize is no knob; did you mean batch_size"),
        ("batch_size: lots\n", "batch_size = 'lots'"),
        ("lr: -1\n", "lr must be a positive number, got -1"),
        ("lr: true\n", "lr must be a positive number"),
        ("- 1\n", "holds no keys"),
        ("a: [\n", "is not YAML"),
        ("num_workers: 2\nprefetch_factor: null\n", "prefetch_factor must be at least 1"),
    ],
)
def test_what_is_no_config_is_refused_with_the_reason(text: str, told: str, tmp_path: Path):
    with pytest.raises(UsageError, match=told):
        read_tuned(written(text, tmp_path), searched())


def test_dotted_keys_and_trees_are_each_others_inverse():
    values = {"a.b.c": 1, "a.d": None, "e": "x"}
    assert flat(nested(values)) == values
