"""An installed build of torch: which CUDA it is for, and every function that it wants of CUDA's libraries."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from simgpu.elf import ElfFile, Wanted
from simgpu.errors import SimgpuError

_BY_NAME = r"cu(?!FFT|File|DNN|BLAS)[A-Z][A-Za-z0-9_]*[a-z][A-Za-z0-9_]*|nvml[A-Z][A-Za-z0-9_]+"
"""Constants that name functions of the driver or of NVML, looked up while torch runs."""
_IN_TRITON = re.compile(r"\bcu(?!da)[A-Z]\w+(?<!_t)(?<!Handle)\b")


@dataclass(frozen=True)
class TorchBuild:
    """A torch in a folder of packages, looked at without importing it."""

    site_packages: Path
    version: str
    """With the local part: 2.8.0+cu128."""
    cuda_version: tuple[int, int]

    @classmethod
    def find(cls, site_packages: Path | None) -> "TorchBuild":
        """The torch of a folder of packages, or of this process's own when none is named.

        Raises:
            SimgpuError: There is none, or it is no CUDA build.
        """
        folder = site_packages or _own_site_packages()
        try:
            text = (folder / "torch" / "version.py").read_text(encoding="utf-8")
        except OSError as error:
            raise SimgpuError(
                f"there is no torch in {folder}; make an environment with one: python -m simgpu environment"
            ) from error
        version = _assigned(text, "__version__")
        cuda = _assigned(text, "cuda")
        numbers = re.match(r"(\d+)\.(\d+)", cuda or "")
        if version is None or numbers is None:
            raise SimgpuError(
                f"torch {version} in {folder} is built without CUDA; the simulation needs a CUDA build. "
                "Make an environment with one: python -m simgpu environment"
            )
        return cls(folder, version, (int(numbers[1]), int(numbers[2])))

    @property
    def libraries(self) -> list[Path]:
        """The shared libraries that the wheel brings."""
        return sorted((self.site_packages / "torch" / "lib").glob("*.so*"))

    def identity(self) -> str:
        """What tells this build from another one: its version, and its libraries' names and sizes."""
        sizes = ",".join(f"{path.name}:{path.stat().st_size}" for path in self.libraries)
        return f"{self.version} {sizes}"

    def foreign_libraries(self) -> list[Path]:
        """CUDA libraries of NVIDIA's wheels, which torch's search path has before LD_LIBRARY_PATH."""
        return sorted(self.site_packages.glob("nvidia/*/lib/lib*.so*"))

    @cached_property
    def wants(self) -> "Wants":
        """Every function that it wants of libraries that it does not bring."""
        needed: set[str] = set()
        wanted: set[Wanted] = set()
        by_name: set[str] = set()
        brought: set[str] = set()
        for path in self.libraries:
            with ElfFile(path) as library:
                needed.update(library.needed())
                wanted.update(library.wanted())
                by_name |= library.literals(_BY_NAME)
                if "GOMP" not in path.name:
                    brought |= library.defined()
        by_name.update(self._triton_names())
        own = {path.name for path in self.libraries}
        return Wants(
            sonames=frozenset(needed - own),
            versioned=_by_library(wanted),
            plain=frozenset({one.name for one in wanted if one.version is None} - brought) | by_name,
        )

    def _triton_names(self) -> Iterator[str]:
        """Functions of the driver that Triton's launchers call: C sources, compiled when a kernel is."""
        for path in self.site_packages.glob("triton/backends/nvidia/driver.*"):
            yield from _IN_TRITON.findall(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Wants:
    """What a torch wants of libraries that it does not bring."""

    sonames: frozenset[str]
    """Those it is linked with, the system's own among them."""
    versioned: Mapping[str, Mapping[str, frozenset[str]]]
    """Soname -> version -> names."""
    plain: frozenset[str]
    """Names without a version, or looked up by name while it runs: of which library, their beginning says."""


def _by_library(wanted: set[Wanted]) -> dict[str, dict[str, frozenset[str]]]:
    found: dict[str, dict[str, frozenset[str]]] = {}
    for one in wanted:
        if one.library is not None and one.version is not None:
            versions = found.setdefault(one.library, {})
            versions[one.version] = versions.get(one.version, frozenset()) | {one.name}
    return found


def _assigned(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}(?::[^=]*)? = '([^']*)'", text, re.MULTILINE)
    return match[1] if match else None


def _own_site_packages() -> Path:
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise SimgpuError(
            "this Python has no torch; name the folder of packages that has one: --torch SITE_PACKAGES"
        )
    return Path(found.origin).parent.parent
