"""Tables that fit their terminal."""

from read_report import drawn

from tunekit.report.blocks import Column, table_of

ITEMS = ["one", "three", "seventeen"]
COLUMNS = (
    Column[str]("word", lambda word: word, is_numeric=False),
    Column[str]("letters", lambda word: str(len(word))),
    Column[str]("shouted", lambda word: word.upper() + "!", is_numeric=False),
)


def test_an_optional_column_goes_where_it_has_no_figure() -> None:
    units = Column[str]("units", lambda word: {"three": "3"}.get(word, " n/a "), is_optional=True)
    assert table_of("", (*COLUMNS, units), ITEMS).columns[-1] == "units"
    assert table_of("", (*COLUMNS, units), ["one", ""]).columns[-1] == "shouted"


def test_columns_beyond_a_terminal_go_on_below_beside_the_first() -> None:
    table = table_of("words", COLUMNS, ITEMS)
    assert drawn([table], 20).splitlines() == [
        "",
        "words",
        "word       letters",
        "one              3",
        "three            5",
        "seventeen        9",
        "",
        "word       shouted",
        "one        ONE!",
        "three      THREE!",
        "seventeen  SEVENTEEN!",
    ]
