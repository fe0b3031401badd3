"""What `tunekit init` shows of a loop and of bindings that were tried."""

import pytest
from build_records import config, discovery, root

from tunekit.records.config import Precision
from tunekit.report.discovery import BindingTrialRow, binding_trials_table, loop_sentence


def test_what_the_loop_did_not_follow_is_not_written():
    table = binding_trials_table(
        [
            BindingTrialRow("batch_size=--bs {}", "16", "batches of 16", works=True),
            BindingTrialRow("num_workers=-j {}", "1", "the training loader has 0\x1b[31m", works=False),
        ]
    )
    assert table.rows[0] == ("batch_size=--bs {}", "16", "yes", "batches of 16")
    assert table.rows[1][2] == "not written"


@pytest.mark.parametrize(
    ("precision", "in_conv", "is_conv_net", "told"),
    [
        (Precision.FP32, True, True, " in fp32 (convolutions in tf32),"),
        (Precision.FP32, False, True, " in fp32,"),
        (Precision.FP32, None, True, " in fp32,"),
        (Precision.FP32, True, False, " in fp32,"),
        (Precision.TF32, False, True, " in tf32 (convolutions in fp32),"),
        (Precision.TF32, True, True, " in tf32,"),
        (Precision.BF16, True, True, " in bf16,"),
    ],
)
def test_a_loop_is_told_with_the_precision_of_its_convolutions(
    precision: Precision, in_conv: bool | None, is_conv_net: bool, told: str
):
    found = discovery(tf32_in_conv=in_conv, roots=(root(has_4d_weights=is_conv_net),))
    assert told in loop_sentence(found, config(precision=precision), None)
