"""The recording of a real training: what its loop did, in intervals, in a file of bounded size.

Every gap between two optimizer steps is divided: the wait for the training loader's batches, the time beyond
a usual step where a checkpoint was saved or another loader was read (validation), any other long pause, and
the step itself. The figures are summed in memory; a line is written every few seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from typing import Any

from . import faults, imports
from .faults import kept_from_script
from .loader.info import LoaderInfo, epoch_of
from .loader.watch import LoaderWatch
from .model.steps import keep_from_dynamo
from .originals import append_to, as_json, os, time
from .process import Owner, Ranks
from .request import Request

INTERVAL_S = 2.0
MAX_INTERVALS = 1400
"""Lines of some 300 bytes; when the file is full, each two become one, and later lines are as long."""
_PAUSE_S, _PAUSE_STEPS = 1.0, 20.0
"""A gap of at least this time and this many usual steps is a pause: a full queue of a GPU is shorter."""
_USUAL_FROM = 5
"""Steps after which the usual step is known."""
_SAVERS = (
    ("torch.serialization", "save"),
    ("safetensors.torch", "save_file"),
    ("torch.distributed.checkpoint.state_dict_saver", "save"),
)
_SUMS = (
    *("duration_s", "steps", "batches", "samples", "tokens", "step_s", "wait_s"),
    *("checkpoint_s", "checkpoints", "validation_s", "other_s"),
)


class BoundedFile:
    """A file of one JSON line for each interval; when it is full, each two neighbours become one.

    Args:
        path: the file.
        sums: what is summed of two intervals.
        peaks: of what the higher is kept; of all else the later.

    Attributes:
        every_s: how long the next interval should be.
    """

    def __init__(self, path: str, sums: tuple, peaks: tuple = ()) -> None:
        self._path = path
        self._rows: list = []
        self._together = {**dict.fromkeys(sums, sum), **dict.fromkeys(peaks, max)}
        self.every_s = INTERVAL_S

    def append(self, row: dict) -> None:
        """Add an interval; what can't be written is dropped, and the training goes on."""
        self._rows.append(row)
        with contextlib.suppress(OSError):
            if len(self._rows) < MAX_INTERVALS:
                append_to(self._path, (as_json(row) + "\n").encode())
            else:
                self._halve()

    def _halve(self) -> None:
        pairs = zip(self._rows[::2], self._rows[1::2])  # noqa: B905 - Python 3.9
        self._rows = [self._merged(first, later) for first, later in pairs]
        self.every_s *= 2
        with open(self._path + ".part", "w", encoding="utf-8") as stream:
            stream.writelines(as_json(one) + "\n" for one in self._rows)
        os.replace(self._path + ".part", self._path)

    def _merged(self, first: dict, later: dict) -> dict:
        row = {**later, "at_s": first["at_s"]}
        for name, together in self._together.items():
            known = [one[name] for one in (first, later) if one[name] is not None]
            row[name] = together(known) if known else None
        return row


