"""Making environments: with a real venv and a real pip, which finds a tiny torch in a folder."""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from simgpu.environment import KNOWN_TORCH, find_environment, make_environment
from simgpu.errors import NoEnvironmentError, SimgpuError


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
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folders.index))
    return folders


def make(folders: Folders, version: str, said: list[str] | None = None) -> Path:
    lines: list[str] = [] if said is None else said
    folder = make_environment(version, over=folders.over, environments=folders.environments, say=lines.append)
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


def test_a_version_that_the_index_lacks_leaves_nothing(folders: Folders) -> None:
    with pytest.raises(SimgpuError, match=r"torch==9\.9\.9"):
        make(folders, "9.9.9")
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]


def test_a_second_try_uses_the_wheel_of_the_first(folders: Folders) -> None:
    torch_wheel(folders.index, "9.1.0", "12.8", "triton==3.4.0")
    with pytest.raises(SimgpuError, match=r"triton==3\.4\.0"):
        make(folders, "9.1.0")
    assert not (folders.environments / "9.1.0").exists()
    wheel(folders.index, "triton", "3.4.0", {"triton/__init__.py": ""})
    (folders.index / "torch-9.1.0-py3-none-any.whl").unlink()
    said: list[str] = []
    assert make(folders, "9.1.0", said).exists()
    assert not any("downloading" in line for line in said)


def test_an_unfinished_environment_is_made_anew(folders: Folders) -> None:
    torch_wheel(folders.index, "9.1.0", "12.8")
    (folders.environments / "9.1.0" / "bin").mkdir(parents=True)
    (folders.environments / "9.1.0" / "bin" / "python").touch()
    with pytest.raises(NoEnvironmentError):
        find_environment("9.1.0", folders.environments)
    assert subprocess.check_output([make(folders, "9.1.0"), "-c", "print(1)"], text=True) == "1\n"


def test_a_torch_without_cuda_is_refused(folders: Folders) -> None:
    torch_wheel(folders.index, "9.1.0", None)
    with pytest.raises(SimgpuError, match="without CUDA"):
        make(folders, "9.1.0")
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]


def test_without_room_nothing_is_begun(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage("/")._replace(free=2**30)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(SimgpuError, match=r"takes 3\.0 GiB .* has 1\.0 GiB free"):
        make(folders, "2.8.0")
    assert [path.name for path in folders.environments.iterdir()] == [".lock"]


@pytest.mark.parametrize("version", ["", "newest", "../2.8.0", "2.8.0; rm", "==2.8.0"])
def test_what_is_no_version_is_refused(folders: Folders, version: str) -> None:
    with pytest.raises(SimgpuError, match=re.escape(f"got '{version}'")):
        make(folders, version)
    assert not folders.environments.exists()


def test_without_an_environment_the_command_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironmentError, match=r"python -m simgpu environment --torch 2\.8\.0"):
        find_environment("2.8.0", tmp_path)


def test_both_generations_of_cuda_are_checked() -> None:
    assert {known.cuda.partition(".")[0] for known in KNOWN_TORCH.values()} == {"12", "13"}


def test_an_interpreter_that_is_none_is_named(folders: Folders) -> None:
    with pytest.raises(SimgpuError, match="no-python"):
        make_environment("9.1.0", python=Path("/no-python"), environments=folders.environments)
