"""Building the libraries for a torch: small ones that the compiler makes here, and sources of a few lines."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import simgpu.build
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


def answer(made: Built, soname: str, function: str) -> int:
    """What a function answers, in a process of its own, as a signed number of 64 bits."""
    library = str(made.libraries / soname)
    code = f"import ctypes as c; f = c.CDLL({library!r}).{function}; f.restype = c.c_int64; print(f())"
    said = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    return int(said.stdout)


def test_every_wanted_function_is_there_and_the_rest_answers_not_supported(
    wheel: Wheel, sources: Path
) -> None:
    made = built(wheel, sources)
    assert made.implemented["libcudart.so.12"] == 1
    assert made.missing["libcudart.so.12"] == ["cudaGetDeviceCount"]
    assert answer(made, "libcudart.so.12", "cudaGetDeviceCount") == 801
    assert answer(made, "libcusparse.so.12", "cusparseCreate") == 10
    assert answer(made, "libnccl.so.2", "ncclAllReduce") == 3


def test_what_torch_looks_up_by_name_is_there(wheel: Wheel, sources: Path) -> None:
    made = built(wheel, sources)
    assert answer(made, "libcuda.so.1", "cuMemCreate") == 801
    assert answer(made, "libnvidia-ml.so.1", "nvmlInit_v2") == 3
    assert ctypes.CDLL(str(made.libraries / "libcuda.so"))  # what Triton links with


def test_a_read_that_is_not_supported_is_no_byte_count(wheel: Wheel, sources: Path) -> None:
    assert answer(built(wheel, sources), "libcufile.so.0", "cuFileRead") < 0


def test_torch_itself_loads_with_the_libraries(wheel: Wheel, sources: Path) -> None:
    """The loader finds every symbol with the version that torch asks for."""
    made = built(wheel, sources)
    library = wheel.site / "torch" / "lib" / "libtorch_cuda.so"
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL).run())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(made.libraries), "LD_BIND_NOW": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert int(done.stdout) == 12 + 801 + 10 + 3 - 5007


def test_libraries_that_torch_asks_nothing_of_are_not_made(wheel: Wheel, sources: Path) -> None:
    made = built(wheel, sources)
    assert not (made.libraries / "libcudnn.so.9").exists()
    assert not (made.libraries / "libnvshmem_host.so.3").exists()


def test_the_generation_of_cuda_decides_the_sonames(tmp_path: Path, sources: Path) -> None:
    links = {"libcudart.so.13": ("libcudart.so.13", ["cudaMalloc"])}
    made = built(Wheel.make(tmp_path / "site", "13.2", links), sources)
    assert made.cuda == "13.2"
    assert answer(made, "libcudart.so.13", "cudaMalloc") == 13


def test_a_build_is_found_again_until_a_source_changes(wheel: Wheel, sources: Path) -> None:
    first = built(wheel, sources)
    made_at = (first.libraries / "libsimgpu.so").stat().st_mtime_ns
    again = built(wheel, sources)
    assert (again.folder, (again.libraries / "libsimgpu.so").stat().st_mtime_ns) == (first.folder, made_at)
    (sources / "core.h").write_text(CORE + "/* changed */\n")
    assert built(wheel, sources).folder != first.folder


def test_builds_at_once_make_one(wheel: Wheel, sources: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: built(wheel, sources), range(3)))
    assert len({one.folder for one in made}) == 1
    assert [path.name for path in made[0].folder.parent.iterdir() if not path.name.startswith(".lock")] == [
        made[0].folder.name
    ]


def test_what_the_compiler_warns_of_is_kept(wheel: Wheel, sources: Path) -> None:
    (sources / "faults.c").write_text(COMMON + "static int unused;\n")
    assert "unused" in built(wheel, sources).warnings


def test_a_source_that_is_refused_leaves_nothing(wheel: Wheel, sources: Path) -> None:
    (sources / "cudart.c").write_text("int cudaMalloc(void) { return nothing; }\n")
    with pytest.raises(SimgpuError, match="nothing"):
        built(wheel, sources)
    assert [path.name for path in (sources.parent / "builds").iterdir()] == [".lock"]


def test_a_function_that_no_library_gives_fails_when_linked(wheel: Wheel, sources: Path) -> None:
    (sources / "cudart.c").write_text(
        "int sim_absent(void);\nint cudaMalloc(void) { return sim_absent(); }\n"
    )
    with pytest.raises(SimgpuError, match="sim_absent"):
        built(wheel, sources)


def test_an_unknown_library_is_named_with_its_functions(tmp_path: Path, sources: Path) -> None:
    links = {**CUDA_12, "libcuquantum.so.1": ("libcuquantum.so.1", ["cuquantumB", "cuquantumA"])}
    with pytest.raises(SimgpuError, match=r"libcuquantum\.so\.1 \(2 functions: cuquantumA, cuquantumB\)"):
        built(Wheel.make(tmp_path / "site", "12.8", links), sources)


def test_an_unknown_generation_is_named_with_what_it_wants(tmp_path: Path, sources: Path) -> None:
    links = {"libcudart.so.14": ("libcudart.so.14", ["cudaMalloc"])}
    with pytest.raises(SimgpuError, match=r"CUDA 14.* knows 12 and 13.* libcudart\.so\.14"):
        built(Wheel.make(tmp_path / "site", "14.0", links), sources)


def test_an_unknown_soname_of_a_known_generation_is_named(tmp_path: Path, sources: Path) -> None:
    links = {"libcudart.so.13": ("libcudart.so.13", ["cudaMalloc"])}
    with pytest.raises(SimgpuError, match=r"libcudart\.so\.13 \(1 functions: cudaMalloc\)"):
        built(Wheel.make(tmp_path / "site", "12.8", links), sources)


def test_a_torch_without_cuda_is_told_what_to_install(tmp_path: Path, sources: Path) -> None:
    wheel = Wheel.make(tmp_path / "site", None, {})
    with pytest.raises(SimgpuError, match=r"without CUDA.*python -m simgpu environment"):
        built(wheel, sources)


def test_a_folder_without_torch_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimgpuError, match=str(tmp_path)):
        TorchBuild.find(tmp_path)


def test_nvidias_own_libraries_in_the_way_are_named(wheel: Wheel, sources: Path) -> None:
    foreign = wheel.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    with pytest.raises(SimgpuError, match=r"libcublas\.so\.12.*finds before"):
        built(wheel, sources)


def test_without_a_compiler_the_remedy_is_said(
    wheel: Wheel, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simgpu.build, "COMPILER", "no-such-compiler")
    with pytest.raises(SimgpuError, match="apt-get install gcc"):
        built(wheel, sources)


def test_every_library_of_the_table_has_a_soname_for_each_generation() -> None:
    for library in simgpu.build.LIBRARIES:
        names = {library.soname(major) for major in simgpu.build.CUDA_MAJORS}
        assert len(names) == len(library.sonames)


def test_a_source_that_changes_while_it_is_compiled_is_compiled_again(
    wheel: Wheel, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call of this compiler changes a source behind its own back."""
    changed, compiler = tmp_path / "changed", tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ngcc "$@" || exit\ncase "$*" in *cudart.o) [ -e {changed} ] || '
        f"{{ touch {changed}; sed -i 's/return CUDA_MAJOR/return 99/' {sources}/cudart.c; }} ;; esac\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setattr(simgpu.build, "COMPILER", str(compiler))
    made = built(wheel, sources)
    assert changed.exists()
    assert answer(made, "libcudart.so.12", "cudaMalloc") == 99
    assert built(wheel, sources).folder == made.folder
    assert [path.name for path in made.folder.parent.iterdir() if path.is_dir()] == [made.folder.name]
