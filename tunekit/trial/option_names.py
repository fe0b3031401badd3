"""What people call the knobs and the learning rate on their command lines and in their config files."""

import re


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OPTION_NAMES = {
    "batch_size": _names(
        "batchsize perdevicetrainbatchsize trainbatchsize microbatchsize perdevicebatchsize pergpubatchsize "
        "pergputrainbatchsize batchsizeperdevice batchsizepergpu devicebatchsize localbatchsize "
        "minibatchsize batchsizetrain trainbatch batch bsz bs mbs b samplespergpu imgspergpu imsperbatch "
        "maxsentences globalbatchsize totalbatchsize"
    ),
    "num_workers": _names(
        "numworkers dataloadernumworkers loadernumworkers numdataloaderworkers dataloaderworkers "
        "loaderworkers dataworkers workerspergpu workers worker nworkers nworker numthreads nthreads jobs j"
    ),
    "prefetch_factor": _names("prefetchfactor dataloaderprefetchfactor prefetchbatches prefetch"),
    "accumulate_grad_batches": _names(
        "accumulategradbatches gradientaccumulationsteps gradaccumulationsteps gradientaccumulation "
        "gradaccumulation accumulationsteps gradaccumsteps accumsteps gradaccum accumiter accumulate accum "
        "updatefreq itersize"
    ),
    "precision": _names("precision mixedprecision ampdtype dtype torchdtype"),
    "compile": _names("torchcompile compile usecompile compilemodel torchcompilemodel"),
    "channels_last": _names("channelslast"),
    "pin_memory": _names("pinmemory dataloaderpinmemory pinmem"),
    "persistent_workers": _names("persistentworkers dataloaderpersistentworkers"),
    "lr": _names("learningrate lr maxlr baselr lrbase initiallr initlr peaklr lr0"),
}
"""Plain names by knob, and of `lr`; the clearest first."""

PRECISION_SWITCHES = {
    **dict.fromkeys(_names("bf16 usebf16"), "bf16"),
    **dict.fromkeys(_names("fp16 usefp16 half"), "fp16"),
    **dict.fromkeys(_names("amp useamp mixedprecision usemixedprecision autocast"), None),
}
"""Switches of a precision, by plain name, with the one that they mean; None where the script decides."""

ALL_NAMES = tuple(sorted({name for names in OPTION_NAMES.values() for name in names} | {*PRECISION_SWITCHES}))
"""What the agent is asked for."""

_NOT_OF_TRAINING = frozenset(_names("eval evaluation val valid validation test predict inference"))


def plain_name(name: str) -> str:
    """Return the last part of a name in small letters and digits alone: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


def is_of_training(name: str) -> bool:
    """Return whether a dotted name lies outside what a script only evaluates with: not `val.batch_size`."""
    return _NOT_OF_TRAINING.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
