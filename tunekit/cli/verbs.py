"""Every verb with its flags. What a verb does is in the module of its name."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunekit.cli import flags
from tunekit.cli.flags import COUNT, FOLDER, Value, argument, choice, option, switch
from tunekit.cli.numbers import (
    counts,
    data_path,
    duration_s,
    memory_bytes,
    natural,
    positive,
    positive_number,
    rate,
    share,
)
from tunekit.records import options as rows
from tunekit.workloads import WORKLOADS

TIERS = ("conservative", "balanced", "aggressive")
BASELINE = "baseline"
FRAMEWORKS = {
    "lightning": "Trainer and data module arguments, for LightningCLI --config",
    "hf": "TrainingArguments as JSON, for HfArgumentParser",
    "accelerate": "a YAML for accelerate launch --config_file",
    "hydra": "overrides on a command line",
    "timm": "arguments of timm's train.py",
    "torchrun": "the searched command, with a process per GPU here",
    "keys": "a YAML with your own keys",
}
"""The frameworks that `export` writes for, and what it writes; see tunekit.export.frameworks."""
IN_THE_FOLDER = ""
"""The value of a report's flag without a file name."""
COMPARED_ROUNDS = 3
"""Rounds of a loop profile that compares configs."""

_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
_MAX_MEMORY = 1e6
"""The largest number of GiB or MiB that a flag takes."""
_GIB, _MIB = Value("GIB", memory_bytes), Value("MIB", positive_number("MiB", _MAX_MEMORY))
_NAME, _RUN = Value("NAME"), Value("RUN", Path)
_COMMAND = "[options] [-- COMMAND ...]"


@dataclass(frozen=True)
class Verb:
    """One verb; the module `tunekit.cli.NAME` has the `run_verb(options, command)` that runs it."""

    flags: Callable[[argparse.ArgumentParser], None]
    help: str
    usage: str
    """What follows its name."""
    description: str
    epilog: str | None = None

    @property
    def takes_command(self) -> bool:
        """Whether it takes a training command and the project's settings."""
        return "COMMAND" in self.usage


def _search(parser: argparse.ArgumentParser) -> None:
    flags.workload(flags.target(parser))
    knobs = parser.add_argument_group("what to search")
    flags.add(knobs, *rows.SEARCH_KNOBS)
    flags.fix(knobs)
    flags.add(parser.add_argument_group("time"), *rows.SEARCH_TIME)
    output = parser.add_argument_group("output")
    meaning = "search together with other hosts: a folder that all see, or postgresql://USER@HOST/DATABASE"
    option(output, "--share", Value("WHERE"), meaning)
    option(output, "--out", FOLDER, "run folder (default: reports/TARGET-DATE)")
    option(output, "--resume", FOLDER, "resume this run; another user's needs its command too")
    switch(output, "--dry-run", "show the command, search space and time; run and write nothing")
    flags.loudness(output)
    switch(output, "--json", "print the run as JSON; progress goes to stderr")
    flags.findings(output)
    flags.github_summary(output)
    flags.full_paths(output)


def _profile(parser: argparse.ArgumentParser) -> None:
    group = flags.target(parser)
    flags.workload(group)
    flags.add(group, rows.FIX)
    flags.fix(group)
    group = parser.add_argument_group("what to measure")
    usual = f"1; {COMPARED_ROUNDS} with --against or --ablate"
    option(group, "--rounds", COUNT, f"fresh processes per config, interleaved (default: {usual})")
    meaning = "compare with this config, written by a search or by hand"
    option(group, "--against", Value("FILE.yaml", Path), meaning)
    switch(group, "--ablate", "measure each optimisation alone, then stacked")
    flags.add(group, rows.WINDOW, rows.BUDGET, rows.WAIT_QUIET)
    switch(group, "--trace-kernels", "also trace a few steps with torch.profiler")
    flags.folder(parser, "profile", "profile")


