"""The command line's surface: every verb with its flags. What a verb does is in the module of its name.

Nothing here imports what a verb needs to run, so that help and a mistyped flag answer at once.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tunekit import __version__
from tunekit.cli.numbers import (
    count_up_to,
    counts,
    data_path,
    duration_s,
    long_duration_s,
    memory_bytes,
    natural,
    positive,
    positive_number,
    rate,
    share,
)
from tunekit.cli.pipes import as_read
from tunekit.errors import UsageError
from tunekit.plain_text import printable
from tunekit.typos import did_you_mean

VERSION_FLAGS = ("-V", "-v", "--version")
TIERS = ("conservative", "balanced", "aggressive")
BASELINE = "baseline"
STANDARD_OUTPUT = "-"
"""What a flag takes for it in place of a file."""
IN_THE_FOLDER = ""
"""What a report's flag holds where no file is named."""
COMPARED_ROUNDS = 3
"""Rounds of a loop profile that compares configs."""
SCALE_ROUNDS = 3
"""Rounds of a measured scaling."""

_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
_MAX_MEMORY = 1e6
_MAX_CPUS = 4096
_MAX_GPUS = 65_536
_MAX_BATCH = 10_000_000
"""GiB or MiB, that a flag takes at the most."""
_NEGATIVE = re.compile(r"-\.?\d")
"""How a negative value begins: -5, -.5, -5%, -5m. No flag does."""


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


