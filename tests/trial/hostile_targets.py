"""Scripts that do to a trial what real ones do now and then, and what tunekit must say of each.

Every script stands beside `loop.py`, which trains a tiny model until it is ended.
"""

from dataclasses import dataclass, field

from tunekit.records.host import SandboxKind
from tunekit.records.trial import OutcomeKind

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

MEASURED = None
_PATCH_CLOCKS = """
import time
def freeze():
    for name in ("time", "monotonic", "perf_counter", "process_time"):
        setattr(time, name, lambda: 1000.0)
    for name in ("time_ns", "monotonic_ns", "perf_counter_ns"):
        setattr(time, name, lambda: 1000)
"""
_FOLDER = "import os\nfolder = os.path.dirname(os.environ['TUNEKIT_REQUEST'])\n"
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
_LIMIT = "import resource, os\nfrom loop import train\n"


@dataclass(frozen=True)
class Hostile:
    """A script, and what becomes of its trial."""

    name: str
    source: str
    outcome: OutcomeKind | None = MEASURED
    """None: it is measured all the same."""
    said: str = ""
    """A part of the message."""
    command: tuple[str, ...] = ("{python}", "train.py")
    environment: dict[str, str] = field(default_factory=dict)
    trial_s: float = 120.0
    no_progress_s: float = 60.0
    is_usual: bool = False
    """Whether every test run has it, since it was told wrongly once; the others are `slow`."""
    sandbox: SandboxKind | None = None
    """None: the best that holds."""

    def __str__(self) -> str:
        return self.name


def _doing(what: str, before: str = "", **options: str) -> str:
    """Return a script that does something at its twentieth step and trains on."""
    given = "".join(f", {name}={value}" for name, value in options.items())
    return f"from loop import train\n{before}\ndef do():\n    {what}\ntrain(do{given})\n"


CLOCKS = (
    Hostile("clocks frozen", _doing("freeze()", _PATCH_CLOCKS), is_usual=True),
    Hostile(
        "clocks frozen before torch is imported", _PATCH_CLOCKS + "freeze()\nfrom loop import train\ntrain()"
    ),
    Hostile(
        "clocks replaced in every module",
        _doing(
            "swap()",
            "import sys, time\n"
            "fakes = {id(getattr(time, n)): (lambda: 5.0) for n in ('time', 'monotonic', 'perf_counter')}\n"
            "def swap():\n"
            "    for module in list(sys.modules.values()):\n"
            "        for name, value in list(vars(module).items()) if hasattr(module, '__dict__') else ():\n"
            "            if id(value) in fakes:\n"
            "                setattr(module, name, fakes[id(value)])\n",
        ),
        is_usual=True,
    ),
    Hostile("clock goes back", _doing("time.time = time.monotonic = lambda: -1e9", "import time")),
    Hostile("sleep does nothing", _doing("time.sleep = lambda seconds: None", "import time")),
)

