"""A run in words: each number and sentence of its report, once, and how each medium arranges them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tunekit.plain_text import printable
from tunekit.recommend.memory import largest_line
from tunekit.recommend.numerics import guarded_modes, losses_line
from tunekit.recommend.recommendation import answer_of
from tunekit.records.finding import Severity
from tunekit.records.plan import Plan
from tunekit.records.run import Run
from tunekit.report import answer
from tunekit.report.blocks import (
    WIDE,
    Block,
    Changes,
    Chart,
    Commands,
    FoundBlock,
    HeatMap,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    TrialTable,
    found_blocks,
)
from tunekit.report.charts.charts import charts_of
from tunekit.report.commands import search_again
from tunekit.report.plan import plan_blocks
from tunekit.report.prediction import prediction_passage
from tunekit.report.text import host_text, own_precision_text, sandbox_text, target_text
from tunekit.report.tiers import ceilings_passage, scaling_table, short_tiers_table, tiers_table
from tunekit.report.trials import telemetry_table, trials_table
from tunekit.units import bytes_text, count_text, duration_text

_MOST_TIERS = 3
_CONFIG_LINES, _CONFIG_LETTERS = 6, 2_000
"""Of one config; a longer one is named instead."""


@dataclass(frozen=True)
class RunView:
    """What reports of a run show."""

    title: str
    answer: str
    headroom: str
    price: str
    how_measured: str
    losses: str
    """What other arithmetic did to the losses, in one line; empty where none was run."""
    largest: str
    """What the data set's largest samples mean for the tiers, in one line; empty where sizes do not vary."""
    changes: tuple[str, ...]
    tiers: Table
    short_tiers: Table
    """The same with a row for each tier."""
    missing_tiers: tuple[str, ...]
    """Why tiers are missing, a line for each reason; none where the answer says it already."""
    ceilings: Passage
    """What holds the rate of the baseline and of the best config; without lines where nothing tells."""
    prediction: Passage
    """What fits the GPU that was asked for; without lines where nothing was predicted."""
    charts: tuple[Chart | HeatMap, ...]
    trials: TrialTable
    telemetry: Table
    scaling: Table
    plan: tuple[Block, ...]
    findings: tuple[FoundBlock, ...]
    notes: tuple[Note, ...]
    environment: Table
    method: tuple[str, ...]
    reproduce: str
    next_steps: tuple[str, ...]

    def chart(self, name: str) -> Chart | HeatMap | None:
        """Return a chart by its id; None where there are no figures for it."""
        return next((chart for chart in self.charts if chart.id == name), None)


def view(run: Run, folder: str = "FOLDER", plan: Plan | None = None) -> RunView:
    """Return everything that a report of this run shows.

    Args:
        run: the saved run.
        folder: where it lies, for the commands that come next.
        plan: of the training with the recommended config.
    """
    best = answer_of(run.recommendations)
    return RunView(
        title=printable(f"{run.target.name} on {run.measured_on}"),
        answer=answer.answer_text(run, best),
        headroom=answer.headroom_text(run, best),
        price=answer.price_text(run, best),
        how_measured=answer.how_measured(run, best),
        losses=losses_line(guarded_modes(run.trials)),
        largest=largest_line(run.recommendations),
        changes=answer.change_lines(run, best),
        tiers=tiers_table(run),
        short_tiers=short_tiers_table(run),
        missing_tiers=answer.missing_lines(run),
        ceilings=ceilings_passage(run, best),
        prediction=prediction_passage(run),
        charts=charts_of(run, best),
        trials=trials_table(run),
        telemetry=telemetry_table(run, best),
        scaling=scaling_table(run, best),
        plan=() if plan is None else plan_blocks(plan, WIDE, every_row=True),
        findings=found_blocks(run.findings),
        notes=tuple(Note(Severity.INFO, line) for line in answer.failure_lines(run)),
        environment=environment_table(run),
        method=method_lines(run),
        reproduce=search_again(run),
        next_steps=answer.next_steps(run, best, folder),
    )


# --- how each medium arranges it -------------------------------------------------------------


