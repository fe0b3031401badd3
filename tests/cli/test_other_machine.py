"""`tunekit fits RUN --ram`: the memory of another machine, from a run or from flags."""

from collections.abc import Callable
from pathlib import Path

import pytest
from build_fits import fit, fits_run, traced_trial
from build_loop_profiles import profiled
from build_records import GIB, MIB, interval, recommendation, run
from json_schemas import valid

from tunekit.cli.main import main
from tunekit.records.codec import from_json, to_json
from tunekit.records.machine_memory import MachineMemory

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
    return from_json(valid("fits", capsys.readouterr().out), MachineMemory)


def test_the_view(
    predicted: Path,
    golden: Callable[[str], object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "80")
    words = ("--gpu", "a10g", "--batch-size", "4000", "--shm", "1", "--batch-mib", "230", "--workers", "12")
    assert main(["fits", str(predicted), *HERE, *words, "--prefetch", "3"]) == 0
    assert capsys.readouterr().out == golden("machine_memory.txt")


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
