"""What a real trial keeps of its script, and that it leaves nothing behind; outcomes are in the battery."""

import os
import re
import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from real_trials import RealTrials, is_alive, leaked_shared_memory, processes_with, zoo_target

from tunekit.records.trial import OutcomeKind
from tunekit.trial.watch import Limits

pytestmark = pytest.mark.real


def test_a_tree_that_outgrows_its_limit_is_ended_and_shows_how_it_grew(tmp_path: Path) -> None:
    limits = Limits(60, 30, 700 << 20)
    record = RealTrials(zoo_target("eats_memory.py"), tmp_path, limits, window_s=5.0).run_baseline()
    failure = record.failure
    assert failure is not None
    assert failure.kind is OutcomeKind.HOST_OOM
    assert processes_with(str(tmp_path)) == []
    said = re.search(
        r"more than the limit of 700 MiB; it grew from (\d+) MiB to (\d+) MiB in [\d.]+ s, \d+ MiB/s",
        failure.message,
    )
    assert said is not None, failure.message
    low, high = int(said[1]), int(said[2])
    sizes = [point.pss_bytes for point in failure.growth]
    assert 3 <= len(sizes) <= 32
    assert max(sizes) == sizes[-1] > limits.ram_bytes
    assert (high, low < 700) == (sizes[-1] >> 20, True)
    times = [point.at_s for point in failure.growth]
    assert times == sorted(times)
    assert times[-1] <= record.duration_s


def test_the_scripts_own_last_lines_are_kept(tmp_path: Path) -> None:
    record = RealTrials(zoo_target("crashes.py"), tmp_path, window_s=5.0).run_baseline()
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.SCRIPT_ERROR
    assert "ValueError: boom: configs missing" in record.failure.message
    assert record.failure.last_lines[-1] == "ValueError: boom: configs missing"
    assert record.failure.returncode == 1


def test_daemons_workers_and_children_end_with_the_trial(tmp_path: Path) -> None:
    shm_before = set(Path("/dev/shm").iterdir())
    trials = RealTrials(zoo_target("leaves_daemon.py"), tmp_path)
    record = trials.run_baseline()
    assert record.failure is None
    pids = [int(line.split()[1]) for line in trials.output(0).splitlines() if line[:5] in ("daemo", "child")]
    assert len(pids) == 2
    assert not any(is_alive(pid) for pid in pids)
    assert processes_with(str(tmp_path)) == []
    assert leaked_shared_memory(shm_before) == []


def test_what_the_user_had_is_untouched(tmp_path: Path) -> None:
    user_folder = tmp_path / "user"
    user_folder.mkdir()
    own = {"notes.txt": b"my notes\n", "log.txt": b"day 1\n", "model.pt": b"forty hours of training"}
    for name, content in own.items():
        (user_folder / name).write_bytes(content)
        os.utime(user_folder / name, (1, 1))
    trials = RealTrials(zoo_target("overwrites.py", "--folder", str(user_folder)), tmp_path / "trials")
    record = trials.run_baseline()
    assert record.failure is None  # the script read back what it wrote
    assert {path.name: path.read_bytes() for path in user_folder.iterdir()} == own
    diverted = {Path(written.path).name for written in record.written if written.action == "diverted"}
    assert diverted == set(own)


def test_the_users_own_sitecustomize_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("print('my own sitecustomize', __name__, flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    trials = RealTrials(zoo_target("too_short.py"), tmp_path / "trials")
    record = trials.run_baseline()
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.TOO_SHORT
    assert "after 5 optimizer steps" in record.failure.message
    assert "my own sitecustomize sitecustomize" in trials.output(0)


def test_a_script_that_ends_by_itself_is_measured_by_what_it_did(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("ends_by_itself.py"), tmp_path, window_s=30.0)
    record = trials.run_baseline()
    assert record.measurement is not None
    assert record.measurement.loop.stop_reason == "loop_ended"
    assert trials.output(0) == "trained\n"


def test_a_script_that_ends_badly_is_an_error_however_much_it_trained(tmp_path: Path) -> None:
    record = RealTrials(
        zoo_target("ends_by_itself.py", "--exit", "3"), tmp_path, window_s=30.0
    ).run_baseline()
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.SCRIPT_ERROR
    assert record.failure.returncode == 3


def test_no_temporary_folder_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/tmp") as temporary:  # short: sockets have short paths
        monkeypatch.setenv("TMPDIR", temporary)
        monkeypatch.setattr("tempfile.tempdir", None)
        trials = RealTrials(zoo_target("plain_batch_sampler.py"), tmp_path / "trials")
        assert trials.run_baseline().failure is None
        left = {path.name for path in Path(temporary).iterdir()}
        assert not any(name.startswith(("pymp-", "tunekit-")) for name in left)


def test_the_target_inherits_no_ignored_signal(tmp_path: Path) -> None:
    target = zoo_target("too_short.py").model_copy(
        update={"command": ("grep", "SigIgn", "/proc/self/status")}
    )
    trials = RealTrials(target, tmp_path)
    trials.run_baseline()
    ignored = int(trials.output(0).split()[1], 16)
    assert ignored & sum(1 << (number - 1) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)) == 0


def test_shared_memory_that_a_killed_process_had_not_yet_unlinked_is_removed(tmp_path: Path) -> None:
    script = "touch /dev/shm/torch_$$_1_1 && ls /dev/shm/torch_$$_1_1 && sleep 60"
    target = zoo_target("too_short.py").model_copy(update={"command": ("sh", "-c", script)})
    trials = RealTrials(target, tmp_path, Limits(trial_s=1.0, no_progress_s=30.0, ram_bytes=1 << 30))
    trials.run_baseline()
    made = Path(trials.output(0).strip())
    assert made.name.startswith("torch_")
    assert not made.exists()
