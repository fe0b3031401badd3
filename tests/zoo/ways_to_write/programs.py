"""Ways of programs that a training starts: commands, shells, git, and other Pythons."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from catalogue import NEW, OLD, OLD_TIME_S, Place, check, gone, over_and_new, python, run, see, way

COMMANDS, SHELLS, GIT, PYTHONS = "commands", "shells", "git", "other Pythons"
WRITE = f"import sys; [open(path, 'wb').write({NEW!r}) for path in sys.argv[1:]]"


def _plant_source(at: Place) -> None:
    at.have(at.tree / "source.txt", NEW)


# --- commands --------------------------------------------------------------------------------


@way(COMMANDS)
def rm(at: Place) -> None:
    run("rm", "-f", at.old)
    gone(at.old)


@way(COMMANDS)
def rm_recursively(at: Place) -> None:
    run("rm", "-rf", at.tree)
    gone(at.tree)


@way(COMMANDS)
def unlink(at: Place) -> None:
    run("unlink", at.old)
    gone(at.old)


@way(COMMANDS)
def rmdir(at: Place) -> None:
    run("rmdir", at.empty)
    gone(at.empty)


@way(COMMANDS, plant=_plant_source)
def cp(at: Place) -> None:
    for path in (at.old, at.new):
        run("cp", at.tree / "source.txt", path)
        see(path)


@way(COMMANDS, plant=_plant_source)
def cp_recursively(at: Place) -> None:
    run("cp", "-a", at.tree, at.new)
    see(at.new / "source.txt")


@way(COMMANDS, plant=_plant_source)
def mv_over(at: Place) -> None:
    run("mv", "-f", at.tree / "source.txt", at.old)
    see(at.old)


@way(COMMANDS)
def mv_away(at: Place) -> None:
    run("mv", at.old, at.new)
    gone(at.old)
    see(at.new, OLD)


@over_and_new(COMMANDS)
def tee(path: Path) -> None:
    run("tee", path, input=NEW)


@over_and_new(COMMANDS)
def tee_append(path: Path) -> None:
    run("tee", "-a", path, input=NEW)


@way(COMMANDS)
def sed_in_place(at: Place) -> None:
    run("sed", "-i", "s/had/HAD/", at.old)
    see(at.old, OLD.replace(b"had", b"HAD"))


@way(COMMANDS)
def perl_in_place(at: Place) -> None:
    run("perl", "-pi.bak", "-e", "s/had/HAD/", at.old)
    see(at.old, OLD.replace(b"had", b"HAD"))


@way(COMMANDS, plant=_plant_source)
def dd(at: Place) -> None:
    for path in (at.old, at.new):
        run("dd", f"if={at.tree / 'source.txt'}", f"of={path}")
        see(path)


@way(COMMANDS)
def dd_without_truncating(at: Place) -> None:
    run("dd", f"of={at.old}", "conv=notrunc", input=b"WHAT")
    see(at.old, b"WHAT" + OLD[4:])


@way(COMMANDS)
def truncate(at: Place) -> None:
    for path in (at.old, at.new):
        run("truncate", "-s", "100", path)
        check(path.stat().st_size == 100, path.name)


@way(COMMANDS)
def fallocate(at: Place) -> None:
    for path in (at.old, at.new):
        run("fallocate", "-l", "4096", path)
        check(path.stat().st_size == 4096, path.name)


@way(COMMANDS)
def touch(at: Place) -> None:
    for path in (at.old, at.new):
        run("touch", path)
        check(path.stat().st_mtime > OLD_TIME_S, path.name)


@way(COMMANDS)
def chmod(at: Place) -> None:
    run("chmod", "600", at.old)
    check(at.old.stat().st_mode & 0o777 == 0o600, oct(at.old.stat().st_mode))


@way(COMMANDS, plant=_plant_source)
def ln_symbolic(at: Place) -> None:
    for path in (at.old, at.new):
        run("ln", "-sf", at.tree / "source.txt", path)
        see(path)


@way(COMMANDS, plant=_plant_source)
def ln_hard(at: Place) -> None:
    for path in (at.old, at.new):
        run("ln", "-f", at.tree / "source.txt", path)
        see(path)


@way(COMMANDS, plant=_plant_source)
def install(at: Place) -> None:
    for path in (at.old, at.new):
        run("install", "-m", "600", at.tree / "source.txt", path)
        see(path)


@way(COMMANDS)
def mkdir(at: Place) -> None:
    run("mkdir", "-p", at.new / "a")
    check((at.new / "a").is_dir(), "no folder")


@way(COMMANDS)
def mkfifo(at: Place) -> None:
    run("mkfifo", at.new)
    check(at.new.is_fifo(), "no pipe")


@way(COMMANDS)
def mktemp(at: Place) -> None:
    run("mktemp", "-p", at.empty)
    check(len(list(at.empty.iterdir())) == 1, "no file")


@over_and_new(COMMANDS)
def tar_create(path: Path) -> None:
    run("tar", "-cf", path, "-C", path.parent, "tree")


def _plant_tar(at: Place) -> None:
    at.have(at.folder / "source" / "one.txt", NEW)
    at.have(at.folder / "source" / "three.txt", NEW)
    run("tar", "-cf", at.folder / "packed.tar", "-C", at.folder / "source", "one.txt", "three.txt")


@way(COMMANDS, plant=_plant_tar)
def tar_extract(at: Place) -> None:
    run("tar", "-xf", at.folder / "packed.tar", "-C", at.tree)
    see(at.tree / "one.txt")
    see(at.tree / "three.txt")


@way(COMMANDS)
def gzip(at: Place) -> None:
    run("gzip", at.old)
    gone(at.old)
    check((at.folder / "old.txt.gz").exists(), "no archive")


@way(COMMANDS)
def sort(at: Place) -> None:
    for path in (at.old, at.new):
        run("sort", "-o", path, input=NEW)
        see(path)


@way(COMMANDS)
def split(at: Place) -> None:
    run("split", "-b", "5", at.old, at.empty / "part-")
    see(at.empty / "part-aa", OLD[:5])


@way(COMMANDS)
def find_delete(at: Place) -> None:
    run("find", at.tree, "-name", "*.txt", "-delete")
    gone(at.tree / "deep" / "two.txt")


@way(COMMANDS)
def find_exec(at: Place) -> None:
    run("find", at.tree, "-name", "*.txt", "-exec", "sed", "-i", "s/had/HAD/", "{}", "+")
    see(at.tree / "one.txt", OLD.replace(b"had", b"HAD"))


@way(COMMANDS)
def xargs_rm(at: Place) -> None:
    run("xargs", "rm", input=os.fsencode(at.old))
    gone(at.old)


@over_and_new(COMMANDS)
def awk(path: Path) -> None:
    run("awk", '{ print > "%s" }' % path, input=NEW)  # noqa: UP031 - braces of awk's own


# --- shells ----------------------------------------------------------------------------------


def _shell(text: str, at: Place) -> None:
    run("sh", "-c", text, "sh", at.old, at.new)


@way(SHELLS)
def sh_redirect(at: Place) -> None:
    _shell('echo trial > "$1"; echo trial > "$2"', at)
    see(at.old, b"trial\n")
    see(at.new, b"trial\n")


@way(SHELLS)
def sh_append(at: Place) -> None:
    _shell('echo trial >> "$1"; echo trial >> "$2"', at)
    see(at.old, OLD + b"trial\n")
    see(at.new, b"trial\n")


@way(SHELLS)
def sh_truncate(at: Place) -> None:
    _shell(': > "$1"', at)
    see(at.old, b"")


@way(SHELLS)
def sh_read_and_write(at: Place) -> None:
    _shell('echo WHAT 1<> "$1"', at)
    see(at.old, b"WHAT\n" + OLD[5:])


@way(SHELLS)
def bash_here_document(at: Place) -> None:
    run("bash", "-c", 'cat > "$0" <<< trial; cat > "$1" <<< trial', at.old, at.new)
    see(at.old, b"trial\n")
    see(at.new, b"trial\n")


@way(SHELLS)
def env_cleared(at: Place) -> None:
    run("env", "-i", "/bin/sh", "-c", 'echo trial > "$0"', at.old)
    see(at.old, b"trial\n")


@way(SHELLS)
def own_session(at: Place) -> None:
    run("setsid", "--wait", "sh", "-c", 'echo trial > "$0"', at.old)
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
def os_system(at: Place) -> None:
    check(os.system(f"echo trial > '{at.old}'") == 0, "it failed")
    see(at.old, b"trial\n")


@way(SHELLS)
def os_popen(at: Place) -> None:
    with os.popen(f"cat > '{at.old}'", "w") as stream:
        stream.write("trial\n")
    see(at.old, b"trial\n")


@way(SHELLS)
def subprocess_with_output_in_a_file(at: Place) -> None:
    for path in (at.old, at.new):
        with open(path, "wb") as stream:
            subprocess.run(["echo", "trial"], stdout=stream, check=True)
        see(path, b"trial\n")


@way(SHELLS)
def os_posix_spawn(at: Place) -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"echo trial > '{at.old}'"], os.environ)
    check(os.waitpid(pid, 0)[1] == 0, "it failed")
    see(at.old, b"trial\n")


@way(SHELLS)
def os_posix_spawn_file_action(at: Place) -> None:
    for path in (at.old, at.new):
        action = (os.POSIX_SPAWN_OPEN, 1, str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        pid = os.posix_spawn("/bin/echo", ["echo", "trial"], os.environ, file_actions=[action])
        check(os.waitpid(pid, 0)[1] == 0, "it failed")
        see(path, b"trial\n")


@way(SHELLS)
def os_fork_and_exec(at: Place) -> None:
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", f"echo trial > '{at.old}'"])
    check(os.waitpid(pid, 0)[1] == 0, "it failed")
    see(at.old, b"trial\n")


@way(SHELLS)
def asyncio_subprocess(at: Place) -> None:
    async def write() -> int:
        process = await asyncio.create_subprocess_shell(f"echo trial > '{at.old}'")
        return await process.wait()

    check(asyncio.run(write()) == 0, "it failed")
    see(at.old, b"trial\n")


# --- git -------------------------------------------------------------------------------------

_WHO = ("-c", "user.name=user", "-c", "user.email=user@example.org", "-c", "gc.auto=0")


def _git(at: Place, *words: object) -> None:
    run("git", "-C", at.tree, *_WHO, *words)


def _plant_repository(at: Place) -> None:
    _git(at, "init", "-q")
    _git(at, "add", ".")
    _git(at, "commit", "-qm", "what the user had")


@way(GIT)
def git_init(at: Place) -> None:
    _git(at, "init", "-q")
    check((at.tree / ".git" / "HEAD").exists(), "no repository")


@way(GIT, plant=_plant_repository)
def git_commit(at: Place) -> None:
    _git(at, "commit", "-q", "--allow-empty", "-m", "experiment 7")
    _git(at, "tag", "experiment-7")
    check("experiment 7" in (at.tree / ".git" / "logs" / "HEAD").read_text(), "no commit")


@way(GIT, plant=_plant_repository)
def git_rm_and_checkout(at: Place) -> None:
    _git(at, "rm", "-q", "one.txt")
    gone(at.tree / "one.txt")
    _git(at, "checkout", "-q", "HEAD", "--", "one.txt")
    see(at.tree / "one.txt", OLD)


@way(GIT, plant=lambda at: (_plant_repository(at), at.have(at.tree / "one.txt", b"not committed\n")))
def git_reset_hard(at: Place) -> None:
    _git(at, "reset", "-q", "--hard")
    see(at.tree / "one.txt", OLD)


@way(GIT, plant=lambda at: (_plant_repository(at), at.have(at.tree / "result.txt")))
def git_clean(at: Place) -> None:
    _git(at, "clean", "-qfdx")
    gone(at.tree / "result.txt")


@way(GIT, plant=lambda at: (_plant_repository(at), at.have(at.tree / "one.txt", b"not committed\n")))
def git_stash(at: Place) -> None:
    _git(at, "stash", "-q")
    see(at.tree / "one.txt", OLD)


# --- other Pythons ---------------------------------------------------------------------------


def _write_both(at: Place, *flags: str, **options: object) -> None:
    python(WRITE, at.old, at.new, flags=flags, **options)
    see(at.old)
    see(at.new)


@way(PYTHONS)
def python_c(at: Place) -> None:
    _write_both(at)


@way(PYTHONS)
def python_isolated(at: Place) -> None:
    _write_both(at, "-I")


@way(PYTHONS)
def python_without_site(at: Place) -> None:
    _write_both(at, "-S")


@way(PYTHONS)
def python_without_environment(at: Place) -> None:
    _write_both(at, "-E")


@way(PYTHONS)
def python_with_empty_environment(at: Place) -> None:
    _write_both(at, env={})


@way(PYTHONS)
def python_with_own_pythonpath(at: Place) -> None:
    _write_both(at, env={**os.environ, "PYTHONPATH": str(at.tree)})


@way(PYTHONS)
def python_behind_a_shell(at: Place) -> None:
    run("bash", "-c", f'PYTHONPATH=src "{sys.executable}" -c "$0" "$1" "$2"', WRITE, at.old, at.new)
    see(at.old)
    see(at.new)


@way(PYTHONS)
def python_from_standard_input(at: Place) -> None:
    run(sys.executable, "-", at.old, at.new, input=WRITE.encode())
    see(at.old)
    see(at.new)


@way(PYTHONS, plant=_plant_source)
def python_m_zipfile(at: Place) -> None:
    for path in (at.old, at.new):
        run(sys.executable, "-m", "zipfile", "-c", path, at.tree / "source.txt")
        check(path.read_bytes()[:2] == b"PK", path.name)


@way(PYTHONS)
def python_at_exit(at: Place) -> None:
    python(f"import atexit, sys; atexit.register(lambda: open(sys.argv[1], 'wb').write({NEW!r}))", at.old)
    see(at.old)


@way(PYTHONS)
def python_exec_in_a_fork(at: Place) -> None:
    pid = os.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", WRITE, str(at.old)], {})
    check(os.waitpid(pid, 0)[1] == 0, "it failed")
    see(at.old)
