"""From evidence to a verdict: by exception type, exit status and limits, never by words in the output."""

import signal
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
    RankTurn,
)
from tunekit.records.config import KnobsAsked, Precision
from tunekit.records.data_parallel import DdpSettings
from tunekit.records.details import (
    ComputeSweep,
    ComputeSweepPoint,
    Details,
    LargestSamples,
    QueueSeen,
    TracedAt,
    TraceSeen,
)
from tunekit.records.measurement import Measurement, TreeMemory
from tunekit.records.target import InputSeen
from tunekit.records.trial import Failure, MemoryPoint, OutcomeKind
from tunekit.trial.bindings import Bound
from tunekit.trial.events import Evidence
from tunekit.trial.external_launchers import ExternalLauncher
from tunekit.trial.outcome import measurement_of, without_fix

ALARMING = (
    "RuntimeError: error error ERROR",
    "torch.OutOfMemoryError: CUDA out of memory",
    "DataLoader worker (pid 7) is killed by signal: Bus error",
    "Traceback (most recent call last):",
    "loss nan",
)
MEMORY = TreeMemory(peak_pss_bytes=1 << 30, peak_shm_bytes=0, processes=3, samples=4)
NET = root(class_name="Net", parameters=100)
OOM_MRO = ("builtins.RuntimeError", "builtins.Exception", "builtins.BaseException", "builtins.object")


def applied(**overrides: Any) -> KnobsApplied:
    values: dict[str, Any] = {
        "batch_size": 128,
        "num_workers": 2,
        "prefetch_factor": 2,
        "pin_memory": False,
        "persistent_workers": True,
        "addressed": True,
        "roots_applied": (NET,),
    }
    return KnobsApplied(**(values | overrides))


def learnt(complete: bool = True, **overrides: Any) -> LearntEvent:
    found = discovery(complete=complete, loaders=(loader(),), roots=(NET,))
    return LearntEvent(event="learnt", time_s=1.0, discovery=found, applied=applied(**overrides))


def measured(**overrides: Any) -> Evidence:
    """Evidence of a trial that went well, however alarming its output reads."""
    values: dict[str, Any] = {
        "started": True,
        "steps": 108,
        "batches": 108,
        "learnt": learnt(),
        "done": DoneEvent(event="done", time_s=9.0, loop=loop()),
        "memory": MEMORY,
        "last_lines": ALARMING,
    }
    return Evidence(**(values | overrides))


def ended(returncode: int | None = 1, **overrides: Any) -> Evidence:
    """Evidence of a script that ended by itself after 5 steps."""
    values: dict[str, Any] = {
        "started": True,
        "steps": 5,
        "batches": 6,
        "returncode": returncode,
        "memory": MEMORY,
        "last_lines": ALARMING,
    }
    return Evidence(**(values | overrides))


def raised(*types: str, message: str = "", traceback: tuple[str, ...] = ()) -> Evidence:
    """Evidence of a script that an exception ended."""
    error = ErrorSeen(types=types, message=message, traceback=traceback)
    return ended(exit=ExitEvent(event="exit", time_s=2.0, steps=5, batches=6, error=error))


def agent_error(*types: str, message: str = "KeyError: 1", **overrides: Any) -> AgentErrorEvent:
    """A fault of the agent, of an exception of these types."""
    seen: dict[str, Any] = {"place": "model/roots.py:35 (_saw)", "traceback_file": "agent-error-7.txt"}
    if types:
        seen["error"] = ErrorSeen(types=types, message=message, traceback=(message,))
    return AgentErrorEvent(event="agent_error", time_s=2.0, message=message, **(seen | overrides))


def raised_in_a_worker(*types: str, message: str = "", traceback: tuple[str, ...] = ()) -> Evidence:
    """Evidence of a script that ended by what torch re-raised from a loader worker."""
    error = ErrorSeen(
        types=types,
        message=f"Caught {types[0].rpartition('.')[2]} in DataLoader worker process 0.\n{message}",
        traceback=traceback,
        raised_in="torch._utils.reraise",
    )
    return ended(exit=ExitEvent(event="exit", time_s=2.0, steps=5, batches=6, error=error))


def ended_with_its_workers(*codes: int, oom_kills: int = 0) -> Evidence:
    """Evidence of a loop that saw a connection reset when a worker was gone."""
    error = ErrorSeen(
        types=("builtins.ConnectionResetError", "builtins.ConnectionError", "builtins.OSError"),
        message="[Errno 104] Connection reset by peer",
        traceback=("ConnectionResetError: [Errno 104] Connection reset by peer",),
        raised_in="multiprocessing.connection._recv",
        worker_exit_codes=codes,
    )
    exit_event = ExitEvent(event="exit", time_s=2.0, steps=5, batches=6, error=error)
    return ended(exit=exit_event, oom_kills=oom_kills)


def verdict(evidence: Evidence, sizes: tuple[int, ...] = (), **asked: Any) -> Measurement | Failure:
    bound = Bound(
        command=("python", "train.py"),
        environment={},
        file_texts={},
        injected=KnobsAsked(**asked),
        changed=asked,
    )
    return measurement_of(evidence, bound, discovery(roots=(NET,)), sizes=sizes)


def bound_verdict(evidence: Evidence, **changed: Any) -> Measurement | Failure:
    """The verdict on a trial whose knobs were all bound, none injected."""
    bound = Bound(
        command=("python", "train.py"), environment={}, file_texts={}, injected=KnobsAsked(), changed=changed
    )
    return measurement_of(evidence, bound, discovery(roots=(NET,)))


