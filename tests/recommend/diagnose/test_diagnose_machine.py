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
    only_finding,
    storage_of,
    torch_of,
    without_gpu,
)
from build_records import MIB, unhurried
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.recommend.diagnose.machine import machine_findings, worst
from tunekit.records.checkup import Checkup, LoaderPlan
from tunekit.records.codec import from_json, to_json
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile

RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}
NO_FIGURE = re.compile(r"\b(None|nan|inf)\b")


def machines(test: Callable[[Checkup, Profile | None], None]) -> Callable[[], None]:
    """Let a test hold for any machine and the profiles that it may have."""
    return settings(unhurried, max_examples=60)(given(checkups(), st.sampled_from([None, H200, T4]))(test))


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


def test_a_gpu_machine_as_it_is_rented_has_but_two_notes():
    rented = checkup(environment={}, unset=("PYTORCH_CUDA_ALLOC_CONF", "OMP_NUM_THREADS"))
    rented = rented.model_copy(
        update={
            "host": rented.host.model_copy(update={"torch": torch_of(float32_matmul_precision="highest")})
        }
    )
    assert codes(rented) == ["tf32-off", "expandable-segments-off"]
    assert worst(machine_findings(rented, H200)) is Severity.INFO


def test_a_machine_without_a_gpu_says_just_that():
    finding = only_finding(without_gpu(), None)
    assert finding.code == "no-gpu"
    assert finding.severity is Severity.INFO


@machines
def test_findings_come_worst_first(seen: Checkup, profile: Profile | None):
    ranks = [RANK[finding.severity] for finding in machine_findings(seen, profile)]
    assert ranks == sorted(ranks, reverse=True)


@machines
def test_no_device_and_no_data_set_has_a_code_twice(seen: Checkup, profile: Profile | None):
    found = machine_findings(seen, profile)
    paths = [storage.path for storage in seen.storage]
    about = [
        (one.code, re.findall(r"GPU (\d+)", one.message), [path for path in paths if f"{path} " in one.message])
        for one in found
    ]
    assert all(about.count(one) == 1 for one in about), about


@machines
def test_every_finding_says_what_and_what_to_do(seen: Checkup, profile: Profile | None):
    for finding in machine_findings(seen, profile):
        assert finding.message
        assert not finding.message.endswith("."), finding
        assert finding.remedy, finding


@machines
def test_findings_add_nothing_unprintable_and_no_unknown_figure(seen: Checkup, profile: Profile | None):
    told = "\n".join(texts_in(seen.model_dump()))
    for finding in machine_findings(seen, profile):
        for text in (finding.message, finding.evidence or "", finding.remedy or ""):
            assert {one for one in text if not one.isprintable()} <= set(told), finding
            assert not NO_FIGURE.search(text) or NO_FIGURE.search(told), finding


@machines
def test_a_checkup_with_its_findings_is_kept_as_json(seen: Checkup, profile: Profile | None):
    whole = seen.model_copy(update={"findings": machine_findings(seen, profile)})
    assert from_json(to_json(whole), Checkup) == whole


@unhurried
@given(st.lists(st.sampled_from(Severity), max_size=6))
def test_the_worst_is_the_highest_severity(severities: list[Severity]):
    found = tuple(Finding(code="some", severity=severity, message="some") for severity in severities)
    assert worst(found) == max(severities, key=RANK.__getitem__, default=None)


@unhurried
@given(
    st.integers(0, 64),
    st.integers(1, 32),
    st.none() | st.integers(1, 1 << 32),
    st.integers(1, 8),
)
def test_the_buffer_is_every_queue_full(workers: int, prefetch: int, batch: int | None, processes: int):
    plan = LoaderPlan(num_workers=workers, prefetch_factor=prefetch, batch_bytes=batch, processes=processes)
    assert plan.total_workers == workers * processes
    if batch is None or workers == 0:
        assert plan.buffer_bytes is None
    else:
        assert plan.buffer_bytes == processes * (workers * prefetch + 1) * batch


def test_a_buffer_of_known_size():
    assert LoaderPlan(num_workers=4, prefetch_factor=3, batch_bytes=100 * MIB, processes=2).buffer_bytes == (
        2600 * MIB
    )
