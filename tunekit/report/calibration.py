"""What `tunekit doctor --calibrate` shows. Pure."""

from tunekit.plain_text import printable
from tunekit.records.calibration import Calibration, ConvolutionSeen
from tunekit.report.columns import Column, fitted_table
from tunekit.report.table import Passage, Table
from tunekit.units import bytes_text

_SEEN_BY = {
    "process": "the driver's figure of the process, less what torch had reserved",
    "device": "what the whole GPU had more than before, less what torch had reserved: the driver does not "
    "tell of processes here",
}


def calibration_view(calibration: Calibration, path: str | None, width: int) -> tuple[Table | Passage, ...]:
    """Return the figures of a calibration and where it was saved.

    Args:
        calibration: to show.
        path: of its file; None where it could not be saved.
        width: the terminal's, in letters.
    """
    kept = "stay" if calibration.blas_is_kept else "are given back after each matmul"
    torch = f"torch {calibration.torch_version}, cuDNN {calibration.cudnn_version or 'n/a'}"
    saved = (printable(f"Saved in {path}; predictions for this GPU go by it from now on."),) if path else ()
    return (
        Table(
            printable(f"{calibration.device_name}: memory beside torch's tensors (measured)"),
            ("", ""),
            (
                ("CUDA context and libraries", bytes_text(calibration.context_bytes)),
                ("cuBLAS workspace, forward thread", bytes_text(calibration.blas_forward_bytes)),
                ("cuBLAS workspace, backward thread", bytes_text(calibration.blas_backward_bytes)),
                ("cuDNN workspace, at most", _most_text(calibration, benchmark=False)),
                ("  with cudnn.benchmark", _most_text(calibration, benchmark=True)),
            ),
            (1,),
        ),
        fitted_table(
            "Convolutions beyond their tensors (measured)", _COLUMNS, calibration.convolutions, width
        ),
        Passage(
            "",
            (
                printable(f"{torch}, driver {calibration.driver or 'n/a'}."),
                f"Context: {_SEEN_BY[calibration.context_seen_by]}.",
                f"cuBLAS's workspaces {kept}.",
                *saved,
            ),
        ),
    )


def _most_text(calibration: Calibration, benchmark: bool) -> str:
    bounds = calibration.workspaces_bytes(benchmark)
    return bytes_text(bounds[1] if bounds else None)


_COLUMNS: tuple[Column[ConvolutionSeen], ...] = (
    Column("shape", lambda one: printable(one.shape), is_numeric=False),
    Column("dtype", lambda one: printable(one.dtype), is_numeric=False),
    Column("benchmark", lambda one: "on" if one.benchmark else "off", is_numeric=False),
    Column("forward", lambda one: bytes_text(one.forward_bytes)),
    Column("backward", lambda one: bytes_text(one.backward_bytes)),
)
