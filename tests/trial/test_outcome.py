"""From evidence to a verdict: by exception type, exit status and limits, never by words in the output.

Each piece of evidence has a line in `golden/outcomes.txt`: its kind, its message and its remedy.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from build_records import discovery, largest_seen, loop, root
from scripted_search import loader

from tunekit.records.agent_messages import (
    AgentErrorEvent,
    ByHandEvent,
    DoneEvent,
    ErrorSeen,
    ExitEvent,
    KnobsApplied,
    LearntEvent,
    NonfiniteEvent,
    RerunsMainEvent,
)
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen
from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Details, QueueSeen, TracedAt, TraceSeen
from tunekit.records.measurement import Measurement, TreeMemory
from tunekit.records.target import InputSeen
from tunekit.records.trial import Failure, OutcomeKind
from tunekit.trial.bindings import Bound
from tunekit.trial.events import NO_GUARD_REMEDY, Evidence
from tunekit.trial.external_launchers import ExternalLauncher
from tunekit.trial.outcome import measurement_of

ALARMING = (
    "RuntimeError: error error ERROR",
    "torch.OutOfMemoryError: CUDA out of memory",
    "DataLoader worker (pid 7) is killed by signal: Bus error",
    "Traceback (most recent call last):",
    "loss nan",
)
MEMORY = TreeMemory(peak_pss_bytes=1 << 30, peak_shm_bytes=0, processes=3, samples=4)
NET = root(class_name="Net", parameters=100)
MRO = ("builtins.RuntimeError", "builtins.Exception", "builtins.BaseException", "builtins.object")
OUTPUT = "/trials/0007/output.log"
LOADER = {"batch_size": 128, "num_workers": 2, "prefetch_factor": 2, "pin_memory": False}
VALUE_ERROR, KEY_ERROR = ("builtins.ValueError",), ("builtins.KeyError",)
ACCELERATOR, OUT_OF_MEMORY = ("torch.AcceleratorError", *MRO), ("torch.OutOfMemoryError", *MRO)
DENIED = ("builtins.PermissionError", "builtins.OSError")


def learnt(complete: bool = True, **overrides: Any) -> LearntEvent:
    applied = {
        name: overrides.pop(name, one) for name, one in (("addressed", True), ("roots_applied", (NET,)))
    }
    seen = loader().changed(**LOADER | {"persistent_workers": True} | overrides)
    found = discovery(complete=complete, loaders=(seen,), roots=(NET,))
    return LearntEvent(event="learnt", time_s=1.0, discovery=found, applied=KnobsApplied(**applied))


def done(**overrides: Any) -> DoneEvent:
    return DoneEvent(**{"event": "done", "time_s": 9.0, "loop": loop()} | overrides)


ENDED = 2**22 + 1
"""A pid above the largest that Linux gives."""


def measured(**overrides: Any) -> Evidence:
    """Evidence of a trial that went well, however alarming its output reads."""
    seen = {"learnt": learnt(), "done": done(), "memory": MEMORY, "last_lines": ALARMING}
    return Evidence(**{"started": True, "steps": 108, "batches": 108} | seen | overrides)


def ended(returncode: int | None = 1, **overrides: Any) -> Evidence:
    """Evidence of a script that ended by itself after 5 steps."""
    seen = {"returncode": returncode, "memory": MEMORY, "last_lines": ALARMING}
    return Evidence(**{"started": True, "steps": 5, "batches": 6} | seen | overrides)


def exited(error: ErrorSeen | None = None, steps: int = 5, batches: int = 6, **more: Any) -> ExitEvent:
    return ExitEvent(event="exit", time_s=2.0, steps=steps, batches=batches, error=error, **more)


def raised(*types: str, message: str = "", traceback: tuple[str, ...] = (), **more: Any) -> Evidence:
    """Evidence of a script that an exception ended."""
    error = ErrorSeen(types=types, message=message, traceback=traceback, **more)
    return ended(exit=exited(error))


def raised_in_a_worker(*types: str, message: str = "", traceback: tuple[str, ...] = ()) -> Evidence:
    """Evidence of a script that ended by what torch re-raised from a loader worker."""
    caught = f"Caught {types[0].rpartition('.')[2]} in DataLoader worker process 0.\n{message}"
    return raised(*types, message=caught, traceback=traceback, raised_in="torch._utils.reraise")


def ended_with_its_workers(*codes: int, oom_kills: int = 0) -> Evidence:
    """Evidence of a loop that saw a connection reset when a worker was gone."""
    evidence = raised(
        *("builtins.ConnectionResetError", "builtins.ConnectionError", "builtins.OSError"),
        message="[Errno 104] Connection reset by peer",
        traceback=("ConnectionResetError: [Errno 104] Connection reset by peer",),
        raised_in="multiprocessing.connection._recv",
        worker_exit_codes=codes,
    )
    evidence.oom_kills = oom_kills
    return evidence


def faulty(*types: str, message: str = "KeyError: 1", returncode: int = 0, **overrides: Any) -> Evidence:
    """Evidence of a script whose agent failed, with an exception of these types."""
    seen: dict[str, Any] = {"place": "model/roots.py:35 (_saw)", "traceback_file": "agent-error-7.txt"}
    if types:
        seen["error"] = ErrorSeen(types=types, message=message, traceback=(message,))
    event = AgentErrorEvent(event="agent_error", time_s=2.0, message=message, **(seen | overrides))
    return ended(returncode, agent_error=event, output=OUTPUT)


def limited(kind: OutcomeKind, **more: Any) -> Evidence:
    return ended(None, limit=kind, limit_message="over the limit", **more)


Verdict = Measurement | Failure


def verdict(evidence: Evidence, bound: dict[str, Any] | None = None, **asked: Any) -> Verdict:
    """The verdict on a trial some of whose knobs were bound and others injected."""
    changed = asked if bound is None else bound
    words = Bound(command=("x",), environment={}, file_texts={}, injected=asked, changed=changed)
    return measurement_of(evidence, words, discovery(roots=(NET,)))


def of_processes(evidence: Evidence, processes: int | None = None, no_sync: bool = False) -> Verdict:
    """The verdict on a trial of the unchanged script with that many processes."""
    as_it_is = Bound(command=("x",), environment={}, file_texts={}, injected={}, changed={})
    known = discovery(roots=(NET,))
    return measurement_of(evidence, as_it_is, known, processes=processes, no_sync=no_sync)


@pytest.mark.parametrize(
    ("world_size", "pids", "apart"),
    [(1, (ENDED, os.getpid()), 1), (1, (os.getpid(), ENDED), 2), (2, (os.getpid(), ENDED), 1)],
)
def test_processes_without_a_group_are_counted(world_size: int, pids: tuple[int, ...], apart: int) -> None:
    evidence = measured(done=done(loop=loop(world_size=world_size)))
    for pid in pids:
        evidence.take(learnt().changed(pid=pid), at_s=1.0)
    result = verdict(evidence)
    assert isinstance(result, Measurement)
    assert result.loop.processes_apart == apart


def ddp(syncs_gradients: bool) -> Evidence:
    """Two processes under DistributedDataParallel."""
    seen = DataParallelSeen(
        kind=DataParallelKind.DDP, backend="gloo", gradient_bytes=8, syncs_gradients=syncs_gradients
    )
    return measured(done=DoneEvent(event="done", time_s=9.0, loop=loop(world_size=2, data_parallel=seen)))


def own_batches(*sizes: int, batch_size: int | None, bound_to: int | None = None) -> Verdict:
    """The verdict on a baseline without a loader, whose model is called with a tensor of these sizes."""
    called = NET.model_copy(update={"inputs": (InputSeen(path="[0]", sizes=sizes),)})
    seen = learnt().model_copy(update={"discovery": discovery(complete=True, loaders=(), roots=(called,))})
    bare = Bound(command=("x",), environment={}, file_texts={}, injected={}, changed={})
    told = done(loop=loop(batch_size=batch_size, has_loader=False))
    return measurement_of(measured(learnt=seen, done=told), bare, None, bound_to)


def failed(evidence: Evidence, **asked: Any) -> Failure:
    found = verdict(evidence, **asked)
    assert isinstance(found, Failure)
    return found


NO_GUARD = """
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.

        To fix this issue, refer to the "Safe importing of main module"
        section in https://docs.python.org/3/library/multiprocessing.html
        """
NO_BATCH_SHM = "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: No space (28)"
FULL = {"limit": OutcomeKind.HOST_OOM, "limit_message": "too big"}
ELSEWHERE = NET.model_copy(update={"ordinal": 1})
KERNEL_KILLED = {"oom_kills": 1}
BY_HAND = ByHandEvent(event="by_hand", time_s=2.0, passes=80, changes=3, seconds=21.0)
SHORT_OF_SHM = (
    "unable to write to file </torch_123_456_0>: No space left on device (28)",
    "DataLoader worker (pid 99) is killed by signal: Bus error. It is possible that dataloader's workers are "
    "out of shared memory. Please try to raise your shared memory limit.",
    "unexpected pos 1 vs 2: insufficient shared memory (shm)",
)
LONGEST = largest_seen(survived=False)


def on_largest(evidence: dict[str, Any], **seen: Any) -> Verdict:
    """The verdict on a measured script that then ended while it looked at the largest samples."""
    details = Details(largest=LONGEST.model_copy(update=seen))
    return verdict(measured(done=done(is_final=False, details=details), **{"returncode": None} | evidence))


ENDS: dict[str, Evidence] = {
    "ends, output is alarming": ended(1),
    "could not be started": Evidence(start_error="Permission denied", memory=MEMORY),
    "no agent": ended(0, started=False, steps=0),
    "trains elsewhere": ended(
        -9, external_launcher=ExternalLauncher("docker run", "put it in"), started=False, steps=0
    ),
    "no step": ended(0, steps=0, batches=40),
    "backward passes alone": ended(0, exit=exited(None, 0, 0, gradients=40), steps=0, batches=0),
    "updates by hand": ended(-9, by_hand=BY_HAND),
    "in the background": ended(0, left_running=1, steps=0, batches=0),
    "too short": ended(0, exit=exited()),
    "measured, then a bad exit": measured(returncode=1),
    "measured, then killed": measured(returncode=-9),
    "measured, then over a limit": measured(**FULL),
    "loss": measured(nonfinite=NonfiniteEvent(event="nonfinite", time_s=3.0, loss="nan", steps=12)),
    "SIGSEGV": ended(-signal.SIGSEGV),
    "SIGKILL": ended(-signal.SIGKILL),
    "killed by the kernel": ended(-signal.SIGKILL, oom_kills=1),
    "killed by the kernel, told by a shell": ended(128 + signal.SIGKILL, **KERNEL_KILLED),
    "the kernel killed another": ended(-signal.SIGSEGV, oom_kills=1),
    "the keeper killed": ended(None, keeper_end="was killed (signal 9)"),
    "the keeper killed by the kernel": ended(None, keeper_end="was killed (signal 9)", oom_kills=1),
    **{f"limit: {kind.value}": limited(kind) for kind in OutcomeKind if kind.value in (
        "timeout", "hang", "host_oom", "no_training_loop")},
    "hang for want of /dev/shm": limited(OutcomeKind.HANG, last_lines=("Traceback", NO_BATCH_SHM)),
}  # fmt: skip
ERRORS: dict[str, Evidence] = {
    "with a traceback": raised(*KEY_ERROR, traceback=("  File 'train.py', line 3", "KeyError: 'image'\n")),
    "without a traceback": raised(*KEY_ERROR),
    "control characters": raised(*VALUE_ERROR, traceback=("ValueError: \x1b[31mred\x1b[0m \x00\x07",)),
    "endless": raised(*VALUE_ERROR, traceback=("x" * 10_000,)),
    "a paragraph": raised(*VALUE_ERROR, message="what it is\n\nsee https://example.org", traceback=("a", "")),
    "two lines of one": raised(*VALUE_ERROR, message="it failed\nlate\n\nset X=1", traceback=("a", "")),
    "another process's": raised(
        *VALUE_ERROR, message="failed:\n\nTraceback (most recent call last):\nKeyError: 1",
        traceback=("KeyError: 1", ""),
    ),
    "no guard": raised("builtins.RuntimeError", message=NO_GUARD, traceback=("RuntimeError: ", "section")),
    "MemoryError": raised("builtins.MemoryError", "builtins.Exception"),
    "allocator of the host": raised(*MRO, message="DefaultCPUAllocator: can't allocate memory: you tried to"),
    **{f"shm: {message[:20]}": raised(*MRO, message=message) for message in SHORT_OF_SHM},
    "no space, of the script": raised("builtins.OSError", message="No space left on device"),
    "shapes": raised(*MRO, message="shapes (3, 4) and (5, 6) do not match"),
    **{f"a user's own: {said[:20]}": raised(*VALUE_ERROR, "builtins.Exception", message=said)
       for said in (*ALARMING, "DefaultCPUAllocator: not enough", "insufficient shared memory (shm)")},
    "out of device memory": raised(*OUT_OF_MEMORY, message="CUDA out of memory. Tried to allocate 2 GiB"),
    "a subclass": raised("train.TooLarge", *OUT_OF_MEMORY),
    "driver": raised(*ACCELERATOR, message="CUDA error: out of memory\nCUDA kernel errors might be late"),
    "not pinned": raised(*ACCELERATOR, message="Caught AcceleratorError in pin memory thread for device 0.\n"
                         "CUDA error: out of memory"),
    "GPU failed": raised(*ACCELERATOR, message="CUDA error: unknown error\nSearch for `cudaErrorUnknown'\n"),
    "cuDNN failed": raised(*MRO, message="cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    "worker killed": raised(*MRO, message="DataLoader worker (pid 99) is killed by signal: Killed. "),
    "in a worker": raised_in_a_worker(*KEY_ERROR, message="Original", traceback=("KeyError: 'label'", "")),
    "in a worker, by its words alone": raised(*VALUE_ERROR, message="Caught KeyError in DataLoader worker."),
    "in a worker, host memory": raised_in_a_worker("builtins.MemoryError"),
    "in a worker, device memory": raised_in_a_worker(*OUT_OF_MEMORY),
    "in a worker, denied": raised_in_a_worker("tunekit.harm.WriteDenied", "builtins.PermissionError"),
    "denied": raised("_tunekit_agent.file_guard.WriteDenied", *DENIED),
    "denied by the system": raised(*DENIED),
    "reset by no worker": ended_with_its_workers(),
    "reset by a killed worker": ended_with_its_workers(-signal.SIGKILL),
    "reset by SIGBUS": ended_with_its_workers(-signal.SIGBUS),
    "reset by the kernel": ended_with_its_workers(-signal.SIGKILL, oom_kills=2),
}  # fmt: skip
AGENT: dict[str, Evidence] = {
    "agent": faulty(),
    "agent, no room for its traceback": faulty(traceback_file=None, place=""),
    "agent, host memory": faulty("builtins.MemoryError"),
    "agent, worker": faulty(*MRO, message="DataLoader worker (pid 7) is killed by signal: Killed. "),
    "agent, kernel": faulty(*ACCELERATOR, message="CUDA error: device-side assert"),
    "agent, a setting of torch's": faulty(returncode=1, knobs=("static_graph",)),
}
OOM = ErrorSeen(types=OUT_OF_MEMORY, message="CUDA out of memory", traceback=("OOM: x",))
GONE = {"exit": exited(OOM), "returncode": 1}
KNOBS: dict[str, Callable[[], Verdict]] = {
    "agent, at knobs": lambda: verdict(
        faulty(knobs=("batch_size", "pin_memory"), message="ValueError: no"), batch_size=8, pin_memory=True
    ),
    "bound, refused at once": lambda: verdict(ended(2, steps=0, batches=0), {"batch_size": 64}),
    "bound, ended later": lambda: verdict(ended(2), {"batch_size": 64}),
    "batch size undone": lambda: verdict(measured(), batch_size=256),
    "batch size not known": lambda: verdict(measured(learnt=learnt(batch_size=None)), batch_size=256),
    "prefetch undone": lambda: verdict(measured(), prefetch_factor=4),
    "another root": lambda: verdict(measured(learnt=learnt(roots_applied=(ELSEWHERE,))), channels_last=True),
    "another loader": lambda: verdict(measured(learnt=learnt(addressed=False))),
    "never learnt": lambda: verdict(
        measured(learnt=learnt(complete=False, batch_size=None, addressed=False)), batch_size=128
    ),
    "knobs that hold": lambda: verdict(measured(), **LOADER),
    "compiled without a graph": lambda: verdict(measured(), compile=True),
    "compiled": lambda: verdict(measured(done=done(loop=loop(compile_graphs=2))), compile=True),
    "no samples known": lambda: own_batches(35, 20, batch_size=None),
    "samples that no input holds": lambda: own_batches(35, 5, batch_size=20, bound_to=20),
    "samples as the user says": lambda: own_batches(713, 8, batch_size=20),
    "one process for four": lambda: of_processes(measured(), 4),
    "sums left out of no data parallel": lambda: of_processes(measured(), no_sync=True),
    "sums that were not left out": lambda: of_processes(ddp(syncs_gradients=True), 2, no_sync=True),
    "sums that were left out": lambda: of_processes(ddp(syncs_gradients=False), 2, no_sync=True),
    "largest, out of memory": lambda: on_largest(GONE),
    "largest, killed by the kernel": lambda: on_largest({"returncode": -9, "oom_kills": 1}),
    "largest, over the limit": lambda: on_largest(FULL),
    "largest, another error": lambda: on_largest({"returncode": 1}),
    "largest, too slow": lambda: on_largest({"limit": OutcomeKind.TIMEOUT, "limit_message": "too long"}),
    "largest, after it": lambda: on_largest(GONE, survived=True),
}


def told(found: Verdict) -> str:
    """A verdict as lines: the kind, the message, the remedy; or what faults a measurement has."""
    if isinstance(found, Failure):
        return f"{found.kind.value}: {found.message}\n    {found.remedy}"
    faults = found.details.faults if found.details else ()
    return "\n    ".join(["measured", *faults])


def test_evidence_becomes_outcomes(golden: Callable[[str], object]) -> None:
    found = {name: verdict(one) for name, one in {**ENDS, **ERRORS, **AGENT}.items()}
    found |= {name: judge() for name, judge in KNOBS.items()}
    assert "".join(f"{name}\n    {told(one)}\n" for name, one in found.items()) == golden("outcomes.txt")


def test_a_failure_keeps_what_it_was_told_of():
    failure = failed(ended(3, **FULL))
    assert (failure.last_lines, failure.returncode) == (ALARMING, 3)
    largest = on_largest(GONE)
    assert isinstance(largest, Failure) and largest.largest == LONGEST


def cut_short(details: Details | None = None, sizes: tuple[int, ...] = (), **overrides: Any) -> Details:
    """Return the details of a trial that was measured and then ended before all was looked at."""
    evidence = measured(done=done(is_final=False, details=details), **{"returncode": None} | overrides)
    bare = Bound(command=("x",), environment={}, file_texts={}, injected={}, changed={})
    found = measurement_of(evidence, bare, discovery(roots=(NET,)), sizes=sizes)
    assert isinstance(found, Measurement)
    assert found.details is not None
    return found.details


CUT_SHORT: dict[str, dict[str, Any]] = {
    "the agent failed": {"agent_error": faulty().agent_error, "limit": OutcomeKind.TIMEOUT},
    "a limit": {"limit": OutcomeKind.TIMEOUT, "limit_message": "too long", "returncode": -9},
    "an error": {"exit": exited(ErrorSeen(types=VALUE_ERROR, message="", traceback=("a",))), "returncode": 1},
    "a signal": {"returncode": -11},
    "an exit status": {"returncode": 3, "last_lines": ("bye",)},
    "its end": {"returncode": 0},
    "not known": {},
}


def test_what_cut_the_closer_look_short_is_a_fault(golden: Callable[[str], object]) -> None:
    faults = {name: cut_short(**overrides).faults for name, overrides in CUT_SHORT.items()}
    assert {len(one) for one in faults.values()} == {1}
    assert "".join(f"{name}: {fault}\n" for name, (fault,) in faults.items()) == golden("cut-short.txt")


def test_what_was_seen_before_a_trial_was_cut_short_is_kept():
    queue = QueueSeen(batches=5, predicted_bytes=50, shm_bytes=50, is_full=True, pss_bytes=2 << 30)
    seen = verdict(measured(done=done(details=Details(queue=queue))))
    assert isinstance(seen, Measurement)
    assert seen.memory.peak_pss_bytes == queue.pss_bytes  # read between two looks from outside
    details = cut_short(Details(queue=queue, faults=("peaks: none",) * 16), returncode=0)
    assert details.queue == queue
    assert len(details.faults) == 16
    assert details.faults[-1] != "peaks: none"


SIZE = ComputeSweepPoint(batch_size=64, step_s=0.1, batches=10)


@pytest.mark.parametrize(("seen", "at_work"), [((), 64), ((SIZE,), 128)])
def test_the_batch_size_at_which_a_script_ended_is_told_with_those_before(
    seen: tuple[ComputeSweepPoint, ...], at_work: int
):
    sizes = cut_short(Details(sizes=ComputeSweep(sizes=seen)), (64, 128, 256), **GONE).sizes
    assert sizes is not None
    assert sizes.sizes == seen
    assert f" {at_work}: " in (sizes.why_ended or "")


def test_an_end_that_is_told_in_control_characters_can_be_read_back():
    event = faulty(message="\a" * 400).agent_error
    details = cut_short(Details(sizes=ComputeSweep(sizes=(SIZE,))), (64, 128), agent_error=event)
    assert Details.model_validate_json(details.model_dump_json()) == details
    assert details.sizes is not None and r"\x07\x07" in (details.sizes.why_ended or "")


@pytest.mark.parametrize(
    "seen",
    [None, ComputeSweep(sizes=(SIZE,)), ComputeSweep(why_ended="the loop has no DataLoader")],
    ids=["not begun", "all", "ended by itself"],
)
def test_sizes_that_were_not_at_work_when_a_script_ended_stay_as_they_were(seen: ComputeSweep | None):
    asked = (64, 128) if seen is None or seen.why_ended else (64,)
    assert cut_short(Details(sizes=seen), asked, **GONE).sizes == seen


def test_a_script_that_ended_while_it_was_traced_keeps_what_was_traced_before() -> None:
    steps = (TracedAt(precision=None, batch_size=2, file="trace-own-2.json"),)
    trace = cut_short(Details(trace=TraceSeen(device_type="cpu", steps=steps)), (), **GONE).trace
    assert trace is not None and trace.why_ended
    assert trace.steps == steps
    whole = TraceSeen(device_type="cpu", why_ended="the loop has no DataLoader")
    assert cut_short(Details(trace=whole), (), **GONE).trace == whole


@pytest.mark.parametrize(
    ("seen", "kind", "figures"),
    [
        ({"started": False}, OutcomeKind.AGENT_ABSENT, "agent"),
        ({}, OutcomeKind.NO_TRAINING_LOOP, "no batch"),
        ({"fetched": True, "fetching": True}, OutcomeKind.HANG, "from its loader"),
        ({"batches": 3, "steps": 3, "fetched": True}, OutcomeKind.HANG, "3 batches"),
        ({"steps": 3}, OutcomeKind.HANG, "0 batches"),
    ],
)
def test_a_standstill_says_where_it_stands(seen: dict[str, Any], kind: OutcomeKind, figures: str):
    found, message = Evidence(**{"started": True, "output": OUTPUT} | seen).standstill(2.5)
    assert (found, figures in message, "2.5 s" in message) == (kind, True, True)
    assert (kind is OutcomeKind.HANG) == (OUTPUT in message)


def test_processes_that_train_again_end_a_trial_with_the_guard_as_the_remedy():
    evidence = Evidence(started=True, steps=5, batches=6)
    evidence.take(RerunsMainEvent(event="reruns_main", time_s=1.0), 1.0)
    failure = verdict(evidence)
    assert isinstance(failure, Failure)
    assert failure.kind is OutcomeKind.WORKER_CRASH
    assert failure.remedy == NO_GUARD_REMEDY
