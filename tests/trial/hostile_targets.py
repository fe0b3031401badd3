"""Scripts that do to a trial what real ones do now and then, and what tunekit must say of each.

Every script stands beside `loop.py`, which trains a tiny model until it is ended.
"""

import py_compile
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

from real_trials import Plan

from tunekit.records.trial import OutcomeKind
from tunekit.trial.watch import Limits

LOOP = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def train(do=lambda: None, at=20, each=lambda: None, steps=10**9, workers=0, **loader_options):
    torch.manual_seed(0)
    rows = torch.randn(640, 64)
    rows = TensorDataset(rows, rows[:, :4].argmax(1))
    loader = DataLoader(rows, batch_size=16, num_workers=workers, **loader_options)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    step = 0
    while step < steps:
        for inputs, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step == at:
                do()
            each()
            if step >= steps:
                break
"""

_FOLDER = "import json, os\nfolder = json.load(open(os.environ['TUNEKIT_REQUEST']))['trial_folder']\n"
_RAISE = "def broken(*_, **__):\n    raise RuntimeError('not the real one')\n"
_DAEMON = """
import os, time
def daemonise(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            then()
            os._exit(0)
        os._exit(0)
    os.wait()
"""
_PLAIN = "from loop import train\ntrain()"
_LIMIT = "import resource, os\nfrom loop import train\n"


def lay_out(source: str, folder: Path) -> None:
    """Write a script, and the forms that a command may run it in."""
    (folder / "loop.py").write_text(LOOP)
    script = folder / "train.py"
    for path in (script, folder / "mein Skript\n\u00fcb\u4e2d.py"):
        path.write_text(source)
    (folder / "link.py").symlink_to(script)
    py_compile.compile(str(script), str(folder / "compiled.pyc"), doraise=True)
    with zipfile.ZipFile(folder / "train.pyz", "w") as packed:
        packed.writestr("__main__.py", source)
        packed.writestr("loop.py", LOOP)


def hostile(
    name: str,
    source: str,
    outcome: OutcomeKind | None = None,
    said: str = "",
    words: tuple[str, ...] = ("python", "train.py"),
    is_usual: bool = False,
    no_progress_s: float = 60.0,
    **more: Any,
) -> Plan:
    """A script and what becomes of its trial; the default tests have those that are usual."""
    limits = Limits(trial_s=120.0, no_progress_s=no_progress_s, ram_bytes=3 << 30)
    given = {"outcome": outcome, "said": said, "is_slow": not is_usual, "limits": limits}
    prepare = partial(lay_out, source)
    return Plan(words, name=name, prepare=prepare, working_dir="{output}", **given, **more)


def _doing(what: str, before: str = "", **options: str) -> str:
    """Return a script that does something at its twentieth step and trains on."""
    given = "".join(f", {name}={value}" for name, value in options.items())
    return f"from loop import train\n{before}\ndef do():\n    {what}\ntrain(do{given})\n"


HOSTILE = (
    hostile(
        "os functions raise",
        _doing("os.open = os.write = os.fstat = os.stat = os.close = broken", "import os\n" + _RAISE),
        is_usual=True,
    ),
    hostile("environment cleared", _doing("os.environ.clear()", "import os")),
    hostile(
        "RLIMIT_FSIZE of 0",
        _LIMIT + "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\ntrain()",
        OutcomeKind.AGENT_ABSENT,
        "File too large",
    ),
    hostile(
        "RLIMIT_NOFILE and closed files",
        _LIMIT
        + "def do():\n    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n    os.closerange(3, 999)\n"
        "train(do, at=3)",
        OutcomeKind.AGENT_ABSENT,
        "Too many open files",
    ),
    hostile(
        "RLIMIT_AS that is too low",
        _LIMIT + "kept = []\ndef do():\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20),) * 2)\n"
        "train(do, each=lambda: kept.append(bytearray(1 << 20)) if len(kept) < 99 else None)",
        OutcomeKind.HOST_OOM,
        "MemoryError",
    ),
    hostile(
        "a full disk",
        _doing(
            "os.unlink(path); os.symlink('/dev/full', path)",
            _FOLDER + "path = f'{folder}/events-{os.getpid()}.jsonl'",
            at="3",
        ),
        OutcomeKind.AGENT_ABSENT,
        "No space left",
        is_usual=True,
    ),
    hostile(
        "trial folder removed",
        _doing("shutil.rmtree(folder)", "import shutil\n" + _FOLDER, at="3"),
        OutcomeKind.HARM_DENIED,
        "WriteDenied",
        is_usual=True,
        sandbox="none",
    ),
    hostile(
        "events removed",
        _doing("[os.unlink(p) for p in glob.glob(folder + '/events-*')]", "import glob\n" + _FOLDER, at="1"),
    ),
    hostile("request removed", _doing("os.unlink(os.environ['TUNEKIT_REQUEST'])", _FOLDER)),
    hostile("another working folder", _doing("os.chdir('/')", "import os")),
    hostile(
        "spawn without a guard",
        "from loop import train\ntrain(workers=1, multiprocessing_context='spawn')",
        OutcomeKind.SCRIPT_ERROR,
        "new process",
    ),
    hostile(
        "forkserver without a guard",
        "from loop import train\ntrain(workers=1, multiprocessing_context='forkserver')",
        OutcomeKind.WORKER_CRASH,
        "exited",
    ),
    hostile(
        "trains as a daemon",
        _DAEMON + "def then():\n    from loop import train\n    train()\ndaemonise(then)\nos._exit(0)",
        OutcomeKind.NO_TRAINING_LOOP,
        "background",
    ),
    hostile("no such program", "", OutcomeKind.SCRIPT_ERROR, "started", ("./gone", "train.py")),
    hostile(
        "stops itself",
        _doing("os.kill(os.getpid(), 19)", "import os"),
        OutcomeKind.HANG,
        "after 20 batches",
        no_progress_s=3.0,
    ),
    hostile(
        "kills its keeper and leaves a daemon",
        _DAEMON + _doing("daemonise(lambda: time.sleep(600)); os.kill(os.getppid(), 9); time.sleep(600)"),
        OutcomeKind.KILLED,
        "signal 9",
    ),
    hostile("stops its keeper", _doing("os.kill(os.getppid(), 19)", "import os")),
    hostile("asks on standard input", _doing("input('go on? ')"), OutcomeKind.SCRIPT_ERROR, "EOFError"),
    hostile("a tracer", _doing("sys.settrace(lambda *_: None)", "import sys")),
    hostile("warnings are errors", _doing("warnings.simplefilter('error')", "import warnings")),
    hostile("python -W error", _PLAIN, words=("python", "-W", "error::UserWarning", "train.py")),
    hostile("python -c", "", words=("python", "-c", _PLAIN)),
    hostile("a zip archive", _PLAIN, words=("python", "train.pyz")),
    hostile("compiled", _PLAIN, words=("python", "compiled.pyc")),
    hostile("spaces, a newline and umlauts", _PLAIN, words=("python", "mein Skript\n\u00fcb\u4e2d.py")),
    hostile("LANG=C", _PLAIN, environment={"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}),
)
