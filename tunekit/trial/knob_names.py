"""What people call the knobs, in scripts and on a command line. Pure."""

from collections.abc import Iterable
from itertools import chain

from tunekit.records.config import KNOB, KNOBS, TABLE, Precision
from tunekit.typos import did_you_mean

LEARNING_RATE = "lr"
"""Not a searched knob, but bound like one."""

STEPS = "steps"
"""The training's length: bound if the script has an option for it, and scaled with the batch."""

BINDABLE = (*KNOBS, LEARNING_RATE, STEPS)
"""Everything that can be bound."""

_SEEN_IN_SCRIPTS = {
    **{knob.name: knob.seen_as for knob in TABLE},
    LEARNING_RATE: "learningrate lr maxlr baselr lrbase initiallr initlr peaklr lr0",
    STEPS: """
        maxsteps totalsteps numsteps steps trainsteps trainingsteps numtrainsteps numtrainingsteps
        maxtrainsteps maxiters maxiter totaliters totaliter numiters niters iters iterations maxiterations
        trainiters maxupdates totalupdates stepsperepoch tmax lrannealsteps annealsteps
    """,
}

OPTION_NAMES = {knob: tuple(names.split()) for knob, names in _SEEN_IN_SCRIPTS.items()}
"""Plain names of options by knob, including `lr` and `steps`; the clearest first."""
STEP_NAMES = frozenset(OPTION_NAMES[STEPS])
"""Option names for the length of a training or its schedule in steps, not in epochs or samples."""
WARM_UP_NAMES = frozenset(f"{a}warmup{b}" for a in ("", "num", "lr", "lrnum") for b in ("steps", "iters"))
"""Option names for the number of steps in which the learning rate warms up."""

PRECISION_SWITCHES = {
    **dict.fromkeys(("bf16", "usebf16"), "bf16"),
    **dict.fromkeys(("fp16", "usefp16", "half"), "fp16"),
    **dict.fromkeys(("amp", "useamp", "mixedprecision", "usemixedprecision", "autocast"), None),
}
"""Plain names of switches -> the precision that they turn on; None if the script chooses."""

ALL_NAMES = tuple(sorted({*chain(*OPTION_NAMES.values()), *PRECISION_SWITCHES, *WARM_UP_NAMES}))
"""All option names that the agent should report."""


def plain_name(name: str) -> str:
    """Return a name's last part, lower-cased and without punctuation: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


def knob_hint(name: str, known: Iterable[str] = KNOBS) -> str:
    """Return a hint for an unknown name, such as "did you mean batch_size?" for bs.

    Args:
        name: the name as typed.
        known: the valid names.
    """
    names, plain = list(known), plain_name(name)
    called = next((knob for knob in BINDABLE if plain in OPTION_NAMES[knob]), "")
    if plain in (*Precision, *PRECISION_SWITCHES):
        called = "precision"
    if called not in names:
        return did_you_mean(name, names, f"use one of {', '.join(names)}")
    choices = KNOB[called].choices if called in KNOB else ()
    return f"did you mean {called}{', one of ' if choices else ''}{', '.join(choices)}?"