REPLACED = (
    Hostile(
        "json raises", _doing("json.dumps = json.dump = broken", "import json\n" + _RAISE), is_usual=True
    ),
    Hostile(
        "json encoder raises",
        _doing(
            "e = json.JSONEncoder; e.encode = e.iterencode = e.default = broken",
            "import json\n" + _RAISE,
        ),
    ),
    Hostile("json is another module", _doing("sys.modules['json'] = object()", "import sys")),
    Hostile("open raises", _doing("builtins.open = io.open = broken", "import builtins, io\n" + _RAISE)),
    Hostile(
        "os functions raise",
        _doing("os.open = os.write = os.fstat = os.stat = os.close = broken", "import os\n" + _RAISE),
        is_usual=True,
    ),
    Hostile("getpid lies", _doing("os.getpid = lambda: 1", "import os")),
    Hostile(
        "threading is replaced",
        _doing("threading.Event = threading.Lock = broken", "import threading\n" + _RAISE),
    ),
    Hostile(
        "excepthook is replaced",
        "import sys\n" + _doing("sys.excepthook = lambda *_: None; raise ValueError('mine')"),
        OutcomeKind.SCRIPT_ERROR,
        "ValueError: mine",
    ),
    Hostile(
        "import is wrapped",
        "import builtins\nreal = builtins.__import__\n"
        "builtins.__import__ = lambda *a, **k: real(*a, **k)\n" + _doing("pass"),
    ),
    Hostile(
        "finders of its own",
        "import sys\nclass Finder:\n    def find_spec(self, *a, **k):\n        return None\n"
        "sys.meta_path.insert(0, Finder())\n" + _doing("pass"),
    ),
    Hostile("no finders any more", _doing("sys.meta_path.clear()", "import sys")),
    Hostile("no search path any more", _doing("sys.path.clear()", "import sys")),
    Hostile(
        "modules forgotten",
        _doing("[sys.modules.pop(n) for n in list(sys.modules) if 'tunekit' in n]", "import sys"),
    ),
    Hostile("environment cleared", _doing("os.environ.clear()", "import os")),
    Hostile(
        "loader class replaced",
        "import torch.utils.data as data\nclass Mine(data.DataLoader):\n    pass\n"
        "data.DataLoader = Mine\n" + _doing("pass"),
    ),
)

LIMITS = (
    Hostile(
        "RLIMIT_FSIZE of 0",
        _LIMIT + "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\ntrain()",
        OutcomeKind.AGENT_ABSENT,
        "RLIMIT_FSIZE of 0 bytes",
        is_usual=True,
    ),
    Hostile(
        "RLIMIT_FSIZE in the loop",
        _LIMIT + "train(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)), at=3)",
        OutcomeKind.AGENT_ABSENT,
        "RLIMIT_FSIZE of 500 bytes",
    ),
    Hostile(
        "RLIMIT_FSIZE with room",
        _LIMIT + "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2)\ntrain()",
    ),
    Hostile("RLIMIT_NOFILE", _LIMIT + "train(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)))"),
    Hostile(
        "RLIMIT_NOFILE and closed files",
        _LIMIT
        + "def do():\n    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n    os.closerange(3, 999)\n"
        "train(do, at=3)",
        OutcomeKind.AGENT_ABSENT,
        "RLIMIT_NOFILE of 3 files",
        is_usual=True,
    ),
    Hostile(
        "RLIMIT_AS",
        _LIMIT + "def do():\n    used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)\ntrain(do)",
    ),
    Hostile(
        "RLIMIT_AS that is too low",
        _LIMIT + "kept = []\ndef do():\n"
        "    used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20),) * 2)\n"
        "train(do, each=lambda: kept.append(bytearray(1 << 20)) if len(kept) < 99 else None)",
        OutcomeKind.HOST_OOM,
        "MemoryError",
    ),
    Hostile(
        "RLIMIT_CPU",
        _LIMIT + "train(lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, 1)), at=1)",
        OutcomeKind.KILLED,
        "ended by SIG",
    ),
    Hostile(
        "RLIMIT_STACK and RLIMIT_CORE",
        _LIMIT + "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20,) * 2)\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\ntrain()",
    ),
    Hostile(
        "a full disk",
        _doing(
            "os.unlink(path); os.symlink('/dev/full', path)",
            _FOLDER + "path = f'{folder}/events-{os.getpid()}.jsonl'",
            at="3",
        ),
        OutcomeKind.AGENT_ABSENT,
        "No space left on device",
        is_usual=True,
    ),
    Hostile("all files closed", _doing("os.closerange(0, 4096)", "import os")),
    Hostile("low priority", _doing("os.nice(15)", "import os")),
    Hostile("umask", "import os\nos.umask(0o777)\n" + _doing("pass")),
    Hostile("recursion limit", _doing("sys.setrecursionlimit(150)", "import sys")),
)

