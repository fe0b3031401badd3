"""Making environments: with a real venv and a real pip, which finds a tiny torch in a folder."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from simgpu.environment import make_environment
from simgpu.errors import SimgpuError


def wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: str = "") -> None:
    """A wheel as an index has it."""
    info = f"{name}-{version}.dist-info"
    requirement = f"Requires-Dist: {requires}\n" if requires else ""
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},"
        f"{len(text)}\n"
        for path, text in contents.items()
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)


def torch_wheel(folder: Path, version: str, cuda: str | None, requires: str = "") -> None:
    text = f"from typing import Optional\n__version__ = '{version}+made'\ncuda: Optional[str] = {cuda!r}\n"
    wheel(folder, "torch", version, {"torch/__init__.py": "", "torch/version.py": text}, requires)


class Folders(NamedTuple):
    index: Path
    over: Path
    environments: Path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    folders = Folders(*(tmp_path / name for name in Folders._fields))
    for folder in folders[:2]:
        folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folders.index))
    return folders


def make(folders: Folders, version: str, said: list[str]) -> Path:
    folder = make_environment(version, over=folders.over, environments=folders.environments, say=said.append)
    return folder / "bin" / "python"


def test_an_environment_has_this_torch_its_triton_and_the_packages_below(folders: Folders) -> None:
    torch_wheel(folders.index, "9.1.0", "12.8", 'triton==3.4.0; platform_system == "Linux"')
    wheel(folders.index, "triton", "3.4.0", {"triton/__init__.py": "here = True\n"})
    (folders.over / "below.py").write_text("found = True\n")
    (folders.over / "torch").mkdir()  # another torch below is hidden
    (folders.over / "torch" / "__init__.py").write_text("raise ImportError\n")
    (folders.over / "in_place.pth").write_text(f"{folders.over / 'elsewhere'}\n")
    (folders.over / "elsewhere").mkdir()
    (folders.over / "elsewhere" / "editable.py").touch()
    said: list[str] = []
    python = make(folders, "9.1.0", said)
    code = (
        "import sys, torch.version, triton, below, editable; print(torch.version.__version__, sys.hexversion)"
    )
    assert subprocess.check_output([python, "-c", code], text=True) == f"9.1.0+made {sys.hexversion}\n"
    assert any("downloading torch 9.1.0" in line for line in said)
    site = python.parents[1] / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    assert list(site.glob("torch/__pycache__/version.*.pyc"))
    assert not list(folders.environments.glob(".wheels*"))
    again: list[str] = []
    assert make(folders, "9.1.0", again) == python
    assert not any("downloading" in line for line in again)


def test_a_second_try_uses_the_wheel_of_the_first_though_pip_would_refuse_it(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_wheel(folders.index, "9.1.0", "12.8", "triton==3.4.0")
    with pytest.raises(SimgpuError, match=r"triton==3\.4\.0"):
        make(folders, "9.1.0", [])
    assert not (folders.environments / "9.1.0").exists()
    wheel(folders.index, "triton", "3.4.0", {"triton/__init__.py": ""})
    (folders.index / "torch-9.1.0-py3-none-any.whl").unlink()
    (folders.index / "constraints.txt").write_text("torch<9\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(folders.index / "constraints.txt"))
    said: list[str] = []
    assert make(folders, "9.1.0", said).exists()
    assert not any("downloading" in line for line in said)


def test_a_torch_without_cuda_is_refused(folders: Folders) -> None:
    torch_wheel(folders.index, "9.1.0", None)
    with pytest.raises(SimgpuError, match="without CUDA"):
        make(folders, "9.1.0", [])
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]


def test_a_constraint_of_the_machine_decides_what_is_downloaded(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_wheel(folders.index, "9.1.0", "12.8")
    (folders.index / "constraints.txt").write_text("torch<9\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(folders.index / "constraints.txt"))
    with pytest.raises(SimgpuError, match=r"torch==9\.1\.0"):
        make(folders, "9.1.0", [])
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]


def test_without_room_nothing_is_begun(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage("/")._replace(free=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(SimgpuError, match=r"takes 3\.2 GiB .* has 1\.0 GiB free"):
        make(folders, "2.8.0", [])
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]