class Recorder:
    """Records the loop of one process; receives loaders' and optimizers' events.

    Args:
        folder: the recording's; each process with a loop writes its own `loop-PID.jsonl`.
        ranks: only one rank of each host records, as if every rank did the same.
        log: reports the recorder's own fault.
    """

    def __init__(self, folder: str, ranks: Ranks, log: Any) -> None:
        self._folder, self._log = folder, log
        self.ranks = ranks
        self._pid = os.getpid()
        self._thread = 0
        self.has_failed = False
        self._file = BoundedFile(os.path.join(folder, f"loop-{self._pid}.jsonl"), _SUMS)
        self._optimizer: Any = lambda: None  # a weak reference to the one whose steps count
        self._stepped_at = self._began_at = 0.0
        self._usual_s = self._usual_steps = 0.0
        self._training: LoaderInfo | None = None
        self._epochs = self._place = 0
        self._fetched: dict = {}  # of the gap: batches, samples, tokens and wait by loader
        self._opened: tuple = (None, 0.0)
        self._saved = self._validated = False
        self._row: dict = dict.fromkeys(_SUMS, 0)

    def failed(self, error: Exception) -> None:
        """Report the recorder's own fault and stop; the training goes on."""
        self.has_failed = True
        faults.report(self._log, self._folder, error, is_over=False)

    def loader_built(self, info: LoaderInfo) -> None:
        """Do nothing: loaders count once they are read."""

    # --- hooks ---------------------------------------------------------------------------------

    def install(self, loaders: LoaderWatch) -> None:
        """Have fetches and checkpoints reported, once a LoaderWatch is installed that reports to this."""
        imports.when_imported("torch.utils.data.dataloader", loaders.install_iteration)
        for module, name in _SAVERS:
            imports.when_imported(module, functools.partial(self._install_saver, name))
        atexit.register(self._ended)

    def _install_saver(self, name: str, module: Any) -> None:
        original = getattr(module, name)

        @functools.wraps(original)
        def save(*args, **kwargs):
            self._saved = True
            return original(*args, **kwargs)

        setattr(module, name, save)

    # --- events --------------------------------------------------------------------------------

    @kept_from_script
    def epoch_started(self, info: LoaderInfo, now: float) -> None:
        self._opened = (info, now)  # its workers start before the first fetch

    def fetch_started(self, info: LoaderInfo, source: Any) -> None:
        """Do nothing: the fetch goes on."""

    @kept_from_script
    def epoch_ended(self, info: LoaderInfo, asked_at: float) -> None:
        if info is not self._training:
            self._validated = True
            self._fetched.pop(info, None)  # what is trained on goes on after the step

    @kept_from_script
    def fetched(self, info: LoaderInfo, batch: object, wait_s: float, cpu_s: float) -> None:
        opened, opened_at = self._opened
        if opened is info:
            wait_s, self._opened = time.perf_counter() - opened_at, (None, 0.0)
        figures = self._fetched.setdefault(info, [0, 0, 0, 0.0])
        figures[0] += 1
        figures[1] += info.samples_in(batch)
        figures[2] += _tokens_in(batch)
        if threading.get_ident() == self._thread:  # a reading thread's waits hold nothing up
            figures[3] += wait_s

    @kept_from_script
    def stepped(self, optimizer: Any) -> None:
        """Count a step of the first optimizer, and divide the time since the step before."""
        now = time.perf_counter()
        counted = self._optimizer()
        if counted is not optimizer:
            if counted is None and os.getpid() == self._pid and self.ranks.measures:
                self._optimizer, self._thread = weakref.ref(optimizer), threading.get_ident()
                self._begin(now)
            return
        gap_s, row = now - self._stepped_at, self._row
        self._stepped_at = now
        row["steps"] += 1
        wait_s = self._divide_fetches(gap_s) if self._fetched else 0.0
        own_s = gap_s - wait_s
        usual_s = self._usual_s / self._usual_steps if self._usual_steps >= _USUAL_FROM else own_s
        beyond_s = max(0.0, own_s - usual_s)
        if self._saved or self._validated or (beyond_s > _PAUSE_S and own_s > _PAUSE_STEPS * usual_s):
            kind = "checkpoint" if self._saved else "validation" if self._validated else "other"
            row[kind + "_s"] += beyond_s
            row["checkpoints"] += self._saved
            self._saved = self._validated = False
        else:
            beyond_s = 0.0
            self._usual_s += own_s
            self._usual_steps += 1
        row["wait_s"] += wait_s
        row["step_s"] += own_s - beyond_s
        if now >= self._began_at + self._file.every_s:
            self._write(now)

    def _begin(self, now: float) -> None:
        if self._row["steps"]:  # of an optimizer that is gone
            self._write(self._stepped_at)
        self._note_epoch()
        self._fetched.clear()
        self._stepped_at = self._began_at = now
        self._saved = self._validated = False
        self._row = {"at_s": time.time(), **dict.fromkeys(_SUMS, 0), "steps": 1}
        self._write(now)  # a step without a gap before it: an interval of no time

    def _divide_fetches(self, gap_s: float) -> float:
        """Add what the training loader gave in this gap, and return the wait for it in seconds."""
        self._note_epoch()
        fetches, samples, tokens, wait_s = self._fetched.pop(self._training, (0, 0, 0, 0.0))
        others = max((one[0] for one in self._fetched.values()), default=0)
        self._validated = self._validated or others > fetches  # loaders read in turns are all trained on
        self._row["batches"] += fetches
        self._row["samples"] += samples
        self._row["tokens"] += tokens
        self._fetched.clear()
        return min(wait_s, gap_s)

    def _note_epoch(self) -> None:
        """Take the loader that was read since the last step as the one that is trained on."""
        info = self._training if self._training in self._fetched else next(reversed(self._fetched), None)
        if info is not None and (info is not self._training or info.epoch_fetches <= self._place):
            self._training, self._epochs = info, self._epochs + 1
        self._place = 0 if info is None else info.epoch_fetches

    def _write(self, now: float) -> None:
        row = self._row
        row.update(duration_s=now - self._began_at, world_size=self.ranks.world_size)
        row.update(epoch=self._epochs, epoch_batch=self._place, epoch_batches=epoch_of(self._training)[1])
        self._file.append(row)
        self._usual_s, self._usual_steps = self._usual_s / 2, self._usual_steps / 2
        self._began_at = now
        self._row = {"at_s": time.time(), **dict.fromkeys(_SUMS, 0)}

    @kept_from_script
    def _ended(self) -> None:
        if self._row["steps"] and os.getpid() == self._pid:
            self._write(self._stepped_at)


def install(request: Request, log: Any, owner: Owner) -> None:
    """Record a training with its own settings: nothing is set, and no module is watched."""
    recorder = Recorder(request.trial_folder, Ranks(owner, lambda: None), log)
    loaders = LoaderWatch(None, {}, recorder, owner)
    imports.when_imported("torch.distributed.distributed_c10d", recorder.ranks.install)
    imports.when_imported("torch.utils.data.dataloader", loaders.install)
    imports.when_imported(imports.STATEFUL, lambda m: loaders.wrap_construction(m.StatefulDataLoader))
    recorder.install(loaders)
    step = keep_from_dynamo(lambda optimizer, args, kwargs: recorder.stepped(optimizer))
    imports.when_imported("torch.optim.optimizer", lambda m: m.register_optimizer_step_post_hook(step))


def _tokens_in(batch: Any) -> int:
    """Return the tokens of a batch as transformers name them, padding included; 0 where there are none."""
    if getattr(batch, "keys", None) is not None:
        with contextlib.suppress(Exception):
            return int(batch["input_ids"].numel())
    return 0
