"""What is made ready before a verb's first trial."""

from pathlib import Path

import pytest
from build_checkups import gpu, seen_device, torch_of
from build_records import host, run, target

from tunekit.cli.screen import TrialScreen
from tunekit.cli.trials import make_images
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import TorchBuild
from tunekit.workloads import images_store


@pytest.mark.parametrize(
    ("gpus", "profile_id", "build", "side"),
    [
        ((gpu(),), "a10g", torch_of(devices=(seen_device(),)), 40),
        ((gpu(),), "a10g", torch_of(devices=()), 32),
        ((gpu(),), "cpu", torch_of(), 32),
        ((), "a10g", torch_of(), 32),
    ],
    ids=["a GPU that torch uses", "torch without CUDA", "--gpu cpu", "no GPU here"],
)
def test_the_images_are_those_of_the_device_that_trains_on_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: tuple,
    profile_id: str,
    build: TorchBuild,
    side: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(images_store, "USUAL", {"cuda": (35, 2), "cpu": (28, 2)})
    monkeypatch.setattr("tunekit.cli.trials.ask_torch", lambda command: build)
    searched = run(
        host=host(accelerators=gpus),
        profile=load_profiles()[profile_id],
        target=target(builtin="images"),
    )
    make_images(searched, TrialScreen())
    assert [path.name for path in (tmp_path / "tunekit/images").glob("[!.]*")] == [f"{side}-2-v1"]
