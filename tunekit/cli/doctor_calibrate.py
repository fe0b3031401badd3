"""`tunekit doctor --calibrate`: measures what a GPU's memory holds beside torch's tensors, and keeps it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunekit.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def calibrate_gpu(console: "Console", command: Sequence[str], as_json: bool) -> int:
    """Calibrate the first GPU with the Python that the command runs, this one without a command.

    Returns:
        0; every failure is an exception.

    Raises:
        UsageError: there is no GPU that can be measured, which Python it is can't be told, or the figures
            can't be saved.
        TargetError: the Python or its torch breaks.
    """
    from tunekit.cli.pipes import lasting_console  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.hardware.calibrate import calibrate  # noqa: PLC0415
    from tunekit.hardware.calibrations import folder_to_save_in, save_calibration  # noqa: PLC0415
    from tunekit.hardware.detect import detect_host  # noqa: PLC0415
    from tunekit.hardware.nvml_library import NvmlLibrary  # noqa: PLC0415
    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.doctor import calibration_blocks  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    python = _python_of(command)
    folder_to_save_in()  # refuse one that can't be written before a minute is spent
    with lasting_console(to_stderr=True).status("measuring what the GPU's memory holds beside tensors"):
        measured = calibrate(python, detect_host().accelerators, NvmlLibrary())
    path: str | None = None
    try:
        path = str(save_calibration(measured))
    finally:  # what was measured is shown where it can't be saved, too
        if as_json:
            sys.stdout.write(to_json(measured) + "\n")
        else:
            draw(console, calibration_blocks(measured, path, console.width))
    return 0


def _python_of(command: Sequence[str]) -> str:
    """Return the interpreter that a command runs.

    Raises:
        UsageError: it is not known before it runs.
    """
    from tunekit.hardware.interpreter import interpreter_of  # noqa: PLC0415

    if not command:
        return sys.executable
    python = interpreter_of(command)
    if python is None:
        raise UsageError(
            f"which Python {command[0]!r} runs is not known before it runs; name it: "
            "tunekit doctor --calibrate -- /path/to/python"
        )
    return python
