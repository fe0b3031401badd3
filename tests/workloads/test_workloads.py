"""The built-in workloads: each tuned end to end, and the facts that its bottleneck comes from."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
import zarr

from tunekit.records.codec import read_json
from tunekit.records.run import Run, RunStatus
from tunekit.trial.typed_commands import workload_options
from tunekit.workloads import WORKLOADS, script_of
from tunekit.workloads.stores import store_folder

SMALLEST = {
    "images": ("--image-size", "28", "--samples", "200"),
    "ppg": ("--samples", "600"),
    "spectrograms": ("--samples", "30", "--batch-size", "4"),
    "text": ("--samples", "300", "--max-length", "32"),
    "records": ("--samples", "1000"),
}
QUICK = ("--trials", "2", "--window", "0.3", "--confirm", "1", "--budget", "10m", "--fix", "compile=false")


def tunekit(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tunekit", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.real
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_tuned_resumed_and_ready_to_train(name: str, tmp_path: Path) -> None:
    (tmp_path / "tunekit.toml").write_text('fix = ["num_workers=7"]\n')  # of the project's own scripts
    options = (*SMALLEST[name], "--data", str(tmp_path / "data"))
    tunekit(tmp_path, "search", "--workload", name, *QUICK, "--out", "run", "--", *options)
    run = read_json(tmp_path / "run" / "run.json", Run)
    assert run.status is RunStatus.FINISHED
    assert (run.target.builtin, workload_options(run.target)) == (name, options)
    assert run.discovery is not None and run.discovery.complete and run.discovery.roots_cover_step
    assert run.baseline_config is not None and run.baseline_config.num_workers == 0
    assert len(run.recommendations) + len(run.missing_tiers) == 3
    assert run.recommendations
    tier = f"run/{run.recommendations[0].tier.value}.yaml"
    assert f"{name}.py {' '.join(options)}" in tunekit(tmp_path, "run", "--dry-run", tier)
    trials = len(run.trials)
    tunekit(tmp_path, "search", "--resume", "run")
    assert len(read_json(tmp_path / "run" / "run.json", Run).trials) == trials


@pytest.fixture
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of a workload's script, imported as the script imports its siblings."""
    monkeypatch.syspath_prepend(str(script_of("ppg").parent))
    return import_module(request.param)


@pytest.mark.parametrize("script", ["ppg"], indirect=True)
def test_a_window_is_a_small_share_of_the_chunk_that_is_read_for_it(
    script: ModuleType, tmp_path: Path
) -> None:
    folder = store_folder(script.Contents(2_000), tmp_path)
    windows = script.Windows(folder, "irregular", range(1_800), augmented=True)
    window, target = windows[7]
    assert (window.shape, window.dtype) == ((1, 100), torch.float32)
    assert target == zarr.open_group(folder, mode="r")["irregular"][7]
    assert (window[0].mean().abs() < 1e-3, windows.windows.chunks) == (True, (512, 100))


@pytest.mark.parametrize("script", ["spectrograms"], indirect=True)
def test_spectrograms_are_masked_in_ram_and_the_store_is_kept(script: ModuleType) -> None:
    decibels = torch.full((2, 224, 224, 3), 40.0, dtype=torch.float16)
    dataset = script.Spectrograms(decibels, torch.tensor([3, 4]), range(1, 2), augmented=True)
    torch.manual_seed(0)
    image, label = dataset[0]
    assert (image.shape, image.dtype, int(label)) == ((3, 224, 224), torch.float32, 4)
    assert 0 < int((image == 0).sum()) < image.numel()
    assert bool((decibels == 40).all())


@pytest.mark.parametrize("script", ["text"], indirect=True)
def test_buckets_hold_every_document_with_less_padding(script: ModuleType, tmp_path: Path) -> None:
    group = zarr.open_group(store_folder(script.Contents(3_200, 128), tmp_path), mode="r")
    documents = script.Documents(group, range(3_200), augmented=False)
    assert len(documents[9][0]) == documents.lengths[9]
    buckets = list(script.Buckets(documents.lengths, 16))
    assert sorted(at for batch in buckets for at in batch) == list(range(3_200))
    padding = [
        sum(int((script.collate([documents[at] for at in batch])[0] == 0).sum()) for batch in batches)
        for batches in (buckets, torch.arange(3_200).split(16))
    ]
    assert padding[0] * 4 < padding[1]
    assert padding[1] > documents.lengths.sum()


@pytest.mark.parametrize("script", ["records"], indirect=True)
def test_visits_are_padded_to_the_longest_patient_and_padding_changes_nothing(
    script: ModuleType, tmp_path: Path
) -> None:
    group = zarr.open_group(store_folder(script.Contents(64), tmp_path), mode="r")
    patients = script.Patients(group, range(64), augmented=False)
    codes, numbers, lengths, targets = script.collate([patients[at] for at in range(64)])
    assert lengths == [len(visits) for visits, _ in patients] and len(set(lengths)) > 10
    assert codes.shape == (64, max(lengths), 16) and numbers.shape == (64, max(lengths), 4)
    assert set(targets.tolist()) == {0.0, 1.0}
    model = script.Lstm(1, 32).eval()
    alone = script.collate([patients[int(torch.tensor(lengths).argmin())]])[:3]
    together = model(codes, numbers, lengths)[int(torch.tensor(lengths).argmin())]
    torch.testing.assert_close(model(*alone)[0], together)
