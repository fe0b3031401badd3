"""A real script whose loss only bf16 spoils: the fastest config is not what Balanced takes."""

from pathlib import Path

import pytest
from build_records import GIB, host, options, profile, run
from real_trials import LIMITS, zoo_target
from scripted_search import RecordingListener, guarding

from tunekit.recommend.tiers import pick_tiers
from tunekit.records.config import Precision
from tunekit.records.recommendation import Tier
from tunekit.records.run import FixedKnob
from tunekit.records.trial import TrialRole
from tunekit.records.trials import Trials
from tunekit.session.folder import RunFolder, load_run
from tunekit.session.search import Search
from tunekit.trial.executor import ProcessExecutor, TrialSpec

pytestmark = pytest.mark.real


class UntilConfirmation(RecordingListener):
    """Presses Ctrl-C once the choice is made."""

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float) -> None:
        super().trial_started(spec, purpose, left_s)
        if spec.role is TrialRole.CONFIRM:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_mode_whose_loss_diverges_is_barred_from_balanced_by_a_run_of_the_baselines_config(
    tmp_path: Path,
) -> None:
    target = zoo_target("bf16_diverges.py")
    fixed = [("num_workers", 0), ("compile", False), ("batch_size", 64), ("pin_memory", False)]
    asked = options(
        budget_s=600.0,
        max_trials=2,
        confirm_rounds=1,
        window_s=0.6,
        fixed=tuple(FixedKnob(knob=knob, value=value) for knob, value in fixed),
    )
    here = host(accelerators=(), cpus=2, ram_limit_bytes=23 * GIB, cpu_bf16_native=True)
    cpu = profile("cpu", native_precisions=("fp32", "bf16"))
    started = run(target=target, options=asked, host=here, profile=cpu, measured_on="cpu", trials=())
    listener = UntilConfirmation()
    with RunFolder(tmp_path / "run") as folder:
        executor = ProcessExecutor(target, folder.trials_folder, LIMITS, asked.window_s)
        with pytest.raises(KeyboardInterrupt):
            Search(started, folder, executor, cpu, listener).run()

    stopped = load_run(tmp_path / "run")
    assert [trial.failure for trial in stopped.trials if trial.failure] == []
    (guard,) = guarding(stopped.trials)
    assert stopped.baseline_config is not None
    assert guard.config == stopped.baseline_config.model_copy(update={"precision": Precision.BF16})
    assert "losses of bf16 against the baseline's" in [purpose for _, purpose, _ in listener.heard("started")]
    assert [finding.code for finding in stopped.findings if finding.code.startswith("loss-")] == [
        "loss-diverges"
    ]
    chosen = pick_tiers(Trials(stopped.trials), here, asked)
    precisions = {tier: record.config.precision for tier, record in chosen.items() if record.config}
    assert precisions == {
        Tier.CONSERVATIVE: Precision.FP32,
        Tier.BALANCED: Precision.FP32,
        Tier.AGGRESSIVE: Precision.BF16,
    }
    unguarded = Trials(tuple(trial for trial in stopped.trials if trial is not guard))
    balanced = pick_tiers(unguarded, here, asked)[Tier.BALANCED].config
    assert balanced is not None
    assert balanced.precision is Precision.BF16, "its rate alone would have been chosen"
