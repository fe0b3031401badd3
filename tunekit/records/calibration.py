"""What a GPU's memory holds beside torch's tensors, measured on the GPU itself."""

from typing import Literal

from pydantic import NonNegativeInt

from tunekit.records.base import SCHEMA_VERSION, Record


class ConvolutionSeen(Record):
    """What one convolution took of torch's pool beyond its own tensors, at most."""

    shape: str
    """Such as "64x256x56x56, kernel 3x3, to 64"."""
    dtype: str
    benchmark: bool
    """torch.backends.cudnn.benchmark: its search for the fastest kernel takes memory too."""
    forward_bytes: NonNegativeInt
    backward_bytes: NonNegativeInt

    @property
    def workspace_bytes(self) -> int:
        """The larger of forward and backward."""
        return max(self.forward_bytes, self.backward_bytes)


class Calibration(Record):
    """One GPU with one torch and one driver: measured."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    device_name: str
    compute_capability: str | None
    """None on ROCm."""
    driver: str | None
    torch_version: str
    cuda_version: str | None
    cudnn_version: str | None
    context_bytes: NonNegativeInt
    """What the driver counts beyond what torch had reserved, once matmuls, convolutions and an optimizer
    step had loaded their libraries."""
    context_seen_by: Literal["process", "device"]
    """"device" where the driver does not tell of processes: by what the whole GPU had more than before."""
    blas_forward_bytes: NonNegativeInt
    """cuBLAS's workspace of the forward thread, in torch's pool."""
    blas_backward_bytes: NonNegativeInt
    """Of autograd's own thread."""
    blas_is_kept: bool
    """Whether workspaces stay from the first matmul on, or are given back after each."""
    convolutions: tuple[ConvolutionSeen, ...]

    @property
    def blas_workspace_bytes(self) -> int:
        """What both threads' workspaces take at once."""
        both = (self.blas_forward_bytes, self.blas_backward_bytes)
        return sum(both) if self.blas_is_kept else max(both)

    def workspaces_bytes(self, benchmark: bool) -> tuple[int, int] | None:
        """Return the least and the most that a convolution took; None where none was measured.

        Args:
            benchmark: with torch.backends.cudnn.benchmark on.
        """
        seen = [one.workspace_bytes for one in self.convolutions if one.benchmark is benchmark]
        return (min(seen), max(seen)) if seen else None
