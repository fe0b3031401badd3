"""Every verb with its flags. What a verb does is in the module of its name."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunekit.cli import flags
from tunekit.cli.numbers import (
    counts,
    data_path,
    memory_bytes,
    natural,
    positive_number,
    rate,
    share,
)
from tunekit.records import options as rows

TIERS = ("conservative", "balanced", "aggressive")
BASELINE = "baseline"
IN_THE_FOLDER = ""
"""What a report's flag holds where no file is named."""
COMPARED_ROUNDS = 3
"""Rounds of a loop profile that compares configs."""

_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
_MAX_MEMORY = 1e6
"""GiB or MiB, that a flag takes at the most."""


@dataclass(frozen=True)
class Verb:
    """One verb; the module `tunekit.cli.NAME` has the `run_verb(options, command)` that runs it."""

    flags: Callable[[argparse.ArgumentParser], None]
    help: str
    usage: str
    description: str
    epilog: str | None = None
    before_command: str | None = None
    """What stands before the `--` of a training command; None where the verb takes none."""
    reads_settings: bool = False
    """Whether flags of the project's settings file hold for it."""
    trains_builtin: bool = True
    """Whether it trains the built-in workload without a command, which is not the project's."""


def _search(parser: argparse.ArgumentParser) -> None:
    flags.target(parser)
    knobs = parser.add_argument_group("what to search")
    flags.add(knobs, *rows.SEARCH_KNOBS)
    flags.fix(knobs)
    flags.add(parser.add_argument_group("time"), *rows.SEARCH_TIME)
    hosts = parser.add_argument_group("several hosts")
    meaning = (
        "search together with other hosts that run the same command: in a folder that all see, or a "
        "PostgreSQL database, postgresql://USER@HOST/DATABASE"
    )
    flags.option(hosts, "--share", flags.Value("WHERE"), meaning)
    output = parser.add_argument_group("output")
    flags.option(output, "--out", flags.FOLDER, "run folder (default: reports/TARGET-DATE)")
    flags.option(output, "--resume", flags.FOLDER, "resume this run; another's needs its command")
    flags.switch(output, "--dry-run", "show the command, search space and time; run and write nothing")
    flags.loudness(output)
    flags.switch(output, "--json", "print the run as JSON; progress goes to stderr")
    flags.findings(output)
    flags.github_summary(output)
    flags.full_paths(output)


def _profile(parser: argparse.ArgumentParser) -> None:
    group = flags.target(parser)
    flags.add(group, rows.FIX)
    flags.fix(group)
    group = parser.add_argument_group("what to measure")
    meaning = (
        f"fresh processes per config, interleaved (default: 1; {COMPARED_ROUNDS} with --against or --ablate)"
    )
    flags.option(group, "--rounds", flags.COUNT, meaning)
    flags.option(
        group,
        "--against",
        flags.Value("FILE.yaml", Path),
        "compare with this config, written by a search or by hand",
    )
    flags.switch(group, "--ablate", "measure each optimisation alone, then stacked")
    flags.add(group, rows.WINDOW, rows.BUDGET, rows.WAIT_QUIET)
    flags.switch(group, "--trace-kernels", "also trace a few steps with torch.profiler")
    flags.folder(parser, "profile", "profile")


