"""`tunekit fits RUN --ram`: the memory of another machine, from a run or from flags."""

from collections.abc import Callable
from pathlib import Path

import pytest
from build_fits import fit, fits_run, traced_trial
from build_loop_profiles import profiled
from build_records import GIB, MIB, interval, recommendation, run

from tunekit.cli.main import main
from tunekit.records.codec import from_json, to_json
from tunekit.records.machine_memory import MachineMemory
from tunekit.records.measurement import DryLoop, DryRun

HERE = ("--ram", "62", "--cpus", "16")


@pytest.fixture
def searched(tmp_path: Path) -> Path:
    finished = run(recommendations=(recommendation(rate_samples_per_s=interval(180.0)),))
    (tmp_path / "run.json").write_text(to_json(finished))
    return tmp_path


@pytest.fixture
def predicted(tmp_path: Path) -> Path:
    """What tunekit fits wrote, with its trial's traces; its script trains with a batch of 16."""
    saved = fits_run((fit("a10g", 22.0, (90, 100, 110)),), trials=(traced_trial(tmp_path / "trials"),))
    (tmp_path / "fits.json").write_text(to_json(saved))
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *words: object) -> MachineMemory:
    assert main(["fits", *map(str, words), "--json"]) == 0
    return from_json(capsys.readouterr().out, MachineMemory)


def test_the_view(
    predicted: Path,
    golden: Callable[[str, str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--gpu", "a10g", "--batch-size", "4000", "--shm", "1", "--batch-mib", "230", "--workers", "12")
    assert main(["fits", str(predicted), *HERE, *words, "--prefetch", "3"]) == 0
    golden("machine_memory.txt", capsys.readouterr().out)


def test_the_verdicts_of_a_batch_need_no_run(capsys: pytest.CaptureFixture[str]):
    memory = found(capsys, *HERE, "--batch-mib", "230")
    verdicts = {(one.num_workers, one.prefetch_factor): one.verdict for one in memory.loaders}
    assert (verdicts[32, 8], verdicts[8, 8], verdicts[16, 2]) == ("OOM", "Risky", "Safe")
    assert (memory.machine.ram_limit_bytes, memory.batch_bytes) == (62 * GIB, 230 * MIB)


def test_a_search_and_a_profile_give_their_batch(searched: Path, capsys: pytest.CaptureFixture[str]):
    memory = found(capsys, searched, *HERE)
    assert (memory.batch_bytes, memory.loader.is_present) == (128 * 1000, True)
    assert found(capsys, searched, *HERE, "--batch-size", "256").batch_bytes == 256 * 1000
    assert found(capsys, searched, *HERE, "--gpu", "t4").gpu is None
    (searched / "profile.json").write_text(to_json(profiled()))
    assert found(capsys, searched / "profile.json", *HERE).parts[1].size_bytes == 2800 * MIB


def test_traces_give_gpu_memory_at_any_batch(predicted: Path, capsys: pytest.CaptureFixture[str]):
    own = found(capsys, predicted, *HERE, "--gpu", "a10g")
    assert own.gpu is not None
    assert (own.gpu.batch_size, own.gpu.precision, own.gpu.fits) == (16, "fp32", "yes")
    assert own.batch_bytes == 16 * 1000
    other = found(capsys, predicted / "fits.json", *HERE, "--gpu", "t4", "--batch-size", "3000").gpu
    assert other is not None
    assert (other.batch_size, other.fits) == (3000, "no")


def test_a_trial_without_arithmetic_gives_its_batch_by_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    seen = traced_trial(tmp_path / "trials")
    assert seen.measurement is not None and seen.measurement.details is not None
    loop = DryLoop(
        device=seen.measurement.loop.device,
        batch_size=16,
        batch_samples=16,
        num_workers=0,
        epoch_samples=50_000,
        startup_s=1.0,
        first_batch_s=1.0,
        script_steps=2,
    )
    trial = seen.changed(measurement=None, dry=DryRun(loop=loop, details=seen.measurement.details))
    (tmp_path / "fits.json").write_text(to_json(fits_run(trials=(trial,))))
    memory = found(capsys, tmp_path, *HERE, "--gpu", "a10g")
    assert memory.batch_bytes == pytest.approx(16 * 600_000, rel=0.01)
    assert memory.parts[1].size_bytes is None
