"""Building the libraries for a torch: small ones that the compiler makes here, and sources of a few lines."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from simgpu.build import Built, build
from simgpu.errors import SimgpuError
from simgpu.torch_build import TorchBuild

CORE = "int sim_missing(const char *name, int code);\n"
COMMON = '#include "core.h"\nint sim_missing(const char *name, int code) { return code; }\n'
CUDART = '#include "core.h"\nint cudaMalloc(void **at, unsigned long bytes) { return CUDA_MAJOR; }\n'


@dataclass(frozen=True)
class Wheel:
    """A folder of packages with a torch of one library, linked with others as torch is with CUDA's."""

    site: Path

    @classmethod
    def make(
        cls, site: Path, cuda: str | None, links: Mapping[str, tuple[str | None, Sequence[str]]]
    ) -> "Wheel":
        """`links`: soname -> the version of its functions, and those that torch calls."""
        library = site / "torch" / "lib" / "libtorch_cuda.so"
        library.parent.mkdir(parents=True)
        (site / "torch" / "version.py").write_text(
            f"__version__ = '9.1.0+made'\ndebug = False\ncuda: Optional[str] = {cuda!r}\n"
        )
        others = [_link(site / soname, version, names) for soname, (version, names) in links.items()]
        called = [name for _, names in links.values() for name in names]
        declared = "".join(f"int {name}(void);\n" for name in called)
        body = f"int run(void) {{ return {' + '.join(f'{name}()' for name in called) or '0'}; }}\n"
        looked_up = 'const char *by_name[] = {"cuMemCreate", "nvmlInit_v2", "no function"};\n'
        _compile(library, declared + body + looked_up, *map(str, others))
        return cls(site)

    @property
    def torch(self) -> TorchBuild:
        return TorchBuild.find(self.site)


def _link(path: Path, version: str | None, names: Sequence[str]) -> Path:
    script = path.with_suffix(".map")
    script.write_text(f"{version} {{ global: *; }};\n")
    versioned = [f"-Wl,--version-script={script}"] if version else []
    source = "".join(f"int {name}(void) {{ return 0; }}\n" for name in names)
    return _compile(path, source, f"-Wl,-soname,{path.name}", *versioned)


def _compile(path: Path, source: str, *flags: str) -> Path:
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path, *flags],
                   input=source, text=True, check=True)  # fmt: skip
    return path


CUDA_12 = {
    "libcudart.so.12": ("libcudart.so.12", ["cudaMalloc", "cudaGetDeviceCount"]),
    "libcusparse.so.12": ("libcusparse.so.12", ["cusparseCreate"]),
    "libnccl.so.2": (None, ["ncclAllReduce"]),
    "libcufile.so.0": (None, ["cuFileRead"]),
}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    for name, text in {"core.h": CORE, "faults.c": COMMON, "cudart.c": CUDART}.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def wheel(tmp_path: Path) -> Wheel:
    return Wheel.make(tmp_path / "site", "12.8", CUDA_12)


def built(wheel: Wheel, sources: Path) -> Built:
    return build(wheel.torch, sources=sources, builds=sources.parent / "builds")


def test_wanted_functions_without_an_implementation_are_named(wheel: Wheel, sources: Path) -> None:
    made = built(wheel, sources)
    assert made.implemented["libcudart.so.12"] == 1
    assert made.missing["libcudart.so.12"] == ["cudaGetDeviceCount"]


def test_torch_itself_loads_and_what_is_missing_answers_not_supported(wheel: Wheel, sources: Path) -> None:
    """The loader finds every symbol with the version that torch asks for."""
    made = built(wheel, sources)
    library = wheel.site / "torch" / "lib" / "libtorch_cuda.so"
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL).run())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(made.libraries), "LD_BIND_NOW": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert int(done.stdout) == 12 + 801 + 10 + 3 - 5007


def test_the_generation_of_cuda_decides_the_sonames(tmp_path: Path, sources: Path) -> None:
    links = {"libcudart.so.13": ("libcudart.so.13", ["cudaMalloc"])}
    made = built(Wheel.make(tmp_path / "site", "13.2", links), sources)
    assert made.cuda == "13.2"
    assert (made.libraries / "libcudart.so.13").exists()


def test_a_build_is_found_again_until_a_source_changes(wheel: Wheel, sources: Path) -> None:
    first = built(wheel, sources)
    made_at = (first.libraries / "libsimgpu.so").stat().st_mtime_ns
    again = built(wheel, sources)
    assert (again.folder, (again.libraries / "libsimgpu.so").stat().st_mtime_ns) == (first.folder, made_at)
    (sources / "core.h").write_text(CORE + "/* changed */\n")
    assert built(wheel, sources).folder != first.folder


def test_a_source_that_is_refused_leaves_nothing(wheel: Wheel, sources: Path) -> None:
    (sources / "cudart.c").write_text("int cudaMalloc(void) { return nothing; }\n")
    with pytest.raises(SimgpuError, match="nothing"):
        built(wheel, sources)
    assert [path.name for path in (sources.parent / "builds").iterdir()] == [".lock"]


def test_an_unknown_generation_is_named_with_what_it_wants(tmp_path: Path, sources: Path) -> None:
    links = {"libcudart.so.14": ("libcudart.so.14", ["cudaMalloc"])}
    with pytest.raises(SimgpuError, match=r"CUDA 14.* knows 12 and 13.* libcudart\.so\.14"):
        built(Wheel.make(tmp_path / "site", "14.0", links), sources)


def test_nvidias_own_libraries_in_the_way_are_named(wheel: Wheel, sources: Path) -> None:
    foreign = wheel.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    with pytest.raises(SimgpuError, match=r"libcublas\.so\.12.*finds before"):
        built(wheel, sources)
