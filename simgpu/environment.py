"""Python environments with a CUDA build of torch and the simulated libraries: `python -m simgpu environment`.

`environments/VERSION` is a virtual environment with torch, the triton it requires and, for the usual torch,
its torchvision, but nothing of NVIDIA's. All other packages come from the environment below it. The file
that names that one is written last: an environment without it is unfinished. Downloaded wheels are kept
until then, so a second try continues from there.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simgpu.build import Built, build, locked
from simgpu.errors import NoEnvironmentError, SimgpuError
from simgpu.torch_build import TorchBuild

ENVIRONMENTS = Path(__file__).parent / "environments"
_OVER = "zz_simgpu_over.pth"
_GIB = 2**30

Say = Callable[[str], None]


@dataclass(frozen=True)
class KnownTorch:
    """What a version that the simulation is tested with takes: its wheel, and its environment."""

    wheel_bytes: int
    installed_bytes: int
    """With the other wheels, which are kept until all is installed."""


PINNED: Mapping[str, str] = dict(
    line.strip().split("==")
    for line in Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line
)
"""Versions by package: those of an environment that is made by default."""
USUAL_TORCH = PINNED["torch"]
KNOWN_TORCH: Mapping[str, KnownTorch] = {
    "2.8.0": KnownTorch(888_063_640, 2_510_000_000),  # CUDA 12.8
    "2.14.1": KnownTorch(554_581_699, 2_450_000_000),  # CUDA 13.0
}
"""Their wheels on the package index, for Linux on x86-64."""
_LARGEST = KnownTorch(1_000_000_000, 2_700_000_000)


@dataclass(frozen=True)
class Environment:
    """An environment that is made, with the libraries that were built for its torch."""

    folder: Path
    built: Built

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def find_environment(version: str, environments: Path = ENVIRONMENTS) -> Environment:
    """The environment of a version of torch, its libraries built when the sources have changed.

    Raises:
        NoEnvironmentError: It has not been made; the message has the command that makes it.
        SimgpuError: Its libraries can't be built.
    """
    folder = environments / version
    if not _is_whole(folder):
        raise NoEnvironmentError(f"no torch {version}: python -m simgpu environment --torch {version}")
    return Environment(folder, build(TorchBuild.find(_site_packages(folder))))


def make_environment(
    version: str,
    *,
    python: Path | None = None,
    over: Path | None = None,
    environments: Path = ENVIRONMENTS,
    say: Say = lambda text: None,
) -> Path:
    """Make the environment of a version of torch, or find it made; its folder.

    Args:
        version: of torch, as the package index has it: `2.8.0`.
        python: the interpreter; by default this process's own.
        over: the folder of packages that gives all the others; by default that of the interpreter.
        environments: the folder of all environments.
        say: takes a line on what is being done.

    Raises:
        SimgpuError: The disk has no room, or a step failed; what was begun is removed.
    """
    if not re.fullmatch(r"\d+(\.\d+)+([-+.\w]*)", version):
        raise SimgpuError(f"a version of torch is written like 2.8.0, got '{version}'")
    environments.mkdir(parents=True, exist_ok=True)
    interpreter = python or Path(sys.executable)
    with locked(environments / ".lock", lambda: say("another process makes an environment; waiting for it")):
        if not _is_whole(environments / version):
            _check_disk(version, environments)
            _make(version, interpreter, over or _packages_of(interpreter), environments, say)
    return environments / version


def _make(version: str, python: Path, over: Path, environments: Path, say: Say) -> None:
    folder, wheels = environments / version, environments / f".wheels-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    known = KNOWN_TORCH.get(version, _LARGEST)
    try:
        say(f"making a virtual environment with {python} over {over}")
        _run([python, "-m", "venv", "--without-pip", folder])
        if not any(wheels.glob(f"torch-{version}-*.whl")):
            say(f"downloading torch {version} ({known.wheel_bytes / 1e6:.0f} MB)")
            _download([f"torch=={version}"], folder, wheels)
        say("installing it")
        _install([f"torch=={version}"], folder, wheels)
        site = _site_packages(folder)
        try:
            TorchBuild.find(site)
        except (
            SimgpuError
        ):  # a build without CUDA: refused before more is downloaded, and its wheel is of no use
            shutil.rmtree(wheels)
            raise
        if more := [*_triton(site, version), *_pinned_with(version)]:
            say(f"installing {' and '.join(more)}")
            _download(more, folder, wheels)
            _install(more, folder, wheels)
        # Read with addsitedir, so that packages installed in place there are found too.
        (site / _OVER).write_text(f"import site; site.addsitedir({str(over)!r})\n")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if not any(wheels.glob("*.whl")):
            shutil.rmtree(wheels, ignore_errors=True)
        raise
    shutil.rmtree(wheels)


def _triton(site: Path, version: str) -> list[str]:
    """The triton that this torch requires, without the requirement's marker."""
    metadata = next(site.glob(f"torch-{version}*.dist-info/METADATA")).read_text(encoding="utf-8")
    found = re.findall(r"^Requires-Dist: (triton\b[^;\n]*)", metadata, re.MULTILINE)
    return [one.strip().replace(" ", "") for one in found[:1]]


