"""Whether a recommended config trains on the user's own samples, in a sentence. Pure."""

from tunekit.records.data_check import Sameness
from tunekit.records.recommendation import Recommendation


def data_text(best: Recommendation | None) -> str:
    """Return the sentence with a space before it; empty where nobody looked, and for the baseline's own."""
    check = best.data_check if best else None
    if check is None:
        return ""
    if check.verdict is Sameness.NOT_CHECKED:
        return f" Data not checked: {check.why_not}."
    contents = f"{check.samples_checked:,} contents compared"
    if not check.samples_checked and check.why_not:
        contents = f"contents not compared ({check.why_not})"
    left_out = f"{check.left_out_samples:,} more left out, others each epoch"
    parts = (
        f"{check.indices_checked:,} per epoch counted",
        contents,
        *([left_out] if check.left_out_samples else []),
    )
    return f" Same samples: {', '.join(parts)}."