class VerbParser(argparse.ArgumentParser):
    """The parser of one verb.

    A negative value reaches its flag, which says what it takes instead. Where the first word that the verb
    does not know is a flag, the one that was probably meant is named.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.allow_abbrev = False
        self._negative_number_matcher = _NEGATIVE

    def parse_known_args(  # type: ignore[override]  # of argparse's overloads only this one is called
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Return what the flags and arguments hold, and the words that are none, the first no flag.

        Raises:
            UsageError: it is one.
        """
        options, unexpected = super().parse_known_args(args, namespace)
        if unexpected and unexpected[0].startswith("-"):
            flag = flag_of(unexpected[0])
            known = [name for name in self._option_string_actions if name.startswith("--")]
            raise UsageError(f"no option {flag}; {did_you_mean(flag, known, f'see {self.prog} --help')}")
        return options, unexpected

    def error(self, message: str) -> NoReturn:
        """End with what argparse has to say of a value, which may hold anything."""
        super().error(printable(message))

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End with a message in lines that fit a terminal."""
        super().exit(status, message and as_read(message))


class _KeepsIndentedLines(argparse.HelpFormatter):
    """Wraps each line of a text by itself, but for those that are indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else super(_KeepsIndentedLines, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


def flag_of(word: str) -> str:
    """Return the flag of a word that may hold its value too, as in `--budget=60s`."""
    return word.partition("=")[0]


def build_parser(project_defaults: Mapping[str, object] | None = None) -> argparse.ArgumentParser:
    """Return the parser of every verb.

    Args:
        project_defaults: what the project's settings file says, for the verbs that run the target.
    """
    parser = argparse.ArgumentParser(
        prog="tunekit",
        allow_abbrev=False,
        description="Measure and tune the PyTorch training command you already have, without changing it.",
        epilog=(
            "examples:\n"
            "  tunekit search -- python train.py --config configs/full.yaml\n"
            "  tunekit help search\n"
            "Ctrl-C, SIGTERM, SIGQUIT and SIGHUP (a lost connection) stop the running trial, keep the "
            "finished ones, print how to resume, and exit with 130."
        ),
        formatter_class=_KeepsIndentedLines,
    )
    meaning = "show the version"
    parser.add_argument(*VERSION_FLAGS, action="version", version=f"tunekit {__version__}", help=meaning)
    verbs: argparse._SubParsersAction[argparse.ArgumentParser] = parser.add_subparsers(
        title="verbs", metavar="VERB", dest="verb", required=True, parser_class=VerbParser
    )
    for name, verb in VERBS.items():
        one = verbs.add_parser(
            name,
            help=verb.help,
            usage=verb.usage,
            description=verb.description,
            epilog=verb.epilog,
            formatter_class=_KeepsIndentedLines,
        )
        verb.flags(one)
        if verb.reads_settings:
            # A flag may have to know what comes from the file: the command line wins.
            one.set_defaults(**(project_defaults or {}), project=project_defaults or {})
    return parser


def flags_of(verb: str) -> tuple[str, ...]:
    """Return the long flags that belong to a verb alone; a training command may have a --help of its own."""
    parser = argparse.ArgumentParser(add_help=False)
    VERBS[verb].flags(parser)
    return tuple(flag for flag in parser._option_string_actions if flag.startswith("--"))


def defaults_of(verb: str) -> dict[str, object]:
    """Return what every flag of a verb has when it is not given, by its name in the namespace."""
    parser = argparse.ArgumentParser(add_help=False)
    VERBS[verb].flags(parser)
    return vars(parser.parse_args([]))


# --- kinds of flags ------------------------------------------------------------------------

Flags = argparse._ArgumentGroup | argparse.ArgumentParser


@dataclass(frozen=True)
class _Value:
    """What follows a flag: how help names it, and how it is read."""

    metavar: str
    read: Callable[[str], Any] = str


_TIME, _LONG_TIME = _Value("TIME", duration_s), _Value("TIME", long_duration_s)
_COUNT, _SECONDS = _Value("N", positive), _Value("S", positive_number())
_NAME, _RUN, _FOLDER = _Value("NAME"), _Value("RUN", Path), _Value("FOLDER", Path)


def _option(
    to: Flags,
    flag: str,
    value: _Value,
    meaning: str,
    default: object = None,
    repeatable: bool = False,
    **more: Any,
) -> None:
    """Add a flag that takes a value; help ends with its default, where there is one."""
    if repeatable:
        more |= {"action": "append"}
    ending = f" (default: {default})" if default is not None else " (repeatable)" if repeatable else ""
    to.add_argument(
        flag,
        type=value.read,
        metavar=value.metavar,
        default=[] if repeatable else default,
        help=meaning + ending,
        **more,
    )


def _choice(to: Flags, flag: str, choices: Sequence[str], meaning: str, default: str | None = None) -> None:
    to.add_argument(flag, choices=choices, default=default, help=meaning)


def _switch(to: Flags, flag: str, meaning: str) -> None:
    to.add_argument(flag, action="store_true", help=meaning)


# --- flags that several verbs have ---------------------------------------------------------


def _target(parser: argparse.ArgumentParser, with_gpu: bool = True) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("the training command")
    if with_gpu:
        _option(group, "--gpu", _NAME, "GPU to tune for; auto is this machine's own", default="auto")
    _bind(group)
    _option(
        group,
        "--samples-per-step",
        _COUNT,
        "samples per forward and backward pass of one process, for a script without a DataLoader "
        "(default: the bound batch_size)",
    )
    _option(
        group,
        "--trial-limit",
        _TIME,
        "time limit of a trial; start-up and compiling get as much again",
        default="5m",
    )
    _option(
        group,
        "--no-progress-limit",
        _TIME,
        "end a trial after this long without a batch, a step or other work",
        default="90s",
    )
    return group


def _bind(to: Flags) -> None:
    _option(
        to,
        "--bind",
        _Value("KNOB=HOW"),
        "how a knob, or lr, reaches the script: 'batch_size=--bs {}', "
        "'batch_size=config.yaml:data.batch_size', batch_size=env:BS, batch_size=fixed or =inject",
        repeatable=True,
    )


def _fix(to: Flags, meaning: str) -> None:
    _option(to, "--fix", _Value("KNOB=VALUE"), meaning, repeatable=True)


def _wait_quiet(to: Flags) -> None:
    meaning = (
        "while other programs use the CPUs, wait before each trial, up to this long in all and beside the "
        "budget, such as 5m (default: don't wait)"
    )
    _option(to, "--wait-quiet", _TIME, meaning)


def _window(to: Flags, meaning: str = "steady-state seconds measured per trial (default: 5)") -> None:
    _option(to, "--window", _SECONDS, meaning)


def _findings(to: Flags) -> None:
    """Add what every verb has that shows findings."""
    _option(to, "--ignore", _Value("CODE", _code), "silence a finding", repeatable=True)
    to.add_argument("--codes", action=_ListCodes, help="list all finding codes and exit")


def _code(text: str) -> str:
    code: str = import_module("tunekit.cli.codes").known_code(text)
    return code


class _ListCodes(argparse.Action):
    """Lists the codes and ends the program, as `--help` does."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        import_module("tunekit.cli.codes").show_codes()
        parser.exit()


def _folder(parser: argparse.ArgumentParser, kind: str, what: str) -> None:
    group = parser.add_argument_group("output")
    _option(group, "--out", _FOLDER, f"folder (default: reports/TARGET-{kind}-DATE)")
    _switch(group, "--json", f"print the {what} as JSON; progress goes to stderr")
    _findings(group)


def _report_files(to: Flags) -> None:
    """Add the flags of a verb that keeps no folder."""
    _option(to, "--html", _Value("FILE"), "write a self-contained HTML file (- prints it)")
    meaning = "print Markdown for a pull request instead, or write it to FILE"
    _option(to, "--markdown", _Value("FILE"), meaning, nargs="?", const=STANDARD_OUTPUT)
    _full_paths(to)


def _full_paths(to: Flags) -> None:
    meaning = "keep the home folder and the host name in HTML and Markdown (default: ~, no host name)"
    _switch(to, "--full-paths", meaning)


def _full(to: Flags) -> None:
    _switch(to, "--full", "show everything on the terminal, not just one screen of it")


# --- each verb's own -----------------------------------------------------------------------


def _search(parser: argparse.ArgumentParser) -> None:
    _target(parser)
    _search_knobs(parser.add_argument_group("what to search"))
    limits = parser.add_argument_group("time")
    _option(
        limits,
        "--budget",
        _TIME,
        "time for the whole search, such as 30m; a plain number is seconds (default: enough for about 12 "
        "search trials and their confirmation, at least 15m; 4m for the built-in workload)",
    )
    _option(limits, "--trials", _COUNT, "maximum number of search trials, baseline included")
    _option(limits, "--confirm", _COUNT, "confirmation rounds, interleaved with the baseline (default: 5)")
    _switch(limits, "--ablate", "measure what each knob is worth: the answer with and without it")
    _wait_quiet(limits)
    _window(limits)
    hosts = parser.add_argument_group("several hosts")
    meaning = (
        "search together with other hosts that run the same command: in a folder that all see, or a "
        "PostgreSQL database, postgresql://USER@HOST/DATABASE"
    )
    _option(hosts, "--share", _Value("WHERE"), meaning)
    output = parser.add_argument_group("output")
    _option(output, "--out", _FOLDER, "run folder (default: reports/TARGET-DATE)")
    _option(output, "--resume", _FOLDER, "resume the run in this folder")
    _switch(output, "--dry-run", "show the command, search space and time; run and write nothing")
    _switch(output, "--json", "print the run as JSON; progress goes to stderr")
    _findings(output)
    _switch(
        output,
        "--github-summary",
        "append the report as Markdown to the GitHub Actions step summary",
    )
    _full_paths(output)


def _search_knobs(group: argparse._ArgumentGroup) -> None:
    _option(
        group,
        "--global-batch",
        _COUNT,
        "keep the global batch at N samples; gradient accumulation follows the batch size",
    )
    _fix(group, "set a knob and leave it out of the search")
    _option(group, "--range", _Value("KNOB=LO..HI"), "limit a numeric knob", repeatable=True)
    _option(group, "--max-batch", _COUNT, "largest batch_size to try")
    _option(group, "--lr", _Value("LR", positive_number()), "base learning rate (default: the script's)")
    _option(group, "--base-batch", _COUNT, "global batch that the base lr belongs to (default: the script's)")
    _choice(
        group,
        "--objective",
        ("rate", "finish-time"),
        "maximise samples/s over whole epochs (default), or minimise the time of the planned run, start-up "
        "and compiling included (needs --epochs or --planned-steps)",
        default="rate",
    )
    _option(
        group,
        "--epochs",
        _COUNT,
        "planned epochs; from the fifth trial on, none may cost more time than it can save (default: not "
        "known; 10 to decide whether compiling pays)",
    )
    _option(
        group,
        "--planned-steps",
        _COUNT,
        "planned optimizer steps at the script's own batch, such as 50k; overrides --epochs",
    )


def _profile(parser: argparse.ArgumentParser) -> None:
    _fix(_target(parser), "set a knob before measuring")
    group = parser.add_argument_group("what to measure")
    _window(group)
    _option(
        group,
        "--rounds",
        _COUNT,
        f"fresh processes per config, interleaved (default: 1; {COMPARED_ROUNDS} with --against or --ablate)",
    )
    _option(
        group,
        "--against",
        _Value("FILE.yaml", Path),
        "compare with this config, written by a search or by hand",
    )
    _switch(group, "--ablate", "measure each optimisation alone, then stacked")
    _option(
        group,
        "--budget",
        _TIME,
        "time limit, such as 15m; fewer rounds are run to keep it, at least one per config (default: none)",
    )
    _wait_quiet(group)
    _switch(group, "--trace-kernels", "also trace a few steps with torch.profiler")
    _folder(parser, "profile", "profile")


def _fits(parser: argparse.ArgumentParser) -> None:
    _target(parser, with_gpu=False)
    group = parser.add_argument_group("what to predict")
    meaning = "predict for this GPU only (default: all that tunekit gpus lists)"
    _option(group, "--gpu", _NAME, meaning, repeatable=True, dest="gpus")
    _option(group, "--batch", _COUNT, "show where batch size N fits, and its rate")
    _window(group, "seconds to time the loader alone, or on a GPU the whole loop (default: 2)")
    _full(parser)
    _folder(parser, "fits", "prediction")


def _scale(parser: argparse.ArgumentParser) -> None:
    _target(parser)
    group = parser.add_argument_group("what to measure")
    meaning = (
        "numbers of processes on this machine (default: powers of two up to its GPUs, else its CPU cores)"
    )
    _option(group, "--processes", _Value("N,N,...", counts), meaning)
    meaning = "keep the global batch, which the processes share (default: each keeps the script's own batch)"
    _switch(group, "--strong", meaning)
    meaning = "fresh processes of each number, interleaved"
    _option(group, "--rounds", _COUNT, meaning, default=SCALE_ROUNDS)
    meaning = (
        "try gradient_as_bucket_view, static_graph and bucket sizes of DistributedDataParallel at the largest"
    )
    _switch(group, "--knobs", meaning)
    meaning = "time limit, such as 15m; fewer rounds are run to keep it, at least one (default: none)"
    _option(group, "--budget", _TIME, meaning)
    _wait_quiet(group)
    _window(group)
    _option(group, "--lr", _Value("LR", positive_number()), "base learning rate (default: the script's)")
    _option(group, "--base-batch", _COUNT, "global batch that the base lr belongs to (default: the script's)")
    hosts = parser.add_argument_group(
        "several hosts", "start the same command on each of them; torchrun's rendezvous brings them together"
    )
    _option(hosts, "--nnodes", _COUNT, "hosts that train together (default: 1)")
    _option(
        hosts, "--rdzv-endpoint", _Value("HOST:PORT"), "where they meet: one of them, and a free port of it"
    )
    _folder(parser, "scale", "measured scaling")


def _init(parser: argparse.ArgumentParser) -> None:
    _target(parser)
    _switch(parser, "--dry-run", "show what was found, write nothing")
    _switch(parser, "--replace", "replace bindings written before")


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG.yaml", type=Path, help="a config that a search wrote")
    _bind(parser)
    _switch(parser, "--keep-lr", "keep the script's learning rate although the global batch changes")
    _switch(parser, "--force", "apply the config although it was measured on another device")
    _switch(parser, "--dry-run", "print the knobs and the command; start nothing")


def _plan(parser: argparse.ArgumentParser) -> None:
    meaning = "the folder that a search wrote; with --ram also that of tunekit fits"
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help=meaning)
    training = parser.add_argument_group("the training")
    _choice(training, "--tier", TIERS, "whose rate to take from the run (default: balanced)")
    meaning = "measured rate, instead of a run: 282 (samples/s), 1.1it/s or 0.9s/it"
    _option(training, "--rate", _Value("R", rate), meaning)
    meaning = (
        "samples per iteration on all GPUs: for a --rate in it/s, and for checkpoints in steps; with --ram "
        "samples of one GPU's batch"
    )
    batch = _Value("N", count_up_to(_MAX_BATCH, "give the samples of one batch"))
    _option(training, "--batch", batch, meaning)
    meaning = "samples per epoch, such as 50k or 1.28M (default: what the run saw)"
    _option(training, "--samples", _COUNT, meaning)
    _option(training, "--epochs", _COUNT, "epochs (default: the run's)")
    meaning = "where --rate was measured (default: the GPU here); with --ram the GPU of that machine"
    _option(training, "--gpu", _NAME, meaning)
    meaning = "GPUs that --rate was measured on, or of the machine of --ram (default: 1)"
    gpus = _Value("N", count_up_to(_MAX_GPUS, "give the GPUs of one training"))
    _option(training, "--gpus", gpus, meaning)
    meaning = "what --rate was measured in (default: fp32, assumed); with --ram what RUN trains in there"
    _choice(training, "--precision", _PRECISIONS, meaning)
    _option(
        training,
        "--memory-gib",
        _Value("N", positive_number("GiB", _MAX_MEMORY)),
        "peak memory per GPU, which decides where it fits (default: what the run reserved)",
    )
    _planned_machine(parser)
    assumed = parser.add_argument_group("assumptions")
    _option(assumed, "--max-session", _LONG_TIME, "longest notebook session", default="12h")
    checkpoints = assumed.add_mutually_exclusive_group()
    _option(checkpoints, "--checkpoint-cost", _TIME, "time to write a checkpoint", default="30s")
    _switch(checkpoints, "--no-checkpoints", "the script writes none that it could resume from")
    meaning = "from an interruption to the first step after it"
    _option(assumed, "--restart-cost", _TIME, meaning, default="5m")
    meaning = "mean time between interruptions of a spot machine"
    _option(assumed, "--interrupted-every", _LONG_TIME, meaning, default="4h")
    meaning = "efficiency of more GPUs than measured: rate per GPU, as a share "
    meaning += "(default: predicted where a run knows its gradients, else 0.8..1.0)"
    _option(assumed, "--scaling", _Value("LO..HI"), meaning)
    project = parser.add_argument_group("a project of several trainings")
    meaning = "plan the milestones of this file, each with its data, hardware, runs and epochs"
    _option(project, "--milestones", _Value("FILE.yaml", Path), meaning)
    _option(project, "--max-cost", _Value("USD", positive_number("dollars")), "most dollars of them all")
    meaning = "when they all have to be done: a day, such as 2026-12-20, or a time from now, such as 3d"
    _option(project, "--deadline", _Value("WHEN"), meaning)
    machines = parser.add_argument_group("the machines")
    _option(machines, "--provider", _NAME, "only of this provider", repeatable=True)
    _option(machines, "--only", _Value("GPU"), "only with this GPU", repeatable=True)
    meaning = "what an hour costs on the machine that the rate was measured on"
    _option(machines, "--here-cost-per-hour", _Value("USD", positive_number("dollars")), meaning)
    _option(machines, "--max-hours", _Value("H", positive_number("hours")), "leave out what needs longer")
    _switch(machines, "--spot", "let the choices use spot prices too")
    _full(machines)
    _switch(machines, "--json", "print the plan as JSON")
    _findings(machines)
    _report_files(machines)


def _planned_machine(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a machine that is not here."""
    memory = parser.add_argument_group(
        "memory of a machine that is not here",
        "instead of hours and dollars, what a training takes of its RAM and of its GPU's memory: --ram and "
        "--cpus, a RUN or --batch-mib, and --gpu and --gpus",
    )
    _option(memory, "--ram", _Value("GIB", memory_bytes), "RAM of the machine in GiB, or with a unit: 64GB")
    cpus = _Value("N", count_up_to(_MAX_CPUS, "give the CPUs of one machine"))
    _option(memory, "--cpus", cpus, "CPUs of the machine")
    meaning = "size of one batch of one GPU, where no run knows it"
    _option(memory, "--batch-mib", _Value("MIB", positive_number("MiB", _MAX_MEMORY)), meaning)
    meaning = "samples per optimizer step on all GPUs: how to make them of batches that fit"
    batch = _Value("N", count_up_to(_MAX_BATCH, "give the samples of one optimizer step"))
    _option(memory, "--global-batch", batch, meaning)


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
        _option(parser, flag, _Value("FILE"), meaning, nargs="?", const=IN_THE_FOLDER)
    meaning = "append the Markdown to the GitHub Actions step summary"
    _switch(parser, "--github-summary", meaning)
    _full_paths(parser)
    _full(parser)
    _switch(parser, "--json", "print the record (run.json, profile.json, fits.json or scale.json) instead")
    _findings(parser)


def _compare(parser: argparse.ArgumentParser) -> None:
    meaning = "run folders of searches, the reference first"
    parser.add_argument("run", metavar="RUN", type=Path, nargs="+", help=meaning)
    meaning = "largest slowdown that is no regression, as 5%% or 0.05"
    _option(parser, "--tolerance", _Value("SHARE", share), meaning, default=0.05)
    meaning = "which config to compare; baseline is the script's own (default: the one each run recommends)"
    _choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    _switch(parser, "--strict", "exit with 2 where runs can't be compared")
    _full(parser)
    _switch(parser, "--json", "print the comparison as JSON")
    _findings(parser)
    meaning = "append the Markdown to the GitHub Actions step summary"
    _switch(parser, "--github-summary", meaning)
    _report_files(parser)


def _gpus(parser: argparse.ArgumentParser) -> None:
    meaning = "an id, an alias or the driver's name (default: all)"
    parser.add_argument("name", metavar="NAME", nargs="*", help=meaning)
    meaning = "first get current prices over the network, which plan uses too (pip install 'tunekit[prices]')"
    _switch(parser, "--refresh", meaning)
    _switch(parser, "--json", "print the profiles as JSON")


def _doctor(parser: argparse.ArgumentParser) -> None:
    meaning = "data set to measure storage on: up to 3 s of reads, dropping part of it from the page cache"
    _option(parser, "--data", _Value("PATH", data_path), meaning, repeatable=True)
    _option(parser, "--run", _RUN, "take workers and batch size from this run")
    meaning = "which config of the run (default: balanced, or the nearest that it has)"
    _choice(parser, "--tier", (*TIERS, BASELINE), meaning)
    _option(parser, "--workers", _Value("N", natural), "loader workers of each training process")
    _option(parser, "--prefetch", _COUNT, "prefetch factor (default: 2)")
    _option(parser, "--batch-mib", _Value("MIB", positive_number("MiB", _MAX_MEMORY)), "size of one batch")
    _option(parser, "--processes", _COUNT, "training processes (ranks) on this machine (default: 1)")
    _findings(parser)
    _switch(
        parser,
        "--calibrate",
        "only measure the GPU memory outside torch (CUDA context, libraries) and save it for predictions; "
        "takes a minute on the GPU",
    )
    _switch(parser, "--json", "print facts and findings as JSON")
    _report_files(parser)


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
        usage="tunekit fits [options] [-- COMMAND ...]",
        description=(
            "Run the training command once as it is, on any machine: a CPU will do. It traces what a step "
            "allocates and computes at two small batch sizes (on a CPU by tensor shapes, without the "
            "arithmetic), and predicts the largest batch that fits each GPU, what takes the memory, and the "
            "samples/s of GPU and loader. Nothing is run on those GPUs. Without a command it predicts for "
            "the built-in workload `images`."
        ),
        epilog="example:\n  tunekit fits --gpu t4 --gpu a10g --batch 256 -- python train.py",
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
            "  tunekit scale --processes 1,4,8 --strong -- torchrun train_ddp.py\n"
            "  tunekit scale --nnodes 2 --rdzv-endpoint node1:29400 -- python train_ddp.py"
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
            "with another value; those that the loop followed are written to [tool.tunekit.bind] in "
            "pyproject.toml, or to tunekit.toml where there is no pyproject.toml."
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
        usage=(
            "tunekit plan RUN [options]\n       tunekit plan --rate R --samples N --epochs N [options]\n"
            "       tunekit plan [RUN] --ram GIB --cpus N [options]"
        ),
        description=(
            "Show what a training takes on each GPU and rentable machine, from a run's confirmed rate or "
            "from one that you know. Hours on another GPU, or on more of them, are predictions. With --ram "
            "and --cpus: what it takes of the memory of a machine that is not here."
        ),
        epilog=(
            "examples:\n"
            "  tunekit plan --rate 180 --samples 1281167 --epochs 90 --gpu a10g\n"
            "  tunekit plan reports/train-fits --ram 62 --cpus 16 --gpu a10g"
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
            "tolerance; else 0, also where runs are too noisy or can't be compared; with --strict 2 where "
            "they can't be compared (another script, or unlike machines whose baselines differ)\n"
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
