"""Changes the number of local processes that a training command starts. Pure.

For a launcher, its own number is replaced; `python` gets torchrun's launcher before it, even for one process,
so that all counts are started the same way. Any other command must mark the place of its number.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence

from tunekit.errors import TargetError
from tunekit.machine.host.interpreter import CHOOSES_ITS_OWN, is_python, unwrapped
from tunekit.secret_words import masked_words
from tunekit.trial.external_launchers import find_external_launcher

PLACE = "{processes}"
"""Placeholder for the number in commands that tunekit doesn't know."""
THREADS_BY_LAUNCHER = {"OMP_NUM_THREADS": "1"}
"""Variables that torchrun sets for several processes but not for one, unless the user has set them."""
LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate-launch",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Launcher modules -> their programs."""
_LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
_END = "--"
"""Ends a launcher's options: torchrun refuses script options that could abbreviate several of its own."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BARE_OF_TORCHRUN = _names("h help standalone m module no_python run_path use_env virtual_local_rank")
"""Plain names of options without a value; every other option takes the next word."""
_BARE_OF_ACCELERATE = _names(
    "h help q quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic "
    "dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm "
    "same_network m module no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 "
    "fp8_use_autocast_during_eval debug"
)
_SHELLS = frozenset(("bash", "dash", "sh", "zsh", "fish"))
_MPI = frozenset(("mpirun", "mpiexec", "horovodrun"))
_LAUNCHERS = frozenset(("torchrun", "accelerate", "accelerate-launch", "deepspeed", *_SHELLS, *_MPI))
_INTERPRETERS = frozenset(("-p", "--python"))
"""Options of uv whose value is an interpreter, not the program to run."""
_SPAWNS = re.compile(
    r"^(?!\s*#).*(?:\b(?:mp|multiprocessing|xmp)\.spawn\(|\bstart_processes\(|\bfrom torch\.multiprocessing "
    r"import .*\bspawn\b|\b(?:notebook|debug)_launcher\()",
    re.MULTILINE,
)
"""Text of a script that starts processes itself."""

_Option = tuple[str, list[str]]
"""An option's plain name, and its words."""


def with_processes(command: Sequence[str], processes: int, script_text: str | None = None) -> tuple[str, ...]:
    """Return a training command that starts this many processes, with its other words unchanged.

    Args:
        command: the user's command; `{processes}` in it is replaced with the number.
        processes: at least 1.
        script_text: text of the Python file that the command runs; None if unknown.

    Raises:
        TargetError: tunekit doesn't know where the command takes its number.
    """
    if processes < 1:
        raise TargetError(f"a training takes at least 1 process, got {processes}")
    elsewhere = find_external_launcher(command)
    if elsewhere is not None:
        raise _refused(command, f"`{elsewhere.words}` starts it where tunekit can't run", elsewhere.remedy)
    before, words = _apart(command)
    program = words[0].rpartition("/")[2] if words else ""
    if any(PLACE in word for word in command):
        return tuple(word.replace(PLACE, str(processes)) for word in command)
    if not words:
        raise _refused(command, "what it starts is unknown", _write_place("torchrun --nproc-per-node", ""))
    if is_python(words[0]):
        return (*before, *_python(command, words, processes, script_text))
    return (*before, words[0], *_by_launcher(command, program, words[1:], processes))


def on_first_devices(environment: Mapping[str, str], processes: int, gpus: int) -> dict[str, str]:
    """Return variables that leave one visible GPU per process, since frameworks train on all that they see.

    Args:
        environment: the environment that the processes start in.
        processes: number of training processes.
        gpus: number of GPUs here; unless there are more than processes, nothing is changed.
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    names = [str(number) for number in range(gpus)] if visible is None else visible.split(",")
    return {"CUDA_VISIBLE_DEVICES": ",".join(names[:processes])} if 0 < processes < len(names) else {}


def _apart(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the words that only prepare a command, such as `env` or `uv run`; no command if unclear."""
    inner = unwrapped(command)
    before = list(command[: len(command) - len(inner)])
    if not inner or not CHOOSES_ITS_OWN.fullmatch(inner[0].rpartition("/")[2]):
        return before, inner
    for at, word in enumerate(inner[1:], start=1):
        if inner[at - 1] in _INTERPRETERS or "run" not in inner[:at]:
            continue
        if is_python(word) or word.rpartition("/")[2] in _LAUNCHERS:
            return before + inner[:at], inner[at:]
        if word == "-m" or (word.endswith(".py") and not word.startswith("-")):  # uv starts Python
            return before + inner[:at], ["python", *inner[at:]]
    return before + inner, []


