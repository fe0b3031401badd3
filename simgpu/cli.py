"""`python -m simgpu`: picks the verb, maps errors to exit codes."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from simgpu.build import Built, build
from simgpu.environment import KNOWN_TORCH, make_environment
from simgpu.errors import SimgpuError
from simgpu.torch_build import TorchBuild

_FAILED = 1


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.verb(options)
    except SimgpuError as error:
        sys.stderr.write(f"simgpu: {error}\n")
        return _FAILED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simgpu", description="A simulated NVIDIA GPU beneath a CUDA build of torch."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    one = verbs.add_parser("build", help="build the simulated libraries for a torch")
    one.add_argument(
        "--torch", type=Path, metavar="SITE_PACKAGES", help="the folder of packages that holds it"
    )
    one.add_argument("--print", action="store_true", help="print the folder of the libraries, nothing else")
    one.add_argument("--verbose", action="store_true", help="name the functions without an implementation")
    one.set_defaults(verb=_build)

    one = verbs.add_parser("environment", help="make a Python environment with a CUDA build of torch")
    one.add_argument("--torch", required=True, metavar="VERSION", help=f"checked: {', '.join(KNOWN_TORCH)}")
    one.add_argument("--python", type=Path, help="the interpreter (this one)")
    one.add_argument("--over", type=Path, metavar="SITE_PACKAGES", help="gives all other packages")
    one.set_defaults(verb=_environment)
    return parser


def _build(options: argparse.Namespace) -> int:
    built = build(TorchBuild.find(options.torch))
    if options.print:
        _say(str(built.libraries))
        return 0
    _describe(built, options.verbose)
    return 0


def _environment(options: argparse.Namespace) -> int:
    make_environment(options.torch, python=options.python, over=options.over, say=_say)
    return 0


def _describe(built: Built, verbose: bool) -> None:
    sys.stderr.write(built.warnings)
    _say(f"torch {built.torch}, CUDA {built.cuda}: {built.libraries} ({built.seconds} s)")
    for soname, count in sorted(built.implemented.items()):
        missing = built.missing.get(soname, [])
        lacking = f", {len(missing)} answer 'not supported'" if missing else ""
        _say(f"  {soname}: {count} of {count + len(missing)} functions that torch wants{lacking}")
        if verbose:
            for name in missing:
                _say(f"    {name}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
