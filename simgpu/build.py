"""Building the simulated libraries for one torch: `python -m simgpu build`.

What torch wants is read from its own libraries, and what the sources in `src` lack of it is generated: a
function that says its name once and answers that library's "not supported". So every torch finds every
symbol, and a torch that can't be served fails here, with names. Needs gcc and nothing of NVIDIA's.
"""

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from simgpu.elf import ElfFile
from simgpu.errors import SimgpuError
from simgpu.torch_build import TorchBuild, Wants

HOME = Path(__file__).parent
SOURCES = HOME / "src"
BUILDS = HOME / "build"
COMPILER = "gcc"
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter")
COMMON = "libsimgpu.so"
"""The part that all libraries share: every source that no library of the table claims."""
CUDA_MAJORS = (12, 13)
_AT_ONCE = 2


@dataclass(frozen=True)
class Library:
    """A library of NVIDIA's that is stood in for."""

    sonames: tuple[str, ...]
    """By CUDA major, in the order of CUDA_MAJORS; a single one when they are alike."""
    not_supported: int
    """What a function without an implementation answers: "not supported", or the nearest that there is."""
    sources: str | None = None
    """Pattern of the files in `src` that implement it."""
    names: str | None = None
    """Pattern of its functions, where torch asks for them without a version or by name."""

    def soname(self, cuda_major: int) -> str:
        """Its name for one generation of CUDA."""
        return self.sonames[CUDA_MAJORS.index(cuda_major) if len(self.sonames) > 1 else 0]


LIBRARIES = (
    Library(("libcuda.so.1",), 801, "driver*.c", r"cu(?!File)[A-Z]\w+"),
    Library(("libcudart.so.12", "libcudart.so.13"), 801, "cudart*.c"),
    Library(("libcublas.so.12", "libcublas.so.13"), 15, "blas*.c"),
    Library(("libcublasLt.so.12", "libcublasLt.so.13"), 15, "blas*.c"),
    Library(("libcudnn.so.9",), 3000, "cudnn*.c"),
    Library(("libnvidia-ml.so.1",), 3, "nvml*.c", r"nvml[A-Z]\w+"),
    Library(("libcupti.so.12", "libcupti.so.13"), 27, "cupti*.c"),
    Library(("libnccl.so.2",), 3, "nccl*.c", r"p?nccl[A-Z]\w+"),
    Library(("libnvrtc.so.12", "libnvrtc.so.13"), 11, "nvrtc*.c"),
    Library(("libcusolver.so.11", "libcusolver.so.12"), 9, "cusolver*.c"),
    Library(("libcusparse.so.12",), 10, "cusparse*.c"),
    Library(("libcufft.so.11", "libcufft.so.12"), 16, "cufft*.c"),
    Library(("libcurand.so.10",), 999, "curand*.c"),
    Library(("libcusparseLt.so.0",), 10, None, r"cusparseLt\w+"),
    # Reads and writes answer a byte count, so that only a negative number is an error for all functions.
    Library(("libcufile.so.0",), -5007, None, r"cuFile\w+"),
    Library(("libnvshmem_host.so.3",), 3, None, r"nvshmemx?_\w+"),
    Library(("libnvToolsExt.so.1",), -1, None, r"nvtx\w+"),
)

_SYSTEM = re.compile(
    r"lib(c|m|dl|rt|pthread|z|util|gcc_s|stdc\+\+|gomp|numa|quadmath|gfortran)(-[0-9a-f]+)?\.so[.\d]*|ld-linux.*|"
    r"lib(c10|torch|shm|caffe2).*"
)
"""What torch is linked with that is not NVIDIA's."""
_TEXT_ANSWER = re.compile(r".*Errors?String|.*ErrorName|ncclGetLastError")
"""Functions that answer a text, not a code."""


@dataclass(frozen=True)
class Built:
    """The libraries that were built for one torch."""

    folder: Path
    torch: str
    cuda: str
    implemented: Mapping[str, int]
    """By soname, how many of the wanted functions have an implementation."""
    missing: Mapping[str, Sequence[str]]
    """By soname, the wanted functions without one."""
    warnings: str
    """What the compiler said of the sources."""
    seconds: float

    @property
    def libraries(self) -> Path:
        """What LD_LIBRARY_PATH is to begin with."""
        return self.folder / "lib"


