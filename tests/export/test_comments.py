import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.export.yaml_config import comment


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
