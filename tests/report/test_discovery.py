"""What `tunekit init` shows of a loop and of bindings that were tried."""

import pytest
from build_records import config, discovery, root

from tunekit.records.config import Precision
from tunekit.report.discovery import binding_trials_table, loop_sentence
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.binding_trials import BindingTrial


def test_what_the_loop_did_not_follow_is_not_written():
    works = BindingTrial(parse_binding("batch_size=--bs {}"), 16, "batches of 16", works=True)
    fails = BindingTrial(parse_binding("num_workers=-j {}"), 1, "the training loader has 0", works=False)
    assert binding_trials_table([works, fails]).rows == (
        ("batch_size=--bs {}", "16", "yes", "batches of 16"),
        ("num_workers=-j {}", "1", "not written", "the training loader has 0"),
    )


@pytest.mark.parametrize(
    ("precision", "in_conv", "is_conv_net", "shown"),
    [
        (Precision.FP32, True, True, " in fp32 (convolutions in tf32),"),
        (Precision.FP32, False, True, " in fp32,"),
        (Precision.FP32, True, False, " in fp32,"),
        (Precision.TF32, False, True, " in tf32 (convolutions in fp32),"),
        (Precision.BF16, True, True, " in bf16,"),
    ],
)
def test_a_loop_is_shown_with_the_precision_of_its_convolutions(
    precision: Precision, in_conv: bool, is_conv_net: bool, shown: str
):
    found = discovery(tf32_in_conv=in_conv, roots=(root(has_4d_weights=is_conv_net),))
    assert shown in loop_sentence(found, config(precision=precision), None)
