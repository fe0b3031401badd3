"""The protocol's own rules, and that whatever stands in for the driver can answer every question."""

import pytest
from machine.scripted_nvml import ScriptedNvml

from tunekit.machine.gpu.nvml import Nvml, throttle_reasons


@pytest.mark.parametrize("driver", [ScriptedNvml, Nvml])
def test_both_drivers_answer_every_question(driver: type) -> None:
    questions = {name for name in vars(Nvml) if not name.startswith("_")}
    assert questions <= set(vars(driver))
    assert "gpm_between" in questions


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0x000, ()),
        (0x001, ("gpu_idle",)),
        (0x002, ("applications_clocks_setting",)),
        (0x004, ("sw_power_cap",)),
        (0x008, ("hw_slowdown",)),
        (0x010, ("sync_boost",)),
        (0x020, ("sw_thermal_slowdown",)),
        (0x040, ("hw_thermal_slowdown",)),
        (0x080, ("hw_power_brake_slowdown",)),
        (0x100, ("display_clock_setting",)),
        (0x200, ("board_limit",)),
        (0x400, ("reliability",)),
        (0x800, ("bit_11",)),
        (1 << 63 | 0x44, ("sw_power_cap", "hw_thermal_slowdown", "bit_63")),
    ],
)
def test_throttle_bits_have_the_drivers_names(mask: int, names: tuple[str, ...]) -> None:
    assert throttle_reasons(mask) == names