def failed(evidence: Evidence, **asked: Any) -> Failure:
    found = verdict(evidence, **asked)
    assert isinstance(found, Failure)
    return found


def test_a_done_event_is_a_measurement_whatever_the_output_says():
    evidence = measured()
    found = verdict(evidence)
    assert found == Measurement(loop=loop(), memory=MEMORY)


@pytest.mark.parametrize("returncode", [None, 0])
def test_a_script_that_we_ended_or_that_ended_well_keeps_its_measurement(returncode: int | None):
    assert isinstance(verdict(measured(returncode=returncode)), Measurement)


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        (measured(returncode=1), OutcomeKind.SCRIPT_ERROR),
        (measured(returncode=-9), OutcomeKind.KILLED),
        (measured(limit=OutcomeKind.HOST_OOM, limit_message="too much"), OutcomeKind.HOST_OOM),
    ],
)
def test_a_script_that_failed_after_its_loop_is_no_measurement(evidence: Evidence, kind: OutcomeKind):
    assert failed(evidence).kind is kind


def cut_short(details: Details | None = None, sizes: tuple[int, ...] = (), **overrides: Any) -> Details:
    """Return the details of a trial that was measured and then ended before all was looked at."""
    done = DoneEvent(event="done", time_s=9.0, loop=loop(), is_final=False, details=details)
    found = verdict(measured(done=done, **{"returncode": None} | overrides), sizes)
    assert isinstance(found, Measurement)
    assert found.details is not None
    return found.details


GONE = ErrorSeen(
    types=("builtins.ValueError",), message="no more", traceback=("ValueError: no more",), raised_in="x"
)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            {"agent_error": agent_error(), "limit": OutcomeKind.TIMEOUT, "limit_message": "too long"},
            "agent failed after 108 steps, in model/roots.py:35 (_saw): KeyError: 1",
        ),
        ({"limit": OutcomeKind.TIMEOUT, "limit_message": "too long", "returncode": -9}, "too long"),
        (
            {"exit": ExitEvent(event="exit", time_s=9.5, steps=1, batches=1, error=GONE), "returncode": 1},
            "ValueError: no more",
        ),
        ({"returncode": -11}, "ended by SIGSEGV after 108 steps"),
        ({"returncode": 3, "last_lines": ("bye",)}, "exit status 3 after 108 steps; its last line: bye"),
        ({"returncode": 0}, "the script ended by itself after 108 steps"),
        ({}, "how it ended is not known"),
    ],
)
def test_what_cut_the_closer_look_short_is_told_as_far_as_it_is_known(overrides: dict[str, Any], told: str):
    (fault,) = cut_short(**overrides).faults
    assert told in fault
    assert ("by itself" in fault) == (overrides.get("returncode") == 0)


def test_what_was_seen_before_a_trial_was_cut_short_is_kept():
    queue = QueueSeen(batches=5, predicted_bytes=50, shm_bytes=50, is_full=True)
    details = cut_short(Details(queue=queue, faults=("peaks: none",) * 16), returncode=0)
    assert details.queue == queue
    assert len(details.faults) == 16
    assert "by itself" in details.faults[-1]


SIZE = ComputeSweepPoint(batch_size=64, step_s=0.1, batches=10)
OOM = ErrorSeen(
    types=("torch.OutOfMemoryError", *OOM_MRO),
    message="CUDA out of memory",
    traceback=("torch.OutOfMemoryError: CUDA out of memory",),
)
OUT_OF_MEMORY = {"exit": ExitEvent(event="exit", time_s=9.5, steps=1, batches=1, error=OOM), "returncode": 1}


@pytest.mark.parametrize(("seen", "at_work"), [((), 64), ((SIZE,), 128)])
def test_the_batch_size_at_which_a_script_ended_is_told_with_those_before(
    seen: tuple[ComputeSweepPoint, ...], at_work: int
):
    sizes = cut_short(Details(sizes=ComputeSweep(sizes=seen)), (64, 128, 256), **OUT_OF_MEMORY).sizes
    assert sizes is not None
    assert sizes.sizes == seen
    assert sizes.why_ended is not None
    assert sizes.why_ended.startswith(f"the script ended at batch size {at_work}: ")
    assert "OutOfMemoryError: CUDA out of memory" in sizes.why_ended


def test_an_end_that_is_told_in_control_characters_can_be_read_back():
    told = agent_error(message="\a" * 400)
    details = cut_short(Details(sizes=ComputeSweep(sizes=(SIZE,))), (64, 128), agent_error=told)
    assert Details.model_validate_json(details.model_dump_json()) == details
    assert details.sizes is not None and details.sizes.why_ended is not None
    assert r"\x07\x07" in details.sizes.why_ended


@pytest.mark.parametrize(
    "seen",
    [None, ComputeSweep(sizes=(SIZE,)), ComputeSweep(why_ended="the loop has no DataLoader")],
    ids=["not begun", "all", "ended by itself"],
)
def test_sizes_that_were_not_at_work_when_a_script_ended_stay_as_they_were(seen: ComputeSweep | None):
    asked = (64, 128) if seen is None or seen.why_ended else (64,)
    assert cut_short(Details(sizes=seen), asked, **OUT_OF_MEMORY).sizes == seen


