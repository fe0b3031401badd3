"""Which GPUs a torch build holds code for."""

import pytest
from build_checkups import CU126, CU130

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


@pytest.mark.parametrize("build", [CU126, CU130])
@pytest.mark.parametrize("name", GPUS)
def test_builds_run_on_the_gpus_that_nvidia_says(build: tuple[str, ...], name: str):
    assert has_code_for(build, GPUS[name]) is (name in RUNS[build])


@pytest.mark.parametrize("names", [(), ("gfx90a",), ("sm_", "compute", "sm_9", "")])
def test_names_that_are_none_of_cudas_run_nowhere(names: tuple[str, ...]):
    assert not has_code_for(names, "9.0")


@pytest.mark.parametrize(
    ("code", "capability", "runs"),
    [
        ("sm_80", "8.9", True),
        ("sm_89", "8.0", False),
        ("sm_80", "9.0", False),
        ("compute_80", "12.0", True),
        ("compute_90", "8.9", False),
        ("sm_90a", "9.0", True),
        ("compute_90a", "10.0", False),
        ("sm_100f", "10.3", True),
    ],
)
def test_code_runs_on_its_generation_and_what_the_driver_compiles_on_newer_ones(
    code: str, capability: str, runs: bool
):
    assert has_code_for((code,), capability) is runs