def _fits(parser: argparse.ArgumentParser) -> None:
    meaning = "with --ram: the folder of a search, a profile or a fits prediction"
    argument(parser, "RUN", Path, meaning, nargs="?")
    flags.workload(flags.target(parser, with_gpu=False))
    group = parser.add_argument_group("what to predict")
    meaning = "predict for this GPU only (default: all that tunekit gpus lists)"
    option(group, "--gpu", _NAME, meaning, repeatable=True, dest="gpus")
    option(group, "--batch-size", COUNT, "show where batch size N fits, and its rate")
    meaning = "seconds to time the loader alone, or on a GPU the whole loop (default: 2)"
    flags.add(group, rows.WINDOW._replace(help=meaning))
    meaning = "show how much of its RAM and GPU memory a RUN takes; nothing is run"
    memory = parser.add_argument_group("another machine", meaning)
    option(memory, "--ram", _GIB, "its RAM in GiB, or with a unit: 64GB")
    option(memory, "--cpus", COUNT, "its CPUs")
    option(memory, "--shm", _GIB, "its /dev/shm (default: unknown, no limit)")
    option(memory, "--workers", COUNT, "loader workers (default: the run's, if not OOM)")
    option(memory, "--prefetch", COUNT, "prefetch factor (default: the run's, if not OOM)")
    option(memory, "--batch-mib", _MIB, "size of one batch (default: what the run measured)")
    flags.folder(parser, "fits", "prediction")


def _scale(parser: argparse.ArgumentParser) -> None:
    flags.target(parser)
    group = parser.add_argument_group("what to measure")
    meaning = "numbers of processes here (default: powers of two up to the GPUs, else the CPU cores)"
    option(group, "--processes", Value("N,N,...", counts), meaning)
    switch(group, "--strong", "keep the global batch, shared by the processes (default: each keeps its own)")
    option(group, "--rounds", COUNT, "fresh processes of each number, interleaved (default: 3)")
    flags.add(group, rows.BUDGET, rows.WAIT_QUIET, rows.WINDOW, rows.LR, rows.BASE_BATCH)
    flags.folder(parser, "scale", "measured scaling")


def _init(parser: argparse.ArgumentParser) -> None:
    flags.target(parser)
    switch(parser, "--dry-run", "show what was found, write nothing")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG.yaml", type=Path, help="a config that a search wrote")
    flags.add(parser, rows.BIND)
    switch(parser, "--keep-lr", "keep the script's learning rate although the global batch changes")
    switch(parser, "--force", "apply the config although it was measured on another device")
    switch(parser, "--record", "record the training beside the config, for tunekit monitor and report")
    switch(parser, "--dry-run", "print the knobs and the command; start nothing")


def _monitor(parser: argparse.ArgumentParser) -> None:
    argument(parser, "PID", positive, "process of a running training", nargs="?")
    option(parser, "--price", Value("USD", positive_number("dollars")), "dollars per hour of this machine")
    switch(parser, "--json", "print one JSON object per line")


def _export(parser: argparse.ArgumentParser) -> None:
    argument(parser, "RUN", Path, "the folder of a search, or a config in it")
    choice(parser, "--to", tuple(FRAMEWORKS), "the framework", required=True)
    choice(parser, "--tier", TIERS, "which config of the folder (default: the recommended one)")
    meaning = "dotted key of a knob or of lr, for hydra, keys and lightning: batch_size=data.bs"
    option(parser, "--key", Value("KNOB=KEY"), meaning, repeatable=True)
    option(parser, "--out", Value("FILE", Path), "write it to FILE (default: print it)")