def test_a_script_that_ended_while_it_was_traced_keeps_what_was_traced_before() -> None:
    steps = (TracedAt(precision=None, batch_size=2, file="trace-own-2.json"),)
    trace = cut_short(Details(trace=TraceSeen(device_type="cpu", steps=steps)), (), **OUT_OF_MEMORY).trace
    assert trace is not None
    assert trace.steps == steps
    assert (trace.why_ended or "").startswith("the script ended while it was traced: ")
    assert "OutOfMemoryError: CUDA out of memory" in (trace.why_ended or "")


def test_a_trace_that_had_ended_by_itself_says_so_still() -> None:
    seen = TraceSeen(device_type="cpu", why_ended="the loop has no DataLoader")
    assert cut_short(Details(trace=seen), (), **OUT_OF_MEMORY).trace == seen


GIVEN = largest_seen(is_lived_through=False)


def on_largest(seen: LargestSamples = GIVEN, **overrides: Any) -> Measurement | Failure:
    """The verdict on a measured script that then ended while it looked at the largest samples."""
    details = Details(largest=seen)
    done = DoneEvent(event="done", time_s=9.0, loop=loop(), is_final=False, details=details)
    return verdict(measured(done=done, **{"returncode": None} | overrides))


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        (OUT_OF_MEMORY, OutcomeKind.DEVICE_OOM),
        ({"returncode": -9, "oom_kills": 1}, OutcomeKind.HOST_OOM),
        ({"limit": OutcomeKind.HOST_OOM, "limit_message": "too much"}, OutcomeKind.HOST_OOM),
    ],
)
def test_out_of_memory_on_the_largest_samples_is_a_failure_though_the_loop_was_measured(
    overrides: dict[str, Any], kind: OutcomeKind
):
    found = on_largest(**overrides)
    assert isinstance(found, Failure)
    assert found.kind is kind
    assert found.message.startswith(
        "ran out of memory on a batch of the data set's largest samples "
        "(4,096 of 50,000 read; 3.1 times the usual bytes): "
    )
    assert found.remedy is not None
    assert found.largest == GIVEN


@pytest.mark.parametrize(
    ("seen", "overrides"),
    [
        (GIVEN, {"returncode": 1}),
        (GIVEN, {"limit": OutcomeKind.TIMEOUT, "limit_message": "too long"}),
        (GIVEN.model_copy(update={"is_given": False}), OUT_OF_MEMORY),
        (GIVEN.model_copy(update={"is_lived_through": True}), OUT_OF_MEMORY),
    ],
    ids=["another error", "too slow", "while it read", "after it"],
)
def test_any_other_end_at_the_largest_samples_keeps_the_measurement_with_a_fault(
    seen: LargestSamples, overrides: dict[str, Any]
):
    found = on_largest(seen, **overrides)
    assert isinstance(found, Measurement)
    assert found.details is not None
    assert len(found.details.faults) == 1
    assert found.details.largest is not None
    is_at_work = seen.is_given and not seen.is_lived_through
    assert ("on the batch: " in (found.details.largest.why_ended or "")) is is_at_work


