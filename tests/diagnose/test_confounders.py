"""What makes two runs unfair to compare: each difference is told once, with both values."""

from collections.abc import Callable
from typing import Any

import pytest
from build_comparisons import searched, side, slower
from build_loops import threads
from build_records import device, host, profile, target
from finding_texts import texts_of

from tunekit.diagnose.registry import findings_of, worst_first
from tunekit.diagnose.run_pair import RunPair, Side
from tunekit.records.finding import Finding
from tunekit.records.host import Accelerator, TorchBuild
from tunekit.records.run import Run, RunStatus


def torch(**overrides: Any) -> TorchBuild:
    values: dict[str, Any] = {
        "python": "/venv/bin/python",
        "python_version": "3.12.1",
        "version": "2.13.0",
        "cuda_version": "13.0",
        "hip_version": None,
        "cudnn_version": "9.10",
        "architectures": (),
        "devices": (),
        "threads": 4,
        "float32_matmul_precision": "highest",
    }
    return TorchBuild(**(values | overrides))


def gpu(driver: str) -> Accelerator:
    (one,) = host().accelerators
    return one.model_copy(update={"driver": driver})


def beside(reference: Side, other: Side) -> list[Finding]:
    return list(worst_first(findings_of(RunPair(reference, other, 0.05))))


def found(before: Run, after: Run) -> list[Finding]:
    return beside(side("A", before), side("B", after))


BASE = {"host": host(torch=torch())}
CLOSE = {"rates": (980.0, 979.0, 981.0), "own_rates": (500.0, 500.5, 499.5)}
"""So near each other that every verdict is clear."""
BESIDE = {"rates": (981.0, 979.0, 980.0)}
"""As fast, and not the same run."""


DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    (
        "other-machine",
        {**BASE, "measured_on": "l4", "profile": profile("l4"), "loop": {"device": device("NVIDIA L4")}},
    ),
    ("other-machine", {"host": host(torch=torch(), cpu_name="AMD EPYC")}),
    ("other-machine", {"host": host(torch=torch(), cpus=4)}),
    ("other-machine", {"host": host(torch=torch(), accelerators=(gpu("580.2"),))}),
    ("other-machine", {"host": host(torch=torch(version="2.14.0"))}),
    ("other-machine", {"host": host(torch=torch(cuda_version=None, hip_version="7.0"))}),
    ("other-machine", {"host": host(torch=torch(cudnn_version="9.11"))}),
    ("other-emulation", {**BASE, "profile": profile("l4")}),
    ("other-threads", {**BASE, "loop": {"threads": threads(1, OMP_NUM_THREADS="1")}}),
    ("other-epoch", {**BASE, "loop": {"epoch_samples": 20000}}),
    ("other-world-size", {**BASE, "loop": {"world_size": 2, "epoch_samples": 25000}}),
    (
        "other-command",
        {**BASE, "target": target(command=("python", "train.py", "--lr", "1"), script_sha256="a" * 64)},
    ),
    ("other-script", {**BASE, "target": target(script_sha256="b" * 64)}),
    ("unfinished", {**BASE, "status": RunStatus.INTERRUPTED}),
]


def test_each_difference_is_told_with_both_values(golden: Callable[[str], object]):
    known = {"target": target(script_sha256="a" * 64), "loop": {"threads": threads(8)}, **CLOSE}
    texts = []
    for code, other in DIFFERENCES:
        findings = found(searched(**BASE, **known), searched(**(known | BESIDE | other)))
        assert [finding.code for finding in findings] == [code]
        texts += findings
    assert texts_of(texts) == golden("confounders.txt")


def test_what_is_unknown_of_one_is_no_difference():
    before = searched(target=target(script_sha256="a" * 64), **BASE, **CLOSE)
    after = searched(**(CLOSE | BESIDE), host=host(cpu_name=None, accelerators=()))
    one = RunPair(side("A", before), side("B", after.model_copy(update={"noise_floor": None})), 0.05)
    # The trial itself told which torch it had; the machine was not asked.
    assert one.machine_differences == ("torch",)
    (finding,) = [found for found in findings_of(one) if found.code != "not-comparable"]
    assert (finding.code, finding.evidence) == ("other-machine", "torch: 2.13.0 in A, 2.9.0 in B")


def test_a_dropped_last_batch_is_no_other_data_set():
    shorter = searched(rates=(981.0, 970.0, 990.0), loop={"epoch_samples": 49_600})
    assert found(searched(), shorter) == []


def test_an_edited_script_with_another_flag_is_still_compared():
    before = searched(target=target(command=("python", "train.py"), script_sha256="a" * 64), **CLOSE)
    edited = target(command=("python", "train.py", "--fused"), script_sha256="b" * 64)
    pair = RunPair(side("A", before), side("B", searched(**(CLOSE | BESIDE), target=edited)), 0.05)
    assert (pair.why_not, pair.compared_by) == (None, "rate")
    assert {one.code for one in findings_of(pair)} == {"other-script", "other-command"}


def test_another_script_can_not_be_compared():
    before = searched(target=target(command=("python", "train.py"), script_sha256="a" * 64))
    other = target(command=("python", "other.py"), script="b/other.py", script_sha256="b" * 64)
    pair = RunPair(side("A", before), side("B", slower(0.5, target=other)), 0.05)
    assert (pair.compared_by, pair.deciding) == (None, None)
    first, *others = worst_first(findings_of(pair))
    assert (first.code, first.severity) == ("not-comparable", "warning")
    assert first.evidence == pair.why_not
    assert {one.code for one in others} == {"other-script", "other-command"}


def test_a_script_under_another_name_is_the_same_training():
    before = searched(target=target(command=("python", "train.py"), script_sha256="a" * 64))
    renamed = target(command=("python", "main.py"), script="main.py", script_sha256="a" * 64)
    assert RunPair(side("A", before), side("B", searched(target=renamed)), 0.05).why_not is None


# --- what would tell -----------------------------------------------------------------------


def undecided(before: Run, after: Run) -> Finding:
    (finding,) = [one for one in found(before, after) if one.code == "undecided"]
    return finding


def test_a_busy_machine_is_to_be_quiet_first():
    finding = undecided(searched(), searched(rates=(850.0, 1100.0, 930.0), own_rates=(400.0, 500.0, 420.0)))
    assert "noise floor 22.2%" in (finding.evidence or "")
    assert "--confirm" not in (finding.remedy or "")


def test_a_clear_difference_on_a_busy_machine_says_that_it_was_busy():
    (finding,) = found(searched(), searched(rates=(3000.0, 3400.0, 3000.0)))
    assert (finding.code, finding.severity) == ("busy-machine", "warning")
    assert finding.evidence == "fresh processes of one config differ by 2% in A, 13% in B"


@pytest.mark.parametrize(
    ("rates", "own_rates"),
    [
        ((850.0, 1100.0, 930.0), (500.0, 505.0, 495.0)),  # more rounds than anybody waits for
        ((910.0, 915.0, 905.0), (500.0, 540.0, 500.0)),  # beyond what matters, within the noise floor
    ],
)
def test_where_no_rounds_would_tell_a_quieter_machine_is_asked_for(
    rates: tuple[float, ...], own_rates: tuple[float, ...]
):
    finding = undecided(searched(own_rates=own_rates), searched(rates=rates, own_rates=own_rates))
    assert "on a quieter machine" in (finding.remedy or "")


def test_an_open_difference_that_is_no_regression_is_a_note():
    finding = undecided(searched(), searched(rates=(1005.0, 1045.0, 1025.0)))
    assert finding.severity == "info"