FOLDERS = (
    Hostile(
        "trial folder removed",
        _doing("shutil.rmtree(folder)", "import shutil\n" + _FOLDER, at="3"),
        OutcomeKind.AGENT_ABSENT,
        "was removed by the script",
        is_usual=True,
        sandbox="none",  # in an overlay the kernel keeps the script from removing it
    ),
    Hostile(
        "events removed",
        _doing("[os.unlink(p) for p in glob.glob(folder + '/events-*')]", "import glob\n" + _FOLDER, at="1"),
        is_usual=True,
    ),
    Hostile(
        "events emptied",
        _doing(
            "[os.truncate(p, 0) for p in glob.glob(folder + '/events-*')]", "import glob\n" + _FOLDER, at="1"
        ),
    ),
    Hostile(
        "pulse removed",
        _doing("[os.unlink(p) for p in glob.glob(folder + '/pulse-*')]", "import glob\n" + _FOLDER),
    ),
    Hostile(
        "pulse emptied",
        _doing("[os.truncate(p, 0) for p in glob.glob(folder + '/pulse-*')]", "import glob\n" + _FOLDER),
        OutcomeKind.KILLED,
        "SIGBUS",
    ),
    Hostile("request removed", _doing("os.unlink(os.environ['TUNEKIT_REQUEST'])", _FOLDER)),
    Hostile("log removed", _doing("os.unlink(folder + '/output.log')", _FOLDER)),
    Hostile("another working folder", _doing("os.chdir('/')", "import os")),
)

STARTS = (
    Hostile(
        "spawn without a guard",
        "from loop import train\ntrain(workers=1, multiprocessing_context='spawn')",
        OutcomeKind.SCRIPT_ERROR,
        "An attempt has been made to start a new process before the current process has finished",
        is_usual=True,
    ),
    Hostile(
        "forkserver without a guard",
        "from loop import train\ntrain(workers=1, multiprocessing_context='forkserver')",
        OutcomeKind.WORKER_CRASH,
        "exited unexpectedly",
    ),
    Hostile(
        "spawn with a guard",
        "from loop import train\nif __name__ == '__main__':\n"
        "    train(workers=1, multiprocessing_context='spawn')",
    ),
    Hostile(
        "starts itself again for ever",
        "import os, sys\nos.execv(sys.executable, [sys.executable, *sys.argv])",
        OutcomeKind.SCRIPT_ERROR,
        "anew 20 times",
        is_usual=True,
    ),
    Hostile(
        "starts itself again once",
        "import os, sys\nfrom loop import train\nif 'AGAIN' not in os.environ:\n"
        "    os.environ['AGAIN'] = '1'\n    os.execv(sys.executable, [sys.executable, *sys.argv])\ntrain()",
    ),
    Hostile(
        "trains in a child",
        "import subprocess, sys\nif len(sys.argv) == 1:\n"
        "    sys.exit(subprocess.run([sys.executable, __file__, 'child']).returncode)\n"
        "from loop import train\ntrain()",
    ),
    Hostile(
        "trains as a daemon",
        _DAEMON + "def then():\n    from loop import train\n    train()\ndaemonise(then)\nos._exit(0)",
        OutcomeKind.NO_TRAINING_LOOP,
        "running in the background",
        is_usual=True,
    ),
    Hostile("leaves a daemon", _DAEMON + "daemonise(lambda: time.sleep(600))\n" + _doing("pass")),
    Hostile(
        "a session of its own",
        _doing("os.setpgid(0, 0) if os.getpid() != os.getpgrp() else None", "import os"),
    ),
    Hostile("no death signal", _doing("ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)", "import ctypes")),
    Hostile("empty", "", OutcomeKind.NO_TRAINING_LOOP, "without asking a loader"),
    Hostile("no syntax", "train(", OutcomeKind.SCRIPT_ERROR, "SyntaxError"),
    Hostile("no such script", "", OutcomeKind.SCRIPT_ERROR, "exit status 2", ("{python}", "gone.py")),
    Hostile("no such program", "", OutcomeKind.SCRIPT_ERROR, "could not be started", ("./gone", "train.py")),
)