@pytest.mark.parametrize(
    "name",
    ["torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "torch._C.OutOfMemoryError"],
)
def test_torchs_own_type_says_that_the_device_ran_out(name: str):
    found = failed(raised(name, *OOM_MRO, message="CUDA out of memory. Tried to allocate 2 GiB"))
    assert found.kind is OutcomeKind.DEVICE_OOM
    assert found.remedy == "use a smaller batch or bf16"


@pytest.mark.parametrize(
    "hint",
    [
        "Search for `cudaErrorUnknown' in https://docs.nvidia.com/ for more information.\n",
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
        "might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
    ],
    ids=["torch 2.15", "torch 2.8"],
)
def test_a_gpu_that_failed_is_looked_for_where_its_driver_tells_of_it(hint: str):
    found = failed(raised("torch.AcceleratorError", *OOM_MRO, message=f"CUDA error: unknown error\n{hint}"))
    assert found.kind is OutcomeKind.SCRIPT_ERROR
    assert found.message.endswith("AcceleratorError: CUDA error: unknown error")
    assert "dmesg | grep Xid" in (found.remedy or "")


@pytest.mark.parametrize("library", ["cuDNN error: CUDNN", "CUDA error: CUBLAS"])
def test_a_library_whose_kernels_fail_sends_to_the_driver_too(library: str):
    found = failed(raised(*OOM_MRO, message=f"{library}_STATUS_EXECUTION_FAILED"))
    assert found.kind is OutcomeKind.SCRIPT_ERROR
    assert "dmesg | grep Xid" in (found.remedy or "")


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_memory_that_the_driver_could_not_give_is_the_devices(message: str):
    assert failed(raised("torch.AcceleratorError", *OOM_MRO, message=message)).kind is OutcomeKind.DEVICE_OOM
    assert failed(raised(*OOM_MRO, message=message)).kind is OutcomeKind.DEVICE_OOM


@pytest.mark.parametrize(
    ("types", "message", "kind"),
    [
        (("builtins.MemoryError", "builtins.Exception"), "", OutcomeKind.HOST_OOM),
        (
            OOM_MRO,
            "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: you "
            "tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)",
            OutcomeKind.HOST_OOM,
        ),
        (
            OOM_MRO,
            "unable to write to file </torch_123_456_0>: No space left on device (28)",
            OutcomeKind.SHM_EXHAUSTED,
        ),
        (
            OOM_MRO,
            "DataLoader worker (pid 99) is killed by signal: Bus error. It is possible that dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
            OutcomeKind.SHM_EXHAUSTED,
        ),
        (
            OOM_MRO,
            "unable to allocate shared memory(shm) for file </torch_12_34_2>: No space left on device (28)",
            OutcomeKind.SHM_EXHAUSTED,
        ),
        (
            OOM_MRO,
            "unexpected pos 1 vs 2: insufficient shared memory (shm)",
            OutcomeKind.SHM_EXHAUSTED,
        ),
        (OOM_MRO, "DataLoader worker (pid 99) is killed by signal: Killed. ", OutcomeKind.WORKER_CRASH),
        (OOM_MRO, "DataLoader worker (pid(s) 98, 99) exited unexpectedly", OutcomeKind.WORKER_CRASH),
        (OOM_MRO, "shapes (3, 4) and (5, 6) do not match", OutcomeKind.SCRIPT_ERROR),
        (("builtins.OSError", "builtins.Exception"), "No space left on device", OutcomeKind.SCRIPT_ERROR),
        (("builtins.KeyboardInterrupt",), "", OutcomeKind.SCRIPT_ERROR),
    ],
)
def test_exceptions_are_told_apart(types: tuple[str, ...], message: str, kind: OutcomeKind):
    assert failed(raised(*types, message=message)).kind is kind


@pytest.mark.parametrize(
    "phrase", [*ALARMING, "DefaultCPUAllocator: not enough", "insufficient shared memory (shm)"]
)
def test_a_users_own_error_may_use_torchs_words(phrase: str):
    found = failed(raised("builtins.ValueError", "builtins.Exception", message=phrase))
    assert found.kind is OutcomeKind.SCRIPT_ERROR


def test_a_loop_that_waits_for_a_batch_lost_for_want_of_shm_did_not_hang():
    told = "the loop waited for a batch from its loader for 45 s"
    lost = "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2_3>: No space left (28)"
    waiting = ended(None, limit=OutcomeKind.HANG, limit_message=told, last_lines=("Traceback", lost))
    found = failed(waiting)
    assert found.kind is OutcomeKind.SHM_EXHAUSTED
    assert found.message == f"{told}; a worker had lost it: {lost}"
    assert "--shm-size" in (found.remedy or "")
    waiting.last_lines = ALARMING
    assert failed(waiting).kind is OutcomeKind.HANG


NO_GUARD = """
        An attempt has been made to start a new process before the
        current process has finished its bootstrapping phase.

        To fix this issue, refer to the "Safe importing of main module"
        section in https://docs.python.org/3/library/multiprocessing.html
        """


def test_a_script_without_a_guard_is_told_in_words_and_not_by_an_address():
    last = "section in https://docs.python.org/3/library/multiprocessing.html"
    failure = failed(raised("builtins.RuntimeError", message=NO_GUARD, traceback=("RuntimeError: ", last)))
    assert failure.kind is OutcomeKind.SCRIPT_ERROR
    assert failure.message == (
        "after 5 steps: RuntimeError: An attempt has been made to start a new process before the current "
        "process has finished its bootstrapping phase."
    )
    assert '`if __name__ == "__main__":`' in (failure.remedy or "")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("what it is\n\nsee https://example.org/faq", "ValueError: what it is"),
        (
            "CUDA error: unknown\nit may be told late\n\nset X=1",
            "ValueError: CUDA error: unknown it may be told late",
        ),
        ("Process 0 failed:\n\nTraceback (most recent call last):\nKeyError: 1", "KeyError: 1"),
        ("one line", "KeyError: 1"),
    ],
    ids=["a paragraph", "two lines of one", "another process's", "one line"],
)
def test_an_error_of_many_lines_says_its_first_paragraph(message: str, said: str):
    failure = failed(raised("builtins.ValueError", message=message, traceback=("KeyError: 1", "")))
    assert failure.message == f"after 5 steps: {said}"


def test_an_endless_message_is_shortened():
    assert len(failed(raised("builtins.ValueError", traceback=("x" * 10_000,))).message) < 600


@pytest.mark.parametrize(
    ("kind", "flag"),
    [
        (OutcomeKind.TIMEOUT, "--trial-limit"),
        (OutcomeKind.HANG, "--no-progress-limit"),
        (OutcomeKind.HOST_OOM, "fewer workers"),
        (OutcomeKind.NO_TRAINING_LOOP, "after --"),
    ],
)
def test_our_own_limits_name_themselves_and_their_remedy(kind: OutcomeKind, flag: str):
    found = failed(ended(None, limit=kind, limit_message="over the limit"))
    assert (found.kind, found.message) == (kind, "over the limit")
    assert flag in (found.remedy or "")


def test_our_limit_comes_before_what_ending_the_script_did_to_it():
    evidence = raised("builtins.KeyboardInterrupt")
    evidence.limit, evidence.limit_message = OutcomeKind.TIMEOUT, "not measured after 60 s"
    assert failed(evidence).kind is OutcomeKind.TIMEOUT


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGKILL, "SIGKILL"), (signal.SIGSEGV, "SIGSEGV"), (63, "63")]
)
def test_a_killed_script_names_the_signal(number: int, name: str):
    found = failed(ended(-number))
    assert found.kind is OutcomeKind.KILLED
    assert found.message == f"ended by {name} after 5 steps"


