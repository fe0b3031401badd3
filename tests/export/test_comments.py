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


def test_further_lines_are_indented():
    first, second = comment("word " * 25)
    assert first == "# " + " ".join(["word"] * 19)
    assert second == "#   " + " ".join(["word"] * 6)
