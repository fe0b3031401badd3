"""What people call the knobs and the learning rate on their command lines and in their config files."""

import re

OPTION_NAMES = {
    "batch_size": (
        "batchsize",
        "perdevicetrainbatchsize",
        "trainbatchsize",
        "microbatchsize",
        "perdevicebatchsize",
        "pergpubatchsize",
        "pergputrainbatchsize",
        "batchsizeperdevice",
        "batchsizepergpu",
        "devicebatchsize",
        "localbatchsize",
        "minibatchsize",
        "batchsizetrain",
        "trainbatch",
        "batch",
        "bsz",
        "bs",
        "mbs",
        "b",
        "samplespergpu",
        "imgspergpu",
        "imsperbatch",
        "maxsentences",
        "globalbatchsize",
        "totalbatchsize",
    ),
    "num_workers": (
        "numworkers",
        "dataloadernumworkers",
        "loadernumworkers",
        "numdataloaderworkers",
        "dataloaderworkers",
        "loaderworkers",
        "dataworkers",
        "workerspergpu",
        "workers",
        "worker",
        "nworkers",
        "nworker",
        "numthreads",
        "nthreads",
        "jobs",
        "j",
    ),
    "prefetch_factor": ("prefetchfactor", "dataloaderprefetchfactor", "prefetchbatches", "prefetch"),
    "accumulate_grad_batches": (
        "accumulategradbatches",
        "gradientaccumulationsteps",
        "gradaccumulationsteps",
        "gradientaccumulation",
        "gradaccumulation",
        "accumulationsteps",
        "gradaccumsteps",
        "accumsteps",
        "gradaccum",
        "accumiter",
        "accumulate",
        "accum",
        "updatefreq",
        "itersize",
    ),
    "precision": ("precision", "mixedprecision", "ampdtype", "dtype", "torchdtype"),
    "compile": ("torchcompile", "compile", "usecompile", "compilemodel", "torchcompilemodel"),
    "channels_last": ("channelslast",),
    "pin_memory": ("pinmemory", "dataloaderpinmemory", "pinmem"),
    "persistent_workers": ("persistentworkers", "dataloaderpersistentworkers"),
    "lr": ("learningrate", "lr", "maxlr", "baselr", "lrbase", "initiallr", "initlr", "peaklr", "lr0"),
}
"""Plain names by knob, and of `lr`; the clearest first."""

PRECISION_SWITCHES = {
    "bf16": "bf16",
    "usebf16": "bf16",
    "fp16": "fp16",
    "usefp16": "fp16",
    "half": "fp16",
    "amp": None,
    "useamp": None,
    "mixedprecision": None,
    "usemixedprecision": None,
    "autocast": None,
}
"""Switches of a precision, by plain name, with the one that they mean; None where the script decides."""

ALL_NAMES = tuple(sorted({name for names in OPTION_NAMES.values() for name in names} | {*PRECISION_SWITCHES}))
"""What the agent is asked for."""

_NOT_OF_TRAINING = frozenset(
    ("eval", "evaluation", "val", "valid", "validation", "test", "predict", "inference")
)


def plain_name(name: str) -> str:
    """Return the last part of a name in small letters and digits alone: `--data.batchSize` is batchsize."""
    last = name.lstrip("-").rsplit(".", 1)[-1]
    return "".join(letter for letter in last.lower() if letter.isalnum())


def is_of_training(name: str) -> bool:
    """Return whether a dotted name lies outside what a script only evaluates with: not `val.batch_size`."""
    return _NOT_OF_TRAINING.isdisjoint(re.split(r"[^a-z0-9]+", name.lower()))