ENDS = (
    Hostile(
        "exit 0 halfway",
        _doing("sys.exit(0)", "import sys"),
        OutcomeKind.TOO_SHORT,
        "after 20 optimizer steps",
    ),
    Hostile("os._exit(0)", _doing("os._exit(0)", "import os"), OutcomeKind.TOO_SHORT, "gone after 20"),
    Hostile(
        "os._exit(3)", _doing("os._exit(3)", "import os"), OutcomeKind.SCRIPT_ERROR, "exit status 3 after 20"
    ),
    Hostile(
        "no exit functions",
        _doing("atexit._clear(); sys.exit(0)", "import atexit, sys"),
        OutcomeKind.TOO_SHORT,
        "gone after 20",
    ),
    Hostile(
        "exit functions that raise",
        "import atexit\natexit.register(lambda: 1 / 0)\n" + _doing("raise SystemExit"),
        OutcomeKind.TOO_SHORT,
        "after 20 optimizer steps",
    ),
    Hostile(
        "kills its group", _doing("os.killpg(0, 9)", "import os"), OutcomeKind.KILLED, "SIGKILL after 20"
    ),
    Hostile(
        "ends by SIGTERM",
        _doing("os.kill(os.getpid(), 15)", "import os"),
        OutcomeKind.KILLED,
        "SIGTERM after 20",
    ),
    Hostile("aborts", _doing("os.abort()", "import os"), OutcomeKind.KILLED, "SIGABRT after 20"),
    Hostile(
        "stops itself",
        _doing("os.kill(os.getpid(), 19)", "import os"),
        OutcomeKind.HANG,
        "after 20 batches",
        no_progress_s=30.0,
    ),
    Hostile(
        "kills its keeper and leaves a daemon",
        _DAEMON + _doing("daemonise(lambda: time.sleep(600)); os.kill(os.getppid(), 9); time.sleep(600)"),
        OutcomeKind.KILLED,
        "keeper process was killed (signal 9) after 20 steps",
        is_usual=True,
    ),
    Hostile("stops its keeper", _doing("os.kill(os.getppid(), 19)", "import os")),
    Hostile(
        "hangs, the trial limit is shorter",
        _doing("time.sleep(600)", "import time"),
        OutcomeKind.HANG,
        "the trial's limit of 60 s ended it",
        trial_s=60.0,
        no_progress_s=61.0,
    ),
    Hostile(
        "swallows every exception",
        "from loop import train\nwhile True:\n    try:\n"
        "        train(lambda: 1 / 0)\n    except BaseException:\n        pass",
    ),
    Hostile(
        "an error of many lines",
        _doing("raise ValueError('what it is\\n\\nsee https://example.org/faq')"),
        OutcomeKind.SCRIPT_ERROR,
        "ValueError: what it is",
        is_usual=True,
    ),
    Hostile(
        "an error of 10 MB",
        _doing("raise ValueError('x' * 10**7)"),
        OutcomeKind.SCRIPT_ERROR,
        "ValueError: xxx",
    ),
    Hostile(
        "an error that can't be shown",
        "class Odd(Exception):\n    def __str__(self):\n        raise KeyError\n" + _doing("raise Odd"),
        OutcomeKind.SCRIPT_ERROR,
        "Odd",
    ),
    Hostile("asks on standard input", _doing("input('go on? ')"), OutcomeKind.SCRIPT_ERROR, "EOFError"),
)

