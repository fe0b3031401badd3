"""`tunekit monitor`: watch a real training, live or as plain lines."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from tunekit import __version__
from tunekit.cli.machine import host_here
from tunekit.cli.pipes import say
from tunekit.diagnose.recording import latest_reading
from tunekit.errors import UsageError
from tunekit.records.codec import read_json, to_json
from tunekit.records.host import Host
from tunekit.records.recording import Recording, RecordingStart
from tunekit.report.blocks import found_blocks
from tunekit.report.recording import reading_facts, reading_line, recording_answer
from tunekit.report.terminal import draw
from tunekit.report.text import finding_text
from tunekit.secret_words import masked_words
from tunekit.session.folder import new_folder
from tunekit.session.recording import load_recording
from tunekit.trial.launch import OUTPUT_FILE
from tunekit.trial.recording import (
    ENDED_FILE,
    RECORDING_FILE,
    is_alive,
    recording_of,
    start_recorded,
    start_watcher,
)
from tunekit.trial.target import resolve_target

_PLAIN_S, _LIVE_S, _POLL_S = 10.0, 2.0, 0.2
_OUTPUT_BYTES = 4096
_SIGNALLED = 128
"""A shell's exit status of a process that a signal ended, less the signal's number."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Watch a training until it ends; return its exit status, or 0 if it was not started here.

    Raises:
        UsageError: both a process and a command are given, or it is not said which training to watch.
        TargetError: the command can't be started, or there is no such process.
        RunFolderError: the recording can't be written.
    """
    if bool(command) is (options.pid is not None):
        raise UsageError("give either the PID of a training (ps -ef lists them), or a command after --")
    if not command:
        return _attach(options)
    target, host = resolve_target(command, Path.cwd()), host_here(command)
    folder = new_folder(None, f"{target.name}-recording").resolve()
    process = start_recorded(command, folder)
    watch_training(folder, host, command, process.pid, usd_per_h=options.price)
    say(f"recording PID {process.pid} in {folder}")
    _follow(folder, options, process)
    with contextlib.suppress(FileExistsError):
        (folder / ENDED_FILE).touch(exist_ok=False)
    _summary(folder, options)
    status = process.wait()
    return _SIGNALLED - status if status < 0 else status


def _attach(options: argparse.Namespace) -> int:
    """Watch a process that runs: by its recording, else by one of the machine's figures alone."""
    pid: int = options.pid
    with tempfile.TemporaryDirectory(prefix="tunekit-") as temporary:
        folder = recording_of(pid)
        if folder is None:
            folder, process = Path(temporary), psutil.Process(pid)
            words, known = process.cmdline() or [process.name()], {"started_at_s": process.create_time()}
            watch_training(folder, host_here(), words, pid, has_loop=False, **known)
            say(f"PID {pid} was started without tunekit: its steps, rate and data wait are unknown")
        _follow(folder, options)
        _summary(folder, options)
    return 0


def watch_training(folder: Path, host: Host, command: Sequence[str], pid: int, **known: Any) -> None:
    """Start the watcher of a training.

    Args:
        folder: the recording's.
        host: this machine.
        command: of the training; its secrets are masked.
        pid: the training's first process.
        known: other fields of the RecordingStart.
    """
    gpus = [one for one in host.accelerators if "nvml" in one.seen_by]
    facts = {"started_at_s": time.time(), "tunekit_version": __version__, "pid": pid, **known}
    start = RecordingStart(
        **facts,
        command=masked_words(command),
        cpus=host.cpus,
        ram_limit_bytes=host.ram_limit_bytes,
        gpus={one.index: one.name for one in gpus},
        vram_limit_bytes=min((one.memory_bytes for one in gpus if one.memory_bytes), default=None),
    )
    start_watcher(folder, start)


def _follow(
    folder: Path, options: argparse.Namespace, command: subprocess.Popen[bytes] | None = None
) -> None:
    """Show the training until it ends; Ctrl-C ends a command, and leaves a process that ran already alone."""
    start = read_json(folder / RECORDING_FILE, RecordingStart)
    console, seen, show_at = Console(highlight=False), set[str](), time.monotonic()
    is_live = console.is_terminal and not options.json
    with contextlib.suppress(psutil.NoSuchProcess), contextlib.ExitStack() as screen:
        process = psutil.Process(start.pid)
        if is_live:
            screen.enter_context(console.screen())
        while command.poll() is None if command else is_alive(process):
            try:
                if time.monotonic() >= show_at:
                    show_at = time.monotonic() + (_LIVE_S if is_live else _PLAIN_S)
                    recording = load_recording(folder, options.price)
                    if is_live:
                        _draw(recording, folder, console)
                    else:
                        _print(recording, options.json, seen)
                time.sleep(_POLL_S)
            except KeyboardInterrupt:
                if command is None:
                    screen.close()
                    say(f"the training goes on; watch it again with tunekit monitor {start.pid}")
                    raise
                os.killpg(command.pid, signal.SIGINT)


def _draw(recording: Recording, folder: Path, console: Console) -> None:
    """Draw the live view, with the last line that the training printed."""
    output = ""
    with contextlib.suppress(OSError), (folder / OUTPUT_FILE).open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
        lines = stream.read().decode("utf-8", "replace").split("\n")
        output = next((one.strip() for one in reversed(lines) if one.strip()), "")
    facts = reading_facts(latest_reading(recording, time.time()), recording.start, output)
    console.clear()
    draw(console, (facts, *found_blocks(recording.findings)))


def _print(recording: Recording, as_json: bool, seen: set[str]) -> None:
    """Print a line, and the findings that were not seen before."""
    reading = latest_reading(recording, recording.ended_at_s or time.time())
    if as_json:
        sys.stdout.write(to_json(reading, indent=None) + "\n")
    else:
        new = [one for one in recording.findings if one.code not in seen]
        texts = (f"{one.severity}: {finding_text(one)}" for one in new)
        say(reading_line(reading, recording.start), *texts, to_stderr=False)
        seen.update(one.code for one in new)
    sys.stdout.flush()


def _summary(folder: Path, options: argparse.Namespace) -> None:
    """Show what became of the whole training."""
    recording = load_recording(folder, options.price)
    if options.json:
        _print(recording, True, set())
    else:
        draw(Console(highlight=False), (*recording_answer(recording), *found_blocks(recording.findings)))
        if recording.start.has_loop:
            say(f"charts: tunekit report {folder} --html", to_stderr=False)
