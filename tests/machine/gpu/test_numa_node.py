from pathlib import Path

import pytest

from tunekit.machine.gpu.visible import numa_node


def device(root: Path, address: str, node: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(node, encoding="ascii")


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:AB:00.0", "0000:ab:00.0"),
        ("0000:ab:00.0", "0000:ab:00.0"),
        ("00010000:07:00.0", "10000:07:00.0"),
    ],
)
def test_a_bus_id_is_looked_up_as_the_kernel_writes_it(tmp_path: Path, bus_id: str, address: str) -> None:
    device(tmp_path, address, "1\n")
    device(tmp_path, "0000:01:00.0", "0\n")
    assert numa_node(bus_id, tmp_path) == 1


@pytest.mark.parametrize("text", ["-1\n", "", "what\n"])
def test_a_node_that_the_kernel_does_not_know_is_none(tmp_path: Path, text: str) -> None:
    device(tmp_path, "0000:ab:00.0", text)
    assert numa_node("00000000:AB:00.0", tmp_path) is None


@pytest.mark.parametrize("bus_id", ["00000000:AB:00.0", "../../0000:ab:00.0"])
def test_a_device_that_the_kernel_does_not_list_has_no_node(tmp_path: Path, bus_id: str) -> None:
    assert numa_node(bus_id, tmp_path) is None
