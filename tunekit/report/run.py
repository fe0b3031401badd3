"""A run in words, and how each medium arranges them. Pure."""

from collections.abc import Sequence
from pathlib import Path

from tunekit.diagnose.software import threads_text
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import answer_of
from tunekit.recommend.tiers import POLICIES
from tunekit.records.finding import Severity
from tunekit.records.plan import Plan
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report import answer
from tunekit.report.blocks import (
    Block,
    Commands,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Step,
    Table,
    found_blocks,
)
from tunekit.report.bottleneck import bottleneck_passage, bottleneck_text
from tunekit.report.charts import charts_of
from tunekit.report.charts.memory import loader_ram_blocks
from tunekit.report.charts.telemetry import Saved, telemetry_chart
from tunekit.report.plan import plan_blocks
from tunekit.report.text import (
    SANDBOXES,
    UNKNOWN,
    about_text,
    host_text,
    own_precision_text,
    search_again,
    torch_text,
)
from tunekit.report.tiers import scaling_table, short_tiers_table, tiers_table
from tunekit.report.trials import telemetry_table, trials_table
from tunekit.trial.typed_commands import quoted, shown_target
from tunekit.units import bytes_text, count_text, duration_text

_MAX_CHANGES = 5
"""Changes that get a line each on one screen."""


def on_one_screen(run: Run, folder: Path, files: Sequence[Path] = ()) -> tuple[Block, ...]:
    """Return the answer, what to change and what comes next, within 24 lines of 80 letters.

    Args:
        run: the saved run.
        folder: its folder, for commands.
        files: files just written to it.
    """
    best = answer_of(run.recommendations)
    changes, predicted = answer.changes_of(run, best), answer.prediction_passage(run, best)
    in_line = ", ".join(changes.lines)
    errors = [one for one in run.findings if one.severity is Severity.ERROR][:1]
    full = ("all figures and findings", f"tunekit report {quoted(str(folder))} --full")
    quiet = answer.how_measured(run, best), answer.tried_text(run, best), _written_text(folder, files)
    return (
        answer.answer_lead(run, best),
        Line(answer.candidate_text(run, str(folder))),
        Line(answer.other_tiers_text(run, best)),
        Line(bottleneck_text(run)),
        Line(answer.headroom_text(run, best)),
        *(Line(f"{predicted.title}: {line}") for line in predicted.lines[:1]),
        *map(Line, answer.missing_lines(run) if best is None else ()),
        *(Line(line, is_quiet=True) for line in quiet),
        Passage("Change", (in_line,), is_list=True) if len(changes.rows) > _MAX_CHANGES else changes,
        *(Note(one.severity, f"{one.code}: {one.message}") for one in errors),
        Commands("Next", (*answer.next_steps(run, best, str(folder)), full)),
    )


def _written_text(folder: Path, files: Sequence[Path]) -> str:
    """Return where the files are, naming those to share; empty without any."""
    names = [path.name for path in files]
    named = [name for name in ("report.html", "report.md") if name in names]
    rest = len(names) - len(named)
    others = f"{rest} more" if named else count_text(rest, "file")
    what = f"{', '.join(named)} and {others}" if named else others
    return f"Written to {folder}/: {what}." if names else ""


def on_page(
    run: Run,
    folder: str = "FOLDER",
    plan: Plan | None = None,
    configs: Sequence[tuple[str, str]] = (),
    saved: Saved = lambda _: (),
) -> Report:
    """Return the report on a run and its plan, with commands for its folder.

    A terminal shows it without charts and configs.

    Args:
        run: the saved run.
        folder: its folder, for commands.
        plan: of the whole training, where there can be one.
        configs: tiers by name with their YAML.
        saved: what was sampled of a trial, by its number.
    """
    best = answer_of(run.recommendations)
    charts = {chart.id: chart for chart in charts_of(run, best)}

    def of(*names: str) -> list[Block]:
        return [charts.pop(name) for name in names if name in charts]

    blocks: list[Block] = [
        *_answer_blocks(run, best, folder, configs),
        Section("time", "Where the time goes", "Time"),
        *of("time_breakdown"),
        bottleneck_passage(run),
        Section("telemetry", "GPU, CPU and storage over time", "Telemetry"),
        *telemetry_chart(run, best, saved),
        telemetry_table(run, best),
        Section("throughput", "Throughput by batch size", "Throughput"),
        *of("throughput"),
        Section("memory", "Memory", "Memory"),
        *of("device_memory", "host_memory"),
        *loader_ram_blocks(run, best),
        answer.prediction_passage(run, best),
        Section("trials", "Trials", "Trials"),
        trials_table(run),
        Section("history", "Search", "Search"),
        *of("history"),
        *of(*charts),
        Section("gpus", "Multi-GPU scaling", "Multi-GPU"),
        scaling_table(run, best),
        Section("plan", "Cost estimate", "Plan"),
        *_plan_blocks(plan),
        *_blocks_of_record(run),
    ]
    return Report(_title(run), tuple(blocks), about_text(run))


