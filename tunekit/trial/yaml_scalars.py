"""One scalar of a YAML text replaced, everything else kept byte for byte.

The text is composed, not constructed: the nodes know where they stand, so that comments, quotes,
anchors, order and line breaks stay what they are.
"""

import re
import warnings
from collections.abc import Sequence

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tunekit.errors import TargetError

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)+(?=\S)")
_ALIAS = re.compile(r"\s*:\s+(\*[^\s,\]}]+)")
_COLON = re.compile(r"\s*:")
_PLAIN = re.compile(r"[A-Za-z_][\w./+-]*", re.ASCII)
_READ_AS_OTHERS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that one version of YAML or another takes for no string."""


def with_scalar(text: str, path: Sequence[str], value: bool | int | float | str | None) -> str:
    """Return the YAML text with another scalar at the path.

    An alias there is replaced by the value, and what its anchor names stays; a value that a merge
    (`<<`) brings in is overridden where it is merged.

    Args:
        text: one document.
        path: names of keys and indices of lists, outermost first; it exists.
        value: what stands there afterwards.

    Raises:
        TargetError: the place is one that can't be rewritten.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an anchor that stands twice
        node = YAML(typ="rt", pure=True).compose(text)
    for step in path[:-1]:
        node = _child(node, step)
    step = path[-1]
    if isinstance(node, SequenceNode):
        return _replaced(text, _own_item(node, int(step)), value)
    pair = _own_pair(node, step)
    if pair is None:
        return _inserted(text, node, step, value)
    key, held = pair
    after_key = key.end_mark.index
    if held.start_mark.index < after_key:  # an alias: the node stands where its anchor is
        alias = _ALIAS.match(text, after_key)
        if alias is None:
            raise TargetError(f"the alias at {'.'.join(path)} can't be rewritten; write its value there")
        return text[: alias.start(1)] + scalar_text(value) + text[alias.end(1) :]
    if held.start_mark.index == held.end_mark.index:
        colon = _COLON.match(text, after_key)
        if colon is None:
            raise TargetError(f"{'.'.join(path)} has no value to rewrite; write one, after a colon")
        return f"{text[: colon.end()]} {scalar_text(value)}{text[colon.end() :]}"
    return _replaced(text, held, value)


def scalar_text(value: bool | int | float | str | None, style: str | None = None) -> str:
    """Return a scalar that YAML 1.1 and 1.2 read alike.

    Args:
        value: the scalar.
        style: quotes that a string should have; None for as few as it needs.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)  # YAML 1.1 takes 5e-05 for a string: it wants the point
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if style is None and _PLAIN.fullmatch(value) and value.lower() not in _READ_AS_OTHERS:
        return value
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(_escaped(letter) for letter in value) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _replaced(text: str, node: Node, value: bool | int | float | str | None) -> str:
    """Return the text with the scalar's own span replaced; its anchor stays, its tag goes."""
    if not isinstance(node, ScalarNode) or node.style in ("|", ">") or node.start_mark == node.end_mark:
        raise TargetError("the place holds no scalar on one line; write a plain value there")
    start, end = node.start_mark.index, node.end_mark.index
    properties = _PROPERTIES.match(text, start, end)
    anchor = f"&{node.anchor} " if node.anchor and properties else ""
    style = node.style if isinstance(value, str) else None
    return f"{text[:start]}{anchor}{scalar_text(value, style)}{text[end:]}"


def _inserted(text: str, node: MappingNode, key: str, value: bool | int | float | str | None) -> str:
    """Return the text with a key of its own put before the first key of a mapping that merges it in."""
    first: Node = node.value[0][0]
    place = first.start_mark.index
    between = ", " if node.flow_style else "\n" + " " * first.start_mark.column
    return f"{text[:place]}{key}: {scalar_text(value)}{between}{text[place:]}"


def _own_item(node: SequenceNode, index: int) -> Node:
    item: Node = node.value[index]
    if item.start_mark.index < node.start_mark.index or item in node.value[:index]:
        raise TargetError("the place in the list is an alias; write its value there")
    return item


def _own_pair(node: Node, step: str) -> tuple[Node, Node] | None:
    """Return key and value of a mapping's own entry; the last one, as readers of doubled keys do."""
    if not isinstance(node, MappingNode):
        raise TargetError(f"no mapping holds {step!r}; write the key on lines of its own")
    return next(((key, held) for key, held in reversed(node.value) if key.value == step), None)


def _child(node: Node, step: str) -> Node:
    if isinstance(node, SequenceNode):
        child: Node = node.value[int(step)]
        return child
    pair = _own_pair(node, step)
    if pair is not None:
        return pair[1]
    for merge, held in node.value:
        if merge.value != "<<":
            continue
        for merged in held.value if isinstance(held, SequenceNode) else [held]:
            try:
                return _child(merged, step)
            except TargetError:
                continue
    raise TargetError(f"the key {step!r} can't be rewritten where it stands; write it on a line of its own")
