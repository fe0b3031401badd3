"""The hint beside a name that is not known."""

from tunekit.typos import did_you_mean


def test_no_more_than_three_names_are_offered() -> None:
    assert did_you_mean("gpu", [f"gpu{number}" for number in range(9)], "").count("gpu") == 3
