"""What the verbs that run trials show: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tunekit.machine.device import memory_cap_bytes
from tunekit.records.run import Run, TargetRecord
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import rates_by_config
from tunekit.report.blocks import Block
from tunekit.report.terminal import SEVERITY_STYLES, draw, shown_text
from tunekit.report.text import SEVERITY_WORDS, config_text, finding_text, host_text, outcome_text
from tunekit.trial.binding_syntax import binding_text, value_text
from tunekit.trial.bindings import present_values
from tunekit.trial.executor import TrialSpec
from tunekit.trial.typed_commands import shown_target
from tunekit.trial.watch import TrialProgress
from tunekit.tune.budget import USUAL_BUDGET_S
from tunekit.units import bytes_text, count_text, duration_text, rate_text

_PHASES = {
    "boundary": "timing an epoch boundary",
    "refill": "timing an epoch boundary",
    "queue": "filling the loader's queue",
    "kernels": "tracing kernels",
    "syncs": "looking for device syncs",
    "peaks": "reading peak memory",
    "floors": "timing the loader alone, then the step alone",
    "largest": "training on the largest samples",
    "sizes": "timing the step at other batch sizes",
    "data": "checking the samples of an epoch",
    "loader": "timing the loader alone",
    "finished": "shutting down",
}

_BUDGET_LATER = f"{duration_text(USUAL_BUDGET_S)} or more, set once the baseline is timed (or by --budget)"
_LABEL_WIDTH = 8
_RESULT_WIDTH = 29


def phase_text(phase: str) -> str:
    """Return what a trial is doing, such as "tracing steps at batch 4 under bf16" for "trace bf16 4"."""
    name, *words = phase.split()
    if name == "trace" and len(words) == 2:
        under = "" if words[0] == "own" else f" under {words[0]}"
        return f"tracing steps at batch {words[1]}{under}"
    return _PHASES.get(phase, phase)


def _config_of(record: TrialRecord) -> str:
    """Return a trial's config in one line; the baseline's includes what was found in the script."""
    if not record.is_baseline_config:
        return config_text(record.config)
    return f"baseline: {config_text(record.config, record.discovery)}" if record.config else "baseline"


def device_text(record: TargetRecord) -> str:
    """Return the requested device, and the one that is measured instead where it is absent."""
    device = record.profile.device_names[0]
    if not record.is_emulated:
        return device
    cap_bytes = memory_cap_bytes(record.profile, record.measured_on, record.host)
    capped = f", its memory capped to {bytes_text(cap_bytes)}" if cap_bytes else ""
    return f"no {device} found; measuring on {record.measured_on}{capped}"


class TrialScreen:
    """Shows trials and their results; a `TrialListener`.

    Args:
        to_stderr: leave standard output to the JSON.
        console: for the output, instead of the terminal.
        is_quiet: show the answer alone.
    """

    def __init__(
        self, to_stderr: bool = False, console: Console | None = None, is_quiet: bool = False
    ) -> None:
        self._to_stderr = to_stderr
        self._ended = 0
        self._has_titles = False
        """Whether the column titles were printed."""
        self._console = console or Console(stderr=to_stderr, highlight=False, quiet=is_quiet)
        self._live: Live | None = None
        self._spec: TrialSpec | None = None
        self._purpose = ""
        self._left_s: float | None = None
        self._started_at = 0.0
        self._made_tenths = -1
        """Tenths of a built-in workload's data whose completion was shown."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop_live()

    def opened(self, record: TargetRecord, folder: Path) -> None:
        """Show host, target, device, folder and the machine's findings before anything runs."""
        target = record.target
        self._line("host", host_text(record.host))
        yours = "; for your own, end with: -- python train.py" if target.builtin else ""
        self._line("target", shown_target(target) + yours)
        self._line("device", device_text(record))
        for finding in record.machine_warnings:
            style = SEVERITY_STYLES[finding.severity]
            self._line(SEVERITY_WORDS[finding.severity], finding_text(finding), style=style)
        self._line("folder", str(folder))

    def closed(self, answer: Sequence[Block]) -> None:
        """Show the answer, if standard output is not the JSON's."""
        self._stop_live()
        self._console.quiet = False
        if not self._to_stderr:
            draw(self._console, answer)

    def data_made(self, written: int, count: int) -> None:
        """Show how much of a built-in workload's data is made; each tenth where output is no terminal."""
        text = f"making the data, once: {written / count:.0%}"
        if self._console.is_terminal:
            self._live = self._live or self._new_live()
            self._live.update(shown_text(" " * _LABEL_WIDTH + text), refresh=True)
        elif written * 10 // count > self._made_tenths:
            self._made_tenths = written * 10 // count
            self.said(text)

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
        """Show which trial begins."""
        self._spec, self._purpose, self._left_s = spec, purpose, left_s
        self._started_at = time.monotonic()
        if self._console.is_terminal:
            self._stop_live()
            self._live = self._new_live()
            self._live.update(self._status("starting", 0), refresh=True)

    def trial_moved(self, progress: TrialProgress) -> None:
        """Update the live line."""
        if self._live is not None:
            self._live.update(self._status(progress.phase, progress.batches), refresh=True)

    def trial_ended(self, record: TrialRecord) -> None:
        """Show a trial's result, one line each."""
        self._stop_live()
        self._ended += 1
        text = shown_text(f"{outcome_text(record):<{_RESULT_WIDTH}}", "red" if record.failure else "bold")
        what = self._purpose if record.processes else _config_of(record)
        self._print_trial(record, text.append(f"  {what}", style="not bold default"))

    def _print_trial(self, record: TrialRecord, text: Text) -> None:
        if not self._has_titles:
            self._has_titles = True
            titles = f"{'result':<{_RESULT_WIDTH}}  {'processes' if record.processes else 'config'}"
            self._print("trial", shown_text(titles, "dim"))
        self._print(f"{record.number:5d}", text)

    def interrupted(self, folder: Path, then: str = "") -> None:
        """Say where the finished trials are, and what to do next."""
        self._stop_live()
        count = count_text(self._ended, "finished trial")
        self._console.print(shown_text(f"interrupted; {count} in {folder}"), soft_wrap=True)
        self._console.print(shown_text(then or f"Show them with: tunekit report {folder}"), soft_wrap=True)

    def said(self, message: str) -> None:
        """Show a sentence."""
        self._stop_live()
        self._line("", message)

    def _status(self, phase: str, batches: int) -> Text:
        assert self._spec is not None
        indent = "\n" + " " * _LABEL_WIDTH
        who = config_text(self._spec.config) if self._spec.config else "baseline"
        text = Text(overflow="ellipsis", no_wrap=True).append(shown_text(f"{self._spec.number:5d}   {who}"))
        seen = count_text(batches, "batch", "batches")
        doing = f"{seen}, {self._purpose}: {phase_text(phase)}"  # what is too long is cut at its end
        text.append(indent).append(shown_text(doing, "cyan"))
        return text.append(indent + self._below_status(), style="dim")

    def _below_status(self) -> str:
        """Return the last non-empty line; empty where there is none."""
        if self._left_s is None:
            return ""
        return f"{duration_text(max(0.0, self._left_s - (time.monotonic() - self._started_at)))} left"

    def _line(self, label: str, text: str, style: str = "") -> None:
        self._print(label, shown_text(text, style))

    def _print(self, label: str, text: Text) -> None:
        """Print a label and a text that wraps next to it; one long line where output is no terminal."""
        if not self._console.is_terminal:
            self._console.print(shown_text(f"{label:<{_LABEL_WIDTH}}").append(text), soft_wrap=True)
            return
        grid = Table.grid()
        grid.add_column(width=_LABEL_WIDTH)
        grid.add_column()
        grid.add_row(shown_text(label), text)
        self._console.print(grid)

    def _new_live(self) -> Live:
        live = Live(console=self._console, transient=True, auto_refresh=False)
        live.start()
        return live

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class SearchScreen(TrialScreen):
    """Shows a search; a `SearchListener`."""

    _records: tuple[TrialRecord, ...] = ()
    _max_trials: int | None = None

    def opened(self, record: TargetRecord, folder: Path) -> None:
        """Show host, target and budget before anything runs."""
        super().opened(record, folder)
        if isinstance(record, Run):
            self._ended, self._records = len(record.trials), record.trials
            self._max_trials = record.options.max_trials
            budget_s = record.known_budget_s
            self._line("budget", duration_text(budget_s) if budget_s else _BUDGET_LATER)

    def preview(self, run: Run, space: Mapping[str, str]) -> None:
        """Show what a search would do, as far as is known before anything runs.

        Args:
            run: before its first trial.
            space: the values that each knob may have, in words.
        """
        bound = present_values(run.target)
        bindings = [
            binding_text(one) + (f" (now {value_text(bound[one.knob])})" if one.knob in bound else "")
            for one in run.target.bindings
        ]
        self._line("bind", "; ".join(bindings) or "none; loader and model are set inside the process")
        for place, (knob, values) in enumerate(space.items()):
            self._line("" if place else "search", f"{knob}: {values}")
        self._line("", "The baseline run shows the script's own values and which knobs reach its loop.")
        self._line("", "--dry-run: nothing was started, nothing was written")

    def space_known(self, run: Run) -> None:
        """Show which knobs are searched and which are not."""
        searched = [entry for entry in run.space if entry.is_searched]
        self._line("search", ", ".join(f"{e.knob} ({len(e.values)})" for e in searched))
        for entry in run.space:
            if not entry.is_searched:
                self._line("", f"not {entry.knob}: {entry.why_fixed}", style="dim")

    def trial_ended(self, record: TrialRecord) -> None:
        """Show a trial's result, one line each."""
        self._records += (record,)
        super().trial_ended(record)

    def shared(self, place: str, name: str, is_only_group: bool) -> None:
        """Show where the search is shared, under which name, and whether its hosts are alike."""
        self._line("shared", f"{place}, as {name}")
        if not is_only_group:
            self._line("", "other hosts here differ in command, hardware, driver or torch: not mixed")

    def trial_of_another_ended(self, record: TrialRecord, host: str) -> None:
        """Show a trial of another host that shares the search, in one line."""
        self._records += (record,)
        result = f"{outcome_text(record):<{_RESULT_WIDTH}}"
        self._print_trial(record, shown_text(f"{result}  {_config_of(record)}, on {host}", "dim"))

    def left_to(self, host_name: str, folder: Path, trials: int) -> None:
        """Report which other host finishes the search, and where its report will be."""
        self._stop_live()
        own = f"{count_text(trials, 'trial')} measured here"
        self._line("done", f"{own}; {host_name} finishes the search; its report: {folder}")

    def reported_so_far(self, report: Path) -> None:
        """Report where the report of the measurements is."""
        self._console.print(shown_text(f"Report so far: {report}"), soft_wrap=True)

    def _below_status(self) -> str:
        shown = [super()._below_status()]
        if self._max_trials is not None:
            tried = sum(one.role.is_candidate for one in self._records)
            shown.append(f"{tried} of {count_text(self._max_trials, 'trial')} done")
        rates = {config: mean(each) for config, each in rates_by_config(self._records).items()}
        if rates:
            best = max(rates, key=rates.__getitem__)
            shown.append(f"best {rate_text(rates[best])} samples/s")
        return ", ".join(filter(None, shown))
