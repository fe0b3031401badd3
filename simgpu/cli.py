"""`python -m simgpu`: picks the verb, maps errors to exit codes."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from simgpu.build import Built, build
from simgpu.control import CONTROLS, Core, parsed_bytes
from simgpu.devices import FOLDER, known_devices, write_files
from simgpu.environment import KNOWN_TORCH, USUAL_TORCH, find_environment, make_environment
from simgpu.errors import SimgpuError
from simgpu.simulation import (
    DEFAULT_DEVICES,
    Simulation,
    devices_of,
    keep_devices,
    state_folder,
)
from simgpu.torch_build import TorchBuild

_FAILED, _USAGE, _NOT_FOUND, _BY_SIGNAL = 1, 2, 127, 128


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        options = build_parser().parse_args(arguments)
        code: int = options.verb(options)
    except SimgpuError as error:
        sys.stderr.write(f"simgpu: {error}\n")
        return _FAILED
    except KeyboardInterrupt:
        return _BY_SIGNAL + signal.SIGINT
    return code


def build_parser() -> argparse.ArgumentParser:
    """The commands, each with the function that runs it as `verb`."""
    parser = argparse.ArgumentParser(
        prog="python -m simgpu", description="A simulated NVIDIA GPU beneath a CUDA build of torch."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb_name")

    one = verbs.add_parser("build", help="build the simulated libraries for a torch")
    one.add_argument("--torch", type=Path, metavar="SITE_PACKAGES", help="the folder of packages that has it")
    one.add_argument("--print", action="store_true", help="print the folder of the libraries, nothing else")
    one.add_argument("--verbose", action="store_true", help="name the functions without an implementation")
    one.set_defaults(verb=_build)

    known = ", ".join(KNOWN_TORCH)
    one = verbs.add_parser("environment", help="make Python environments with a CUDA build of torch")
    one.add_argument(
        "--torch", nargs="+", default=[USUAL_TORCH], metavar="VERSION", help=f"(tested: {known})"
    )
    one.add_argument("--python", type=Path, help="the interpreter (this one)")
    one.add_argument("--over", type=Path, metavar="SITE_PACKAGES", help="gives all other packages")
    one.set_defaults(verb=_environment)

    one = verbs.add_parser("devices", help="list the devices, or make their files anew")
    one.add_argument("--from", dest="profiles", type=Path, metavar="FOLDER", help="tunekit's profiles")
    one.set_defaults(verb=_devices)

    one = verbs.add_parser("run", help="run a command on simulated devices")
    _add_simulation(one)
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND ...")
    one.set_defaults(verb=_run)

    one = verbs.add_parser("env", help='print shell exports: eval "$(python -m simgpu env --device t4)"')
    _add_simulation(one)
    one.set_defaults(verb=_env)

    one = verbs.add_parser("set", help="change a device while processes use it")
    one.add_argument("place", type=int, metavar="DEVICE", help="its place in the driver's order, from 0")
    one.add_argument("key", choices=CONTROLS)
    one.add_argument("value", type=_value, help="a number, a mask such as 0x8, or a size such as 2GiB")
    _add_simulation(one)
    one.set_defaults(verb=_set)

    one = verbs.add_parser("hold", help="be another process that holds memory")
    one.add_argument("place", type=int, metavar="DEVICE", help="its place in the driver's order, from 0")
    one.add_argument("size", type=_size, metavar="BYTES", help="beside its context, such as 3GiB")
    one.add_argument("--seconds", type=float, help="how long (until it is ended)")
    one.add_argument("--outside", action="store_true", help="as a process of another container")
    _add_simulation(one)
    one.set_defaults(verb=_hold)
    return parser


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    devices, state = os.environ.get("SIMGPU"), os.environ.get("SIMGPU_STATE")
    usual = devices or f"those that the state folder was last used with, or {DEFAULT_DEVICES}"
    parser.add_argument("--device", default=devices, metavar="A,B", help=f"the devices ({usual})")
    parser.add_argument(
        "--state", type=Path, default=state, metavar="DIR", help="what the processes of one machine share"
    )
    parser.add_argument("--trace", type=Path, metavar="DIR", help="write what the devices do")
    parser.add_argument("--torch", default=USUAL_TORCH, metavar="VERSION", help=f"({USUAL_TORCH})")


def _build(options: argparse.Namespace) -> int:
    built = build(TorchBuild.find(options.torch))
    if options.print:
        _say(str(built.libraries))
    else:
        _describe(built, options.verbose)
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


def _environment(options: argparse.Namespace) -> int:
    for version in options.torch:
        folder = make_environment(version, python=options.python, over=options.over, say=_say)
        built = find_environment(version).built
        _say(f"{folder}: torch {built.torch}; libraries in {built.libraries}")
    return 0


def _devices(options: argparse.Namespace) -> int:
    if options.profiles is not None:
        _say(f"{len(write_files(options.profiles))} files written in {FOLDER}")
        return 0
    for identity, device in known_devices().items():
        gib = int(device["memory_bytes"]) / 2**30
        _say(f"{identity:14} {device['name']}, {device['major']}.{device['minor']}, {gib:.1f} GiB")
    return 0


def _simulation(options: argparse.Namespace, state: Path | None) -> Simulation:
    devices = options.device or devices_of(state)
    return Simulation(find_environment(options.torch), devices=devices, state=state, trace=options.trace)


def _run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        sys.stderr.write("simgpu: what is to be run? python -m simgpu run --device a10g -- python train.py\n")
        return _USAGE
    child: subprocess.Popen[bytes] | None = None
    is_terminated = False

    def terminate(number: int, frame: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, terminate)
    with ExitStack() as stack:
        state = options.state or stack.enter_context(state_folder())
        simulation = _simulation(options, state)
        keep_devices(state, simulation.devices)
        environment = {**os.environ, **simulation.variables(os.environ)}
        # The terminal sends Ctrl-C to both, and what the command makes of it decides.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            child = subprocess.Popen(command, env=environment)
        except OSError as error:
            sys.stderr.write(f"simgpu: {command[0]} can't be run: {error.strerror}\n")
            return _NOT_FOUND
        if is_terminated:  # before there was a child to pass it on to
            child.terminate()
        code = child.wait()
    return code if code >= 0 else _BY_SIGNAL - code


def _env(options: argparse.Namespace) -> int:
    for name, value in _simulation(options, options.state).variables(os.environ).items():
        _say(f"export {name}={shlex.quote(value)}")
    return 0


def _core(options: argparse.Namespace) -> Core:
    simulation = _simulation(options, options.state)
    os.environ.update(simulation.variables(os.environ))
    return Core(simulation.environment.built.libraries)


def _set(options: argparse.Namespace) -> int:
    _core(options).set(options.place, options.key, options.value)
    return 0


def _hold(options: argparse.Namespace) -> int:
    if options.outside:
        os.environ["SIMGPU_OUTSIDE"] = "1"
    _core(options).take(options.place, options.size)
    _say(f"holding {options.size} bytes of device {options.place}")
    if options.seconds is None:
        signal.pause()
    else:
        time.sleep(options.seconds)
    return 0


def _value(text: str) -> float:
    for read in (float, lambda mask: int(mask, 0), parsed_bytes):
        try:
            return float(read(text))
        except ValueError:
            continue
    raise argparse.ArgumentTypeError(
        f"a value is a number, a mask such as 0x8 or a size such as 2GiB, got '{text}'"
    )


def _size(text: str) -> int:
    try:
        return parsed_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
