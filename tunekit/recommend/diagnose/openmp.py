"""OMP_NUM_THREADS: how many threads OpenMP starts in each process, held against the CPUs."""

import re

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile
from tunekit.units import count_text

_NUMBERS = re.compile(r"\s*([0-9]{1,9})(\s*,\s*[0-9]{1,9})*\s*")
"""One number, or one for each level of nested parallelism: OpenMP 5.2, section 21.2.1."""


def openmp_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the threads that OpenMP libraries would start."""
    found = [_threads_times_workers(checkup), _more_than_cpus(checkup), _ignored(checkup)]
    return [finding for finding in found if finding is not None]


def _text(checkup: Checkup) -> str:
    return checkup.environment.get("OMP_NUM_THREADS", "").strip()


def _threads_in(checkup: Checkup) -> int | None:
    """Return the threads of the outermost level, None where the variable names none."""
    numbers = _NUMBERS.fullmatch(_text(checkup))
    return int(numbers[1]) if numbers else None


def _more_than_cpus(checkup: Checkup) -> Finding | None:
    threads, cpus, build = _threads_in(checkup), checkup.host.cpus, checkup.host.torch
    if threads is None or threads <= cpus or (build is not None and build.threads > cpus):
        return None
    return Finding(
        code="threads-above-cpus",
        severity=Severity.WARNING,
        message="OMP_NUM_THREADS asks for more threads than CPUs may be used: they fight over them",
        evidence=f"OMP_NUM_THREADS={threads}; affinity and quota allow {count_text(cpus, 'CPU')}",
        remedy=f"export OMP_NUM_THREADS={cpus}",
        value=threads,
    )


def _ignored(checkup: Checkup) -> Finding | None:
    text = _text(checkup)
    if not text or _threads_in(checkup) is not None:
        return None
    return Finding(
        code="omp-ignored",
        severity=Severity.WARNING,
        message="OMP_NUM_THREADS is no number: OpenMP ignores it and starts a thread for each CPU",
        evidence=f"OMP_NUM_THREADS={text!r}",
        remedy="unset OMP_NUM_THREADS, or export it as a number",
    )


def _threads_times_workers(checkup: Checkup) -> Finding | None:
    """Find threads of OpenMP libraries beyond torch, which each worker starts for itself."""
    loader, cpus = checkup.loader, checkup.host.cpus
    threads = _threads_in(checkup)
    workers = loader.total_workers if loader else 0
    if workers < 2:
        return None
    if threads is None:
        if _text(checkup) or cpus == 1:
            return None
        return Finding(
            code="omp-threads",
            severity=Severity.INFO,
            message=(
                "in each loader worker torch uses one thread, but OpenCV, NumPy's BLAS and others start as "
                "many as there are CPUs"
            ),
            evidence=f"OMP_NUM_THREADS is not set; {workers} workers on {cpus} CPUs",
            remedy=(
                "if the data set uses them, in worker_init_fn: cv2.setNumThreads(0) and "
                "threadpoolctl.threadpool_limits(1)"
            ),
        )
    if threads * workers <= cpus:
        return None
    return Finding(
        code="omp-threads",
        severity=Severity.INFO,
        message=(
            "in each loader worker torch uses one thread, but other OpenMP libraries start OMP_NUM_THREADS: "
            "together more than the CPUs"
        ),
        evidence=(
            f"OMP_NUM_THREADS={threads} x {workers} workers = {threads * workers}, {count_text(cpus, 'CPU')}"
        ),
        remedy=(
            "if the data set uses such libraries, in worker_init_fn: threadpoolctl.threadpool_limits"
            f"({max(1, cpus // workers)})"
        ),
        value=threads * workers,
    )