def _fits(parser: argparse.ArgumentParser) -> None:
    meaning = "with --ram: the folder of a search, a profile or a fits prediction"
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help=meaning)
    flags.target(parser, with_gpu=False)
    group = parser.add_argument_group("what to predict")
    meaning = "predict for this GPU only (default: all that tunekit gpus lists)"
    flags.option(group, "--gpu", flags.Value("NAME"), meaning, repeatable=True, dest="gpus")
    flags.option(group, "--batch-size", flags.COUNT, "show where batch size N fits, and its rate")
    meaning = "seconds to time the loader alone, or on a GPU the whole loop (default: 2)"
    flags.add(group, rows.WINDOW._replace(help=meaning))
    memory = parser.add_argument_group(
        "another machine", "show what a RUN takes of its RAM and GPU memory; nothing is run"
    )
    read = flags.Value("GIB", memory_bytes)
    flags.option(memory, "--ram", read, "its RAM in GiB, or with a unit: 64GB")
    flags.option(memory, "--cpus", flags.COUNT, "its CPUs")
    flags.option(memory, "--shm", read, "its /dev/shm (default: unknown, no limit)")
    flags.option(memory, "--workers", flags.COUNT, "loader workers (default: the run's, if not OOM)")
    flags.option(memory, "--prefetch", flags.COUNT, "prefetch factor (default: the run's, if not OOM)")
    size = flags.Value("MIB", positive_number("MiB", _MAX_MEMORY))
    flags.option(memory, "--batch-mib", size, "size of one batch (default: what the run measured)")
    flags.folder(parser, "fits", "prediction")


def _scale(parser: argparse.ArgumentParser) -> None:
    flags.target(parser)
    group = parser.add_argument_group("what to measure")
    meaning = (
        "numbers of processes on this machine (default: powers of two up to its GPUs, else its CPU cores)"
    )
    flags.option(group, "--processes", flags.Value("N,N,...", counts), meaning)
    meaning = "keep the global batch, which the processes share (default: each keeps the script's own batch)"
    flags.switch(group, "--strong", meaning)
    meaning = "fresh processes of each number, interleaved (default: 3)"
    flags.option(group, "--rounds", flags.COUNT, meaning)
    flags.add(group, rows.BUDGET, rows.WAIT_QUIET, rows.WINDOW, *rows.BASE_RATE)
    flags.folder(parser, "scale", "measured scaling")


def _init(parser: argparse.ArgumentParser) -> None:
    flags.target(parser)
    flags.switch(parser, "--dry-run", "show what was found, write nothing")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG.yaml", type=Path, help="a config that a search wrote")
    flags.add(parser, rows.BIND)
    flags.switch(parser, "--keep-lr", "keep the script's learning rate although the global batch changes")
    flags.switch(parser, "--force", "apply the config although it was measured on another device")
    flags.switch(parser, "--dry-run", "print the knobs and the command; start nothing")