def _answer_blocks(
    run: Run, best: Recommendation | None, folder: str, configs: Sequence[tuple[str, str]]
) -> tuple[Block, ...]:
    """Return the top of the page: the answer, what to change, and the tiers."""
    return (
        answer.answer_lead(run, best),
        answer.changes_of(run, best),
        Commands("Use it" if best and not best.is_baseline else "Next", answer.next_steps(run, best, folder)),
        *_config_of(best, configs),
        *map(Line, (answer.headroom_text(run, best), *_on_samples(run))),
        Line(answer.how_measured(run, best), is_quiet=True),
        Line(answer.tried_text(run, best), is_quiet=True),
        Line(answer.candidate_text(run, folder)),
        Section("tiers", "Tiers and your baseline", "Tiers"),
        tiers_table(run),
        Passage("", _policy_lines(run), is_quiet=True, is_apart=True),
        Passage("Tiers that are missing", answer.missing_lines(run)),
    )


def _policy_lines(run: Run) -> tuple[str, ...]:
    """Return what each tier is, and what the noise floor is."""
    best = planned_training(run.options, run.trials).best_text
    policies = (f"{tier}: {policy.meaning(best)}" for tier, policy in POLICIES.items())
    return (*policies, "noise floor: what two fresh processes of your baseline differ by")


def _blocks_of_record(run: Run) -> tuple[Block, ...]:
    """Return the end of the page: findings, failures, environment and method."""
    return (
        Section("findings", "Findings", "Findings"),
        *found_blocks(run.findings),
        Section("failures", "Failures", "Failures"),
        Passage("", tuple(Note(Severity.INFO, line).line for line in answer.failure_lines(run))),
        Section("environment", "Environment and method", "Setup"),
        environment_table(run),
        Passage("Method", method_lines(run)),
        Commands("The same search again", (search_again(run),)),
    )


def in_comment(
    run: Run, plan: Plan | None = None, configs: Sequence[tuple[str, str]] = (), folder: str = "FOLDER"
) -> Report:
    """Return a comment for a pull request; configs are tiers by name with their YAML."""
    best = answer_of(run.recommendations)
    planned = _plan_blocks(plan) if plan is not None and plan.choices else ()
    basis = [block.text for block in planned if isinstance(block, Line)][:1]
    steps = (*answer.next_steps(run, best, folder), ("the same search again", search_again(run)))
    blocks: list[Block] = [
        answer.answer_lead(run, best),
        short_tiers_table(run),
        answer.changes_of(run, best),
        Line(answer.candidate_text(run, folder)),
        *map(Line, (answer.headroom_text(run, best), *_on_samples(run))),
        Line(answer.how_measured(run, best)),
        Line(answer.tried_text(run, best)),
        Line("; ".join(answer.missing_lines(run))),
        Commands("Commands", shell_lines(steps)),
        bottleneck_passage(run),
        *found_blocks(run.findings),
        Passage("Failed trials", answer.failure_lines(run)),
        Passage("The whole training", (*basis, *(one.text for one in planned if isinstance(one, Lead)))),
        answer.prediction_passage(run, best),
        Commands("Configs", tuple(_config_lines(configs)), "yaml"),
    ]
    return Report(f"tunekit: {_title(run)}", tuple(blocks))


