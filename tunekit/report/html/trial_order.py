"""In which order trials stand when they are sorted by a column. Pure."""

from tunekit.report.trials_table import Key, TrialTable


def sort_ranks(table: TrialTable) -> list[list[int | None]]:
    """Return for every column the rank of each row's key; equal keys have equal ranks, None has none."""
    return [_ranks([row.keys[place] for row in table.rows]) for place in range(len(table.columns))]


def _ranks(keys: list[Key]) -> list[int | None]:
    known = sorted({key for key in keys if key is not None}, key=_order)
    rank = {key: place for place, key in enumerate(known)}
    return [None if key is None else rank[key] for key in keys]


def _order(key: float | str) -> tuple[bool, float, str]:
    """Numbers stand before words."""
    return (True, 0.0, key.casefold()) if isinstance(key, str) else (False, key, "")
