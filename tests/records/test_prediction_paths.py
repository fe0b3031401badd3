"""How steps were traced is read in the words of older runs too."""

import pytest

from tunekit.records.prediction import PredictionPath


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("steps of the script's own loop, on the CPU with torch's ways of a GPU", PredictionPath.LOOP_ON_CPU),
        (
            "steps of the script's own loop without their arithmetic, with torch's ways of a GPU",
            PredictionPath.LOOP_DRY,
        ),
        *((path.value, path) for path in PredictionPath),
    ],
)
def test_a_path_is_read_as_it_was_ever_written(written: str, path: PredictionPath):
    assert PredictionPath(written) is path


@pytest.mark.parametrize("written", ["", "steps of another kind"])
def test_words_that_were_never_written_are_no_path(written: str):
    with pytest.raises(ValueError, match="is not a valid PredictionPath"):
        PredictionPath(written)
