"""What `tunekit doctor --calibrate` finds on a simulated GPU is what its description says."""

import json
from math import prod

import pytest
from gpu_environment import on_both_torches

from simgpu.devices import FOLDER
from simgpu.machine import SimulatedGpu
from tunekit.machine.gpu.outside_torch import BLAS_BYTES
from tunekit.records.prediction import Calibration
from tunekit.units import MIB

pytestmark = [pytest.mark.real, pytest.mark.slow]

SLOW = "a10g:slower=64"
"""Slow enough for cuDNN's other engine, which needs a workspace, to win wherever there is one."""
DNN_HANDLE_BYTES = 8 * MIB
"""Of cuDNN, as simgpu's cudnn.c has it; one in each of two threads, as of cuBLAS."""


def described(key: str) -> int:
    lines = (FOLDER / "a10g.conf").read_text().splitlines()
    found = (line.partition("#")[0].partition("=") for line in lines)
    return int(next(value for name, _, value in found if name.strip() == key))


def calibrated(gpu: SimulatedGpu) -> Calibration:
    own = gpu.own / "calibrations"
    own.mkdir()
    command = ["-m", "tunekit", "doctor", "--calibrate", "--json"]
    done = gpu.run(command, SLOW, more={"TUNEKIT_CALIBRATIONS": str(own)})
    assert done.returncode == 0, done.stderr
    return Calibration.model_validate(json.loads(done.stdout))


@on_both_torches
def test_a_calibration_finds_what_the_device_takes(simulated_gpu: SimulatedGpu) -> None:
    found = calibrated(simulated_gpu)
    handles = 2 * described("blas_bytes") + 2 * DNN_HANDLE_BYTES
    assert (found.context_bytes, found.context_seen_by) == (described("context_bytes") + handles, "process")
    assert (found.blas_forward_bytes, found.blas_backward_bytes) == (BLAS_BYTES, BLAS_BYTES)
    assert found.blas_is_kept, "by torch 2.8 and 2.14"
    assert found.workspaces_bytes(benchmark=False) == (0, 0)
    searched = [one for one in found.convolutions if one.benchmark and one.dtype == "float32"]
    image = prod((32, 64, 56, 56))
    assert searched[1].forward_bytes == 4 * (image + image), "input and output together"
    rest = searched[1].backward_bytes - searched[1].forward_bytes
    assert 0 <= rest <= MIB, "of the block that it lay in, too small to split off"
    assert [one.workspace_bytes for one in searched if "kernel 1x1" in one.shape] == [0, 0]
    matmuls = [(op.flops, seconds) for op, seconds in found.op_times if op.name == "mm"]
    assert [flops for flops, _ in matmuls] == 2 * [2 * 1024**3, 2 * 4096**3]
    assert all(large > 32 * small for (_, small), (_, large) in (matmuls[:2], matmuls[2:]))
    assert found.host_op_s