def build(torch: TorchBuild, *, sources: Path = SOURCES, builds: Path = BUILDS) -> Built:
    """Build the libraries for this torch, or find them built.

    Raises:
        SimgpuError: There is no compiler, it refuses a source, or this torch wants an unknown library.
    """
    _check_foreign(torch)
    folder = builds / _key(torch, sources)
    if (folder / "built.json").exists():
        return _read(folder)
    _check_generation(torch)
    builds.mkdir(parents=True, exist_ok=True)
    with locked(builds / ".lock"):
        while not (folder / "built.json").exists():
            _build_into(folder, torch, sources)
            if (now := builds / _key(torch, sources)) != folder:
                shutil.rmtree(folder)  # a source was changed while it was compiled
                folder = now
    return _read(folder)


def wanted_of(library: Library, wants: Wants, cuda_major: int) -> tuple[frozenset[str], str | None]:
    """The functions that torch wants of a library, and the version that it asks for.

    Raises:
        SimgpuError: It asks for two versions, which one version script can't give.
    """
    soname = library.soname(cuda_major)
    versions = wants.versioned.get(soname, {})
    if len(versions) > 1:
        raise SimgpuError(f"torch asks {soname} for the versions {', '.join(sorted(versions))}; one is known")
    plain = {name for name in wants.plain if library.names and re.fullmatch(library.names, name)}
    version = next(iter(versions), None)
    return (versions[version] if version else frozenset()) | plain, version


def unknown_libraries(wants: Wants, cuda_major: int) -> dict[str, frozenset[str]]:
    """What torch is linked with and the table doesn't have, with the functions that it wants of it.

    There are none where torch asks for them without a version, as then nothing says whose they are.
    """
    known = {library.soname(cuda_major) for library in LIBRARIES}
    strangers = {name for name in wants.sonames if name not in known and not _SYSTEM.fullmatch(name)}
    return {
        name: frozenset().union(*wants.versioned.get(name, {}).values())
        for name in sorted(strangers)
    }  # fmt: skip


def _check_generation(torch: TorchBuild) -> None:
    major = torch.cuda_version[0]
    if major not in CUDA_MAJORS:
        sonames = sorted(name for name in torch.wants.sonames if not _SYSTEM.fullmatch(name))
        raise SimgpuError(
            f"torch {torch.version} is built for CUDA {major}, and simgpu knows "
            f"{' and '.join(map(str, CUDA_MAJORS))}. It wants {', '.join(sonames)}"
        )
    if unknown := unknown_libraries(torch.wants, major):
        said = "; ".join(
            f"{name} ({len(names)} functions: {', '.join(sorted(names)) or 'without versions'})"
            for name, names in unknown.items()
        )
        raise SimgpuError(
            f"torch {torch.version} is linked with libraries that simgpu doesn't know: {said}. "
            f"Add them to LIBRARIES in {HOME / 'build.py'}"
        )


def _check_foreign(torch: TorchBuild) -> None:
    if foreign := torch.foreign_libraries():
        raise SimgpuError(
            f"{torch.site_packages / 'nvidia'} holds NVIDIA's own libraries ({foreign[0].name}, ...), which "
            "torch finds before any others; make an environment without them: "
            f"python -m simgpu environment --torch {torch.version.partition('+')[0]}"
        )


def _key(torch: TorchBuild, sources: Path) -> str:
    """Names a build by all that goes into it."""
    content = hashlib.sha256(f"{torch.identity()}\n{_compiler_version()}\n{FLAGS}\n".encode())
    for path in [
        *sorted(sources.rglob("*.[ch]")),
        HOME / "build.py",
        HOME / "torch_build.py",
        HOME / "elf.py",
    ]:
        content.update(f"{path.name}\n".encode())
        content.update(path.read_bytes())
    return f"{torch.version.partition('+')[0]}-{content.hexdigest()[:16]}"


def _compiler_version() -> str:
    try:
        said = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SimgpuError(
            f"the libraries are compiled with {COMPILER}, which can't be run ({error}); "
            "install it: apt-get install gcc libc6-dev"
        ) from error
    return said.stdout.partition("\n")[0]