def on_terminal(shown: RunView, folder: Path, files: Sequence[Path] = ()) -> list[Block]:
    """Return the answer, its evidence, what was written to a folder, and what comes next."""
    first, *others = shown.missing_tiers or ("",)
    written = (", ".join(path.name for path in files),) if files else ()
    return [
        Lead(shown.answer),
        *map(Line, (shown.headroom, shown.price)),
        *(Line(line, is_quiet=True) for line in (shown.how_measured, shown.losses, shown.largest)),
        Changes(shown.changes),
        Line(first, is_apart=True),
        *map(Line, others),
        *(shown.tiers, shown.ceilings, shown.prediction, shown.telemetry, shown.scaling),
        *shown.findings,
        *shown.notes,
        Passage(f"Written to {folder}/", written, is_list=True),
        Commands("Next", shown.next_steps),
    ]


def on_page(shown: RunView) -> Report:
    """Return all of it, in the order of the page."""
    charts = {chart.id: chart for chart in shown.charts}

    def of(*names: str) -> list[Block]:
        return [charts.pop(name) for name in names if name in charts]

    blocks: list[Block] = [
        Lead(shown.answer),
        Changes(shown.changes),
        *map(Line, (shown.headroom, shown.price, shown.losses, shown.largest)),
        Line(shown.how_measured, is_quiet=True),
        Section("tiers", "The tiers beside your baseline", "Tiers"),
        shown.tiers,
        Passage("Tiers that are missing", shown.missing_tiers),
        Section("time", "Where the time goes", "Time"),
        *of("time_breakdown"),
        shown.telemetry,
        shown.ceilings,
        Section("throughput", "How fast each batch size trains", "Throughput"),
        *of("throughput"),
        Section("loader", "What the loader's buffer takes of the RAM", "Loader"),
        *of("loader_ram"),
        Section("memory", "What the memory holds", "Memory"),
        *of("device_memory", "host_memory"),
        shown.prediction,
        Section("trials", "Every trial", "Trials"),
        shown.trials,
        Section("history", "How the search went", "Search"),
        *of("history"),
        *charts.values(),
        Section("gpus", "On several GPUs", "GPUs"),
        shown.scaling,
        Section("plan", "Where to train, and for how much", "Plan"),
        *shown.plan,
        Section("findings", "What was found", "Findings"),
        *shown.findings,
        Section("failures", "What failed", "Failures"),
        Passage("", tuple(note.line for note in shown.notes)),
        Section("environment", "Where and how it was measured", "Environment"),
        shown.environment,
        Passage("Method", shown.method),
        Section("next", "What to do next", "Next"),
        Commands("Next", shown.next_steps),
        Commands("The same search again", (shown.reproduce,)),
    ]
    return Report(shown.title, tuple(blocks))


def in_comment(shown: RunView, configs: Sequence[tuple[str, str]] = ()) -> Report:
    """Return what a comment on a pull request has room for.

    Args:
        shown: what reports show.
        configs: tiers by name, each with its knobs as YAML.
    """
    rows = shown.short_tiers.rows[: 1 + _MOST_TIERS]
    more = len(shown.short_tiers.rows) - len(rows)
    rest = ((f"{more:,} more in the report", *("" for _ in shown.short_tiers.columns[1:])),) if more else ()
    basis = [block.text for block in shown.plan if isinstance(block, Line)][:1]
    plan = (*basis, *(block.text for block in shown.plan if isinstance(block, Lead)))
    blocks: list[Block] = [
        Lead(shown.answer),
        replace(shown.short_tiers, rows=(*rows, *rest)),
        Changes(shown.changes),
        *map(
            Line, (shown.headroom, shown.price, shown.losses, shown.largest, "; ".join(shown.missing_tiers))
        ),
        shown.ceilings,
        *shown.findings,
        Passage("Failed trials", tuple(note.text for note in shown.notes)),
        Passage("The whole training", plan),
        shown.prediction,
        Line(shown.how_measured, is_quiet=True),
        Commands("The command", (shown.reproduce,)),
        Commands("Configs", tuple(_config_lines(configs)), "yaml"),
    ]
    return Report(f"tunekit: {shown.title}", tuple(blocks))


