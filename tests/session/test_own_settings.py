"""Scripted searches of scripts that have their own setting of the batch size."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from build_records import config, discovery, failure, options, target
from scripted_search import (
    RecordingListener,
    ScriptedExecutor,
    learnt,
    loader,
    root,
    search_in,
    searched,
    start_search,
)

from tunekit.errors import TargetError
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.target import OptionForm, ScriptOption
from tunekit.records.trial import Failure, OutcomeKind, TrialRole
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.binding_syntax import how_text, parse_binding
from tunekit.trial.executor import TrialSpec

OWN = config()
FLAG = "--batch-size {}"
OTHER = "--mbs {}"


def option(flag: str, value: int = OWN.batch_size) -> ScriptOption:
    return ScriptOption(name=flag.lstrip("-"), form=OptionForm.FLAG, flags=(flag,), value=value)


BOTH = (option("--batch-size"), option("--mbs"))


def how_of(spec: TrialSpec) -> str | None:
    """How a trial's batch size is bound."""
    return next((how_text(one) for one in spec.bindings or () if one.knob == "batch_size"), None)


def failing_where(fails: Callable[[str | None], OutcomeKind | None]) -> dict[str, Any]:
    """A script in which another batch size fails by how it is set."""

    def failed(knobs: TrainConfig, spec: TrialSpec) -> Failure | None:
        kind = fails(how_of(spec)) if knobs.batch_size != OWN.batch_size else None
        return kind and failure(kind)

    return {"failing": failed}


def walk(
    folder: Path, fails: Callable[[str | None], OutcomeKind | None] = lambda how: None, **more: Any
) -> tuple[Run, list[TrialSpec], list[str]]:
    """Return a search, what it started for other batch sizes in its search, and what it said."""
    known, listener = more.pop("found", learnt(OWN, options=BOTH)), RecordingListener()
    executor_options = failing_where(fails) | {"learns": lambda spec: known}
    asked = more.pop("asked", options(max_trials=4, confirm_rounds=1))
    whole, executor = search_in(folder / "run", asked, listener, executor_options, **more)
    started = [
        spec
        for spec in executor.specs
        if spec.role is TrialRole.SEARCH and spec.config and spec.config.batch_size != OWN.batch_size
    ]
    return whole, started, [said for said in listener.heard("said") if "batch_size" in said]


def test_the_first_trial_of_another_batch_uses_the_scripts_own_flag(tmp_path: Path):
    whole, started, said = walk(tmp_path)
    assert {how_of(spec) for spec in started} == {FLAG}
    assert len({spec.config for spec in started}) == len(started)
    assert [how_text(one) for one in load_run(tmp_path / "run").target.bindings] == [FLAG]
    assert whole.target.unset_knobs == ("batch_size",)
    assert said == []


@pytest.mark.parametrize(
    "kind", [OutcomeKind.KNOB_NOT_APPLIED, pytest.param(OutcomeKind.SCRIPT_ERROR, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("working", "ways"), [(OTHER, [FLAG, OTHER, OTHER]), (None, [FLAG, OTHER, None])])
def test_a_flag_that_fails_makes_room_for_the_next_way_once(
    tmp_path: Path, kind: OutcomeKind, working: str | None, ways: list[str | None]
):
    whole, started, said = walk(tmp_path, lambda how: None if how == working else kind)
    assert [how_of(spec) for spec in started][: len(ways)] == ways
    assert started[0].config == started[1].config
    assert len(said) == 1
    assert (whole.target.binding_of("batch_size") is None) == (working is None)


@pytest.mark.slow
def test_no_other_way_is_tried_once_a_flag_has_worked_or_where_memory_failed(tmp_path: Path):
    count = iter(range(100))
    fails = lambda how: OutcomeKind.SCRIPT_ERROR if next(count) else None  # noqa: E731
    assert {how_of(spec) for spec in walk(tmp_path, fails)[1]} == {FLAG}
    out_of_memory = walk(tmp_path / "memory", lambda how: OutcomeKind.DEVICE_OOM)[1]
    assert {how_of(spec) for spec in out_of_memory} == {FLAG}


def test_a_binding_of_the_project_to_a_flag_that_the_script_lacks_is_left_out(tmp_path: Path):
    project = target(bindings=(parse_binding("batch_size=--bs {}").changed(is_typed=False),))
    _, started, said = walk(tmp_path, target=project)
    assert {how_of(spec) for spec in started} == {FLAG}
    assert said == ["binding left out, as the script has no such option: batch_size=--bs {}"]


@pytest.mark.slow
def test_accumulation_is_bound_where_it_has_to_follow_the_batch(tmp_path: Path):
    known = learnt(OWN, options=(*BOTH, option("--accumulate", OWN.accumulate_grad_batches)))
    asked = options(max_trials=6, confirm_rounds=1, global_batch=OWN.batch_size)
    whole, _, _ = walk(tmp_path, found=known, asked=asked)
    assert whole.target.is_bound("accumulate_grad_batches")
    assert len({record.config for record in searched(whole.trials)}) > 1
    one = walk(tmp_path / "not asked", found=known)[0]
    assert not one.target.is_bound("accumulate_grad_batches")


@pytest.mark.parametrize("works", [True, False])
def test_a_sampler_of_the_scripts_own_is_tuned_by_a_flag_that_works(tmp_path: Path, works: bool):
    known = learnt(OWN, options=BOTH, loaders=(loader(OWN, batch_size_bound=False),))
    fails = lambda how: None if works else OutcomeKind.KNOB_NOT_APPLIED  # noqa: E731
    whole, started, _ = walk(tmp_path, fails, found=known)
    sizes = next(entry for entry in whole.space if entry.knob == "batch_size")
    assert sizes.is_searched is works
    assert started[0].config == OWN.changed(batch_size=OWN.batch_size // 2)
    assert len(started) > 2 if works else [how_of(spec) for spec in started] == [FLAG, OTHER]


def test_without_a_loader_the_flag_is_tried_before_all_else(tmp_path: Path):
    own = config(num_workers=0, prefetch_factor=None, persistent_workers=False)
    known = discovery(loaders=(), roots=(root(),), options=BOTH)
    more = {"found": known, "asked": options(max_trials=3, confirm_rounds=1)}
    whole, started, said = walk(tmp_path, **more)
    assert whole.target.is_bound("batch_size")
    assert started[0].config == whole.baseline_config.changed(batch_size=own.batch_size // 2)
    assert said == [f"no DataLoader: batch_size is read and set by {FLAG}"]
    with pytest.raises(TargetError, match="does not reach the loop"):
        walk(tmp_path / "not", lambda how: OutcomeKind.KNOB_NOT_APPLIED, **more)


@pytest.mark.slow
def test_a_resumed_search_goes_on_as_it_began(tmp_path: Path):
    whole, _, _ = walk(tmp_path, lambda how: OutcomeKind.KNOB_NOT_APPLIED if how else None)
    assert whole.target.bindings == ()
    with RunFolder(tmp_path / "run") as owned:
        executor = ScriptedExecutor(owned.trials_folder, baseline=OWN)
        more = whole.options.changed(max_trials=8)
        kept = load_run(tmp_path / "run").changed(options=more)
        again = start_search(owned, executor, more, space=kept.space, target=kept.target).run()
    assert again.target.bindings == ()
    assert {how_of(spec) for spec in executor.specs} == {None}