def _plan(parser: argparse.ArgumentParser) -> None:
    meaning = "the folder that a search wrote"
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help=meaning)
    training = parser.add_argument_group("the training")
    flags.choice(training, "--tier", TIERS, "whose rate to take from the run (default: balanced)")
    meaning = "measured rate, instead of a run: 282 (samples/s), 1.1it/s or 0.9s/it"
    flags.option(training, "--rate", flags.Value("R", rate), meaning)
    meaning = "samples per iteration on all GPUs: for a --rate in it/s, and for checkpoints in steps"
    flags.option(training, "--batch-size", flags.COUNT, meaning)
    meaning = "samples per epoch, such as 50k or 1.28M (default: what the run saw)"
    flags.option(training, "--samples", flags.COUNT, meaning)
    flags.option(training, "--epochs", flags.COUNT, "epochs (default: the run's)")
    meaning = "where --rate was measured (default: the GPU here)"
    flags.option(training, "--gpu", flags.Value("NAME"), meaning)
    meaning = "GPUs that --rate was measured on (default: 1)"
    flags.option(training, "--gpus", flags.COUNT, meaning)
    meaning = "what --rate was measured in (default: fp32, assumed)"
    flags.choice(training, "--precision", _PRECISIONS, meaning)
    flags.option(
        training,
        "--memory-gib",
        flags.Value("N", positive_number("GiB", _MAX_MEMORY)),
        "peak memory per GPU, which decides where it fits (default: what the run reserved)",
    )
    assumed = parser.add_argument_group("assumptions")
    flags.option(assumed, "--max-session", flags.LONG_TIME, "longest notebook session", default="12h")
    flags.switch(assumed, "--no-checkpoints", "the script writes none that it could resume from")
    meaning = "efficiency of more GPUs than measured: rate per GPU, as a share "
    meaning += "(default: predicted where a run knows its gradients, else 0.8..1.0)"
    flags.option(assumed, "--scaling", flags.Value("LO..HI"), meaning)
    project = parser.add_argument_group("a project of several trainings")
    meaning = "plan the milestones of this file, each with its data, hardware, runs and epochs"
    flags.option(project, "--milestones", flags.Value("FILE.yaml", Path), meaning)
    flags.option(
        project, "--max-cost", flags.Value("USD", positive_number("dollars")), "most dollars of them all"
    )
    meaning = "when they all have to be done: a day, such as 2026-12-20, or a time from now, such as 3d"
    flags.option(project, "--deadline", flags.Value("WHEN"), meaning)
    machines = parser.add_argument_group("the machines")
    flags.option(machines, "--provider", flags.Value("NAME"), "only of this provider", repeatable=True)
    flags.option(machines, "--only", flags.Value("GPU"), "only with this GPU", repeatable=True)
    flags.option(
        machines, "--max-hours", flags.Value("H", positive_number("hours")), "leave out what needs longer"
    )
    flags.switch(machines, "--spot", "let the choices use spot prices too")
    flags.full(machines)
    flags.switch(machines, "--json", "print the plan as JSON")
    flags.findings(machines)
    flags.report_files(machines)


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        help="folder of a search, a profile, a fits prediction or a scaling, or its run.json",
    )
    for flag, name, what in (
        ("--html", "report.html", "a self-contained HTML file"),
        ("--markdown", "report.md", "Markdown for a pull request, under 60 lines for a search"),
    ):
        meaning = f"write {what} (default: RUN/{name}; - prints it)"
        flags.option(parser, flag, flags.Value("FILE"), meaning, nargs="?", const=IN_THE_FOLDER)
    flags.github_summary(parser)
    flags.full_paths(parser)
    flags.full(parser)
    flags.switch(
        parser, "--json", "print the record (run.json, profile.json, fits.json or scale.json) instead"
    )
    flags.findings(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    meaning = "run folders of searches, the reference first"
    parser.add_argument("run", metavar="RUN", type=Path, nargs="+", help=meaning)
    meaning = "largest slowdown that is no regression, as 5%% or 0.05"
    flags.option(parser, "--tolerance", flags.Value("SHARE", share), meaning, default=0.05)
    meaning = "which config to compare; baseline is the script's own (default: the one each run recommends)"
    flags.choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    flags.full(parser)
    flags.switch(parser, "--json", "print the comparison as JSON")
    flags.findings(parser)
    flags.github_summary(parser)
    flags.report_files(parser)


def _gpus(parser: argparse.ArgumentParser) -> None:
    meaning = "an id, an alias or the driver's name (default: all)"
    parser.add_argument("name", metavar="NAME", nargs="*", help=meaning)
    meaning = "first get current prices over the network, which plan uses too (pip install gpuhunt)"
    flags.switch(parser, "--refresh", meaning)
    flags.switch(parser, "--json", "print the profiles as JSON")


def _doctor(parser: argparse.ArgumentParser) -> None:
    meaning = "data set to measure storage on: up to 3 s of reads, dropping part of it from the page cache"
    flags.option(parser, "--data", flags.Value("PATH", data_path), meaning, repeatable=True)
    flags.option(parser, "--run", flags.Value("RUN", Path), "take workers and batch size from this run")
    meaning = "which config of the run (default: balanced, or the nearest that it has)"
    flags.choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    flags.option(parser, "--workers", flags.Value("N", natural), "loader workers of each training process")
    flags.option(parser, "--prefetch", flags.COUNT, "prefetch factor (default: 2)")
    flags.option(
        parser, "--batch-mib", flags.Value("MIB", positive_number("MiB", _MAX_MEMORY)), "size of one batch"
    )
    flags.option(
        parser, "--processes", flags.COUNT, "training processes (ranks) on this machine (default: 1)"
    )
    flags.findings(parser)
    flags.switch(
        parser,
        "--calibrate",
        "only measure the GPU memory outside torch (CUDA context, libraries) and save it for predictions; "
        "takes a minute on the GPU",
    )
    flags.switch(parser, "--json", "print facts and findings as JSON")
    flags.report_files(parser)


VERBS = {
    "search": Verb(
        _search,
        help="tune a training command: baseline, search, confirmation, three configs",
        usage="tunekit search [options] [-- COMMAND ...]",
        description=(
            "Run the training command as it is, measure it, search batch size, loader, precision and "
            "compile, confirm the winners against the baseline in fresh processes, and write three configs "
            "and a report. Without a command it tunes the built-in workload `images`."
        ),
        epilog=(
            "examples:\n"
            "  tunekit search -- python train.py --config configs/full.yaml\n"
            "  tunekit search --gpu a10g --budget 20m --max-batch 256 -- python train.py\n"
            "  tunekit search --dry-run -- python train.py"
        ),
        before_command="search",
        reads_settings=True,
    ),
    "profile": Verb(
        _profile,
        help="measure one config's loop: where step time and memory go, and what would help",
        usage="tunekit profile [options] [-- COMMAND ...]",
        description=(
            "Run the training command as it is, measure it, and show where step time goes, how much memory "
            "loader and model take, and what would help. --against compares it with another config, --ablate "
            "measures each optimisation alone, then stacked. Without a command it profiles the built-in "
            "workload `images`."
        ),
        epilog=(
            "example:\n"
            "  tunekit profile --ablate -- python train.py --config configs/full.yaml\n"
            "a file for --against, written by hand; knobs that it leaves out stay as in the script:\n"
            "  num_workers: 4\n"
            "  precision: bf16"
        ),
        before_command="profile",
        reads_settings=True,
    ),
    "fits": Verb(
        _fits,
        help="predict the largest batch and samples/s on every GPU, from one short trial here",
        usage=(
            "tunekit fits [options] [-- COMMAND ...]\n"
            "       tunekit fits RUN --ram GIB --cpus N [--gpu NAME] [options]"
        ),
        description=(
            "Run the training command once as it is, on any machine: a CPU will do. It traces what a step "
            "allocates and computes at two small batch sizes (on a CPU by tensor shapes, without the "
            "arithmetic), and predicts the largest batch that fits each GPU, what takes the memory, and the "
            "samples/s of GPU and loader. Nothing is run on those GPUs. Without a command it predicts for "
            "the built-in workload `images`. With --ram it shows what a run takes of another machine's RAM "
            "and GPU memory."
        ),
        epilog=(
            "examples:\n"
            "  tunekit fits --gpu t4 --gpu a10g --batch-size 256 -- python train.py\n"
            "  tunekit fits reports/train-fits --ram 62 --cpus 16 --gpu a10g"
        ),
        before_command="fits",
        reads_settings=True,
    ),
    "scale": Verb(
        _scale,
        help="measure how the training scales on 1, 2, 4, ... processes",
        usage="tunekit scale [options] -- COMMAND ...",
        description=(
            "Run the training command under torchrun on 1, 2, 4, ... processes, in turns. Shows samples/s, "
            "efficiency, what an iteration loses to communication, the slowest process and the loader, and "
            "the learning rate for each global batch. torchrun and accelerate launch have their own number "
            "of processes replaced; elsewhere write {processes} in its place. A script whose processes train "
            "each alone is refused."
        ),
        epilog=(
            "examples:\n"
            "  tunekit scale -- python train_ddp.py\n"
            "  tunekit scale --processes 1,4,8 --strong -- torchrun train_ddp.py"
        ),
        before_command="scale",
        reads_settings=True,
    ),
    "init": Verb(
        _init,
        help="find how knobs reach a training command, and save the bindings",
        usage="tunekit init [options] -- COMMAND ...",
        description=(
            "Run the training command briefly as it is, show its loaders, modules and optimizers and how "
            "each knob reaches them. Every option, argument or config key that may set a knob is tried once "
            "with another value; those that the loop followed are written to "
            "[tool.tunekit.script.NAME.bind] in pyproject.toml, or to tunekit.toml where there is no "
            "pyproject.toml."
        ),
        epilog="example:\n  tunekit init -- python train.py --config configs/full.yaml",
        before_command="init",
        reads_settings=True,
    ),
    "run": Verb(
        _run,
        help="train for real with a tuned config, the script unchanged",
        usage="tunekit run [options] CONFIG.yaml [-- COMMAND ...]",
        description=(
            "Start the training command with the knobs of a config that a search wrote. The command replaces "
            "this process: standard input, signals and exit status are its own, and checkpoints go where the "
            "script puts them. Without a command it starts the one that was searched. Bindings are the "
            "search's; --bind and the project's settings add to them."
        ),
        epilog="example:\n  tunekit run reports/train-2026-01-31/balanced.yaml -- python train.py",
        before_command="run CONFIG.yaml",
        reads_settings=True,
        trains_builtin=False,
    ),
    "plan": Verb(
        _plan,
        help="hours and dollars of the whole training on each GPU and machine",
        usage=("tunekit plan RUN [options]\n       tunekit plan --rate R --samples N --epochs N [options]"),
        description=(
            "Show what a training takes on each GPU and rentable machine, from a run's confirmed rate or "
            "from one that you know. Hours on another GPU, or on more of them, are predictions."
        ),
        epilog=(
            "examples:\n"
            "  tunekit plan reports/train-2026-01-31 --epochs 90\n"
            "  tunekit plan --rate 180 --samples 1281167 --epochs 90 --gpu a10g"
        ),
    ),
    "report": Verb(
        _report,
        help="show a run again, or write its report as HTML or Markdown; needs no GPU or torch",
        usage="tunekit report RUN [options]",
        description=(
            "Show a search, a loop profile, a fits prediction or a measured scaling again from its folder, "
            "or write its report as a self-contained HTML file or as Markdown for a pull request."
        ),
        epilog="example:\n  tunekit report reports/train-2026-01-02 --markdown - | gh pr comment -F -",
    ),
    "compare": Verb(
        _compare,
        help="compare runs: which is faster, and is a later one a regression",
        usage="tunekit compare RUN RUN [RUN ...] [options]",
        description=(
            "Compare the runs of several searches. The first is the reference. Shows which is faster, by how "
            "much and with what confidence, where the time went, and what distorts the comparison. On one "
            "machine rates are compared; on unlike machines (GPU, CPU, driver, torch) each run's speed-up "
            "over its own baseline."
        ),
        epilog=(
            "exit code: 1 where a run is significantly slower than the reference, and by more than the "
            "tolerance; else 2 where one can't be compared with it (another script, or unlike machines whose "
            "baselines differ); else 0, also where runs are too noisy to tell\n"
            "example: tunekit compare reports/main reports/branch --tolerance 5% --github-summary"
        ),
    ),
    "gpus": Verb(
        _gpus,
        help="list the GPUs that --gpu takes, with their figures and prices",
        usage="tunekit gpus [options] [NAME ...]",
        description="List every GPU profile, or show some with their figures, sources and machines.",
    ),
    "doctor": Verb(
        _doctor,
        help="check this machine before training: GPUs, limits, storage, torch",
        usage="tunekit doctor [options] [-- COMMAND ...]",
        description=(
            "Check what training gets on this machine: GPUs, the container's CPUs and memory, /dev/shm, the "
            "storage under the data set, and torch. Each problem comes with evidence and remedy. With a "
            "training command, the torch of its Python is checked."
        ),
        epilog=(
            "examples:\n"
            "  tunekit doctor --data /data/imagenet -- python train.py\n"
            "  tunekit doctor --codes\n"
            "exit code: 0 without warnings, 11 with warnings, 12 with errors"
        ),
        before_command="doctor",
    ),
}
"""Every verb, in the order of the help."""
