"""What holds of every finding, whatever the machine."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from build_checkups import (
    H200,
    T4,
    checkup,
    checkups,
    codes,
    gpu,
    loader_plan,
    storage_of,
    torch_of,
)
from build_records import configs, hosts
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.machine import machine_findings
from tunekit.diagnose.registry import worst
from tunekit.predict.ram import loader_ram
from tunekit.records.checkup import Checkup, LoaderPlan
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Severity
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.records.recommendation import RamVerdict

NO_FIGURE = re.compile(r"\b(None|nan|inf)\b")


def machines(test: Callable[[Checkup, Profile | None], None]) -> Callable[[], None]:
    """Let a test hold for any machine and the profiles that it may have."""
    return given(checkups(), st.sampled_from([None, H200, T4]))(test)


def texts_in(value: Any) -> Iterator[str]:
    """Return every text in a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts_in(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from texts_in(one)


@pytest.mark.parametrize(
    "healthy",
    [
        checkup(),
        checkup(loader=loader_plan(), storage=storage_of()),
        checkup(accelerators=tuple(gpu(index) for index in range(3)), loader=loader_plan(processes=1)),
    ],
)
def test_a_machine_in_good_order_has_no_findings(healthy: Checkup):
    assert machine_findings(healthy, H200) == ()


def test_a_gpu_machine_as_it_is_rented_has_but_one_note():
    rented = checkup(environment={}, unset=("PYTORCH_CUDA_ALLOC_CONF", "OMP_NUM_THREADS"))
    rented = rented.model_copy(
        update={
            "host": rented.host.model_copy(update={"torch": torch_of(float32_matmul_precision="highest")})
        }
    )
    assert codes(rented) == ["tf32-off"]
    assert worst(machine_findings(rented, H200)) is Severity.INFO


@machines
def test_findings_add_nothing_unprintable_and_no_unknown_figure(seen: Checkup, profile: Profile | None):
    told = "\n".join(texts_in(seen.model_dump()))
    for finding in machine_findings(seen, profile):
        for text in (finding.message, finding.evidence or "", finding.remedy or ""):
            assert {one for one in text if not one.isprintable()} <= set(told), finding
            assert not NO_FIGURE.search(text) or NO_FIGURE.search(told), finding


@given(configs(), st.integers(1, 1 << 22), hosts(), st.floats(0, 1))
def test_doctor_and_search_judge_a_loader_alike(
    knobs: TrainConfig, bytes_per_sample: int, machine: Host, taken: float
):
    size_bytes = machine.shm_bytes or 0  # a machine without /dev/shm is none that workers could load on
    machine = machine.model_copy(update={"shm_bytes": size_bytes, "shm_used_bytes": int(taken * size_bytes)})
    plan = LoaderPlan(
        num_workers=knobs.num_workers,
        prefetch_factor=knobs.prefetch_factor or 2,
        batch_bytes=knobs.batch_size * bytes_per_sample,
    )
    seen = checkup(loader=plan).model_copy(update={"host": machine})
    told = {one.severity for one in machine_findings(seen, None) if one.code in ("small-shm", "large-buffer")}
    expected = {
        RamVerdict.OOM: Severity.ERROR,
        RamVerdict.RISKY: Severity.WARNING,
        RamVerdict.SAFE: None,
    }[loader_ram(knobs, bytes_per_sample, 0, machine).verdict]
    assert (Severity.ERROR in told) == (expected is Severity.ERROR)
    assert (told == {Severity.WARNING}) == (expected is Severity.WARNING)
    assert (told == set()) == (expected is None)
