"""Text from anywhere as a terminal and a page may show it. Pure."""


def printable(text: str) -> str:
    r"""Return text with everything written out that is no visible letter, such as `\x1b` and `\u202e`.

    Control characters steer a terminal, line breaks make a name look like a line of the report's own, marks
    of direction and letters without width make a text read as another.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def shown_value(value: object) -> object:
    """Return what a template shows of a value: a text has nothing in it that is no visible letter."""
    return printable(value) if type(value) is str else value
