"""README names what there is: every variable, every command, every key."""

import re

from gpu_environment import ROOT

from simgpu.cli import build_parser
from simgpu.control import CONTROLS

HOME = ROOT / "simgpu"
README = (HOME / "README.md").read_text()


def test_every_variable_is_documented_and_no_other() -> None:
    sources = [*HOME.glob("src/**/*.[ch]"), *HOME.glob("*.py")]
    used = {name for path in sources for name in re.findall(r'"(SIMGPU(?:_[A-Z]+)*)"', path.read_text())}
    assert set(re.findall(r"^\| `(SIMGPU\w*)` \|", README, re.MULTILINE)) == used


def test_every_verb_is_documented_and_no_other() -> None:
    (verbs,) = (one.choices for one in build_parser()._actions if one.dest == "verb_name")
    table = README.partition("| `python -m simgpu` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == set(verbs or ())


def test_every_control_is_documented() -> None:
    (line,) = re.findall(r"^\| `set .*", README, re.MULTILINE)
    assert set(CONTROLS) <= set(re.findall(r"`(\w+)`", line))