def _python(
    command: Sequence[str], words: Sequence[str], processes: int, script_text: str | None
) -> tuple[str, ...]:
    own, run = own_options(words[1:])
    if not run or run[0] == "-":
        remedy = "give the script as a file: python train.py"
        raise _refused(command, "several processes can't read one script from standard input", remedy)
    program = LAUNCHER_MODULES.get(run[1]) if run[0] == "-m" and len(run) > 1 else None
    if program is not None:
        return (words[0], *own, *run[:2], *_by_launcher(command, program, run[2:], processes))
    if script_text is not None and _SPAWNS.search(script_text):
        typed = shlex.join(masked_words(words))
        remedy = f"{_write_place(f'{typed} --world-size', '')}; or start it by torchrun, if it can be"
        raise _refused(command, "the script itself starts its processes", remedy)
    launch = (words[0], *_LAUNCH, str(processes))
    if own or run[0] == "-c":  # torchrun can't pass options to the Python that it starts
        return (*launch, "--no-python", _END, words[0], *own, *run)
    return (*launch, "-m", _END, *run[1:]) if run[0] == "-m" else (*launch, _END, *run)


def own_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return Python's own options with their values, and the rest: what it runs, with -m or -c split off."""
    own: list[str] = []
    waiting = list(words)
    while waiting and waiting[0].startswith("-") and waiting[0] != "-":
        word = waiting.pop(0)
        options = "" if word.startswith("--") else word[1:]
        taking = next((letter for letter in options if letter in "mcWX"), "")
        if taking in ("m", "c"):
            before, _, value = options.partition(taking)
            own += [f"-{before}"] if before else []
            return own, [f"-{taking}", *([value] if value else []), *waiting]
        own.append(word)
        if (taking and options.endswith(taking)) or word == "--check-hash-based-pycs":
            own += waiting[:1]
            del waiting[:1]
    return own, waiting


def _by_launcher(command: Sequence[str], program: str, words: Sequence[str], processes: int) -> list[str]:
    """Return the words after a launcher's name, with the number put in."""
    if program == "torchrun":
        options, rest = _options(words, _BARE_OF_TORCHRUN)
        names = [name for name, _ in options if name.startswith("nproc")]  # argparse accepts abbreviations
        return [*_replaced(options, names, "--nproc-per-node", processes), *rest]
    if program == "accelerate-launch":
        return _accelerate(command, words, processes)
    if program == "accelerate" and words[:1] == ["launch"]:
        return ["launch", *_accelerate(command, words[1:], processes)]
    raise _refused(command, *_why_unknown(program))


def _accelerate(command: Sequence[str], words: Sequence[str], processes: int) -> list[str]:
    options, rest = _options(words, _BARE_OF_ACCELERATE)
    if processes > 1 and any(name == "cpu" for name, _ in options):
        remedy = f"start it by torchrun, whose processes Accelerate finds: torchrun {shlex.join(rest[:1])}"
        raise _refused(command, "accelerate launch --cpu starts one process", remedy)
    if processes == 1:  # accelerate refuses --multi_gpu for one process
        options = [one for one in options if one[0] != "multi_gpu"]
    return [*_replaced(options, ["num_processes"], "--num_processes", processes), *rest]


def _options(words: Sequence[str], bare: Collection[str]) -> tuple[list[_Option], list[str]]:
    """Return a launcher's own options, each with its value, and the command that it starts."""
    options: list[_Option] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != _END:
        word, equals, _ = words[at].partition("=")
        name = word.lstrip("-").replace("-", "_")
        takes_next = not equals and name not in bare
        options.append((name, list(words[at : at + 1 + takes_next])))
        at += 1 + takes_next
    return options, list(words[at:])


def _replaced(options: Sequence[_Option], names: Collection[str], usual: str, number: int) -> list[str]:
    """Return the words of options with the number replaced, or added in front if they have none."""
    words = [] if any(name in names for name, _ in options) else [usual, str(number)]
    for name, text in options:
        option, equals, _ = text[0].partition("=")
        now = [f"{option}={number}"] if equals else [option, str(number)]
        words += now if name in names else text
    return words


def _why_unknown(program: str) -> tuple[str, str]:
    """Return why a program's number can't be set, and what to do."""
    if program == "deepspeed":
        remedy = "start the script by torchrun, whose processes deepspeed.initialize finds: torchrun train.py"
        return "tunekit can't set the number for deepspeed's launcher", remedy
    number, after = ("-n", " python train.py") if program in _MPI else ("--devices", "")
    place = _write_place(f"{program} {number}", after)
    remedy = f"give the training as `python -m MODULE` or by torchrun, or {place}"
    return f"tunekit doesn't know how {program} starts processes", remedy


def _write_place(before: str, after: str) -> str:
    return f"write {PLACE} in place of its number, as in: {before} {PLACE}{after}"


def _refused(command: Sequence[str], why: str, remedy: str) -> TargetError:
    said = shlex.join(masked_words(command))
    return TargetError(f"{said} can't be started with another number of processes: {why}; {remedy}")
