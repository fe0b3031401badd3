"""What makes two runs unfair to compare: each difference is told once, with both values."""

from typing import Any

import pytest
from build_comparisons import searched, side
from build_records import GIB, device, host, options, profile, target

from tunekit.diagnose.registry import findings_of, worst_first
from tunekit.diagnose.run_pair import RunPair, Side
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Accelerator, TorchBuild
from tunekit.records.run import Objective, Run, RunStatus


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
        "tf32_in_cudnn": True,
        "bf16_native": True,
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


@pytest.mark.parametrize(
    ("code", "severity", "other", "evidence"),
    [
        (
            "other-device",
            "warning",
            {**BASE, "measured_on": "l4", "profile": profile("l4"), "loop": {"device": device("NVIDIA L4")}},
            "a10g (NVIDIA A10G) in A, l4 (NVIDIA L4) in B",
        ),
        (
            "other-device-memory",
            "warning",
            {**BASE, "loop": {"device": device(memory_bytes=16 * GIB)}},
            "22.0 GiB in A, 16.0 GiB in B",
        ),
        (
            "other-cpu",
            "warning",
            {"host": host(torch=torch(), cpu_name="AMD EPYC")},
            "Intel(R) Xeon(R) in A, AMD EPYC in B",
        ),
        ("other-cpu-count", "warning", {"host": host(torch=torch(), cpus=4)}, "8 in A, 4 in B"),
        (
            "other-ram-limit",
            "warning",
            {"host": host(torch=torch(), ram_limit_bytes=16 * GIB)},
            "32.0 GiB in A, 16.0 GiB in B",
        ),
        (
            "other-driver",
            "warning",
            {"host": host(torch=torch(), accelerators=(gpu("580.2"),))},
            "550.1 in A, 580.2 in B",
        ),
        ("other-torch", "warning", {"host": host(torch=torch(version="2.14.0"))}, "2.13.0 in A, 2.14.0 in B"),
        (
            "other-cuda",
            "warning",
            {"host": host(torch=torch(cuda_version=None, hip_version="7.0"))},
            "CUDA 13.0 in A, ROCm 7.0 in B",
        ),
        ("other-cudnn", "warning", {"host": host(torch=torch(cudnn_version="9.11"))}, "9.10 in A, 9.11 in B"),
        (
            "other-python",
            "info",
            {"host": host(torch=torch(python_version="3.13.0"))},
            "3.12.1 in A, 3.13.0 in B",
        ),
        (
            "other-emulation",
            "warning",
            {**BASE, "profile": profile("l4")},
            "the GPU asked for in A, another that stands in for it in B",
        ),
        (
            "other-epoch",
            "warning",
            {**BASE, "loop": {"epoch_samples": 20_000}},
            "50,000 samples in A, 20,000 in B",
        ),
        (
            "other-world-size",
            "warning",
            {**BASE, "loop": {"world_size": 2, "epoch_samples": 25_000}},
            "1 in A, 2 in B",
        ),
        (
            "other-command",
            "info",
            {**BASE, "target": target(command=("python", "train.py", "--lr", "1"), script_sha256="a" * 64)},
            "python train.py in A, python train.py --lr 1 in B",
        ),
        (
            "other-script",
            "info",
            {**BASE, "target": target(script_sha256="b" * 64)},
            "SHA-256 aaaaaaaaaaaa... in A, SHA-256 bbbbbbbbbbbb... in B",
        ),
        (
            "other-objective",
            "info",
            {**BASE, "options": options(objective=Objective.FINISH_TIME)},
            "rate in A, finish-time in B",
        ),
        ("other-window", "info", {**BASE, "options": options(window_s=2.0)}, "5.0 s in A, 2.0 s in B"),
        ("other-tunekit", "info", {**BASE, "tunekit_version": "1.1.0"}, "1.0.0 in A, 1.1.0 in B"),
        ("unfinished", "warning", {**BASE, "status": RunStatus.INTERRUPTED}, "B is interrupted"),
        (
            "other-noise",
            "warning",
            {**BASE, "own_rates": (400.0, 500.0, 420.0)},
            "A/A noise floor 1.6% in A, 22.2% in B",
        ),
    ],
)
def test_each_difference_is_told_with_both_values(
    code: str, severity: str, other: dict[str, Any], evidence: str
):
    known = {"target": target(script_sha256="a" * 64)}
    # Rates differ a little, else both would be one run.
    findings = found(searched(**BASE, **known), searched(rates=(981.0, 970.0, 990.0), **(known | other)))
    assert [finding.code for finding in findings] == [code]
    (finding,) = findings
    assert (finding.severity, finding.evidence) == (Severity(severity), evidence)
    assert finding.message
    assert finding.remedy


def test_what_is_unknown_of_one_is_no_difference():
    before = searched(target=target(script_sha256="a" * 64), **BASE)
    after = searched(rates=(981.0, 970.0, 990.0), host=host(cpu_name=None, accelerators=()))
    (finding,) = found(before, after.model_copy(update={"noise_floor": None}))
    # The trial itself told which torch it had; the machine was not asked.
    assert (finding.code, finding.evidence) == ("other-torch", "2.13.0 in A, 2.9.0 in B")


def test_a_dropped_last_batch_is_no_other_data_set():
    shorter = searched(rates=(981.0, 970.0, 990.0), loop={"epoch_samples": 49_600})
    assert found(searched(), shorter) == []


def test_ram_limits_that_nearly_agree_are_no_difference():
    nearly = searched(rates=(981.0, 970.0, 990.0), host=host(ram_limit_bytes=int(31.6 * GIB)))
    assert found(searched(), nearly) == []


def test_warnings_come_before_notes():
    other = searched(tunekit_version="1.1.0", host=host(cpus=6))
    severities = [finding.severity for finding in found(searched(), other)]
    assert set(severities) == {Severity.WARNING, Severity.INFO}
    assert severities == sorted(severities, reverse=True)  # as words: warning, info


def test_other_tiers_are_told():
    before, after = searched(), searched(rates=(981.0, 970.0, 990.0))
    (aggressive,) = [one for one in after.recommendations if one.tier == "aggressive"]
    other = side("B", after.model_copy(update={"recommendations": (aggressive,)}))
    (finding,) = beside(side("A", before), other)
    assert (finding.code, finding.evidence) == ("other-tier", "balanced in A, aggressive in B")


def test_two_copies_of_one_run_are_told():
    (finding,) = found(searched(), searched())
    assert (finding.code, finding.evidence) == ("same-run", "8 trials of 2026-01-02T03:04:05Z")


def test_another_script_with_another_command_may_be_another_training():
    before = searched(target=target(command=("python", "train.py"), script_sha256="a" * 64))
    after = searched(
        rates=(981.0, 970.0, 990.0),
        target=target(command=("python", "other.py"), script_sha256="b" * 64),
    )
    first, *others = found(before, after)
    assert (first.code, first.severity) == ("other-training", "warning")
    assert {one.code for one in others} == {"other-script", "other-command"}