def shell_lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return steps as lines for a shell, their words as comments."""
    return tuple(line for words, step in steps for line in (words and f"# {words}", step) if line)


def _title(run: Run) -> str:
    return f"{run.target.name} on {run.measured_on}"


def _on_samples(run: Run) -> tuple[str, str]:
    """Return the losses in other precisions, and what the largest samples mean for the tiers."""
    return answer.losses_text(run.loss_checks), answer.largest_samples_text(run.recommendations)


def _config_of(best: Recommendation | None, configs: Sequence[tuple[str, str]]) -> tuple[Commands, ...]:
    """Return the YAML of the config that the answer speaks of, to be copied."""
    if best is None or best.is_baseline:
        return ()
    name = best.tier.value
    return tuple(
        Commands(f"{name}.yaml", tuple(text.splitlines()), "yaml") for tier, text in configs if tier == name
    )


def _plan_blocks(plan: Plan | None) -> tuple[Block, ...]:
    """Return the plan; without estimates for other machines, only its lead sentences."""
    blocks = () if plan is None else plan_blocks(plan)
    return blocks if plan and plan.choices else tuple(one for one in blocks if isinstance(one, Lead))


def _config_lines(configs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the tiers' knobs; a config that was shown already is only named."""
    names: dict[str, list[str]] = {}
    for name, text in configs:
        names.setdefault(text, []).append(name)
    return [line for text, same in names.items() for line in (f"# {' = '.join(same)}", *text.splitlines())]


# --- where and how it was measured -----------------------------------------------------------


def environment_table(run: Run) -> Table:
    """Return what the figures were measured on: machine, software, script."""
    host, torch, target = run.host, run.host.torch, run.target
    own = own_precision_text(run.baseline_config, run.discovery) if run.baseline_config else UNKNOWN
    digest = f", SHA-256 {target.script_sha256[:16]}..." if target.script and target.script_sha256 else ""
    rows = [
        ("target", shown_target(target)),
        ("script", f"{target.script}{digest}" if target.script else UNKNOWN),
        ("target GPU", run.profile.id),
        ("measured on", run.measured_on),
        ("machine", host_text(host)),
        ("CPU", host.cpu_name or UNKNOWN),
        ("GPU driver", ", ".join(sorted({gpu.driver for gpu in host.accelerators if gpu.driver})) or UNKNOWN),
        ("world size", str(run.world_size)),
        ("RAM limit per rank", bytes_text(run.rank_host.ram_limit_bytes)),
        ("platform", host.platform),
        ("Python", host.python_version),
        ("torch", torch_text(torch) if torch else (run.discovery and run.discovery.torch_version) or UNKNOWN),
        ("CPU threads", _threads_text(run)),
        ("precision of the script", own),
        ("trials", SANDBOXES[host.sandbox.kind] if host.sandbox else UNKNOWN),
        ("git commit", run.commit or UNKNOWN),
        ("tunekit", run.tunekit_version),
        ("started", run.created_at),
    ]
    known = ((name, text) for name, text in rows if text != UNKNOWN)
    return Table("Environment", ("", ""), tuple(known))


def _threads_text(run: Run) -> str:
    seen = (one.measurement.loop.threads for one in run.trials if one.measurement)
    return next((threads_text(threads) for threads in seen if threads is not None), UNKNOWN)


def method_lines(run: Run) -> tuple[str, ...]:
    """Return how the figures were measured, in sentences."""
    asked = run.options
    rounds = count_text(asked.confirm_rounds, "round")
    lines = [
        "Each trial runs your command in a fresh process; knobs are set from inside, and a steady window of "
        f"about {duration_text(asked.window_s)} is measured after warm-up.",
        "Rates are samples/s consumed by optimizer steps over whole epochs, epoch boundaries included.",
        f"What is recommended was run again in at most {rounds} of fresh processes, interleaved with the "
        "baseline. Ranges are 95% intervals of log ratios; a difference counts only beyond the noise floor "
        "of baseline against baseline.",
        "Measured figures are drawn solid; predicted ones are dashed or hatched, and say so.",
    ]
    if run.why_stopped:
        lines.append(f"Why the search ended: {run.why_stopped}.")
    if run.cut_short:
        lines.append(f"Skipped for lack of time: {run.cut_short}.")
    return tuple(lines)
