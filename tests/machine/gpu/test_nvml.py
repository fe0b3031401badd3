"""The protocol's own rules, and that whatever stands in for the driver can answer every question."""

import pytest
from machine.scripted_nvml import ScriptedNvml

from tunekit.machine.gpu.nvml import Nvml, throttle_reasons


@pytest.mark.parametrize("driver", [ScriptedNvml, Nvml])
def test_both_drivers_answer_every_question(driver: type) -> None:
    questions = {name for name in vars(Nvml) if not name.startswith("_")}
    assert questions <= set(vars(driver))
    assert "gpm_between" in questions


def test_throttle_bits_have_the_drivers_names() -> None:
    assert throttle_reasons(0) == ()
    assert throttle_reasons(0xFFF | 1 << 63) == (
        *("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost"),
        *("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"),
        *("board_limit", "reliability", "bit_11", "bit_63"),
    )
