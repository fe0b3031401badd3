"""What takes a GPU's memory as letters: in proportion, as wide as asked for."""

from build_fits import fit, outside
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.prediction import PeakShown, Purpose
from tunekit.report.memory_bar import memory_bar


def test_each_part_has_letters_in_proportion():
    one = fit("a10g", 10.0, (64, 70, 80))
    assert memory_bar(one, outside((0, 1024), (0, 512)), 20) == "PPOOAAAAAAAAAAWCC..."


@given(
    parts=st.dictionaries(st.sampled_from(Purpose), st.integers(0, 40 << 30)),
    width=st.integers(1, 100),
    beside=st.integers(0, 4000),
)
def test_a_bar_is_as_wide_as_asked_for_and_in_order(parts, width: int, beside: int):
    one = fit("a10g", 22.0, (64, 70, 80))
    assert one.peak is not None
    peak = PeakShown(**{**one.peak.model_dump(), "by_purpose": parts})
    bar = memory_bar(one.model_copy(update={"peak": peak}), outside((0, beside)), width)
    assert len(bar) == width
    order = "PGOBAWHC."
    assert sorted(bar, key=order.index) == list(bar)
