"""What is shown of a calibration."""

from build_calibrations import calibration
from read_report import drawn

from tunekit.report.doctor import calibration_blocks


def shown(width: int = 80, **overrides: object) -> str:
    return drawn(calibration_blocks(calibration(**overrides), "/home/me/h200.json", width), width)


def test_every_figure_is_marked_measured_and_says_where_it_was_saved():
    text = shown()
    assert "NVIDIA H200: memory beside torch's tensors (measured)" in text
    assert "CUDA context and libraries         500.0 MiB" in text
    assert "cuDNN workspace, at most           100.0 MiB" in text
    assert "with cudnn.benchmark             400.0 MiB" in text
    assert "Convolutions beyond their tensors (measured)" in text
    assert "Saved in /home/me/h200.json; predictions for this GPU go by it" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80


def test_who_told_of_the_context_is_said():
    assert "the driver's figure of the process" in shown()
    assert "the driver does not tell of processes here" in " ".join(shown(context_seen_by="device").split())


def test_workspaces_that_do_not_stay_are_said_to_be_given_back():
    assert "cuBLAS's workspaces stay." in shown()
    assert "cuBLAS's workspaces are given back after each matmul." in shown(blas_is_kept=False)


def test_what_was_not_measured_is_na():
    text = shown(convolutions=(), cudnn_version=None, driver=None)
    assert "cuDNN workspace, at most                 n/a" in text
    assert "torch 2.13.0+cu130, cuDNN n/a, driver n/a." in text