def _plan(parser: argparse.ArgumentParser) -> None:
    argument(parser, "RUN", Path, "the folder that a search or fits wrote", nargs="?")
    training = parser.add_argument_group("the training")
    choice(training, "--tier", TIERS, "whose rate to take from the run (default: balanced)")
    meaning = "measured rate, instead of a run: 282 (samples/s), 1.1it/s or 0.9s/it"
    option(training, "--rate", Value("R", rate), meaning)
    meaning = "samples per iteration on all GPUs: for a --rate in it/s, and for checkpoints in steps"
    option(training, "--batch-size", COUNT, meaning)
    option(training, "--samples", COUNT, "samples per epoch, such as 50k or 1.28M (default: the run's)")
    option(training, "--epochs", COUNT, "epochs (default: the run's)")
    meaning = "GPU of --rate (default: the one here), or which predicted GPU to start from"
    option(training, "--gpu", _NAME, meaning)
    option(training, "--gpus", COUNT, "GPUs that --rate was measured on (default: 1)")
    meaning = "precision of --rate (default: fp32, assumed) or of the prediction"
    choice(training, "--precision", _PRECISIONS, meaning)
    size = Value("N", positive_number("GiB", _MAX_MEMORY))
    option(training, "--memory-gib", size, "peak memory per GPU (default: what the run reserved)")
    assumed = parser.add_argument_group("assumptions")
    option(assumed, "--max-session", flags.LONG_TIME, "longest notebook session", default="12h")
    switch(assumed, "--no-checkpoints", "the script writes none to resume from")
    meaning = "samples/s per loader CPU (default: from the run, else its share of --rate)"
    option(assumed, "--loader-rate", Value("N", positive_number("samples/s")), meaning)
    meaning = "rate per GPU of more GPUs, as a share (default: predicted from the run, else 0.8..1.0)"
    option(assumed, "--scaling", Value("LO..HI"), meaning)
    project = parser.add_argument_group("a project of several trainings")
    meaning = "plan the milestones of this file, each with its data, hardware, runs and epochs"
    option(project, "--milestones", Value("FILE.yaml", Path), meaning)
    option(project, "--max-cost", Value("USD", positive_number("dollars")), "highest total cost")
    meaning = "when all must be done: a day, such as 2026-12-20, or a time from now, such as 3d"
    option(project, "--deadline", Value("WHEN"), meaning)
    machines = parser.add_argument_group("the machines")
    option(machines, "--provider", _NAME, "only machines of this provider", repeatable=True)
    meaning = "hourly price of an instance, or of your own machine with one such GPU"
    option(machines, "--price", Value("NAME=USD"), meaning, repeatable=True)
    option(machines, "--only", Value("GPU"), "only machines with this GPU", repeatable=True)
    option(machines, "--max-hours", Value("H", positive_number("hours")), "leave out what takes longer")
    switch(machines, "--spot", "let the choices use spot prices too")
    flags.full(machines)
    flags.output(machines, "print the plan as JSON")


