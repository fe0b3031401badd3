"""Ways of programs that a training starts: commands, shells, git, and other Pythons."""

import os
import subprocess
import sys

from catalogue import NEW, OLD, OLD_TIME_S, Place, check, gone, python, run, see, way

COMMANDS, SHELLS, GIT, PYTHONS = "commands", "shells", "git", "other Pythons"
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
def sed_in_place(at: Place) -> None:
    run("sed", "-i", "s/had/HAD/", at.old)
    see(at.old, OLD.replace(b"had", b"HAD"))


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
def env_cleared(at: Place) -> None:
    run("env", "-i", "/bin/sh", "-c", 'echo trial > "$0"', at.old)
    see(at.old, b"trial\n")


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


@way(SHELLS)
def os_posix_spawn_file_action(at: Place) -> None:
    for path in (at.old, at.new):
        action = (os.POSIX_SPAWN_OPEN, 1, str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        pid = os.posix_spawn("/bin/echo", ["echo", "trial"], os.environ, file_actions=[action])
        check(os.waitpid(pid, 0)[1] == 0, "it failed")
        see(path, b"trial\n")


# --- git -------------------------------------------------------------------------------------

_WHO = ("-c", "user.name=user", "-c", "user.email=user@example.org", "-c", "gc.auto=0")


def _git(at: Place, *words: object) -> None:
    run("git", "-C", at.tree, *_WHO, *words)


def _plant_repository(at: Place) -> None:
    _git(at, "init", "-q")
    _git(at, "add", ".")
    _git(at, "commit", "-qm", "what the user had")


@way(GIT, plant=lambda at: (_plant_repository(at), at.have(at.tree / "result.txt")))
def git_clean(at: Place) -> None:
    _git(at, "clean", "-qfdx")
    gone(at.tree / "result.txt")


# --- other Pythons ---------------------------------------------------------------------------


def _write_both(at: Place, *flags: str, **options: object) -> None:
    python(WRITE, at.old, at.new, flags=flags, **options)
    see(at.old)
    see(at.new)


@way(PYTHONS)
def python_isolated(at: Place) -> None:
    _write_both(at, "-I")


@way(PYTHONS)
def python_with_empty_environment(at: Place) -> None:
    _write_both(at, env={})


@way(PYTHONS)
def python_behind_a_shell(at: Place) -> None:
    run("bash", "-c", f'PYTHONPATH=src "{sys.executable}" -c "$0" "$1" "$2"', WRITE, at.old, at.new)
    see(at.old)
    see(at.new)