def _config_lines(configs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the tiers' knobs; a config that was shown already, or is too long, is only named."""
    told: list[str] = []
    named: dict[str, str] = {}
    for name, text in configs[:_MOST_TIERS]:
        lines = text.splitlines()
        if text in named:
            told.append(f"# {name}: the same as {named[text]}")
        elif len(lines) > _CONFIG_LINES or len(text) > _CONFIG_LETTERS:
            told.append(f"# {name}: {len(lines):,} lines, {len(text):,} letters, in {name}.yaml")
        else:
            told += [f"# {name}", *lines]
        named.setdefault(text, name)
    if len(configs) > _MOST_TIERS:
        told.append(f"# {len(configs) - _MOST_TIERS:,} more in the run folder")
    return told


# --- where and how it was measured -----------------------------------------------------------


def environment_table(run: Run) -> Table:
    """Return what the figures belong to: machine, software, script."""
    host, torch, target = run.host, run.host.torch, run.target
    rows = [
        ("target", f"built-in workload {target.builtin}" if target.builtin else target_text(target)),
        ("script", _script(run)),
        ("asked for", run.profile.id),
        ("measured on", run.measured_on),
        ("machine", host_text(host)),
        ("CPU", host.cpu_name or "n/a"),
        ("GPU driver", ", ".join(sorted({gpu.driver for gpu in host.accelerators if gpu.driver})) or "n/a"),
        ("processes that train together", str(run.world_size)),
        ("RAM limit of each", bytes_text(run.rank_host.ram_limit_bytes)),
        ("platform", host.platform),
        ("Python", torch.python_version if torch else host.python_version),
        ("torch", torch_text(run)),
        ("precision of the script", _own_precision(run)),
        ("trials", sandbox_text(host.sandbox.kind) if host.sandbox else "n/a"),
        ("tunekit", run.tunekit_version),
        ("started", run.created_at),
    ]
    return Table("Environment", ("", ""), tuple((name, printable(text)) for name, text in rows))


def torch_text(run: Run) -> str:
    """Return the training environment's torch with what it computes by; "n/a" where it was not asked."""
    torch = run.host.torch
    if torch is None:
        return "n/a"
    told = [torch.version]
    if torch.hip_version:
        told.append(f"ROCm {torch.hip_version}")
    else:
        told.append(f"CUDA {torch.cuda_version}" if torch.cuda_version else "no CUDA")
    if torch.cudnn_version:
        told.append(f"cuDNN {torch.cudnn_version}")
    return ", ".join(told)


def _own_precision(run: Run) -> str:
    return own_precision_text(run.baseline_config, run.discovery) if run.baseline_config else "n/a"


def _script(run: Run) -> str:
    if run.target.script is None:
        return "n/a"
    digest = run.target.script_sha256
    return run.target.script + (f", SHA-256 {digest[:16]}..." if digest else "")


def method_lines(run: Run) -> tuple[str, ...]:
    """Return how the figures came about, a sentence each."""
    asked = run.options
    rounds = count_text(asked.confirm_rounds, "round")
    lines = [
        "Every trial is a process of its own that runs the command as it is; knobs are set from inside, and "
        f"a steady window of about {duration_text(asked.window_s)} is measured after warm-up.",
        "Rates are samples/s consumed by optimizer steps over whole epochs, epoch boundaries included.",
        f"What is recommended was run again in at most {rounds} of fresh processes, interleaved with the "
        "baseline. Ranges are 95% intervals of log ratios; a difference counts only beyond the noise floor "
        "of baseline against baseline.",
        "Measured figures are drawn solid; predicted ones are dashed or hatched, and say so.",
    ]
    if run.why_stopped:
        lines.append(printable(f"Why the search ended: {run.why_stopped}."))
    if run.cut_short:
        lines.append(printable(f"What the budget could not hold: {run.cut_short}."))
    return tuple(lines)