def _pinned_with(version: str) -> list[str]:
    """The other packages of requirements.txt, for the torch that it pins."""
    return [f"{name}=={pin}" for name, pin in PINNED.items() if name != "torch" and version == USUAL_TORCH]


def _check_disk(version: str, environments: Path) -> None:
    known = KNOWN_TORCH.get(version, _LARGEST)
    needed = known.wheel_bytes + known.installed_bytes
    free = shutil.disk_usage(environments).free
    if free < needed:
        raise SimgpuError(
            f"an environment with torch {version} takes {needed / _GIB:.1f} GiB while it is made, "
            f"and {environments} has {free / _GIB:.1f} GiB free; make room, or make that folder a link"
        )


def _download(requirements: Sequence[str], environment: Path, wheels: Path) -> None:
    """As pip is configured on this machine: with its index and its constraints."""
    _pip(["download", "--no-deps", "--no-cache-dir", "--dest", wheels, *requirements], environment)


def _install(requirements: Sequence[str], environment: Path, wheels: Path) -> None:
    """From the downloaded wheels alone, whatever pip is configured to do on this machine.

    With bytecode: what a process in a sandbox compiles is lost, so each would compile torch again.
    """
    install = ["--isolated", "install", "--no-deps", "--no-index", "--compile"]
    _pip([*install, "--find-links", wheels, *requirements], environment, PIP_CONFIG_FILE=os.devnull)


def _pip(arguments: Sequence[str | Path], environment: Path, **variables: str) -> None:
    if importlib.util.find_spec("pip") is None:
        raise SimgpuError(f"{sys.executable} has no pip; add it: {sys.executable} -m ensurepip")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    _run([*pip, "--disable-pip-version-check", "--quiet", *arguments], **variables)


def _run(command: Sequence[str | Path], **variables: str) -> None:
    try:
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise SimgpuError(f"{command[0]} can't be run: {error}") from error
    if done.returncode != 0:
        words = " ".join(map(str, command))
        last = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-12:])
        raise SimgpuError(f"this failed with {done.returncode}: {words}\n{last}")


def _is_whole(environment: Path) -> bool:
    return any(environment.glob(f"lib/python3*/site-packages/{_OVER}"))


def _site_packages(environment: Path) -> Path:
    found = sorted(environment.glob("lib/python3*/site-packages"))
    if len(found) != 1:
        raise SimgpuError(f"{environment} is no virtual environment; remove it and make it again")
    return found[0]


def _packages_of(python: Path) -> Path:
    """Where an interpreter has its packages."""
    if python == Path(sys.executable):
        return Path(sysconfig.get_path("purelib"))
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    try:
        return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    except (OSError, subprocess.CalledProcessError) as error:
        raise SimgpuError(f"{python} is no Python that can be run: {error}") from error
