"""Which GPUs a torch build holds code for."""

import pytest
from build_checkups import CU126, CU130
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.software import has_code_for

GPUS = {
    "K80": "3.7",
    "P100": "6.0",
    "GTX 1080 Ti": "6.1",
    "V100": "7.0",
    "T4": "7.5",
    "A100": "8.0",
    "RTX 3090": "8.6",
    "RTX 4090": "8.9",
    "H200": "9.0",
    "B200": "10.0",
    "B300": "10.3",
    "RTX 5090": "12.0",
    "GB10": "12.1",
}
RUNS = {
    # sm_50 runs on all of Maxwell alone, sm_60 on the GTX 1080 Ti too, sm_86 on the RTX 4090.
    CU126: {"P100", "GTX 1080 Ti", "V100", "T4", "A100", "RTX 3090", "RTX 4090", "H200"},
    CU130: {"T4", "A100", "RTX 3090", "RTX 4090", "H200", "B200", "B300", "RTX 5090", "GB10"},
}

versions = st.tuples(st.integers(3, 13), st.integers(0, 9))


def named(kind: str, version: tuple[int, int], suffix: str = "") -> str:
    return f"{kind}_{version[0]}{version[1]}{suffix}"


def capability(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


@pytest.mark.parametrize("build", [CU126, CU130])
@pytest.mark.parametrize("name", GPUS)
def test_builds_run_on_the_gpus_that_nvidia_says(build: tuple[str, ...], name: str):
    assert has_code_for(build, GPUS[name]) is (name in RUNS[build])


@given(versions, versions)
def test_machine_code_runs_on_its_generation_from_its_version_on(
    code: tuple[int, int], device: tuple[int, int]
):
    fits = code[0] == device[0] and code[1] <= device[1]
    assert has_code_for((named("sm", code),), capability(device)) is fits
    assert has_code_for((named("sm", code, "f"),), capability(device)) is fits


@given(versions, versions)
def test_ptx_runs_on_all_that_is_as_new(code: tuple[int, int], device: tuple[int, int]):
    assert has_code_for((named("compute", code),), capability(device)) is (device >= code)


@given(st.sampled_from(["sm", "compute"]), versions, versions)
def test_code_bound_to_an_architecture_runs_on_it_alone(
    kind: str, code: tuple[int, int], device: tuple[int, int]
):
    assert has_code_for((named(kind, code, "a"),), capability(device)) is (device == code)


@pytest.mark.parametrize("names", [(), ("gfx90a",), ("sm_", "compute", "sm_9", "")])
def test_names_that_are_none_of_cudas_run_nowhere(names: tuple[str, ...]):
    assert not has_code_for(names, "9.0")
