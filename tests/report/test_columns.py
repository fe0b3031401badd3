"""Tables that fit their terminal."""

from hypothesis import given
from hypothesis import strategies as st

from tunekit.report.blocks import Column, Report, Table, fitted_table
from tunekit.report.html.page import page
from tunekit.report.markdown import markdown

ITEMS = ["one", "three", "seventeen"]
COLUMNS = (
    Column[str]("word", lambda word: word, is_numeric=False),
    Column[str]("letters", lambda word: str(len(word)), drop=1),
    Column[str]("shouted", lambda word: word.upper() + "!", is_numeric=False, drop=2),
)


def width_of(table: Table) -> int:
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def test_the_least_needed_column_goes_first_and_what_must_stay_stays() -> None:
    assert fitted_table("", COLUMNS, ITEMS, 30).columns == ("word", "letters", "shouted")
    assert fitted_table("", COLUMNS, ITEMS, 29).columns == ("word", "letters")
    assert fitted_table("", COLUMNS, ITEMS, 17).columns == ("word",)
    assert fitted_table("", COLUMNS, ITEMS, 1).columns == ("word",)


def test_columns_of_one_number_go_together() -> None:
    pair = (COLUMNS[0], *(Column[str](title, str.upper, drop=1) for title in ("low", "high")))
    assert fitted_table("", pair, ITEMS, 31).columns == ("word", "low", "high")
    assert fitted_table("", pair, ITEMS, 30).columns == ("word",)


def test_an_optional_column_goes_where_it_has_no_figure() -> None:
    units = Column[str]("units", lambda word: {"three": "3"}.get(word, " n/a "), is_optional=True)
    assert fitted_table("", (*COLUMNS, units), ITEMS, 80).columns[-1] == "units"
    assert fitted_table("", (*COLUMNS, units), ["one", ""], 80).columns[-1] == "shouted"


def test_a_column_goes_below_the_one_before_it_before_any_goes_for_good() -> None:
    below = (*COLUMNS[:2], Column[str]("long", lambda word: word * 2 if "e" in word else "", is_below=True))
    assert fitted_table("", below, ITEMS, 80).columns == ("word", "letters", "long")
    stacked = fitted_table("", below, ITEMS, 32)
    assert stacked.columns == ("word", "letters, long")
    assert fitted_table("", below, ["e"], 14).columns == ("word", "letters\nlong")
    assert stacked.row_lines == (
        ("one", "3"),
        ("", "oneone"),
        ("three", "5"),
        ("", "threethree"),
        ("seventeen", "9"),
        ("", "seventeenseventeen"),
    )
    assert stacked.numeric == (1,)
    three = (COLUMNS[0], *(Column[str](title, str.upper, is_below=title != "a") for title in ("a", "b", "c")))
    assert fitted_table("", three, ITEMS, 30).columns == ("word", "a\nb\nc")
    assert fitted_table("", below, ["onto", "red"], 19).row_lines == (
        ("onto", "4"),
        ("red", "3"),
        ("", "redred"),
    )
    assert fitted_table("", below, ITEMS, 20).columns == ("word",)


def test_lines_of_a_cell_stay_in_their_row_on_the_page_and_in_markdown() -> None:
    below = (*COLUMNS[:2], Column[str]("long", lambda word: word * 2, is_below=True))
    report = Report("words", (fitted_table("", below, ["one", "three"], 24),))
    assert '<td class="n">3\noneone</td>' in page(report)
    assert "| 3<br>oneone |" in markdown(report)
    hostile = fitted_table("", below, ["a\nb", "three"], 24)
    assert hostile.row_lines[0][0] == r"a\nb"


@given(st.lists(st.text(max_size=20), max_size=5), st.integers(1, 100))
def test_a_table_exceeds_its_width_only_by_what_must_stay(items: list[str], width: int) -> None:
    table = fitted_table("", COLUMNS, items, width)
    assert width_of(table) <= width or table.columns == ("word",)
    assert len(table.rows) == len(items)
