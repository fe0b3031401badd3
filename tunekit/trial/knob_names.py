"""What people call the knobs, in scripts and on a command line. Pure."""

from collections.abc import Iterable
from itertools import chain

from tunekit.records.config import KNOB, KNOBS, TABLE, Precision
from tunekit.typos import did_you_mean

LEARNING_RATE = "lr"
"""Not a knob that is searched, but bound like one."""

STEPS = "steps"
"""How long the training is: bound where the script has an option for it, and scaled with the batch."""

BINDABLE = (*KNOBS, LEARNING_RATE, STEPS)
"""Everything that a binding can be for."""

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
"""Plain names by knob, and of `lr` and `steps`; the clearest first."""
STEP_NAMES = frozenset(OPTION_NAMES[STEPS])
"""Names of how long a training or its schedule is, in steps; none that counts epochs or samples."""
WARM_UP_NAMES = frozenset(f"{a}warmup{b}" for a in ("", "num", "lr", "lrnum") for b in ("steps", "iters"))
"""Names of how many of them a learning rate takes to rise."""

PRECISION_SWITCHES = {
    **dict.fromkeys(("bf16", "usebf16"), "bf16"),
    **dict.fromkeys(("fp16", "usefp16", "half"), "fp16"),
    **dict.fromkeys(("amp", "useamp", "mixedprecision", "usemixedprecision", "autocast"), None),
}
"""Switches of a precision, by plain name, with the one that they mean; None where the script decides."""

ALL_NAMES = tuple(sorted({*chain(*OPTION_NAMES.values()), *PRECISION_SWITCHES, *WARM_UP_NAMES}))
"""What the agent is asked for."""


def plain_name(name: str) -> str:
    """Return the last part of a name in small letters and digits alone: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


def knob_hint(name: str, known: Iterable[str] = KNOBS) -> str:
    """Return a hint for a name that is none of the known ones, such as "did you mean batch_size?" for bs.

    Args:
        name: as it was written.
        known: knobs, and other names that would do.
    """
    names, plain = list(known), plain_name(name)
    called = next((knob for knob in BINDABLE if plain in OPTION_NAMES[knob]), "")
    if plain in (*Precision, *PRECISION_SWITCHES):
        called = "precision"
    if called not in names:
        return did_you_mean(name, names, f"use one of {', '.join(names)}")
    choices = KNOB[called].choices if called in KNOB else ()
    return f"did you mean {called}{', one of ' if choices else ''}{', '.join(choices)}?"