HABITS = (
    Hostile("reads standard input", _doing("sys.stdin.read()", "import sys")),
    Hostile(
        "asks for a terminal",
        _doing("assert not sys.stdin.isatty() and not sys.stdout.isatty()", "import sys"),
    ),
    Hostile("much output", _doing("pass", "import os", each="lambda: os.write(1, b'z' * 100_000)")),
    Hostile("output that is no text", _doing("os.write(1, bytes(range(256)) * 99)", "import os")),
    Hostile("no standard output", _doing("sys.stdout.close(); sys.stdout = sys.stderr = None", "import sys")),
    Hostile(
        "2,000 threads",
        _doing(
            "[threading.Thread(target=gate.wait, daemon=True).start() for _ in range(2000)]",
            "import threading\nthreading.stack_size(65536)\ngate = threading.Event()",
        ),
    ),
    Hostile(
        "300 forks", _doing("[os.waitpid(os.fork() or os._exit(0), 0) for _ in range(300)]", "import os")
    ),
    Hostile("300 zombies", _doing("[os.fork() or os._exit(0) for _ in range(300)]", "import os")),
    Hostile(
        "own signal handlers",
        _doing(
            "[signal.signal(n, lambda *_: None) for n in range(1, 32) if n not in (9, 19)]", "import signal"
        ),
    ),
    Hostile(
        "a timer signal",
        _doing(
            "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
            "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)",
        ),
    ),
    Hostile(
        "an alarm that raises",
        "import signal\ndef late(*_):\n    raise TimeoutError('a step took 3 s')\n"
        "signal.signal(signal.SIGALRM, late)\n" + _doing("pass", each="lambda: signal.alarm(3)"),
    ),
    Hostile(
        "faulthandler",
        _doing(
            "faulthandler.enable(); faulthandler.dump_traceback_later(0.2, repeat=True)",
            "import faulthandler",
        ),
    ),
    Hostile("a tracer", _doing("sys.settrace(lambda *_: None)", "import sys")),
    Hostile("a profiler", _doing("sys.setprofile(lambda *_: None)", "import sys")),
    Hostile("no garbage collection", _doing("gc.disable(); gc.freeze()", "import gc")),
    Hostile("warnings are errors", _doing("warnings.simplefilter('error')", "import warnings")),
    Hostile(
        "a Python of its own without agent",
        _doing("subprocess.run([sys.executable, '-I', '-c', 'pass'], check=True)", "import subprocess, sys"),
    ),
)

_PLAIN = "from loop import train\ntrain()"

COMMANDS = (
    *(
        Hostile(f"python {' '.join(flags)}", _PLAIN, command=("{python}", *flags, "train.py"))
        for flags in (("-O",), ("-OO", "-B"), ("-X", "importtime"), ("-u",), ("-X", "dev"), ("-X", "utf8=0"))
    ),
    Hostile("python -W error", _PLAIN, command=("{python}", "-W", "error::UserWarning", "train.py")),
    Hostile("python -c", "", command=("{python}", "-c", _PLAIN)),
    Hostile("python -m", _PLAIN, command=("{python}", "-m", "train")),
    Hostile("a zip archive", _PLAIN, command=("{python}", "train.pyz")),
    Hostile("compiled", _PLAIN, command=("{python}", "compiled.pyc")),
    Hostile("a link", _PLAIN, command=("{python}", "link.py")),
    Hostile("spaces, a newline and umlauts", _PLAIN, command=("{python}", "mein Skript\n\u00fcb\u4e2d.py")),
    Hostile("100 KB of flags", _PLAIN, command=("{python}", "train.py", "--name", "x" * 100_000)),
    Hostile("LD_PRELOAD", _PLAIN, environment={"LD_PRELOAD": "/gone/lib.so"}),
    Hostile("LANG=C", _PLAIN, environment={"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}),
    Hostile("a shell in between", _PLAIN, command=("sh", "-c", '"$0" train.py', "{python}")),
)

HOSTILE = (*CLOCKS, *REPLACED, *LIMITS, *FOLDERS, *STARTS, *ENDS, *HABITS, *COMMANDS)
