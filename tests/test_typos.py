"""The hint beside a name that is not known."""

import pytest

from tunekit.typos import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("tial", "did you mean trial or trials?"),
        ("--bu", "did you mean --budget?"),
        ("--b", "look at --help"),
    ],
)
def test_near_names_are_offered_the_nearest_first(name: str, hint: str) -> None:
    known = ["trials", "--budget", "trial", "gpu", "--bind", "--window", "--out"]
    assert did_you_mean(name, iter(known), "look at --help") == hint


def test_no_more_than_three_names_are_offered() -> None:
    assert did_you_mean("gpu", [f"gpu{number}" for number in range(9)], "").count("gpu") == 3