@pytest.mark.parametrize("returncode", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_what_the_kernel_killed_for_want_of_memory_is_out_of_host_memory(returncode: int):
    found = failed(ended(returncode, oom_kills=1))
    assert found.kind is OutcomeKind.HOST_OOM
    assert found.message.endswith("meanwhile the kernel killed 1 process for want of memory")


@pytest.mark.parametrize("returncode", [-signal.SIGSEGV, -signal.SIGTERM, 1])
def test_the_kernels_kills_explain_no_other_end(returncode: int):
    assert failed(ended(returncode, oom_kills=1)).kind is not OutcomeKind.HOST_OOM


@pytest.mark.parametrize(
    ("types", "message", "kind"),
    [
        (("builtins.MemoryError",), "", OutcomeKind.HOST_OOM),
        (("torch.OutOfMemoryError", *OOM_MRO), "", OutcomeKind.DEVICE_OOM),
        (OOM_MRO, "unable to write to file </torch_1_2_3>: No space left", OutcomeKind.SHM_EXHAUSTED),
        (("tunekit.harm.HarmDenied", "builtins.PermissionError"), "", OutcomeKind.HARM_DENIED),
    ],
)
def test_a_worker_may_run_out_like_the_script(types: tuple[str, ...], message: str, kind: OutcomeKind):
    assert failed(raised_in_a_worker(*types, message=message)).kind is kind


@pytest.mark.parametrize(
    ("code", "oom_kills", "kind", "told"),
    [
        (-signal.SIGKILL, 0, OutcomeKind.WORKER_CRASH, "ended by SIGKILL"),
        (1, 0, OutcomeKind.WORKER_CRASH, "exit status 1"),
        (-signal.SIGBUS, 0, OutcomeKind.SHM_EXHAUSTED, "ended by SIGBUS"),
        (-signal.SIGKILL, 2, OutcomeKind.HOST_OOM, "killed 2 processes for want of memory"),
    ],
)
def test_a_connection_that_a_dead_worker_reset_is_its_crash(
    code: int, oom_kills: int, kind: OutcomeKind, told: str
):
    found = failed(ended_with_its_workers(code, oom_kills=oom_kills))
    assert found.kind is kind
    assert told in found.message


@pytest.mark.parametrize(
    ("seen", "kind", "told"),
    [
        ({"started": False}, OutcomeKind.AGENT_ABSENT, "no Python with tunekit's agent has started"),
        ({}, OutcomeKind.NO_TRAINING_LOOP, "no batch was asked for"),
        (
            {"fetched": True, "fetching": True},
            OutcomeKind.HANG,
            "the loop waited for a batch from its loader",
        ),
        ({"batches": 3, "steps": 3, "fetched": True}, OutcomeKind.HANG, "after 3 batches and 3 steps"),
        ({"steps": 3}, OutcomeKind.HANG, "after 0 batches and 3 steps"),
    ],
)
def test_a_standstill_says_where_it_stands(seen: dict[str, Any], kind: OutcomeKind, told: str):
    evidence = Evidence(**{"started": True, "output": "trials/0007/output.log"} | seen)
    found, message = evidence.standstill(2.5)
    assert found is kind
    assert told in message
    assert "2.5 s" in message
    assert (kind is OutcomeKind.HANG) == ("trials/0007/output.log" in message)


HELD_TO_LESS = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which "
    "117.00 GiB is free. 22.06 GiB allowed; Of the allocated memory 21.50 GiB is allocated by PyTorch"
)
NOT_PINNED = "Caught AcceleratorError in pin memory thread for device 0.\nCUDA error: out of memory"
DENIED = ("builtins.PermissionError", "builtins.OSError")


def exited(steps: int = 5, batches: int = 6, gradients: int = 0) -> ExitEvent:
    """The end of a process that no exception ended."""
    return ExitEvent(event="exit", time_s=2.0, steps=steps, batches=batches, gradients=gradients, error=None)


