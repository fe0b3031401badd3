"""Which hosts share trials: those that are alike, of one search; what is refused, and what is said."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from build_records import GIB, config, host, options, run, target, trial_record

from tunekit.cli.parser import flags_of
from tunekit.errors import TargetChangedError
from tunekit.records.run import FixedKnob, KnobRange, Objective, Run, SearchOptions
from tunekit.records.trial import TrialRole
from tunekit.tune.shared.claims import Claim, Taken
from tunekit.tune.shared.facts import SearchFacts, machine_facts, search_facts
from tunekit.tune.shared.share import Group, Share
from tunekit.tune.shared.storage import address_of

Join = Callable[..., Group]
OTHER_DRIVER = host().accelerators[0].changed(driver="535.2")


@pytest.fixture
def join(place: str, request: pytest.FixtureRequest) -> Join:
    """Join the search of a place as a host with this run before its first trial."""

    def joined(name: str = "node-a", before: Run | None = None) -> Group:
        share = Share(address_of(place), name, lambda said: None)
        request.addfinalizer(lambda: share.__exit__(None, None, None))
        of = before or on()
        return share.join(search_facts(of), machine_facts(of))

    return joined


def on(**machine: Any) -> Run:
    return run(host=host(**machine), trials=(), thread_variables={})


def searching(**overrides: Any) -> Run:
    return run(**({"trials": (), "thread_variables": {}} | overrides))


def test_hosts_that_are_alike_see_each_others_trials(join: Join):
    one, two = join("node-a"), join("node-b", on(ram_limit_bytes=int(host().ram_limit_bytes * 0.97)))
    assert (one.number, two.number) == (0, 0)
    assert (one.unlike, two.unlike) == ((), ())
    claim = one.trials.claim(TrialRole.SEARCH, config(), None)
    assert isinstance(claim, Claim)
    assert [(t.number, t.host, t.role, t.config) for t in two.trials.pending()] == [
        (0, "node-a", TrialRole.SEARCH, config())
    ]
    record = trial_record(claim.number, 120.0)
    assert one.trials.finish(claim, record, spent_s=77.5)
    assert [(found.record, found.spent_s) for found in two.trials.pull()] == [(record, 77.5)]


def test_a_trial_is_run_again_only_as_another_one(join: Join):
    one, two = join("node-a"), join("node-b")
    first = one.trials.claim(TrialRole.SEARCH, config(), None)
    assert isinstance(first, Claim) and one.trials.finish(first, trial_record(0, None), 1.0)
    assert isinstance(two.trials.claim(TrialRole.SEARCH, config(), None), Taken)
    assert isinstance(two.trials.claim(TrialRole.CONFIRM, config(), 0), Claim)
    assert isinstance(two.trials.claim(TrialRole.CONFIRM, config(), 1), Claim)
    assert isinstance(two.trials.claim(TrialRole.SEARCH, config(), None, again=1), Claim)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"cpus": 4}, "CPUs 4 here, 8 there"),
        ({"cpu_name": "EPYC"}, "CPU EPYC here, "),
        ({"accelerators": ()}, "GPUs none here, NVIDIA A10G 22.0 GiB there"),
        ({"accelerators": (OTHER_DRIVER,)}, "driver 535.2 here, 550.1 there"),
        ({"ram_limit_bytes": 8 * GIB}, "RAM 8.0 GiB here, 32.0 GiB there"),
    ],
)
def test_an_unlike_machine_makes_a_group_of_its_own_and_says_why(
    join: Join, machine: dict[str, Any], said: str
):
    join("node-a")
    unlike = join("node-b", on(**machine))
    assert unlike.number == 1
    assert unlike.unlike[0].startswith(said)
    claim = unlike.trials.claim(TrialRole.BASELINE, None, None)
    assert isinstance(claim, Claim) and claim.number == 0
    assert join("node-c").trials.pending() == ()
    assert [t.host for t in join("node-d", on(**machine)).trials.pending()] == ["node-b"]


def test_other_thread_variables_make_another_group(join: Join):
    join("node-a")
    other = join("node-b", searching(thread_variables={"OMP_NUM_THREADS": "4"}))
    assert (other.number, other.unlike) == (1, ("thread variables OMP_NUM_THREADS=4 here, none there",))


def test_hosts_that_start_together_make_one_group(join: Join):
    with ThreadPoolExecutor(4) as threads:
        groups = list(threads.map(join, [f"node-{place}" for place in range(4)]))
    assert {group.number for group in groups} == {groups[0].number}


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        (
            {"target": target(command=("python", "train.py", "--small"))},
            "the command is 'python train.py --small'",
        ),
        ({"target": target(script_sha256="0" * 64)}, "the script's text differs"),
        ({"target": target(samples_per_step=4)}, "--bind or --samples-per-step differs"),
        ({"tunekit_version": "0.0.1"}, "tunekit is 0.0.1 here"),
        ({"options": options(max_batch=64)}, "--max-batch is 64 here, not given there"),
        ({"options": options(window_s=0.5)}, "--window is 0.5s here, "),
        ({"options": options(ablate=True)}, "--ablate is given here, not given there"),
        ({"options": options(epochs=10, epochs_given=True)}, "--epochs is 10 here, not given there"),
        (
            {"options": options(fixed=(FixedKnob(knob="compile", value=False),))},
            "--fix is compile=false here, not given there",
        ),
        (
            {"options": options(ranges=(KnobRange(knob="batch_size", low=8, high=64),))},
            "--range is batch_size=8..64 here, not given there",
        ),
        (
            {"options": options(budget_s=60.0)},
            "--budget is 1m here, 15m there; a shared search is given no more time or trials",
        ),
        (
            {"options": options(max_trials=7)},
            "--trials is 7 here, not given there; a shared search is given no more",
        ),
    ],
)
def test_another_search_in_the_same_place_is_refused_with_what_differs(
    join: Join, overrides: dict[str, Any], what: str
):
    join("node-a")
    with pytest.raises(TargetChangedError, match="holds another search: ") as caught:
        join("node-b", searching(**overrides))
    assert what in str(caught.value)
    assert join("node-c").number == 0, "who was refused leaves nothing behind"


def test_whatever_option_differs_is_named_by_a_flag_of_the_search():
    fewest = SearchFacts(**dict(search_facts(on())) | {"options": SearchOptions(gpu="a10g")})
    most = SearchOptions(
        budget_s=1.0,
        max_trials=1,
        fixed=(FixedKnob(knob="compile", value=False),),
        ranges=(KnobRange(knob="batch_size", low=8, high=64),),
        max_batch=1,
        base_lr=0.1,
        base_batch=1,
        global_batch=1,
        objective=Objective.FINISH_TIME,
        epochs=1,
        epochs_given=True,
        planned_steps=1,
        confirm_rounds=1,
        trial_limit_s=1.0,
        no_progress_limit_s=1.0,
        window_s=1.0,
        ablate=True,
    )
    said = fewest.differences(fewest.changed(options=most))
    flags = {one.split(" is ")[0] for one in said if " is " in one and one.startswith("--")}
    own = {"epochs_given", "wait_quiet_s", "ignored"}
    assert len(flags) == len(SearchOptions.model_fields) - len(own)
    assert flags <= set(flags_of("search"))


def test_folders_and_each_hosts_own_patience_are_no_other_search(join: Join):
    join("node-a")
    own = target(command=("/home/ann/venv/bin/python3", "/home/ann/train.py"), script="/home/ann/train.py")
    assert join("node-b", searching(target=own, options=options(wait_quiet_s=60.0))).number == 0
