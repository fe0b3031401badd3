"""Programs that start a training where the agent can't run: in a container, on another machine, as a job."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile

from tunekit.machine.host.interpreter import unwrapped

_IN_CONTAINER = "put tunekit into the container: docker run ... IMAGE tunekit ... -- python train.py"
_IN_JOB = "put tunekit into the job that trains: tunekit ... -- python train.py in the job's own script"
_OVER_THERE = "log in there and start tunekit there: tunekit ... -- python train.py"
_LAUNCHERS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        ("docker", "podman", "nerdctl"), (("run", "exec", "compose", "start", "create"), _IN_CONTAINER)
    ),
    "docker-compose": (("run", "exec", "up"), _IN_CONTAINER),
    **dict.fromkeys(("singularity", "apptainer"), (("run", "exec", "shell"), _IN_CONTAINER)),
    "enroot": (("start", "exec", "batch"), _IN_CONTAINER),
    **dict.fromkeys(("sbatch", "srun", "qsub", "bsub", "condor_submit", "gcloud"), ((), _IN_JOB)),
    **dict.fromkeys(("kubectl", "oc"), (("run", "exec", "create", "apply"), _IN_JOB)),
    "ray": (("job", "submit", "exec"), _IN_JOB),
    "sky": (("launch", "exec", "jobs"), _IN_JOB),
    "modal": (("run",), _IN_JOB),
    **dict.fromkeys(("ssh", "mosh"), ((), _OVER_THERE)),
}
"""Program -> subcommands that start something (empty if it always does), and what to do instead."""
_TUNNEL_OPTION = re.compile(r"-[A-Za-z]*[Nf]")
_MAX_WORDS = 4


@dataclass(frozen=True)
class ExternalLauncher:
    """A program that trains where the agent can't run."""

    words: str
    """Its first words, such as "docker run"."""
    remedy: str


def find_external_launcher(command: Sequence[str]) -> ExternalLauncher | None:
    """Return the launcher in a command that starts a training elsewhere; None if none is known.

    A launcher inside a shell's text is only found once it runs.
    """
    words = unwrapped(command)
    if words and _name(words[0]) == "sudo":
        words = unwrapped(list(dropwhile(lambda word: word.startswith("-"), words[1:])))
    return launcher_in(words)


def launcher_in(words: Sequence[str]) -> ExternalLauncher | None:
    """Return the launcher that one command starts, if it is a known one."""
    known = _LAUNCHERS.get(_name(words[0])) if words else None
    if known is None:
        return None
    needed, remedy = known
    following = [word for word in words[1:] if not word.startswith("-")]
    if needed and not any(word in needed for word in following[:_MAX_WORDS]):
        return None
    if _name(words[0]) == "ssh" and any(_TUNNEL_OPTION.match(word) for word in words[1:]):
        return None  # it runs no command
    shown = next((word for word in following if word in needed), "")
    return ExternalLauncher(f"{_name(words[0])} {shown}".strip(), remedy)


def _name(word: str) -> str:
    return word.rpartition("/")[2]
