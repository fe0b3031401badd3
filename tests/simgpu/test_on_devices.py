"""The whole of it: a process of a CUDA torch on the simulated devices."""

import json

from gpu_environment import SimulatedGpu, on_both_torches

from simgpu.environment import Environment

SEES = """
import json, torch
torch.ones(4, device="cuda").sum()
torch.cuda.synchronize()
names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps({"names": names, "free": torch.cuda.mem_get_info()[0]}))
"""


@on_both_torches
def test_the_sources_compile_without_a_warning(gpu_torch: Environment) -> None:
    assert gpu_torch.built.warnings == ""


@on_both_torches
def test_torch_sees_the_devices_and_they_work(simulated_gpu: SimulatedGpu) -> None:
    done = simulated_gpu.run(["-c", SEES], "t4,a10g", more={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["names"] == ["Tesla T4", "NVIDIA A10G"]
    assert {work.device for work in simulated_gpu.trace()} == {0}