@contextmanager
def locked(path: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """One process at a time, which `waits` tells who has to; the kernel drops the lock with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_into(folder: Path, torch: TorchBuild, sources: Path) -> None:
    begin = time.monotonic()
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder.parent))
    try:
        work = _Work(torch, sources, partial)
        work.build_all()
        # Where libsimgpu.so looks for devices when SIMGPU_DEVICES doesn't say: beside the folder it lies in.
        (partial / "devices").symlink_to(HOME / "devices")
        shutil.rmtree(work.objects)
        built = Built(
            folder,
            torch=torch.version,
            cuda="{}.{}".format(*torch.cuda_version),
            implemented=work.implemented,
            missing=work.missing,
            warnings="".join(work.warnings),
            seconds=round(time.monotonic() - begin, 2),
        )
        (partial / "built.json").write_text(json.dumps({**asdict(built), "folder": None}, indent=1))
        partial.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _read(folder: Path) -> Built:
    return Built(**{**json.loads((folder / "built.json").read_text()), "folder": folder})


class _Work:
    """One build: sources to objects, objects and generated functions to libraries."""

    def __init__(self, torch: TorchBuild, sources: Path, folder: Path) -> None:
        self._wants = torch.wants
        self._major = torch.cuda_version[0]
        self._sources = sources
        self.objects = folder / "objects"
        self._out = folder / "lib"
        minor = torch.cuda_version[1]
        self._flags = [*FLAGS, f"-I{sources}", f"-DCUDA_MAJOR={self._major}", f"-DCUDA_MINOR={minor}"]
        self.objects.mkdir()
        self._out.mkdir()
        self.implemented: dict[str, int] = {}
        self.missing: dict[str, list[str]] = {}
        self.warnings: list[str] = []

    def build_all(self) -> None:
        """Build every library that this torch asks for."""
        sources = sorted(self._sources.glob("*.c"))
        claimed = {path for library in LIBRARIES for path in self._of(library)}
        common = [self._object(path) for path in sources if path not in claimed]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._compile, sources))
            self._link(COMMON, common)
            list(pool.map(self._build, filter(self._is_asked, LIBRARIES)))
        (self._out / "libcuda.so").symlink_to("libcuda.so.1")  # what Triton links with while it runs

    def _is_asked(self, library: Library) -> bool:
        wanted, _ = wanted_of(library, self._wants, self._major)
        return bool(wanted) or library.soname(self._major) in self._wants.sonames

    def _of(self, library: Library) -> list[Path]:
        return sorted(self._sources.glob(library.sources)) if library.sources else []

    def _object(self, source: Path) -> Path:
        return self.objects / f"{source.stem}.o"

    def _build(self, library: Library) -> None:
        soname = library.soname(self._major)
        wanted, version = wanted_of(library, self._wants, self._major)
        objects = [self._object(source) for source in self._of(library)]
        defined: set[str] = set()
        for path in objects:
            with ElfFile(path) as file:
                defined |= file.defined(".symtab")
        newest = sorted(name for name in wanted - defined if f"{name}_v2" in defined)
        missing = sorted(wanted - defined - set(newest))
        generated = self.objects / f"{soname}.c"
        generated.write_text(_stubs(missing, library.not_supported))
        script = self.objects / f"{soname}.map"
        if version:
            script.write_text(f"{version} {{ global: *; }};\n")
        compiled = self._compile(generated)
        versioned = [f"-Wl,--version-script={script}"] if version else []
        aliases = [f"-Wl,--defsym={name}={name}_v2" for name in newest]
        common = [f"-L{self._out}", "-lsimgpu", "-Wl,-rpath,$ORIGIN"]
        self._link(soname, [*objects, compiled, *aliases, *versioned, *common])
        self.implemented[soname] = len(wanted) - len(missing)
        if missing:
            self.missing[soname] = missing

    def _compile(self, source: Path) -> Path:
        made = self._object(source)
        self._run([COMPILER, *self._flags, "-c", source, "-o", made])
        return made

    def _link(self, soname: str, parts: Sequence[str | Path]) -> None:
        named = [f"-Wl,-soname,{soname}", "-Wl,-z,defs"]
        self._run([COMPILER, "-shared", "-o", self._out / soname, *named, *parts, "-lpthread", "-lm", "-ldl"])

    def _run(self, command: Sequence[str | Path]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = " ".join(map(str, command))
            raise SimgpuError(f"the compiler refuses a source:\n{done.stderr.strip()}\nas: {words}")
        self.warnings.append(done.stderr)


def _stubs(names: Sequence[str], code: int) -> str:
    """C source of functions that aren't simulated. They answer a long: some answer a byte count."""
    lines = ['#include "core.h"']
    for name in names:
        if _TEXT_ANSWER.fullmatch(name):
            lines.append(f'const char *{name}(int code) {{ return "{name} of the simulation"; }}')
        else:
            lines.append(f'long {name}(void) {{ return sim_missing("{name}", {code}); }}')
    return "\n".join([*lines, ""])
