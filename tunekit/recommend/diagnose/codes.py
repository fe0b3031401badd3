"""Every code that a finding of a machine may have, with its severities and what it means in one line.

`tunekit doctor --codes` prints this table and `--ignore` takes its codes; a test holds it against the checks.
"""

from typing import NamedTuple

from tunekit.records.finding import Severity

_NOTE = (Severity.INFO,)
_WARNING = (Severity.WARNING,)
_ERROR = (Severity.ERROR,)


class Code(NamedTuple):
    """What a code stands for."""

    severities: tuple[Severity, ...]
    """Those that its findings may have, the worst first."""
    summary: str


CODES: dict[str, Code] = {
    "command-absent": Code(_ERROR, "the training command names a program or script that is not there"),
    "torch-absent": Code(_ERROR, "the Python that the command runs has no torch that answers"),
    "torch-unknown": Code(_NOTE, "the training environment's torch is not known"),
    "torch-cpu-build": Code(_ERROR, "torch is built without CUDA beside an NVIDIA GPU"),
    "torch-sees-no-gpu": Code(_ERROR, "torch can't use the GPU that the driver shows"),
    "torch-lacks-architecture": Code(_ERROR, "torch holds no code for this GPU"),
    "no-gpu-telemetry": Code(_WARNING, "the driver's library does not tell of the GPU that torch sees"),
    "threads-above-cpus": Code(
        _WARNING, "torch or OMP_NUM_THREADS asks for more threads than CPUs may be used"
    ),
    "tf32-off": Code(_NOTE, "fp32 matrix products leave the tensor cores idle"),
    "no-gpu": Code(_NOTE, "there is no GPU"),
    "bf16-emulated": Code((*_WARNING, *_NOTE), "the GPU or the CPU has no bf16 arithmetic of its own"),
    "shared-gpu": Code(_WARNING, "someone else computes on the GPU or holds its memory"),
    "gpu-throttled": Code(_WARNING, "heat or the power supply slows the GPU down"),
    "gpu-hot": Code(_WARNING, "the GPU is hot before training has started"),
    "power-limited": Code(_WARNING, "the GPU may draw less power than its kind usually does"),
    "ecc-errors": Code(_WARNING, "the GPU's memory had errors that it could not correct"),
    "pcie-narrow": Code((*_WARNING, *_NOTE), "few PCIe lanes link the GPU"),
    "mig-partition": Code(_NOTE, "the GPU is a part of one"),
    "unknown-gpu": Code(_WARNING, "no profile knows the GPU"),
    "less-gpu-memory": Code(_WARNING, "the GPU shows less memory than its kind has"),
    "mixed-gpus": Code(_WARNING, "the GPUs are of several kinds"),
    "few-cpus-per-gpu": Code(_NOTE, "few CPUs feed each GPU"),
    "compile-unsupported": Code(_NOTE, "torch.compile does not run on this GPU"),
    "no-shm": Code((*_ERROR, *_WARNING), "there is no /dev/shm for the loader's workers"),
    "small-shm": Code((*_ERROR, *_WARNING), "/dev/shm has too little room for the loader's queue"),
    "large-buffer": Code((*_ERROR, *_WARNING), "the loader's buffer takes too much of the RAM limit"),
    "shm-in-use": Code(_WARNING, "much of /dev/shm is taken already"),
    "more-workers-than-cpus": Code(_WARNING, "there are more loader workers than CPUs"),
    "fewer-cpus-than-seen": Code(_NOTE, "fewer CPUs may be used than os.cpu_count() says"),
    "cgroup-below-host-ram": Code(_NOTE, "the container may use less memory than the machine has"),
    "low-free-ram": Code(_WARNING, "little memory is free"),
    "ram-below-gpu-memory": Code(_NOTE, "the machine has less memory than its GPUs"),
    "busy-cpus": Code((*_WARNING, *_NOTE), "the CPUs are at work already"),
    "numa": Code(_NOTE, "the CPUs are in several NUMA nodes"),
    "few-open-files": Code(_NOTE, "few files may be open at once"),
    "cpu-powersave": Code(_NOTE, "the CPUs may run below their clock"),
    "sandbox-landlock": Code(_NOTE, "trials may only write to their own folders"),
    "no-sandbox": Code(_WARNING, "nothing in the kernel keeps a trial's programs from your files"),
    "network-storage": Code(_WARNING, "a data set is read over a network"),
    "spinning-disk": Code(_WARNING, "a data set is on a spinning disk"),
    "slow-storage": Code(_WARNING, "the storage under a data set is slow"),
    "data-larger-than-ram": Code(_NOTE, "a data set does not fit the page cache"),
    "many-small-files": Code((*_WARNING, *_NOTE), "a data set is many small files"),
    "storage-measured-warm": Code(_NOTE, "the page cache answered, not the storage"),
    "storage-not-measured": Code(_NOTE, "a rate of reading could not be measured"),
    "no-storage": Code(_NOTE, "the kernel makes up the files of a data set"),
    "omp-threads": Code(_NOTE, "OpenMP threads times loader workers may be more than the CPUs"),
    "omp-ignored": Code(_WARNING, "OMP_NUM_THREADS is no number"),
    "slow-environment": Code(_WARNING, "a variable slows training down"),
    "compile-disabled": Code(_WARNING, "a variable switches torch.compile off"),
    "device-order": Code(_WARNING, "CUDA numbers the GPUs in another order than nvidia-smi"),
    "gpus-hidden": Code(_WARNING, "CUDA_VISIBLE_DEVICES hides every GPU"),
    "expandable-segments-off": Code(_NOTE, "batches of varying size fragment the GPU's memory"),
    "tf32-forbidden": Code(_WARNING, "a variable forbids TF32"),
    "no-compiler": Code(_WARNING, "torch.compile finds no compiler"),
}
"""In the order of the checks."""
