import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.export.yaml_config import comment, comment_table


@given(st.text())
def test_no_text_breaks_out_of_a_comment(text):
    found = comment(text)
    assert found
    for line in found:
        assert line.startswith("#")
        assert len(line) <= 100
        assert line.isprintable()


@pytest.mark.parametrize("text", ["", " ", "\n\x00"])
def test_nothing_to_say_is_an_empty_comment(text):
    assert comment(text) == ["#"]


def test_further_lines_are_indented():
    first, second = comment("word " * 25)
    assert first == "# " + " ".join(["word"] * 19)
    assert second == "#   " + " ".join(["word"] * 6)


def test_a_table_is_aligned_to_the_right():
    assert comment_table(("a", "long"), (("100", "1"), ("2", "22"))) == [
        "#   a  long",
        "# 100     1",
        "#   2    22",
    ]


def test_a_row_too_wide_is_wrapped():
    found = comment_table(("a", "b"), (("1" * 60, "2" * 60),))
    assert found[1:] == ["# " + "1" * 60, "#   " + "2" * 60]
    assert all(len(line) <= 100 for line in found[1:])