@pytest.mark.parametrize(
    ("evidence", "kind", "told", "remedy"),
    [
        (ended(1, last_lines=("all good",)), OutcomeKind.SCRIPT_ERROR, "", ""),
        (ended(3), OutcomeKind.SCRIPT_ERROR, "exit status 3 after 5 steps; its last line: loss nan", ""),
        (ended(3, last_lines=()), OutcomeKind.SCRIPT_ERROR, "exit status 3 after 5 steps", ""),
        (
            Evidence(start_error="Permission denied", memory=MEMORY),
            OutcomeKind.SCRIPT_ERROR,
            "could not be started: Permission denied",
            "",
        ),
        (ended(0, started=False, steps=0), OutcomeKind.AGENT_ABSENT, "", "python -I"),
        (
            ended(-9, external_launcher=ExternalLauncher("docker run", "put it in"), started=False, steps=0),
            OutcomeKind.AGENT_ABSENT,
            "`docker run`",
            "put it in",
        ),
        (ended(0, steps=0, batches=40), OutcomeKind.NO_TRAINING_LOOP, "40 batches", ""),
        (ended(0, steps=0, batches=0), OutcomeKind.NO_TRAINING_LOOP, "without asking a loader", ""),
        (
            ended(0, exit=exited(0, 0, gradients=40), steps=0, batches=0),
            OutcomeKind.NO_TRAINING_LOOP,
            "40 backward passes",
            "optimizer.step()",
        ),
        (
            ended(0, left_running=1, steps=0, batches=0),
            OutcomeKind.NO_TRAINING_LOOP,
            "left 1 process running in the background",
            "in the foreground",
        ),
        (ended(0, exit=exited()), OutcomeKind.TOO_SHORT, "after 5 optimizer steps, before a steady", ""),
        (ended(0, exit=None), OutcomeKind.TOO_SHORT, "as os._exit and exec do", ""),
        (
            measured(nonfinite=NonfiniteEvent(event="nonfinite", time_s=3.0, loss="nan", steps=12)),
            OutcomeKind.NONFINITE_LOSS,
            "the loss was nan after 12 steps",
            "",
        ),
        (ended(-signal.SIGSEGV), OutcomeKind.KILLED, "SIGSEGV", "PYTHONFAULTHANDLER"),
        (ended(-signal.SIGKILL), OutcomeKind.KILLED, "SIGKILL", "a job scheduler, a supervisor"),
        (
            raised("torch.OutOfMemoryError", *OOM_MRO, message=HELD_TO_LESS),
            OutcomeKind.DEVICE_OOM,
            "",
            "",
        ),
        (raised("train.TooLarge", "torch.OutOfMemoryError", *OOM_MRO), OutcomeKind.DEVICE_OOM, "", ""),
        (
            raised("torch.AcceleratorError", *OOM_MRO, message=NOT_PINNED),
            OutcomeKind.HOST_OOM,
            "",
            "leave pinned memory off",
        ),
        (
            raised("builtins.KeyError", traceback=("  File 'train.py', line 3", "KeyError: 'image'\n")),
            OutcomeKind.SCRIPT_ERROR,
            "after 5 steps: KeyError: 'image'",
            "",
        ),
        (raised("builtins.KeyError"), OutcomeKind.SCRIPT_ERROR, "after 5 steps: builtins.KeyError", ""),
        (
            raised("builtins.ValueError", traceback=("ValueError: \x1b[31mred\x1b[0m \x00\x07",)),
            OutcomeKind.SCRIPT_ERROR,
            r"after 5 steps: ValueError: red \x00\x07",
            "",
        ),
        (
            raised("builtins.ValueError", message="Caught KeyError in DataLoader worker process 0."),
            OutcomeKind.SCRIPT_ERROR,
            "",
            "",
        ),
        (
            raised_in_a_worker("builtins.KeyError", message="Original", traceback=("KeyError: 'label'", "")),
            OutcomeKind.WORKER_CRASH,
            "in a loader worker, after 5 steps: KeyError: 'label'",
            "num_workers=0",
        ),
        (ended_with_its_workers(), OutcomeKind.SCRIPT_ERROR, "", ""),
        (
            raised("_tunekit_agent.file_guard.overlay.HarmDenied", *DENIED),
            OutcomeKind.HARM_DENIED,
            "",
            "tunekit run",
        ),
        (raised(*DENIED), OutcomeKind.SCRIPT_ERROR, "", ""),
    ],
)
def test_how_a_script_ended_gives_its_outcome(evidence: Evidence, kind: OutcomeKind, told: str, remedy: str):
    found = failed(evidence)
    assert found.kind is kind
    assert told in found.message
    assert remedy in (found.remedy or "")
    assert (found.last_lines, found.returncode) == (evidence.last_lines, evidence.returncode)


OUTPUT = "/trials/0007/output.log"


@pytest.mark.parametrize("returncode", [None, 0, 1])
def test_a_fault_of_the_agents_is_told_as_one_with_its_place_and_its_traceback(returncode: int | None):
    found = failed(ended(returncode, agent_error=agent_error(), output=OUTPUT))
    assert found.kind is OutcomeKind.AGENT_ERROR
    assert found.message == (
        "tunekit's agent failed after 5 steps, in model/roots.py:35 (_saw): KeyError: 1; its traceback is in "
        "/trials/0007/agent-error-7.txt"
    )
    assert found.remedy is not None
    assert found.remedy.startswith("this is a bug in tunekit, not in the script: report it")
    assert "--bind" not in found.remedy


def test_a_fault_whose_traceback_found_no_room_names_no_file():
    found = failed(ended(0, agent_error=agent_error(traceback_file=None, place=""), output=OUTPUT))
    assert found.message == "tunekit's agent failed after 5 steps, in a place that is not known: KeyError: 1"


def test_knobs_that_the_agent_could_not_set_are_named_with_the_flags_that_leave_them_out():
    seen = agent_error(message="ValueError: no", knobs=("batch_size", "pin_memory"))
    found = failed(ended(0, agent_error=seen, output=OUTPUT), batch_size=8, pin_memory=True)
    assert found.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert found.message.startswith("batch_size and pin_memory could not be set: ValueError: no; its trace")
    assert found.remedy == (
        "leave them as the script has them: --bind batch_size=fixed --bind pin_memory=fixed"
    )


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (agent_error("builtins.MemoryError"), OutcomeKind.HOST_OOM),
        (agent_error("torch.OutOfMemoryError", *OOM_MRO), OutcomeKind.DEVICE_OOM),
        (
            agent_error(*OOM_MRO, message="DataLoader worker (pid 7) is killed by signal: Killed. "),
            OutcomeKind.WORKER_CRASH,
        ),
        (
            agent_error("torch.AcceleratorError", *OOM_MRO, message="CUDA error: device-side assert"),
            OutcomeKind.SCRIPT_ERROR,
        ),
    ],
    ids=["host memory", "device memory", "worker", "kernel"],
)
def test_what_the_script_ran_into_while_the_agent_looked_is_no_fault_of_the_agents(
    seen: AgentErrorEvent, kind: OutcomeKind
):
    found = failed(ended(0, agent_error=seen, output=OUTPUT))
    assert found.kind is kind
    assert "agent" not in found.message


