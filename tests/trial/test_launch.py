from pathlib import Path

from tunekit.trial.launch import trial_environment


def test_trackers_are_off_or_write_into_the_trials_folder(tmp_path: Path) -> None:
    environment = trial_environment(tmp_path / "request.json", {"WANDB_MODE": "online", "HOME": "/home/me"})
    assert environment["WANDB_MODE"] == "disabled"
    assert environment["MLFLOW_TRACKING_URI"] == (tmp_path / "agent/trackers/mlruns").as_uri()
    assert environment["NEPTUNE_LOG_DIRECTORY"].startswith(str(tmp_path))
    assert environment["HOME"] == "/home/me"
    assert "HF_HUB_OFFLINE" not in environment
