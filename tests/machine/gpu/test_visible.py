from machine.scripted_nvml import torch_with as build
from machine.shipped import PROFILES

from tunekit.machine.gpu.visible import merged
from tunekit.records.host import Accelerator, TorchDevice
from tunekit.units import GIB

RAM = 64 * GIB


def gpu(index: int, name: str = "NVIDIA L4", uuid: str | None = None, **fields: object) -> Accelerator:
    known = {"memory_bytes": 22 * GIB, "compute_capability": "8.9", "driver": "550.54", "profile_id": "l4"}
    return Accelerator.model_validate({"index": index, "name": name, "uuid": uuid, **known, **fields})


def seen(name: str = "NVIDIA L4", uuid: str | None = None, **fields: object) -> TorchDevice:
    known = {"type": "cuda", "memory_bytes": 21 * GIB, "compute_capability": "8.9"}
    return TorchDevice.model_validate({"name": name, "uuid": uuid, **known, **fields})


def test_who_did_not_ask_torch_keeps_the_drivers_answer() -> None:
    gpus = (gpu(0), gpu(1))
    assert merged(gpus, None, PROFILES, RAM) == gpus
    assert merged(gpus, build(), PROFILES, RAM) == gpus
    assert merged((), None, PROFILES, RAM) == ()


def test_gpus_are_matched_by_uuid_whatever_the_order() -> None:
    gpus = (gpu(0, uuid="GPU-AAAA-1"), gpu(1, uuid="GPU-bbbb-2"))
    found = merged(gpus, build(seen(uuid="bbbb-2"), seen(uuid="aaaa-1")), PROFILES, RAM)
    assert [(one.index, one.seen_by) for one in found] == [(0, ("nvml", "torch")), (1, ("nvml", "torch"))]
    assert found[0].memory_bytes == 22 * GIB


def test_without_uuids_the_name_and_the_order_tell() -> None:
    gpus = (gpu(0), gpu(1, "NVIDIA H200"), gpu(2))
    found = merged(gpus, build(seen(), seen("nvidia h200")), PROFILES, RAM)
    assert [one.seen_by for one in found] == [("nvml", "torch"), ("nvml", "torch"), ("nvml",)]


def test_a_partition_is_matched_though_torch_tells_the_whole_gpus_uuid() -> None:
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    partition = gpu(0, name, "MIG-x", is_partition=True)
    (found,) = merged((partition,), build(seen(name, "whole")), PROFILES, RAM)
    assert (found.uuid, found.seen_by) == ("MIG-x", ("nvml", "torch"))


def test_beside_a_broken_driver_library_torch_tells_the_gpus() -> None:
    found = merged((), build(seen(uuid="a"), seen("NVIDIA H200", "b")), PROFILES, RAM)
    assert [(one.index, one.profile_id, one.driver, one.seen_by) for one in found] == [
        (0, "l4", None, ("torch",)),
        (1, "h200", None, ("torch",)),
    ]
    assert found[0].memory_bytes == 21 * GIB


def test_an_apple_gpu_has_the_machines_memory() -> None:
    apple = seen("Apple M2", type="mps", memory_bytes=None, compute_capability=None)
    (found,) = merged((), build(apple), PROFILES, RAM)
    assert (found.name, found.memory_bytes, found.profile_id) == ("Apple M2", RAM, "mps-m2")