def _report(parser: argparse.ArgumentParser) -> None:
    meaning = "folder of a search, a profile, a fits prediction, a scaling or a recording"
    argument(parser, "RUN", Path, meaning)
    for flag, name, what in (
        ("--html", "report.html", "a self-contained HTML file"),
        ("--markdown", "report.md", "Markdown for a pull request, under 60 lines for a search"),
    ):
        meaning = f"write {what} (default: RUN/{name}; - prints it)"
        option(parser, flag, Value("FILE"), meaning, nargs="?", const=IN_THE_FOLDER)
    meaning = "append a search to this Markdown log of experiments, or replace its entry there"
    option(parser, "--log", Value("FILE", Path), meaning)
    meaning = "log a search to wandb, mlflow, tensorboard (RUN/tensorboard) or tensorboard:FOLDER"
    option(parser, "--track", Value("TRACKER"), meaning, repeatable=True)
    flags.github_summary(parser)
    flags.full_paths(parser)
    flags.full(parser)
    switch(parser, "--json", "print the record as JSON instead")
    flags.findings(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    argument(parser, "RUN", Path, "run folders of searches, the reference first", nargs="+")
    option(parser, "--tolerance", Value("SHARE", share), "allowed slowdown, as 5%% or 0.05", default=0.05)
    meaning = "which config to compare; baseline is the script's own (default: the one each run recommends)"
    choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    flags.full(parser)
    flags.github_summary(parser)
    flags.output(parser, "print the comparison as JSON")


def _gpus(parser: argparse.ArgumentParser) -> None:
    argument(parser, "NAME", str, "an id, an alias or the driver's name (default: all)", nargs="*")
    switch(parser, "--refresh", "first fetch current prices, which plan uses too (pip install gpuhunt)")
    switch(parser, "--json", "print the profiles as JSON")


def _workloads(parser: argparse.ArgumentParser) -> None:
    meaning = "make the missing data of this workload now"
    parser.add_argument("name", metavar="NAME", nargs="?", choices=tuple(WORKLOADS), help=meaning)
    option(parser, "--samples", COUNT, "number of samples (default: as listed)")
    option(parser, "--data", FOLDER, "keep the data here (default: ~/.cache/tunekit/NAME)")
    switch(parser, "--json", "print the workloads as JSON")


def _doctor(parser: argparse.ArgumentParser) -> None:
    meaning = "data set to measure storage on: up to 3 s of reads, dropping part of it from the page cache"
    option(parser, "--data", Value("PATH", data_path), meaning, repeatable=True)
    option(parser, "--run", _RUN, "take workers and batch size from this run")
    meaning = "which config of the run (default: balanced, or the nearest that it has)"
    choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    option(parser, "--workers", Value("N", natural), "loader workers of each training process")
    option(parser, "--prefetch", COUNT, "prefetch factor (default: 2)")
    option(parser, "--batch-mib", _MIB, "size of one batch")
    option(parser, "--processes", COUNT, "training processes (ranks) on this machine (default: 1)")
    meaning = "only measure this GPU for predictions, in a minute: memory outside torch, speed of ops"
    switch(parser, "--calibrate", meaning)
    flags.output(parser, "print facts and findings as JSON")


def _data(parser: argparse.ArgumentParser) -> None:
    argument(parser, "PATH", data_path, "a zarr store, or a folder of files; it is only read")
    layout = parser.add_argument_group("the layout")
    meaning = "time to measure and to search (default: 60s)"
    option(layout, "--budget", Value("TIME", duration_s), meaning)
    option(layout, "--array", _NAME, "whose layout to search or change (default: the slowest)")
    ratio = Value("X", positive_number("times today's size", 100.0))
    option(layout, "--max-size", ratio, "largest size on disk, as a multiple of today's", default=1.5)
    rewriting = parser.add_argument_group("rewriting")
    meaning = "write the store in the recommended layout to this new folder; run it again to resume"
    option(rewriting, "--rewrite", Value("NEW", Path), meaning)
    option(rewriting, "--chunks", COUNT, "samples per chunk, instead of a search")
    option(rewriting, "--shards", COUNT, "samples per shard, a multiple of --chunks (default: no shards)")
    choice(rewriting, "--codec", rows.CODECS, "compressor (default: the array's)")
    output = parser.add_argument_group("output")
    meaning = "GPU whose memory could hold the data (default: the one here)"
    option(output, "--gpu", _NAME, meaning)
    flags.output(output, "print the report as JSON; progress goes to stderr")


def _explain(parser: argparse.ArgumentParser) -> None:
    meaning = "a code, such as data-bound, device_oom or no gain (default: list them all)"
    argument(parser, "CODE", str, meaning, nargs="*")


def _schema(parser: argparse.ArgumentParser) -> None:
    meaning = "the verb whose --json it describes (default: list them)"
    parser.add_argument("of", metavar="VERB", nargs="?", help=meaning)


VERBS = {
    "search": Verb(
        _search,
        "tune a training command: baseline, search, confirmation, three configs",
        _COMMAND,
        "Run the training command as it is, measure it, search batch size, loader, precision and compile, "
        "confirm the winners against the baseline in fresh processes, and write three configs and a report. "
        "Without a command it tunes the built-in workload `images`.",
        "examples:\n"
        "  tunekit search -- python train.py --config configs/full.yaml\n"
        "  tunekit search --gpu a10g --budget 20m --max-batch 256 -- python train.py\n"
        "  tunekit search --dry-run -- python train.py\n"
        "  tunekit search --workload ppg -- --samples 1000000",
    ),
    "profile": Verb(
        _profile,
        "measure one config's loop: where step time and memory go, and what would help",
        _COMMAND,
        "Run the training command as it is, and show where step time goes, how much memory loader and model "
        "take, and what would help. Without a command it profiles the built-in workload `images`.",
        "example:\n"
        "  tunekit profile --ablate -- python train.py --config configs/full.yaml\n"
        "a file for --against, written by hand; knobs that it leaves out stay as in the script:\n"
        "  num_workers: 4\n"
        "  precision: bf16",
    ),
    "fits": Verb(
        _fits,
        "predict the largest batch and samples/s on every GPU, from one short trial here",
        f"{_COMMAND}\n       tunekit fits RUN --ram GIB --cpus N [--gpu NAME] [options]",
        "Trace a few steps of the training command, on any machine (on a CPU on tensor shapes only), and "
        "predict the largest batch that fits each GPU, what takes the memory, and the rate there. "
        "Without a command it predicts for the built-in workload `images`.",
        "examples:\n"
        "  tunekit fits --gpu t4 --gpu a10g --batch-size 256 -- python train.py\n"
        "  tunekit fits reports/train-fits --ram 62 --cpus 16 --gpu a10g",
    ),
    "scale": Verb(
        _scale,
        "measure how the training scales on 1, 2, 4, ... processes",
        "[options] -- COMMAND ...",
        "Run the training command under torchrun on 1, 2, 4, ... processes, in turns, and show samples/s, "
        "efficiency, what an iteration loses to communication, and the learning rate for each global batch. "
        "torchrun and accelerate launch have their own number of processes replaced; elsewhere write "
        "{processes} in its place.",
        "examples:\n"
        "  tunekit scale -- python train_ddp.py\n"
        "  tunekit scale --processes 1,4,8 --strong -- torchrun train_ddp.py",
    ),
    "init": Verb(
        _init,
        "find how knobs reach a training command, and save the bindings",
        "[options] -- COMMAND ...",
        "Run the training command briefly, and try every option, argument or config key that may set a knob "
        "once with another value. Those that the loop followed are written to "
        "[tool.tunekit.script.NAME.bind] in pyproject.toml, or to tunekit.toml without one.",
        "example:\n  tunekit init -- python train.py --config configs/full.yaml",
    ),
    "run": Verb(
        _run,
        "train for real with a tuned config, the script unchanged",
        "[options] CONFIG.yaml [-- COMMAND ...]",
        "Start the training command with the knobs of a config that a search wrote; without a command the "
        "one that was searched. It replaces this process: input, signals and exit status are its own.",
        "example:\n  tunekit run reports/train-2026-01-31/balanced.yaml -- python train.py",
    ),
    "monitor": Verb(
        _monitor,
        "watch a real training: rate, data wait, memory, cost, and what goes wrong",
        "[options] PID\n       tunekit monitor [options] -- COMMAND ...",
        "Watch a running training, or start, record and watch a COMMAND, which prints to output.log in the "
        "recording's folder. Without a terminal a line is printed every 10 s. A training that was started "
        "without tunekit shows memory, CPU, GPU and disk only.",
        "examples:\n"
        "  tunekit monitor --price 1.20 -- python train.py --epochs 90\n"
        "  tunekit monitor 4711\n"
        "Ctrl-C ends a COMMAND, and leaves a PID alone. The exit code is the COMMAND's.",
    ),
    "export": Verb(
        _export,
        "print a config in the form of Lightning, Hugging Face, Hydra, timm, ...",
        "RUN --to FRAMEWORK [options]",
        "Print a config of a search in a framework's own form, or write it to a file. Knobs that the "
        "framework has no field for are listed. The shortest way to train with a config is tunekit run.",
        "examples:\n"
        "  tunekit export reports/train-2026-01-31 --to hf --out args.json\n"
        "  python train.py $(tunekit export reports/train-2026-01-31 --to timm)\n"
        "  tunekit export reports/train-2026-01-31 --to keys --key batch_size=data.bs\n"
        "forms:\n" + "\n".join(f"  {name:11} {what}" for name, what in FRAMEWORKS.items()),
    ),
    "plan": Verb(
        _plan,
        "hours and dollars of the whole training on each GPU and machine",
        "RUN [options]\n       tunekit plan --rate R --samples N --epochs N [options]",
        "Show what a training takes on each GPU and rentable machine, from a run's confirmed rate, from what "
        "tunekit fits predicted, or from a rate that you know. Hours on another GPU, or on more of them, are "
        "predictions.",
        "examples:\n"
        "  tunekit plan reports/train-2026-01-31 --epochs 90\n"
        "  tunekit plan --rate 180 --samples 1281167 --epochs 90 --gpu a10g",
    ),
    "report": Verb(
        _report,
        "show a run again, or write its report as HTML or Markdown; needs no GPU or torch",
        "RUN [options]",
        "Show a search, profile, prediction, scaling or recording again, or write its report.",
        "example:\n  tunekit report reports/train-2026-01-31 --markdown - | gh pr comment -F -",
    ),
    "compare": Verb(
        _compare,
        "compare runs: which is faster, and is a later one a regression",
        "RUN RUN [RUN ...] [options]",
        "Compare the runs of several searches with the first: which is faster, by how much and with what "
        "confidence, where the time went, and what distorts the comparison. On unlike machines the speedups "
        "over each run's own baseline are compared.",
        "exit code: 1 if a run is significantly slower than the reference, and by more than the tolerance; "
        "else 2 if one can't be compared with it; else 0, also if runs are too noisy\n"
        "example: tunekit compare reports/main reports/branch --tolerance 5% --github-summary",
    ),
    "gpus": Verb(
        _gpus,
        "list the GPUs that --gpu takes, with their figures and prices",
        "[options] [NAME ...]",
        "List every GPU profile, or show some with their figures, sources and machines.",
    ),
    "data": Verb(
        _data,
        "what reading a data set costs; search and write a faster zarr layout",
        "PATH [options]",
        "Measure what a loader's reads of a zarr store or a folder of files cost, search chunks, shards and "
        "codec on a part of the data, and show where to keep it. With --rewrite, write the store in the "
        "recommended layout beside the old one, verified bit for bit.",
        "examples:\n"
        "  tunekit data /data/train.zarr\n"
        "  tunekit data /data/train.zarr --rewrite /data/train-fast.zarr",
    ),
    "workloads": Verb(
        _workloads,
        "list the built-in workloads, or make the data of one",
        "[options] [NAME]",
        "List the training scripts that come with tunekit, or make the data of one. The first search makes "
        "missing data too; large data takes a while. After a kill, run it again to continue.",
        "example:\n  tunekit workloads ppg --samples 10000000 --data /data/ppg",
    ),
    "doctor": Verb(
        _doctor,
        "check this machine before training: GPUs, limits, storage, torch",
        _COMMAND,
        "Check what training gets on this machine: GPUs, the container's CPUs and memory, /dev/shm, the "
        "storage under the data set, and the torch of the training command's Python.",
        "examples:\n"
        "  tunekit doctor --data /data/imagenet -- python train.py\n"
        "  tunekit doctor --codes\n"
        "exit code: 0 without warnings, 11 with warnings, 12 with errors",
    ),
    "explain": Verb(
        _explain,
        "what the code of a finding, an answer or a failed trial means",
        "[CODE]",
        "Explain a code: what it means, the figures and thresholds that decide it, and what to do.",
        "example:\n  tunekit explain data-bound",
    ),
    "schema": Verb(
        _schema,
        "print the JSON Schema of a verb's --json output",
        "[VERB]",
        "Print the JSON Schema of what a verb prints with --json, or list the verbs that have one.",
        "example:\n  tunekit schema search > search.schema.json",
    ),
}
"""Every verb, in the order of the help."""