@pytest.mark.parametrize(("changes", "told"), [(3, "by hand"), (0, "does not know")])
def test_a_loop_that_updates_by_hand_is_told_how_to_use_an_optimizer(changes: int, told: str):
    seen = ByHandEvent(event="by_hand", time_s=2.0, passes=80, changes=changes, seconds=21.0)
    found = failed(ended(-signal.SIGKILL, by_hand=seen))
    assert found.kind is OutcomeKind.NO_TRAINING_LOOP
    assert "80 backward passes" in found.message
    assert told in found.message
    assert "optimizer.step()" in (found.remedy or "")


@pytest.mark.parametrize(
    ("knob", "wanted", "real"),
    [
        ("batch_size", 256, 128),
        ("batch_size", 256, None),
        ("num_workers", 0, 2),
        ("num_workers", 8, 2),
        ("prefetch_factor", 4, 2),
        ("pin_memory", True, False),
        ("persistent_workers", False, True),
    ],
)
def test_a_loader_knob_that_the_script_undid_is_named(knob: str, wanted: Any, real: Any):
    found = failed(measured(learnt=learnt(**{knob: real})), **{knob: wanted})
    assert found.kind is OutcomeKind.KNOB_NOT_APPLIED
    shown = "batches of 128.0 samples" if real is None else real
    assert found.message == f"{knob} was set to {wanted}, but the training loader has {shown}"


@pytest.mark.parametrize(
    "asked", [{"compile": True}, {"precision": Precision.BF16}, {"channels_last": True}, {"compile": False}]
)
def test_a_model_knob_that_did_not_reach_its_root_is_named(asked: dict[str, Any]):
    elsewhere = NET.model_copy(update={"ordinal": 1})
    found = failed(measured(learnt=learnt(roots_applied=(elsewhere,))), **asked)
    assert found.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert found.message == "Net with 100 parameters was not found again"


def test_a_root_that_no_knob_needs_may_be_missing():
    assert isinstance(verdict(measured(learnt=learnt(roots_applied=())), num_workers=2), Measurement)


def test_another_loader_than_the_baselines_is_no_measurement_of_the_config():
    found = failed(measured(learnt=learnt(addressed=False)))
    assert found.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert "not the one that the baseline found" in found.message


def test_knobs_that_hold_are_a_measurement():
    asked = {"batch_size": 128, "num_workers": 2, "prefetch_factor": 2, "pin_memory": False}
    assert isinstance(verdict(measured(), **asked), Measurement)


def test_figures_of_a_loop_that_was_never_learnt_are_no_measurement():
    found = failed(measured(learnt=learnt(complete=False, batch_size=None, addressed=False)), batch_size=128)
    assert found.kind is OutcomeKind.AGENT_ERROR
    assert "0 lines rejected" in found.message


def test_compile_without_a_graph_had_no_effect():
    found = failed(measured(), compile=True)
    assert found.kind is OutcomeKind.COMPILE_NO_EFFECT
    assert "--fix compile=false" in (found.remedy or "")


def test_compile_with_graphs_is_a_measurement():
    done = DoneEvent(event="done", time_s=9.0, loop=loop(compile_graphs=2))
    assert isinstance(verdict(measured(done=done), compile=True), Measurement)


def test_eager_that_was_asked_for_needs_no_graph():
    assert isinstance(verdict(measured(), compile=False), Measurement)


def test_memory_failures_are_those_that_a_smaller_config_may_mend():
    assert {kind for kind in OutcomeKind if kind.is_memory} == {
        OutcomeKind.DEVICE_OOM,
        OutcomeKind.HOST_OOM,
        OutcomeKind.SHM_EXHAUSTED,
        OutcomeKind.REFUSED,
    }


def test_a_script_that_ends_at_once_with_a_bound_knob_points_at_the_binding():
    rejected = ended(2, steps=0, batches=0)
    found = bound_verdict(rejected, batch_size=64)
    assert isinstance(found, Failure)
    assert found.kind is OutcomeKind.SCRIPT_ERROR
    assert (
        found.remedy == "check what --bind puts into the script for batch_size 64: it may not know it there"
    )
    trained = bound_verdict(ended(2), batch_size=64)
    assert isinstance(trained, Failure)
    assert "--bind" not in (trained.remedy or "")


# --- samples of a loop without a loader ----------------------------------------------------


def own_batches(*sizes: int, batch_size: int | None, bound_to: int | None = None) -> Measurement | Failure:
    """The verdict on a baseline without a loader, whose model is called with a tensor of these sizes."""
    called = NET.model_copy(update={"inputs": (InputSeen(path="[0]", sizes=sizes),)})
    seen = learnt().model_copy(update={"discovery": discovery(complete=True, loaders=(), roots=(called,))})
    bare = Bound(command=("x",), environment={}, file_texts={}, injected=KnobsAsked(), changed={})
    told = DoneEvent(event="done", time_s=9.0, loop=loop(batch_size=batch_size, has_loader=False))
    return measurement_of(measured(learnt=seen, done=told), bare, None, bound_to)


def test_batches_whose_samples_nobody_tells_are_asked_for() -> None:
    found = own_batches(35, 20, batch_size=None)
    assert isinstance(found, Failure)
    assert found.kind is OutcomeKind.SAMPLES_UNKNOWN
    assert "35 x 20" in found.message
    assert "--samples-per-step" in (found.remedy or "")


