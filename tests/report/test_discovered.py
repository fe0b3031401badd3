"""What `tunekit init` shows of bindings that were tried."""

from tunekit.report.discovered import TriedRow, tried_table


def test_what_the_loop_did_not_follow_is_not_written():
    table = tried_table(
        [
            TriedRow("batch_size=--bs {}", "16", "batches of 16", works=True),
            TriedRow("num_workers=-j {}", "1", "the training loader has 0\x1b[31m", works=False),
        ]
    )
    assert table.columns == ("binding", "set to", "the loop then", "works")
    assert table.rows[0] == ("batch_size=--bs {}", "16", "batches of 16", "yes")
    assert table.rows[1][3] == "not written"
    assert "\x1b" not in table.rows[1][2]
