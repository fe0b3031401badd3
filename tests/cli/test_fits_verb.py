"""`tunekit fits`: which GPUs it looks at, and what it leaves on disk."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from build_fits import fit, fits_run
from build_records import GIB, host
from json_schemas import valid
from real_trials import ZOO, run_tunekit

from tunekit.cli import fits as verb
from tunekit.cli.main import main
from tunekit.machine.profiles import load_profiles
from tunekit.records.codec import from_json
from tunekit.records.config import Precision
from tunekit.records.host import Host
from tunekit.records.prediction import PredictionPath
from tunekit.records.profile import Profile
from tunekit.records.run import BatchFit, FitsRun, RunStatus
from tunekit.session.folder import RunFolder, load_saved

Planned = tuple[FitsRun, dict[str, Profile]]
TRAIN = ("--", sys.executable, "train.py")


@pytest.fixture
def finished(project: Path) -> Path:
    with RunFolder(project / "looked") as folder:
        folder.save(fits_run((fit("a10g", 22.1, (219, 250, 294)),)))
        return folder.path


@pytest.fixture
def planned(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planned]:
    """Returns what `fits` would run on this machine, and the GPUs that it would predict for."""
    seen: list[Planned] = []

    def walk(run: FitsRun, *_: object) -> SimpleNamespace:
        return SimpleNamespace(run=lambda of, outside: seen.append((run, {one.id: one for one in of})))

    def of(*words: str, here: Host) -> Planned:
        monkeypatch.setattr(verb, "host_here", lambda command: here)
        assert main(["fits", *words, *TRAIN]) == 0
        return seen[-1]

    monkeypatch.setattr(verb, "run_walk", lambda *asked: asked[-1](None, None, None) or 0)
    monkeypatch.setattr(verb, "FitsWalk", walk)
    return of


def test_a_gpu_that_current_torch_does_not_run_on_is_left_out_unless_it_is_here(planned: Any):
    old = host().accelerators[0].model_copy(update={"name": "Tesla K80", "profile_id": "k80"})
    ids = [planned(here=host(accelerators=accelerators))[1].keys() for accelerators in ((), (old,))]
    assert "t4" in ids[0] & ids[1]
    assert ["k80" in each for each in ids] == [False, True]


def test_the_gpu_here_is_predicted_with_its_own_memory(planned: Any):
    """A virtual GPU may show a part of its kind's; of the kinds that are not here the profile tells."""
    part = host().accelerators[0].model_copy(update={"memory_bytes": 3 * GIB})
    for words in ((), ("--gpu", "a10g", "--gpu", "t4")):
        run, profiles = planned(*words, here=host(accelerators=(part,)))
        assert (run.measured_on, run.profile.memory_bytes) == ("a10g", 3 * GIB)
        assert profiles["a10g"].memory_bytes == 3 * GIB
        assert profiles["t4"].memory_bytes == load_profiles()["t4"].memory_bytes


def test_a_projects_settings_hold_but_for_the_gpu_that_it_tunes_for(planned: Any, project: Path):
    (project / "tunekit.toml").write_text('gpu = "t4"\nwindow = 2.5\n\n[bind]\nbatch_size = "env:BS"\n')
    run, _ = planned("--gpu", "a10g", here=host())
    assert (run.options.gpus, run.options.window_s) == (("a10g",), 2.5)
    assert [one.knob for one in run.target.bindings] == ["batch_size"]
    assert planned(here=host())[0].options.gpus == ()


def test_a_saved_prediction_is_shown_again(finished: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(finished)]) == 0
    first = capsys.readouterr().out
    assert "What fits which GPU (predicted)" in first
    assert main(["report", str(finished / "fits.json")]) == 0
    assert capsys.readouterr().out == first
    assert "How it was predicted" not in first
    assert main(["report", str(finished), "--full"]) == 0
    assert "How it was predicted" in capsys.readouterr().out


@pytest.mark.real
def test_a_real_script_is_traced_and_predicted_for_gpus_that_are_not_here(tmp_path: Path) -> None:
    words = ("--window", "0.3", "--gpu", "t4", "--gpu", "p100", "--batch-size", "64", "--out", "looked")
    script = str(ZOO / "plain_with_validation.py")
    done = run_tunekit(tmp_path, "fits", *words, "--json", "--", sys.executable, script)
    assert done.returncode == 0, done.stderr
    whole = from_json(valid("fits", done.stdout), FitsRun)
    assert whole == load_saved(tmp_path / "looked")
    assert whole.status is RunStatus.FINISHED
    assert whole.prediction is not None
    assert whole.prediction.path is PredictionPath.LOOP_DRY
    assert [(one.profile_id, one.precision) for one in whole.prediction.fits] == [
        ("t4", Precision.FP32),
        ("t4", Precision.FP16),
        ("p100-pcie-16", Precision.FP32),
    ]
    samples = whole.prediction.epoch_samples
    assert samples is not None
    for one in whole.prediction.fits:
        assert 64 < one.largest.low < one.largest.high
        assert one.batch_size == min(one.largest.low, samples)
        assert one.rate is not None
    assert {one.verdict for one in whole.asked} == {BatchFit.YES}
    assert all((one.rate is not None) == (samples >= 64) for one in whole.asked)
    assert whole.prediction.loader_measured is not None
    assert "result                         config" in done.stderr
    assert "What fits which GPU" not in done.stderr, "the report is for those who read it"