def test_a_bound_batch_size_that_no_input_can_hold_is_asked_for() -> None:
    found = own_batches(35, 5, batch_size=20, bound_to=20)
    assert isinstance(found, Failure)
    assert found.kind is OutcomeKind.SAMPLES_UNKNOWN


def test_samples_that_are_told_are_those_of_a_batch() -> None:
    assert isinstance(own_batches(35, 20, batch_size=20, bound_to=20), Measurement)
    assert isinstance(own_batches(713, 8, batch_size=20), Measurement)  # as the user says


# --- how memory grew -----------------------------------------------------------------------

GROWTH = tuple(
    MemoryPoint(at_s=at_s, pss_bytes=mib << 20)
    for at_s, mib in [(0.1, 4), (2.0, 200), (3.0, 310), (5.0, 700), (7.2, 900), (7.5, 40)]
)


@pytest.mark.parametrize(
    ("fetched_at_s", "told"),
    [
        (2.5, "it grew from 310 MiB to 900 MiB in 4.2 s, 140 MiB/s"),
        (None, "it grew from 4 MiB to 900 MiB in 7.1 s, 126 MiB/s"),
        (7.3, "it grew from 4 MiB to 900 MiB in 7.1 s, 126 MiB/s"),
    ],
)
def test_a_tree_without_memory_shows_how_it_grew_once_its_loop_had_begun(fetched_at_s, told):
    own = ended(growth=GROWTH, fetched_at_s=fetched_at_s, limit=OutcomeKind.HOST_OOM, limit_message="too big")
    failure = failed(own)
    assert failure.growth == GROWTH
    assert failure.message == f"too big; {told}"


def test_a_kernel_that_was_faster_leaves_the_curve_too():
    failure = failed(ended(-signal.SIGKILL, oom_kills=1, growth=GROWTH))
    assert (failure.kind, failure.growth) == (OutcomeKind.HOST_OOM, GROWTH)
    assert "for want of memory; it grew from 4 MiB to 900 MiB" in failure.message


def test_only_what_memory_ended_shows_how_it_grew():
    failure = failed(ended(1, growth=GROWTH))
    assert (failure.kind, failure.growth) == (OutcomeKind.SCRIPT_ERROR, ())
    assert "grew" not in failure.message


@pytest.mark.parametrize("points", [(), GROWTH[:1], (GROWTH[4], GROWTH[5])], ids=["none", "one", "falling"])
def test_memory_that_was_not_seen_to_grow_has_no_pace(points):
    failure = failed(ended(-signal.SIGKILL, oom_kills=1, growth=points))
    assert "grew" not in failure.message


def of_processes(evidence: Evidence, processes: int | None = None, **ddp: Any) -> Measurement | Failure:
    """The verdict on a trial of the script as it is, with so many processes and such settings of theirs."""
    as_it_is = Bound(
        command=("python", "train.py"), environment={}, file_texts={}, injected=KnobsAsked(), changed={}
    )
    return measurement_of(
        evidence, as_it_is, discovery(roots=(NET,)), processes=processes, ddp=DdpSettings(**ddp)
    )


@pytest.mark.parametrize(
    ("asked", "message", "remedy"),
    [
        ({"processes": 4}, "4 processes were started here, but 1 process trains", "init_process_group"),
        ({"static_graph": True}, "no DistributedDataParallel trains", "as the script has it"),
    ],
)
def test_processes_and_their_settings_that_do_not_hold_are_no_measurement(
    asked: dict[str, Any], message: str, remedy: str
):
    found = of_processes(measured(), **asked)
    assert isinstance(found, Failure)
    assert (found.kind, found.remedy and remedy in found.remedy) == (OutcomeKind.KNOB_NOT_APPLIED, True)
    assert message in found.message


@pytest.mark.parametrize(
    "evidence",
    [
        raised("builtins.ValueError", message="boom"),
        ended_with_its_workers(-9),
    ],
    ids=["script", "worker"],
)
def test_where_no_knob_is_searched_no_remedy_takes_one_out(evidence: Evidence):
    usual = failed(evidence)
    assert "--fix" in (usual.remedy or "")
    instead = without_fix(usual)
    assert instead.remedy and "--fix" not in instead.remedy
    assert instead.changed(remedy=usual.remedy) == usual


def test_one_process_is_as_many_as_were_asked_for():
    assert isinstance(of_processes(measured(), processes=1), Measurement)


def test_a_setting_that_torch_did_not_take_is_left_to_the_script_without_a_flag():
    found = failed(ended(agent_error=agent_error(knobs=("static_graph",))))
    assert found.kind is OutcomeKind.KNOB_NOT_APPLIED
    assert "static_graph could not be set" in found.message
    assert found.remedy == "leave it as the script has it"


def test_the_ranks_of_a_measurement_are_those_that_told_of_its_window():
    turns = [RankTurn(at_s=at_s, samples=int(at_s) * 10, batches=9, wait_s=0.0) for at_s in (2.0, 4.0)]
    evidence = measured(turns={0: turns, 1: turns}, measuring_from_s=1.0, measured_at_s=5.0)
    found = verdict(evidence)
    assert isinstance(found, Measurement)
    assert [(one.rank, one.samples_per_s) for one in found.loop.ranks] == [(0, 10.0), (1, 10.0)]
