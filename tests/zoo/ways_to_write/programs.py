"""Ways of programs that a training starts: commands, shells, and other Pythons."""

import os
import subprocess

from catalogue import NEW, OLD_TIME_S, Place, check, gone, python, run, see, way

COMMANDS, SHELLS, PYTHONS = "commands", "shells", "other Pythons"
WRITE = f"import sys; [open(path, 'wb').write({NEW!r}) for path in sys.argv[1:]]"


def _plant_source(at: Place) -> None:
    at.have(at.tree / "source.txt", NEW)


# --- commands --------------------------------------------------------------------------------


@way(COMMANDS)
def rm_recursively(at: Place) -> None:
    run("rm", "-rf", at.tree)
    gone(at.tree)


@way(COMMANDS, plant=_plant_source)
def mv_over(at: Place) -> None:
    run("mv", "-f", at.tree / "source.txt", at.old)
    see(at.old)


@way(COMMANDS)
def touch(at: Place) -> None:
    for path in (at.old, at.new):
        run("touch", path)
        check(path.stat().st_mtime > OLD_TIME_S, path.name)


@way(COMMANDS)
def chmod(at: Place) -> None:
    run("chmod", "600", at.old)
    check(at.old.stat().st_mode & 0o777 == 0o600, oct(at.old.stat().st_mode))


# --- shells ----------------------------------------------------------------------------------


def _shell(text: str, at: Place) -> None:
    run("sh", "-c", text, "sh", at.old, at.new)


@way(SHELLS)
def sh_redirect(at: Place) -> None:
    _shell('echo trial > "$1"; echo trial > "$2"', at)
    see(at.old, b"trial\n")
    see(at.new, b"trial\n")


@way(SHELLS)
def sh_later_in_the_background(at: Place) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        ["nohup", "sh", "-c", '(echo trial > "$0"; echo trial > "$1") &', at.old, at.new],
        stdout=writing,
        stderr=writing,
    ):
        os.close(writing)
        while os.read(reading, 4096):  # until the one in the background has ended, too
            pass
    os.close(reading)
    see(at.old, b"trial\n")
    see(at.new, b"trial\n")


@way(SHELLS)
def subprocess_with_output_in_a_file(at: Place) -> None:
    for path in (at.old, at.new):
        with open(path, "wb") as stream:
            subprocess.run(["echo", "trial"], stdout=stream, check=True)
        see(path, b"trial\n")


# --- other Pythons ---------------------------------------------------------------------------


@way(PYTHONS)
def python_with_empty_environment(at: Place) -> None:
    python(WRITE, at.old, at.new, env={})
    see(at.old)
    see(at.new)
