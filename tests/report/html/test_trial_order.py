"""Trials sorted by a column: by what a cell means, not by its letters."""

from build_records import config, run, trial_record

from tunekit.report.html.page import sort_ranks
from tunekit.report.trials import trials_table


def ranks(column: str, *records) -> list[int | None]:
    table = trials_table(run(trials=records))
    return sort_ranks(table)[table.columns.index(column)]


def test_numbers_are_ranked_as_numbers_and_equal_ones_alike():
    records = [
        trial_record(number, rate, config(batch_size=batch))
        for number, (batch, rate) in enumerate(((1024, 90.0), (64, 1000.0), (64, 200.0)))
    ]
    assert ranks("batch", *records) == [1, 0, 0]
    assert ranks("samples/s", *records) == [0, 2, 1]


def test_a_trial_without_the_figure_has_no_rank():
    assert ranks("samples/s", trial_record(0, 90.0), trial_record(1, None)) == [0, None]


def test_words_are_ranked_by_letters_and_the_dash_of_no_prefetch_has_none():
    records = [trial_record(0, of=config(num_workers=0)), trial_record(1, of=config(compile=True))]
    assert ranks("compile", *records) == [0, 1]
    assert ranks("prefetch", *records) == [None, 0]
